"""memlite: the SQLite of agent memory. One file, no server, no network."""

__version__ = "0.1.0"
