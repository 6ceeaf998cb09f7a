"""How a candidate's signals become its score: a logistic model whose weights scripts/fit_ranking has fitted.

A message is judged with what stands around it: the two messages before and after, its session, and the best fact that
was learnt from it. A fact by itself is judged like a message with nothing around it.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memlite import weights

BESIDE = (0.7, 0.35)  # what a query term counts that stands one or two messages away, against 1 in the message itself
HALF_WORDS = 8.0  # sum of idf at which words are half a perfect match
SEEN, RARE = 20, 0.01  # what is believed of a word before any text is seen
TELLING = 0.3  # idf from which a word tells texts apart: fewer than three of four hold it
SESSION = 3  # best candidates of a session that lift the others in it
SHORTEST, LONGEST = 60, 500  # characters: a text counts as no shorter and no longer; a fact as the shortest
TYPICAL = 120  # characters of a text in which a word counts once
NORM = 0.1  # how much less a word counts in a longer text, and more in a shorter one: BM25's b

# Log-odds that were set by hand: the sets that the others are fitted on quote nothing and name no entity that its words
# do not find. (With the names of LoCoMo's facts looked up `entity` was fitted to -0.3 with vectors and 0.1 without, and
# brought nothing out of fold; a weight for whom a fact is about, to -0.1 and 0.2: that counts as `speaker` does.)
# An assistant's long answers are half as likely what is looked for as a user's words (lessons of BEAM-100K: any@10 68.5
# at half weight, 61.1 at full).
BY_HAND = {"entity": 0.5, "exact": 4.0, "assistant": math.log(0.5)}
# Where a half-life is asked for, the odds that a text is what is looked for halve with every half-life since it was
# last said: 2 ** -(age / half_life), as Elasticsearch's exp decay with a decay of 0.5 (function_score query), and as
# recency in Park et al., Generative Agents (2023, arXiv 2304.03442), 4.1. But no more often than this: an exact
# identifier weighs more than any age, and what is old is found where nothing newer says it.
HALVINGS = 5
# A fact stands for its message only where its text matches at least so much as that of the message does: of a message
# that says three things the fact about the first is no answer to a question about the last.
STANDING = 0.5
_AGE = {"age": -HALVINGS * math.log(2.0)}
# Where past facts are searched as well, what has replaced one is at least as likely what is looked for (see `lift`).
_INSTEAD = {"instead": 120.0}
_NO_PARTS = ("bias", "floor", "cut")


class Model:
    """A fitted table: its constant, and the weight of every part in log-odds."""

    def __init__(self, table: Mapping[str, float]) -> None:
        self.bias = table["bias"]
        self.parts = {name: weight for name, weight in table.items() if name not in _NO_PARTS} | BY_HAND
        self._weights = tuple(self.parts.values())
        self._values = operator.attrgetter(*self.parts)

    def odds(self, signals: Signals) -> float:
        """The log-odds of a candidate."""
        return self.bias + float(sum(map(operator.mul, self._weights, self._values(signals))))


# By whether the query has a vector. How old a text is says nothing of whether it answers: the evidence leaves it out.
_SCORE = {
    True: Model(weights.WITH_VECTORS | _AGE | _INSTEAD),
    False: Model(weights.WITHOUT_VECTORS | _AGE | _INSTEAD),
}
_EVIDENCE = {True: Model(weights.EVIDENCE_WITH_VECTORS), False: Model(weights.EVIDENCE_WITHOUT_VECTORS)}


@dataclass(slots=True)
class Signals:
    """What is known of one candidate. All in [0, 1]; semantic 0: or it has no vector.

    semantic, keyword: cosine, on the default embedder's scale, and the share of the query's words (by idf) in its own
    text.
    near, around: the same of the messages around it (`around`: together with its own).
    words: how much the words say, own and around. session: how well its session's best candidates match, against the
    best session's. speaker: the query names who said it; of a fact, the first one that the query names is whom it is
    about. question: it is one. when: the query names a time, and it was said or happened then. assistant: how long it
    is, if an assistant said it. fact_semantic, fact_keyword: of the best fact learnt from it. age: see `age`; 0 where
    no half-life was asked for. instead: see `lift`.
    """

    semantic: float = 0.0
    terms: int = 0  # a bit for each query term in the text
    keyword: float = 0.0
    around_terms: int = 0
    near: float = 0.0
    around: float = 0.0
    words: float = 0.0
    session: float = 0.0
    speaker: float = 0.0
    question: float = 0.0
    when: float = 0.0
    length: float = 0.0
    assistant: float = 0.0
    fact_semantic: float = 0.0
    fact_keyword: float = 0.0
    entity: float = 0.0
    exact: float = 0.0
    age: float = 0.0
    instead: float = 0.0
    same: bool = False  # its text is the query, and no question


@dataclass(frozen=True, slots=True)
class Terms:
    """The query's terms in one table: how much each tells apart, and which rows hold it."""

    texts: int  # rows of the scope
    idf: tuple[float, ...]
    rows: dict[int, int] = field(default_factory=dict)  # row id: a bit for each term in it
    common: tuple[int, ...] = ()  # terms of which `rows` knows only the rows that were looked up
    indexed: int = 0  # rows of all scopes
    shares: dict[tuple[int, int], float] = field(default_factory=dict)  # what `share` has computed

    def share(self, held: int, without: int = 0) -> float:
        """The share of the query's words, by idf, that these are. without: a bit for each word that does not count."""
        if (held, without) not in self.shares:
            whole = sum(self.idf) - sum(self.idf[at] for at in bits(without))
            part = sum(self.idf[at] for at in bits(held & ~without))
            self.shares[held, without] = part / whole if whole > 0 else 0.0
        return self.shares[held, without]

    def weight(self, own: int, characters: int, beside: Sequence[Iterable[int]] = ()) -> float:
        """How much the words say, in [0, 1), by BM25's saturation over the counts in a text and around it.

        characters: the length of the text. beside: for each distance, the terms of the messages there.
        """
        counts = dict.fromkeys(bits(own), 1.0 / (1.0 - NORM + NORM * min(characters, LONGEST) / TYPICAL))
        for factor, held in zip(BESIDE, beside):
            for terms in held:
                for at in bits(terms):
                    counts[at] = counts.get(at, 0.0) + factor
        said = 0.0
        for at, count in counts.items():  # not a sum of a generator, which takes half as long again
            said += self.idf[at] * 2.0 * count / (count + 1.0)
        return said / (said + HALF_WORDS)


