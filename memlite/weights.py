"""Weights of the ranking in log-odds, written by scripts/fit_ranking. Not to be edited by hand.

EVIDENCE: what the best hit must show for an answer to be there; floor: the probability that keeps 90 % of the
questions that have one.
"""

from __future__ import annotations

WITH_VECTORS = {
    "bias": -11.136,
    "semantic": 2.689,
    "near": 1.494,
    "keyword": 0.775,
    "around": 2.120,
    "words": 2.748,
    "session": 0.972,
    "speaker": 0.470,
    "question": -0.673,
    "when": 3.408,
    "length": 2.517,
    "fact_semantic": 0.667,
    "fact_keyword": 1.059,
}

EVIDENCE_WITH_VECTORS = {
    "bias": -7.627,
    "semantic": 7.952,
    "near": 0.893,
    "keyword": 0.697,
    "around": 2.515,
    "words": 4.140,
    "floor": 0.336,
}

WITHOUT_VECTORS = {
    "bias": -9.587,
    "keyword": 1.182,
    "around": 1.764,
    "words": 4.719,
    "session": 1.226,
    "speaker": 0.634,
    "question": -0.693,
    "when": 3.535,
    "length": 1.254,
    "fact_keyword": 1.842,
}

EVIDENCE_WITHOUT_VECTORS = {
    "bias": -5.038,
    "keyword": 1.957,
    "around": 2.247,
    "words": 5.861,
    "floor": 0.294,
}
