"""Weights of the ranking in log-odds, written by scripts/fit_ranking. Not to be edited by hand.

EVIDENCE: what the best hit must show for an answer to be there; floor: the probability that keeps 90 % of the
questions that have one.
"""

from __future__ import annotations

WITH_VECTORS = {
    "bias": -11.494,
    "semantic": 2.354,
    "near": 1.682,
    "keyword": 0.926,
    "around": 1.975,
    "words": 2.912,
    "session": 1.674,
    "speaker": 0.503,
    "question": -0.671,
    "length": 2.373,
    "fact_semantic": 0.770,
    "fact_keyword": 1.058,
}

EVIDENCE_WITH_VECTORS = {
    "bias": -8.440,
    "semantic": 7.829,
    "near": 1.786,
    "keyword": 1.194,
    "around": 2.010,
    "words": 5.280,
    "floor": 0.355,
}

WITHOUT_VECTORS = {
    "bias": -9.374,
    "keyword": 1.380,
    "around": 2.019,
    "words": 4.249,
    "session": 1.490,
    "speaker": 0.702,
    "question": -0.772,
    "length": 0.947,
    "fact_keyword": 1.963,
}

EVIDENCE_WITHOUT_VECTORS = {
    "bias": -5.756,
    "keyword": 1.934,
    "around": 2.152,
    "words": 7.269,
    "floor": 0.310,
}