@functools.lru_cache(maxsize=4096)
def bits(held: int) -> tuple[int, ...]:
    """The places of the ones in a number."""
    return tuple(at for at in range(held.bit_length()) if held >> at & 1)


def idf(rows: int, containing: float) -> float:
    """Inverse document frequency, never below 0: log of 1 / the expected share of texts with the word.

    The share is estimated as if SEEN more texts had been seen, of which a share RARE holds it (the mean of a beta
    distribution): in a store of three facts every word is in a third of them, and says no less than in a large one.
    """
    return max(0.0, math.log((rows + SEEN) / (containing + SEEN * RARE)))


def length(characters: int) -> float:
    """A text's length in [0, 1], on a logarithmic scale."""
    return math.log1p(min(characters, LONGEST)) / math.log1p(LONGEST)


def age(since: int, half_life: int) -> float:
    """The half-lives since something was last said, as a share of HALVINGS, in [0, 1]. Both in milliseconds."""
    return min(max(since, 0) / half_life, HALVINGS) / HALVINGS


def entity_weight(facts: int, *, in_part: bool = False) -> float:
    """What naming an entity is worth, in (0, 1]: the more facts mention it, the less it tells them apart.

    in_part: only its name's beginning was named, which is worth half.
    """
    return (0.5 if in_part else 1.0) / (1.0 + math.log(max(facts, 1)))


def extracted(match: float, of_message: float) -> float:
    """What the match of an extracted fact says for its message: by how much it is the better one.

    Of a fact that was given the whole match counts. The weights are fitted on given facts, which stand where people saw
    something worth knowing; a model writes one of every second message.
    """
    return max(0.0, match - of_message)


def match(signals: Signals) -> float:
    """How well the text alone matches, in [0, 2]: what a session and a fact are judged by."""
    return signals.semantic + signals.keyword


def without(signals: Signals, terms: Terms, left_out: int) -> Signals:
    """The signals as if the query did not have these terms, a bit for each."""
    if not left_out:
        return signals
    return replace(
        signals,
        keyword=terms.share(signals.terms, left_out),
        around=terms.share(signals.around_terms, left_out),
    )


def stands(fact: Signals, message: Signals) -> bool:
    """Whether a fact says what is asked for about as well as the message that it was learnt from."""
    return match(fact) >= STANDING * match(message)


def evidence(signals: Signals, *, vectors: bool) -> float:
    """How much the best candidate, with these signals, looks like that of a question that has an answer (see Hits)."""
    return _probability(signals, _EVIDENCE[vectors])


def floor(*, vectors: bool) -> float:
    """The evidence below which nothing is returned where precision is asked for."""
    return _evidence_table(vectors)["floor"]


def cut(*, vectors: bool) -> float:
    """The share of the best hit's score below which another is not returned where precision is asked for."""
    return _evidence_table(vectors)["cut"]


def bias(*, vectors: bool) -> float:
    """The constant of the score, in log-odds."""
    return _SCORE[vectors].bias


def score(signals: Signals, *, vectors: bool) -> float:
    """The score in [0, 1]; 1 for a text that is the query."""
    return _probability(signals, _SCORE[vectors])


def lift(signals: Signals, replaced: Signals, *, vectors: bool) -> None:
    """Give a candidate at least the score of one that it has replaced."""
    model = _SCORE[vectors]
    missing = (model.odds(replaced) - model.odds(signals) + 1e-9) / model.parts["instead"]  # sums are not exact
    signals.instead = 1.0 if replaced.same else min(1.0, signals.instead + max(0.0, missing))


def parts(signals: Signals, *, vectors: bool) -> dict[str, tuple[float, float]]:
    """Every part of the score by name: its value and its weight in log-odds."""
    return {name: (getattr(signals, name), weight) for name, weight in _SCORE[vectors].parts.items()}


def _evidence_table(vectors: bool) -> Mapping[str, float]:
    return weights.EVIDENCE_WITH_VECTORS if vectors else weights.EVIDENCE_WITHOUT_VECTORS


def _probability(signals: Signals, model: Model) -> float:
    return 1.0 if signals.same else probability(model.odds(signals))


def probability(odds: float) -> float:
    """What log-odds mean, in [0, 1]."""
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(odds, 60.0))))


def has_reason(signals: Signals) -> bool:
    """Whether anything speaks for a candidate; where nothing does it is no hit."""
    return bool(
        signals.semantic
        or signals.around
        or signals.entity
        or signals.exact
        or signals.near
        or signals.when
        or signals.same
    )
