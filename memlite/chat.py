"""A GGUF chat model in memory: a prompt in, an answer within a grammar out. The only file that calls llama.cpp so.

It uses the plain C functions, not llama_cpp.Llama: its constructor points the process's stdout and stderr
at the null device and back, so two threads that load at once can lose them for good.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memlite import interruption, models
from memlite.errors import ModelError, ModelMissingError
from memlite.prompt import Examples


@dataclass(frozen=True, slots=True)
class Rival:
    """The token that the model holds for the likeliest but one, and its probability, 0 to 1."""

    token: int
    probability: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model wrote: each token with its bytes and its probability.

    evaluated: tokens of the prompt that the cache did not hold. decoded: tokens written, also of what was tried and not
    taken. end: the bytes up to which it counts. rivals: of each token, where it was to be looked for (see
    `ChatModel.answer`).
    """

    pieces: tuple[bytes, ...]
    probabilities: tuple[float, ...]
    evaluated: int = 0
    decoded: int = 0
    end: int | None = None
    tokens: tuple[int, ...] = ()
    rivals: tuple[Rival | None, ...] = ()

    def until(self, at: int) -> Answer:
        """The first `at` tokens of it."""
        return Answer(self.pieces[:at], self.probabilities[:at], tokens=self.tokens[:at], rivals=self.rivals[:at])

    @property
    def text(self) -> str:
        return b"".join(self.pieces)[: self.end].decode("utf-8", "replace")

    def confidence(self, text: str) -> float | None:
        """The mean probability of the tokens that spell a fact's text."""
        answer = b"".join(self.pieces)
        spelled = json.dumps(text, ensure_ascii=False)[1:-1].encode()
        if spelled not in answer:
            spelled = text.encode()  # an answer in lines escapes nothing
        start = answer.find(spelled)
        if start < 0:
            return None
        position = 0
        held = []
        for piece, probability in zip(self.pieces, self.probabilities, strict=True):
            if start <= position < start + len(spelled):
                held.append(probability)
            position += len(piece)
        return round(sum(held) / len(held), 4) if held else None


_SYSTEM_MARK, _USER_MARK = "memlite-system-text", "memlite-user-text"
_CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}"
)
_CONTROL = 1 | 2 | 8  # llama.cpp's token attributes unknown, unused, control
_USER_DEFINED = 16


