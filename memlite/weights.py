"""Weights of the ranking in log-odds, written by scripts/fit_ranking. Not to be edited by hand.

EVIDENCE: what the best hit must show for an answer to be there; floor: the evidence that keeps 90 % of the
questions that have one; cut: the share of the best hit's score that keeps 99% of the evidence that fits
into a context.
"""

from __future__ import annotations

WITH_VECTORS = {
    "bias": -9.670,
    "semantic": 2.376,
    "near": 1.020,
    "keyword": 1.056,
    "around": 2.075,
    "words": 1.740,
    "session": 0.697,
    "speaker": 0.374,
    "question": -0.476,
    "when": 3.012,
    "length": 2.511,
    "fact_semantic": 0.671,
    "fact_keyword": 0.846,
}

EVIDENCE_WITH_VECTORS = {
    "bias": -7.654,
    "semantic": 8.243,
    "near": 0.853,
    "keyword": 1.417,
    "around": 1.897,
    "words": 4.035,
    "floor": 0.340,
    "cut": 0.082,  # by hand until the next fit: scripts/fit_ranking LOCOMO LONGMEMEVAL --cut
}

WITHOUT_VECTORS = {
    "bias": -7.701,
    "keyword": 1.613,
    "around": 1.520,
    "words": 4.175,
    "session": 0.991,
    "speaker": 0.572,
    "question": -0.541,
    "when": 3.225,
    "fact_keyword": 1.696,
}

EVIDENCE_WITHOUT_VECTORS = {
    "bias": -5.296,
    "keyword": 2.577,
    "around": 1.552,
    "words": 6.421,
    "floor": 0.289,
    "cut": 0.049,  # the same
}
