"""Every error memlite raises on purpose, as one tree.

MemliteError
├── InvalidInputError (also a ValueError)   what was given cannot be used
├── NotFoundError (also a LookupError)      no such fact, message or id in this scope
├── FileError                               the database file cannot be used
│   ├── DamagedFileError                    its pages are damaged
│   ├── ForeignFileError                    it is not a memlite file
│   ├── NewerFileError                      a newer memlite wrote it
│   ├── WrongKeyError                       it is encrypted with another key, or not encrypted
│   └── ReadOnlyError                       memlite may not write there
├── FrameworkMissingError (also an ImportError)  the package that an adapter is for is not installed
├── ServerError                             `memlite serve` cannot serve the file
└── ModelError                              a model cannot be used
    ├── ModelMissingError                   no model, or the package that runs it, is installed
    ├── EmbedderMismatchError               the file's vectors come from another embedder
    └── ExtractionError                     the extractor gave no usable answer
"""

from reprlib import Repr

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


def excerpt(value: object) -> str:
    """A value that somebody gave, for an error's message: of one that is long or deep the beginning and the end."""
    return _SHORT.repr(value)


class MemliteError(Exception):
    """The base of all of memlite's own errors."""


class InvalidInputError(MemliteError, ValueError):
    """What was given cannot be used; the message says what was found and what was expected."""


class NotFoundError(MemliteError, LookupError):
    """No fact, message, entity or batch with that id is visible in this scope."""


class FileError(MemliteError):
    """The database file cannot be opened or used."""


class DamagedFileError(FileError):
    """Pages of the file are damaged; `memlite doctor --repair` saves what can be read into a new file."""


class ForeignFileError(FileError):
    """The path holds something that is not a memlite file; it was not touched."""


class NewerFileError(FileError):
    """The file was written by a newer memlite; it was not touched."""


class WrongKeyError(FileError):
    """The file is encrypted and this is not its key, or it is not encrypted and a key was given; it was not touched."""


class ReadOnlyError(FileError):
    """memlite may not write to the file or the folder it is in."""


class FrameworkMissingError(MemliteError, ImportError):
    """The package that an adapter is for is not installed; the message names the extra that brings it."""


class ServerError(MemliteError):
    """`memlite serve` cannot serve the file: another process does, or there is no safe place for its socket."""


class ModelError(MemliteError):
    """A model cannot be used."""


class ModelMissingError(ModelError):
    """No model file was found, or the package that runs it is not installed."""


class EmbedderMismatchError(ModelError):
    """The vectors in the file were made by an embedder that disagrees with this one."""


class ExtractionError(ModelError):
    """The extractor gave no usable answer; the messages stay queued."""
