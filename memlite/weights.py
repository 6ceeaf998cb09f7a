"""Weights of the ranking in log-odds, written by scripts/fit_ranking. Not to be edited by hand.

EVIDENCE: what the best hit must show for an answer to be there; floor: the probability that keeps 90 % of the
questions that have one.
"""

from __future__ import annotations

WITH_VECTORS = {
    "bias": -11.163,
    "semantic": 2.728,
    "near": 1.519,
    "keyword": 0.754,
    "around": 2.110,
    "words": 2.834,
    "session": 0.909,
    "speaker": 0.468,
    "question": -0.674,
    "when": 3.416,
    "length": 2.543,
    "fact_semantic": 0.670,
    "fact_keyword": 1.054,
}

EVIDENCE_WITH_VECTORS = {
    "bias": -7.644,
    "semantic": 7.968,
    "near": 0.956,
    "keyword": 0.701,
    "around": 2.505,
    "words": 4.120,
    "floor": 0.335,
}

WITHOUT_VECTORS = {
    "bias": -9.742,
    "keyword": 1.147,
    "around": 1.683,
    "words": 5.023,
    "session": 1.215,
    "speaker": 0.630,
    "question": -0.696,
    "when": 3.533,
    "length": 1.328,
    "fact_keyword": 1.831,
}

EVIDENCE_WITHOUT_VECTORS = {
    "bias": -5.336,
    "keyword": 1.909,
    "around": 2.203,
    "words": 6.420,
    "floor": 0.295,
}
