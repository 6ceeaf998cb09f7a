"""Weights of the ranking in log-odds, written by scripts/fit_ranking. Not to be edited by hand.

EVIDENCE: what the best hit must show for an answer to be there; floor: the evidence that keeps 90 % of the
questions that have one; cut: the share of the best hit's score that keeps 99% of the evidence that fits
into a context.
"""

from __future__ import annotations

WITH_VECTORS = {
    "bias": -9.636,
    "semantic": 2.359,
    "near": 1.010,
    "keyword": 1.058,
    "around": 2.082,
    "words": 1.711,
    "session": 0.682,
    "speaker": 0.374,
    "question": -0.473,
    "when": 3.007,
    "length": 2.502,
    "fact_semantic": 0.649,
    "fact_keyword": 0.880,
}

EVIDENCE_WITH_VECTORS = {
    "bias": -7.658,
    "semantic": 8.250,
    "near": 0.854,
    "keyword": 1.439,
    "around": 1.879,
    "words": 4.036,
    "floor": 0.341,
    "cut": 0.085,
}

WITHOUT_VECTORS = {
    "bias": -7.628,
    "keyword": 1.620,
    "around": 1.536,
    "words": 4.024,
    "session": 0.980,
    "speaker": 0.572,
    "question": -0.539,
    "when": 3.224,
    "fact_keyword": 1.699,
}

EVIDENCE_WITHOUT_VECTORS = {
    "bias": -5.292,
    "keyword": 2.532,
    "around": 1.598,
    "words": 6.405,
    "floor": 0.292,
    "cut": 0.062,
}