class ChatModel:
    """A model in memory with its KV cache; not for two threads at once."""

    def __init__(self, path: Path, n_ctx: int, n_threads: int) -> None:
        """Load a GGUF file. Raises ModelMissingError or ModelError."""
        self.api: Any = models.llama()
        _check_file(path)
        api = self.api
        import numpy  # llama-cpp-python brings it

        self.numpy = numpy
        model = models.load(path)
        handles = {"model": model, "pid": os.getpid()}
        self._finalizer = weakref.finalize(self, _free, api, handles)
        self._finalizer.atexit = False
        architecture = self._metadata(model, "general.architecture")
        if "bert" in architecture or api.llama_model_has_encoder(model):
            self.close()
            raise ModelError(f"{path} is a {architecture} model: the extractor needs one that writes text")
        context = api.llama_context_default_params()
        context.n_ctx = min(n_ctx, api.llama_model_n_ctx_train(model))
        context.n_batch = context.n_ubatch = min(512, context.n_ctx)
        context.n_threads = context.n_threads_batch = n_threads
        context.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_DISABLED  # on a CPU: 26 ms a token instead of 45
        handles["context"] = self.context = models.quietly(api.llama_init_from_model, model, context)
        if not self.context:
            self.close()
            raise ModelError(f"{path}: no memory for a context of {n_ctx} tokens; give the extractor a smaller n_ctx")
        self.n_ctx = int(context.n_ctx)
        self.n_batch = int(context.n_batch)
        self.vocab = api.llama_model_get_vocab(model)
        self.n_vocab = int(api.llama_vocab_n_tokens(self.vocab))
        self.kept: list[int] = []  # the tokens whose keys and values are in the cache
        self.parameters = int(api.llama_model_n_params(model))
        self._model = model
        self._examples: Examples | None = None
        self._read_vocabulary()

    def adapt(self, adapter: Path) -> None:
        """Put a LoRA adapter on the model, for good; it is freed with the model. Raises ModelError."""
        held = models.quietly(self.api.llama_adapter_lora_init, self._model, str(adapter).encode())
        scales = (ctypes.c_float * 1)(1.0)
        if not held or self.api.llama_set_adapters_lora(
            self.context, (self.api.llama_adapter_lora_p_ctypes * 1)(held), 1, scales
        ):
            raise ModelError(f"llama.cpp cannot put the adapter {adapter} on this model: it is of another shape")
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)
        self.kept.clear()

    def close(self) -> None:
        self._finalizer()

    def _metadata(self, model: Any, key: str) -> str:
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = self.api.llama_model_meta_val_str(model, key.encode(), buffer, size)
            if length < size:
                return buffer.value.decode("utf-8", "replace") if length >= 0 else ""
            size = length + 1

    def _read_vocabulary(self) -> None:
        """Which tokens may not be written, and which texts would be read as such a token."""
        api = self.api
        attributes = [api.llama_vocab_get_attr(self.vocab, token) for token in range(self.n_vocab)]
        self.eog = {token for token in range(self.n_vocab) if api.llama_vocab_is_eog(self.vocab, token)}
        self.end = int(api.llama_vocab_eos(self.vocab))  # what a chat model writes behind an answer
        special = [token for token, held in enumerate(attributes) if held & (_CONTROL | _USER_DEFINED)]
        self.never = self.numpy.array(
            [token for token in special if attributes[token] & _CONTROL and token not in self.eog],
            dtype=self.numpy.intp,
        )
        marks = {api.llama_vocab_get_text(self.vocab, token).decode("utf-8", "replace") for token in special}
        marks = {mark for mark in marks if len(mark) > 1 and not mark.isspace()}
        # a mark is tokenised in two halves, so even a vocabulary that reads its marks in any text cannot see one
        starts = "".join(sorted({re.escape(mark[0]) for mark in marks}))
        rests = "|".join(sorted(re.escape(mark[1:]) for mark in marks))
        self.marks = re.compile(f"(?<=[{starts}])(?={rests})" if marks else "(?!)")

    def _read_template(self, shown_examples: Examples) -> None:
        """The chat template around the two texts, as it stands in the file; ChatML where there is none."""
        from jinja2 import TemplateError
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        def spelled(token: int) -> str:
            return self.api.llama_vocab_get_text(self.vocab, token).decode() if token >= 0 else ""

        bos, eos = self.api.llama_vocab_bos(self.vocab), self.api.llama_vocab_eos(self.vocab)
        examples: list[Any] = [
            {"role": role, "content": text}
            for pair in shown_examples
            for role, text in zip(("user", "assistant"), pair, strict=True)
        ]
        with_system: list[Any] = [
            {"role": "system", "content": _SYSTEM_MARK},
            *examples,
            {"role": "user", "content": _USER_MARK},
        ]
        merged: list[Any] = [
            {
                "role": "user",
                "content": _SYSTEM_MARK + "\n\n" + (examples[0]["content"] if examples else _USER_MARK),
            },
            *examples[1:],
            *([{"role": "user", "content": _USER_MARK}] if examples else []),
        ]
        for template in (self._metadata(self._model, "tokenizer.chat_template") or _CHATML, _CHATML):
            for messages in (with_system, merged):
                try:
                    formatter = Jinja2ChatFormatter(template, eos_token=spelled(eos), bos_token=spelled(bos))
                    shown = formatter(messages=messages, enable_thinking=False).prompt
                except (TemplateError, ValueError, TypeError, LookupError, AttributeError):
                    continue  # a template that knows no system role, say
                pieces = re.split(f"{_SYSTEM_MARK}|{_USER_MARK}", shown)
                if len(pieces) == 3 and shown.index(_SYSTEM_MARK) < shown.index(_USER_MARK):
                    self.template = [self._tokens(piece, special=True) for piece in pieces]
                    if self.api.llama_vocab_get_add_bos(self.vocab) and self.template[0][:1] != [bos]:
                        self.template[0].insert(0, bos)
                    return
        raise ModelError("the model's chat template cannot be used")

    def _tokens(self, text: str, *, special: bool = False) -> list[int]:
        raw = text.encode("utf-8", "replace")
        room = len(raw) + 8
        buffer = (self.api.llama_token * room)()
        count = self.api.llama_tokenize(self.vocab, raw, len(raw), buffer, room, False, special)
        if count < 0:
            raise ModelError(f"a text of {len(raw)} bytes cannot be tokenised")
        return list(buffer[:count])

    def prompt(self, system: str, examples: Examples, user: str) -> list[int]:
        """The tokens of a chat. Only the template's own marks become special tokens, never what a message says."""
        if examples != self._examples:
            self._read_template(examples)
            self._examples = examples
        before, between, after = self.template
        return [*before, *self.plain(system), *between, *self.plain(user), *after]

    def count(self, text: str) -> int:
        """How many tokens a text has."""
        return len(self._tokens(text))

    def plain(self, text: str) -> list[int]:
        """The tokens of a text, none of them special, whatever it says."""
        return [token for piece in self.marks.split(text) for token in self._tokens(piece)]

    def answer(
        self,
        prompt: list[int],
        rules: str,
        budget: int,
        greedy_first: bool,
        *,
        finite: bool = False,
        rather: tuple[str, float] | None = None,
        unsure: float = 0.0,
        begun: Answer | None = None,
        ends: Callable[[bytes], bool] = lambda piece: False,
    ) -> Answer:
        """Let the model answer within the grammar: at every token the likeliest legal one.

        finite: the grammar spells out whole texts, so what repeats was said so and does not go on for ever. rather: how
        an answer begins that is taken where the model gives its first token at least this probability, 0 to 1. unsure:
        probability of a token below which its rival is looked for. begun: what it goes on from. ends: whether a token
        is the last one.
        """
        api = self.api
        if len(prompt) + budget > self.n_ctx:
            raise ModelError(f"{len(prompt)} tokens and {budget} for the answer do not fit into {self.n_ctx}")
        sampler = api.llama_sampler_init_grammar(self.vocab, rules.encode(), b"root")
        if not sampler:
            raise ModelError("llama.cpp refused the grammar of the answer")
        begun = begun or Answer((), ())
        pieces, probabilities = list(begun.pieces), list(begun.probabilities)
        written, rivals = list(begun.tokens), list(begun.rivals)
        preferred = self._tokens(rather[0])[0] if rather else None
        end: int | None = None
        try:
            for done in written:
                api.llama_sampler_accept(sampler, done)
            evaluated = max(0, self._evaluate([*prompt, *written]) - len(written))
            while len(pieces) < budget:
                scores = self._scores()
                token = self._likeliest(sampler, scores, greedy_first)
                if rather and preferred is not None and not written:
                    token = preferred if self._probability(scores, preferred) >= rather[1] else token
                if token is None or token in self.eog:
                    break
                probabilities.append(self._probability(scores, token))
                sure = probabilities[-1] >= unsure
                rivals.append(None if sure else self._rival(sampler, scores, token, greedy_first))
                api.llama_sampler_accept(sampler, token)
                written.append(token)
                pieces.append(self.piece(token))
                if ends(pieces[-1]) or (b"}" in pieces[-1] and self._complete(sampler)):
                    break
                if not finite and _loops(written):
                    break
                if not finite and _ENDS.search(pieces[-1]) and (again := _repeats(b"".join(pieces))):
                    end = again
                    break
                self._evaluate([*prompt, *written])
        finally:
            api.llama_sampler_free(sampler)
        decoded = len(pieces) - len(begun.pieces)
        return Answer(tuple(pieces), tuple(probabilities), evaluated, decoded, end, tuple(written), tuple(rivals))

    def otherwise(self, answer: Answer, at: int) -> Answer:
        """The beginning of an answer with the rival of its token `at` in the place of that, which must have one."""
        rival, before = answer.rivals[at], answer.until(at)
        assert rival is not None
        return Answer(
            (*before.pieces, self.piece(rival.token)),
            (*before.probabilities, rival.probability),
            tokens=(*before.tokens, rival.token),
            rivals=(*before.rivals, None),
        )

    def _evaluate(self, tokens: list[int]) -> int:
        """Bring the KV cache to these tokens and return how many were evaluated: those from the first difference."""
        same = next(
            (at for at, (old, new) in enumerate(zip(self.kept, tokens, strict=False)) if old != new),
            min(len(self.kept), len(tokens)),
        )
        same = min(same, len(tokens) - 1)
        memory = self.api.llama_get_memory(self.context)
        if same < len(self.kept) and not self.api.llama_memory_seq_rm(memory, 0, same, -1):
            self.api.llama_memory_clear(memory, True)  # a recurrent model cannot go back to the middle
            same = 0
        del self.kept[same:]
        for start in range(same, len(tokens), self.n_batch):
            batch = tokens[start : start + self.n_batch]
            held = (self.api.llama_token * len(batch))(*batch)
            interruption.check()
            code = self.api.llama_decode(self.context, self.api.llama_batch_get_one(held, len(batch)))
            if code != 0:
                self.api.llama_memory_clear(memory, True)
                self.kept.clear()
                raise ModelError(f"llama.cpp could not evaluate {len(batch)} tokens (code {code})")
            self.kept += batch
        return len(tokens) - same

    def _scores(self) -> Any:
        held = self.api.llama_get_logits_ith(self.context, -1)
        scores = self.numpy.ctypeslib.as_array(held, shape=(self.n_vocab,)).copy()
        scores[self.never] = -self.numpy.inf
        return scores

    def _likeliest(self, sampler: Any, scores: Any, greedy_first: bool) -> int | None:
        """The likeliest token that the grammar allows.

        The grammar judges each token alone, so the best legal token of the best few is the best of all:
        mostly one token is judged, seldom 64, hardly ever the whole vocabulary (tens of milliseconds).
        """
        best = int(scores.argmax())
        if greedy_first:
            if self._legal(sampler, self.numpy.array([best]), scores) is not None:
                return best
            few = self.numpy.argpartition(scores, -64)[-64:]
            if (token := self._legal(sampler, few, scores)) is not None:
                return token
        return self._legal(sampler, self.numpy.arange(self.n_vocab), scores)

    def _rival(self, sampler: Any, scores: Any, token: int, greedy_first: bool) -> Rival | None:
        others = scores.copy()
        others[token] = -self.numpy.inf
        rival = self._likeliest(sampler, others, greedy_first)
        return None if rival is None or rival in self.eog else Rival(rival, self._probability(scores, rival))

    def _legal(self, sampler: Any, tokens: Any, scores: Any) -> int | None:
        """The likeliest of these tokens that the grammar allows."""
        held = self.numpy.zeros(len(tokens), dtype=[("id", "i4"), ("logit", "f4"), ("p", "f4")])
        held["id"] = tokens
        held["logit"] = scores[tokens]
        array = self.api.llama_token_data_array(
            data=held.ctypes.data_as(self.api.llama_token_data_p), size=len(tokens), selected=-1, sorted=False
        )
        self.api.llama_sampler_apply(sampler, ctypes.byref(array))
        best = held["logit"].argmax()
        return int(held["id"][best]) if self.numpy.isfinite(held["logit"][best]) else None

    def _complete(self, sampler: Any) -> bool:
        """Whether the grammar allows the answer to end here; memlite's grammars then allow nothing else."""
        end = self.numpy.array(sorted(self.eog)[:1], dtype=self.numpy.intp)
        return bool(len(end)) and self._legal(sampler, end, self.numpy.zeros(self.n_vocab)) is not None

    def _probability(self, scores: Any, token: int) -> float:
        best = scores.max()
        return float(self.numpy.exp(scores[token] - best) / self.numpy.exp(scores - best).sum())

    def piece(self, token: int) -> bytes:
        """The bytes that a token stands for."""
        buffer = ctypes.create_string_buffer(256)
        length = self.api.llama_token_to_piece(self.vocab, token, buffer, len(buffer), 0, False)
        return buffer.raw[: max(length, 0)]


