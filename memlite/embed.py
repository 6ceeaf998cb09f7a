"""Turning texts into vectors, or comparing two: the only file that runs embedding models.

Both runtimes see at most 256 tokens at a time. A longer text is cut into chunks by the same code and its
vector is the mean of theirs, so one model gives the same vectors through llama.cpp and sentence-transformers.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import math
import operator
import os
import re
import statistics
import sys
import threading
import time
import unicodedata
import weakref
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from memlite import interruption, models
from memlite.errors import InvalidInputError, ModelError, ModelMissingError
from memlite.records import Embedder

WINDOW = 256  # tokens, those that the model adds at the ends included
WINDOW_OF_PAIR = 512  # of a query and a text together, as a reranker reads them
SENTENCE_PREFIX = "sentence-transformers/"

Choice = str | Path | Embedder | bool | None  # what a caller may name as the embedder

# Embedded once per database and again at the first embedding of a session: two embedders that agree on these
# are the same embedder. Several scripts, because a model converted with a wrong vocabulary often still agrees
# on plain English. Never change them: existing files hold the vectors of exactly these.
PROBES = (
    "The cat sat on the mat.",
    "Caroline moved to Zürich in May 2023 and adopted two dogs.",
    "def add(a, b): return a + b",
    "Она любит чёрный чай без сахара.",
    "我住在北京，在一家医院工作。",
    "تعيش أختي في القاهرة منذ عام.",
)

# Questions and their answers. What cosines an embedder gives a question and its answer, and a question and the others'
# answers, tells its scale (vectors.py). Never change them: vectors.APART and ALIKE are what the default gives these.
PAIRS = (
    ("Where does Ana work?", "Ana has a job as a nurse at the city hospital."),
    ("What is the name of my dog?", "We called the puppy Biscuit."),
    ("When is Tom's birthday?", "Tom was born on the ninth of March."),
    ("Which food must Clara avoid?", "Clara is allergic to peanuts."),
    ("What did we buy for the kitchen?", "They ordered a new oven and a fridge."),
    ("Who plays an instrument?", "My cousin has practised the violin for years."),
    ("Which book are you reading?", "I am halfway through a novel about pirates."),
    ("How much is the rent?", "The flat costs nine hundred euros a month."),
    ("What sport does Lena do?", "Lena trains with the swimming team every morning."),
    ("What did the doctor say?", "He prescribed antibiotics for the infection."),
    ("Which language is she learning?", "She takes Japanese lessons in the evening."),
    ("What grows in the garden?", "There are tomatoes and roses behind the house."),
)


def open_embedder(choice: Choice = None, *, n_threads: int = 1) -> Embedder | None:
    """The embedder a caller asked for, unloaded; None when there is none or it is switched off.

    choice: None looks for a model (`models.find`); False or "off" is none; a name or folder after
    "sentence-transformers/" is run by that package; any other text or path is a GGUF file; an object that
    embeds is used as it is.
    """
    if choice is False or choice == "off":
        return None
    if choice is None or choice is True:
        found = models.find("embedder")
        return GGUFEmbedder(found.path, n_threads=n_threads) if found else None
    if isinstance(choice, str) and choice.startswith(SENTENCE_PREFIX) and not choice.endswith(".gguf"):
        return SentenceEmbedder(choice.removeprefix(SENTENCE_PREFIX))
    if isinstance(choice, (str, Path)):
        given = models.find("embedder", choice)
        assert given is not None  # a path is found or refused
        return GGUFEmbedder(given.path, n_threads=n_threads)
    if callable(getattr(choice, "embed", None)):
        return choice
    raise InvalidInputError(
        f"the embedder is {choice!r}; expected a path to a GGUF file, 'sentence-transformers/NAME', None, "
        "False or an object with name, dimension and embed(texts)"
    )


# Vectors


def normalise(vector: Iterable[float]) -> array[float]:
    """The vector with length 1, as 32-bit floats; a vector of zeros stays as it is."""
    numbers = array("f", vector)
    length = math.sqrt(sum(map(operator.mul, numbers, numbers)))
    if not math.isfinite(length):
        raise ModelError("the embedder gave numbers that are not finite; the model file is broken: fetch it again")
    return array("f", [number / length for number in numbers]) if length else numbers


def pack(vector: Iterable[float]) -> bytes:
    """The vector as sqlite-vec reads it: 32-bit floats, little endian."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def cosine(a: bytes, b: bytes) -> float:
    """The similarity of two packed vectors of the same dimension, -1 to 1, higher is closer."""
    if len(a) != len(b):
        raise InvalidInputError(f"vectors of {len(a) // 4} and {len(b) // 4} numbers cannot be compared")
    x, y = unpack(a), unpack(b)
    lengths = math.sqrt(sum(map(operator.mul, x, x)) * sum(map(operator.mul, y, y)))
    return sum(map(operator.mul, x, y)) / lengths if lengths else 0.0


