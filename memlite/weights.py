"""Weights of the ranking in log-odds, written by scripts/fit_ranking. Not to be edited by hand.

EVIDENCE: what the best hit must show for an answer to be there; floor: the evidence that no more than
25% of the questions asked of others' messages reach; cut: the share of the best hit's score that keeps
99% of the evidence that fits into a context.
"""

from __future__ import annotations

WITH_VECTORS = {
    "bias": -9.802,
    "semantic": 2.400,
    "near": 1.042,
    "keyword": 1.058,
    "around": 2.051,
    "words": 1.905,
    "session": 0.667,
    "speaker": 0.378,
    "question": -0.487,
    "when": 2.841,
    "length": 2.574,
    "fact_semantic": 0.675,
    "fact_keyword": 0.885,
}

EVIDENCE_WITH_VECTORS = {
    "bias": -7.013,
    "semantic": 9.294,
    "near": -2.335,
    "keyword": 1.283,
    "around": 2.708,
    "words": 3.232,
    "when": 4.438,
    "floor": 0.350,
    "cut": 0.083,
}

WITHOUT_VECTORS = {
    "bias": -7.779,
    "keyword": 1.647,
    "around": 1.580,
    "words": 4.296,
    "session": 0.942,
    "speaker": 0.583,
    "question": -0.605,
    "when": 3.035,
    "fact_keyword": 1.724,
}

EVIDENCE_WITHOUT_VECTORS = {
    "bias": -5.087,
    "keyword": 2.956,
    "around": 1.875,
    "words": 5.368,
    "when": 3.795,
    "floor": 0.388,
    "cut": 0.058,
}