_ENDS = re.compile(rb'["|\n]')  # what stands behind the text of a fact
_TEXT = re.compile(rb'\{"text":("(?:[^"\\]|\\.)*")|^- ([^|\n]+?) ?(?=[|\n])', re.MULTILINE)


def _loops(tokens: Sequence[int]) -> bool:
    """Whether the last tokens are one short run over and over."""
    for period in range(1, 17):
        length = max(4 * period, 24)
        tail = tokens[-length:]
        if len(tail) == length and tail[period:] == tail[:-period]:
            return True
    return False


def _repeats(answer: bytes) -> int:
    """Where the last fact of an answer begins if an earlier one has the same text, else 0."""
    texts = list(_TEXT.finditer(answer))
    told = [(found[1] or found[2]).lower() for found in texts]
    return texts[-1].start() if told and told[-1] in told[:-1] else 0


def _free(api: Any, handles: Mapping[str, Any]) -> None:
    if handles["pid"] != os.getpid():  # a fork's copy: the parent frees its own
        return
    if handles.get("context"):
        api.llama_free(handles["context"])
    api.llama_model_free(handles["model"])


def _check_file(path: Path) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except FileNotFoundError as error:
        raise ModelMissingError(f"there is no model file {path}") from error
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    if start != b"GGUF":
        raise ModelError(f"{path} is not a GGUF file: it begins with {start!r}")