def calibration(questions: Sequence[bytes], answers: Sequence[bytes]) -> tuple[float, float, float]:
    """The scale of an embedder, from its packed vectors of PAIRS: the mean and standard deviation of the cosines of
    questions and the others' answers, and the mean of those of questions and their own.
    """
    found = [[cosine(question, answer) for answer in answers] for question in questions]
    own = [row[at] for at, row in enumerate(found)]
    others = [similarity for at, row in enumerate(found) for to, similarity in enumerate(row) if to != at]
    return statistics.mean(others), statistics.stdev(others), statistics.mean(own)


def unpack(packed: bytes) -> array[float]:
    """The numbers of a packed vector."""
    numbers = array("f")
    numbers.frombytes(packed)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


# Long texts


# Characters of a text that its vector is made of: some hundred chunks, whose mean is near that of any other long text.
LONGEST = 100_000
_SPACE = re.compile(r"\s")
_LETTERS_A_TOKEN = 32  # a text with more than this for each token it may have is cut without counting


def chunks(text: str, count: Callable[[str], int], limit: int) -> list[str]:
    """Cut a text into parts of at most `limit` tokens, which joined are the text again.

    It is halved at the whitespace nearest its middle, or in the middle where there is none, until each fits.
    """
    if len(text) < 2 or (len(text) <= limit * _LETTERS_A_TOKEN and count(text) <= limit):
        return [text]
    cut = _middle(text)
    return chunks(text[:cut], count, limit) + chunks(text[cut:], count, limit)


def _middle(text: str) -> int:
    """Where to cut: before the whitespace nearest the middle, never at an end."""
    middle = len(text) // 2
    before = _SPACE.search(text[:middle][::-1])  # a pattern only searches forwards
    after = _SPACE.search(text, middle)
    left = middle - 1 - before.start() if before else 0
    right = after.start() if after else len(text)
    near = [cut for cut in (left, right) if 0 < cut < len(text)]
    return min(near, key=lambda cut: abs(cut - middle), default=middle)


def _embed(
    texts: Sequence[str],
    count: Callable[[str], int],
    limit: int,
    run: Callable[[list[str]], list[array[float]]],
) -> list[array[float]]:
    """One vector of length 1 for each text: the mean of its chunks' vectors, weighted by their tokens."""
    parts = [chunks(_clean(text[:LONGEST]), count, limit) for text in texts]
    vectors = iter(run([part for whole in parts for part in whole]))
    embedded = []
    for whole in parts:
        own = [next(vectors) for _ in whole]
        weights = [1] if len(whole) == 1 else [count(part) for part in whole]
        embedded.append(_mean(own, weights if any(weights) else [1] * len(whole)))
    return embedded


def _mean(vectors: list[array[float]], weights: list[int]) -> array[float]:
    if len(vectors) == 1:
        return vectors[0]
    total = [0.0] * len(vectors[0])
    for vector, weight in zip(vectors, weights):
        if weight:  # a chunk of blanks says nothing
            total = [sum_ + weight * number for sum_, number in zip(total, vector)]
    return normalise(total)


def _clean(text: str) -> str:
    """The text without halves of surrogate pairs, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


# llama.cpp


class GGUFModel:
    """A GGUF file that reads texts, run by llama.cpp on the CPU.

    The file is read when it is first used. Any thread may use it; they take turns. A forked child loads the
    model again, with one thread: the pool of the parent's threads did not survive the fork.

    n_threads: of llama.cpp. Leave one core free: they spin, so on a busy machine two of them made a 7 ms embedding take
    200 ms. With one, a long list of texts is shared with a second thread where there is a second processor, which does
    not spin and ends with the list.
    """

    ranks = False  # whether it compares two texts instead of embedding one

    def __init__(self, path: str | Path, *, n_threads: int = 1) -> None:
        if n_threads < 1:
            raise InvalidInputError(f"n_threads is {n_threads}; expected 1 or more")
        self.path = Path(path).expanduser()
        self.n_threads = n_threads
        self._lock = threading.Lock()
        self._model: _LoadedModel | None = None
        self._used = 0.0  # time.monotonic() when it was needed last
        _living.add(self)

    def close(self, *, idle_seconds: float = 0.0) -> None:
        """Free the model, where it has been idle for so long; the next use loads it again."""
        with self._lock:
            if self._model and time.monotonic() - self._used >= idle_seconds:
                model, self._model = self._model, None  # first: Ctrl-C in the midst of freeing leaves nothing in use
                model.free()

    def _loaded(self) -> _LoadedModel:
        if self._model is None:
            self._model = _LoadedModel(self.path, self.n_threads, ranks=self.ranks)
        self._used = time.monotonic()
        return self._model

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # a thread of the parent may have held it
        if self._model:
            self._model.leave()
            self._model = None
            self.n_threads = 1


class GGUFEmbedder(GGUFModel):
    """An embedder that is one GGUF file."""

    @functools.cached_property
    def name(self) -> str:
        return models.embedder_name(self.path)

    @property
    def dimension(self) -> int:
        with self._lock:
            return self._loaded().dimension

    def embed(self, texts: Sequence[str]) -> list[array[float]]:
        """One vector of length 1 for each text, in order.

        A text gives the same vector every time; alone and among others the two agree to cosine 0.999999.
        """
        if not texts:
            return []
        with self._lock:
            model = self._loaded()
            return _embed(texts, model.count, model.limit, model.run)


_living: weakref.WeakSet[GGUFModel | SentenceEmbedder] = weakref.WeakSet()


def _after_fork() -> None:
    for embedder in list(_living):
        embedder._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


_Context = tuple[Any, Any]  # of llama.cpp, with the batch that it is given its texts in


class _LoadedModel:
    """A model in llama.cpp's memory and the contexts it runs in. Not safe for two threads at once.

    Measured with all-MiniLM-L6-v2 F16 and one thread, milliseconds a text, of 5 / 18 / 54 / 198 tokens:
        one by one             2.4 /  6.3 / 22.9 / 104
        one by one, flash      2.2 /  7.4 / 32.8 /  70
        packed to 256          1.7 /  7.0 / 29.4 / 105
        packed to 256, flash   1.5 /  5.4 / 16.5 /  70     (to 128, 512: the same; to 2048: slower by a quarter)
    Flash attention has a fast path for 64 tokens and more, so that is where it is used. One context has it
    and one has not; each costs 2 MB, and room for logits, which nobody reads, of as many tokens as it was ever given
    at once: with a vocabulary of 30,522 that is 16 MB for 128.

    One thread reads a batch 1.3 times as fast as its texts one by one, and no packing makes that more: a text of 19
    tokens takes 8.9 ms alone and 6.6 packed; its 0.4 billion operations would take 3.9 at the speed of numpy's product
    of large matrices. So two threads share a long batch, each in a context of its own: 3.3 ms a text, and some 6 where
    others keep the second processor busy (llama.cpp's own threads would spin there).
    """

    FLASH_FROM = 64  # tokens
    PACKED = 128  # tokens in one run, where no single text has more
    SEQUENCES = 32  # texts in one run at the most; llama.cpp ends the process where they do not divide its window
    SHARED_FROM = 4  # runs; making the second context takes a tenth of one

    def __init__(self, path: Path, n_threads: int, *, ranks: bool = False) -> None:
        self._api = api = models.llama()
        about = models.metadata(path) if path.is_file() else {}
        pooling = about.get(f"{about.get('general.architecture')}.pooling_type")
        if pooling == api.LLAMA_POOLING_TYPE_RANK and not ranks:
            raise ModelError(f"{path} is a reranker: it compares two texts and gives no vectors; give an embedder")
        if ranks and path.is_file() and pooling != api.LLAMA_POOLING_TYPE_RANK:
            raise ModelError(f"{path} is no reranker: it does not compare two texts; give one that is")
        self._path = path
        self._pooling, self._n_threads = pooling, n_threads
        self._model = models.load(path)
        self._made: list[_Context] = []
        self.free = weakref.finalize(self, _free, api, self._model, self._made, os.getpid())
        self.free.atexit = False  # the system takes it back, and faster

        self.dimension: int = (api.llama_model_n_cls_out if ranks else api.llama_model_n_embd)(self._model)
        self._vocabulary = api.llama_model_get_vocab(self._model)
        self._strips = self._strips_accents()
        window = WINDOW_OF_PAIR if ranks else WINDOW
        self._window = min(window, api.llama_model_n_ctx_train(self._model) or window)
        self._sequences = math.gcd(self._window, self.SEQUENCES)
        self.limit = self._window - len(self._tokens("", True))
        if ranks:
            self._check_ranks()
        self._plain, self._flash = self._context(flash=False), self._context(flash=True)
        self._second: _Context | None = None  # another one with flash attention, once a batch was long enough

    def count(self, text: str) -> int:
        """How many tokens a text has, those at the ends not counted."""
        return len(self._tokens(text, False))

    def run(self, texts: list[str]) -> list[array[float]]:
        """One vector of length 1 for each text; each must fit into the window."""
        groups = list(self._groups([self._tokens(text, True) for text in texts]))
        shares = len(groups) >= self.SHARED_FROM and self._n_threads == 1 and _processors() > 1
        found = self._run_shared(groups) if shares else map(self._run_alone, groups)
        return [normalise(vector) for vectors in found for vector in vectors]

    def compare(self, query: str, texts: Sequence[str]) -> list[float]:
        """The logit of each text's answering the query; of what is too long for the window the beginning is read."""
        groups = self._groups([self._pair(query, text) for text in texts])
        found = [score for group in groups for (score,) in self._run_alone(group)]
        if not all(map(math.isfinite, found)):
            raise ModelError(f"{self._path} gave numbers that are not finite; the file is broken: fetch it again")
        return found

    def leave(self) -> None:
        """Forget the model without freeing it: in a forked child its threads and locks are not there."""
        self.free.detach()

    def _check_ranks(self) -> None:
        """Refuse rerankers that llama.cpp would read otherwise than they were trained."""
        if self.dimension != 1 or len(self._tokens("", True)) < 2:
            raise ModelError(
                f"{self._path} wants a prompt, which memlite does not write for a reranker, or gives "
                f"{self.dimension} scores; give one of the BERT or XLM-RoBERTa family with one score"
            )
        if self._is_wordpiece() and self._said("tokenizer.ggml.token_type_count") not in ("", "1"):
            raise ModelError(
                f"{self._path} tells query and text apart by segments, which llama.cpp leaves out; give the folder of "
                "the sentence-transformers model, or a reranker without segments, as of the XLM-RoBERTa family"
            )

    def _pair(self, query: str, text: str) -> list[int]:
        """The tokens of two texts as the model was trained to read them: with an end behind each, or two between."""
        begin, *asked, end = self._tokens(query, True)
        asked = asked[: self._window // 2]
        between = [end]
        if not self._is_wordpiece() and self._api.llama_vocab_get_add_sep(self._vocabulary):
            between.append(self._api.llama_vocab_sep(self._vocabulary))
        room = self._window - len(asked) - len(between) - 2
        return [begin, *asked, *between, *self._tokens(text, False)[:room], end]

    def _run_alone(self, group: list[list[int]]) -> list[list[float]]:
        if sum(map(len, group)) >= self.FLASH_FROM:
            return self._run(self._flash, group)
        return [vector for tokens in group for vector in self._run(self._plain, [tokens])]

    def _run_shared(self, groups: list[list[list[int]]]) -> list[list[list[float]]]:
        """What each group gives, by two threads. All with flash attention: which thread takes which is left to chance,
        and a text has the same vector every time.
        """
        if self._second is None:
            self._second = self._context(flash=True)
        return _shared(groups, functools.partial(self._run, self._flash), functools.partial(self._run, self._second))

    def _groups(self, texts: list[list[int]]) -> Iterable[list[list[int]]]:
        group: list[list[int]] = []
        size, most = 0, min(self.PACKED, self._window)
        for tokens in texts:
            if group and (size + len(tokens) > most or len(group) == self._sequences):
                yield group
                group, size = [], 0
            group.append(tokens)
            size += len(tokens)
        yield group

    def _run(self, place: _Context, group: list[list[int]]) -> list[list[float]]:
        api, (context, batch) = self._api, place
        filled = 0
        for sequence, tokens in enumerate(group):
            for position, token in enumerate(tokens):
                batch.token[filled] = token
                batch.pos[filled] = position
                batch.n_seq_id[filled] = 1
                batch.seq_id[filled][0] = sequence
                batch.logits[filled] = 1
                filled += 1
        batch.n_tokens = filled
        memory = api.llama_get_memory(context)
        if memory:  # only models that also write text have one
            api.llama_memory_clear(memory, True)
        interruption.check()
        code = api.llama_decode(context, batch)
        if code != 0:
            raise ModelError(f"llama.cpp could not run {self._path} on {filled} tokens (llama_decode returned {code})")
        found = []
        for sequence in range(len(group)):
            pointer = api.llama_get_embeddings_seq(context, sequence)
            if not pointer:
                raise ModelError(f"{self._path} gives no vectors: it is not an embedder; give one that is")
            found.append(pointer[: self.dimension])
        return found

    def _tokens(self, text: str, with_ends: bool) -> list[int]:
        if self._strips:
            text = _stripped(text)
        raw = text.encode("utf-8")
        room = len(raw) + 8
        while True:
            held = (self._api.llama_token * room)()
            # the last argument: the text's own "[SEP]" or "</s>" is text, not a command
            count = self._api.llama_tokenize(self._vocabulary, raw, len(raw), held, room, with_ends, False)
            if count >= 0:
                tokens: list[int] = held[:count]
                # an empty text of a model without end tokens would be an empty batch, which llama.cpp refuses
                return tokens or ([max(0, self._api.llama_vocab_bos(self._vocabulary))] if with_ends else [])
            room = -count

    def _strips_accents(self) -> bool:
        """Whether the vocabulary is WordPiece without accents, as the BERT family's mostly is."""
        if not self._is_wordpiece():
            return False
        by_llama_cpp = self._said("tokenizer.ggml.normalizer.strip_accents") != "false"
        return by_llama_cpp or self._said(models.STRIPPED_BY_MEMLITE) == "true"

    def _is_wordpiece(self) -> bool:
        return bool(self._api.llama_vocab_type(self._vocabulary) == self._api.LLAMA_VOCAB_TYPE_WPM)

    def _said(self, key: str) -> str:
        """A short value of the file's metadata, "" where there is none."""
        held = ctypes.create_string_buffer(16)
        self._api.llama_model_meta_val_str(self._model, key.encode("ascii"), held, len(held))
        return held.value.decode("utf-8", "replace")

    def _context(self, *, flash: bool) -> _Context:
        api = self._api
        params = api.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = self._window
        params.n_seq_max = self._sequences
        params.kv_unified = True
        params.n_threads = params.n_threads_batch = self._n_threads
        params.embeddings = True
        params.offload_kqv = params.op_offload = False
        params.no_perf = True
        params.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_AUTO if flash else api.LLAMA_FLASH_ATTN_TYPE_DISABLED
        if not self._pooling:  # a model that was not made for embedding
            params.pooling_type = api.LLAMA_POOLING_TYPE_MEAN
        context = models.quietly(api.llama_init_from_model, self._model, params)
        if not context:
            raise ModelError(f"llama.cpp cannot embed with {self._path}: it made no context; give an embedder")
        self._made.append((context, api.llama_batch_init(self._window, 0, 1)))
        return self._made[-1]


_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def _shared(
    tasks: Sequence[_Task], mine: Callable[[_Task], _Result], other: Callable[[_Task], _Result]
) -> list[_Result]:
    """What each task gives, in order. This thread does them by `mine` and a second one by `other`, each the next that
    is left. When this returns or raises, the second one does none any more.
    """
    found: dict[int, _Result] = {}
    left = list(range(len(tasks)))[::-1]
    taking = threading.Lock()
    problems: list[BaseException] = []
    idle = threading.Event()
    idle.set()

    def work(run: Callable[[_Task], _Result], idle: threading.Event) -> None:
        try:
            while True:
                with taking:
                    if problems or not left:
                        return
                    at = left.pop()
                    idle.clear()
                found[at] = run(tasks[at])
        except BaseException as problem:  # raised below, when the other one has ended
            problems.append(problem)
        finally:
            idle.set()

    second = threading.Thread(target=work, args=(other, idle), name="memlite embed")
    try:
        with contextlib.suppress(RuntimeError):  # the process ends, or there are no more threads: this one does all
            second.start()
        work(mine, threading.Event())
    finally:
        with taking:
            left.clear()
        while not idle.is_set():  # a join that is interrupted takes a thread for ended that is not (Python 3.11)
            try:
                idle.wait()
            except KeyboardInterrupt as problem:
                problems.append(problem)
    if second.ident is not None:
        second.join()
    if problems:
        raise problems[0]
    return [found[at] for at in range(len(tasks))]


def _processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _stripped(text: str) -> str:
    """The text as the BERT family reads it: letters without their accents, Korean syllables as letters.

    llama.cpp splits no Korean, so that every Korean word would be the same unknown token, and takes the
    vowels of Hindi for accents.
    """
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def _free(api: Any, model: Any, contexts: list[_Context], pid: int) -> None:
    if os.getpid() != pid:
        return
    for context, batch in contexts:
        api.llama_batch_free(batch)
        api.llama_free(context)
    api.llama_model_free(model)


# sentence-transformers


class SentenceEmbedder:
    """An embedder run by sentence-transformers, which must have it on this machine: nothing is fetched.

    name_or_path: a folder, or a name as on the Hugging Face hub that is in its cache. Importing the package
    takes 4 to 7 seconds and happens at the first embedding.
    """

    def __init__(self, name_or_path: str | Path, *, device: str = "cpu") -> None:
        self.source = str(name_or_path)
        self.device = device
        self._lock = threading.Lock()
        self._model: Any = None
        self._limit = 0
        self._forked = False
        _living.add(self)

    @property
    def name(self) -> str:
        return Path(self.source).name

    @property
    def dimension(self) -> int:
        with self._lock:
            return len(self._run(self._loaded(), [""])[0])

    def embed(self, texts: Sequence[str]) -> list[array[float]]:
        """One vector of length 1 for each text, in order."""
        if not texts:
            return []
        with self._lock:
            model = self._loaded()
            return _embed(texts, self._count, self._limit, functools.partial(self._run, model))

    def close(self) -> None:
        """Let go of the model; the next embedding loads it again."""
        with self._lock:
            self._model = None

    def _count(self, text: str) -> int:
        return len(self._model.tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"])

    def _run(self, model: Any, texts: list[str]) -> list[array[float]]:
        return [normalise(vector.tolist()) for vector in model.encode(texts, show_progress_bar=False)]

    def _loaded(self) -> Any:
        if self._model is None:
            self._model = _sentence_transformer(self.source, self.device)
            empty = self._model.tokenizer("", truncation=False)["input_ids"]
            self._limit = self._model.max_seq_length - len(empty)
        if self._forked:
            import torch

            torch.set_num_threads(1)  # the parent's pool is not in the child, which would wait for it for ever
            self._forked = False
        return self._model

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # a thread of the parent may have held it
        self._forked = self._model is not None


def _sentence_transformer(source: str, device: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer

        bars: Any = importlib.import_module("transformers.utils.logging")
    except ImportError as problem:
        raise ModelMissingError(
            f"{source} needs the package sentence-transformers, which cannot be imported ({problem}): "
            "pip install 'memlite[sentence-transformers]'"
        ) from problem
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        model = SentenceTransformer(source, device=device, local_files_only=True)
    except (OSError, ValueError) as problem:
        raise ModelMissingError(
            f"sentence-transformers has no model {source} on this machine and memlite fetches none; give the "
            f"folder of one, or fetch it once by its own tools: {str(problem).splitlines()[0]}"
        ) from problem
    finally:
        if shown:
            bars.enable_progress_bar()
    model.max_seq_length = min(WINDOW, model.max_seq_length or WINDOW)
    _read_as_llama_cpp_does(model.tokenizer)
    return model


def _read_as_llama_cpp_does(tokenizer: Any) -> None:
    """Where the two runtimes would cut a text into different tokens, follow llama.cpp."""
    tokenizer.split_special_tokens = True  # a "[SEP]" that somebody wrote is text
    pieces: Any = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    if hasattr(pieces, "max_input_chars_per_word"):
        # WordPiece does not read a word of more than 100 letters, which a Thai or Japanese sentence easily is
        pieces.max_input_chars_per_word = sys.maxsize
