"""Weights of the ranking in log-odds, written by scripts/fit_ranking. Not to be edited by hand.

EVIDENCE: what the best hit must show for an answer to be there; floor: the evidence that keeps 90 % of the
questions that have one; cut: the share of the best hit's score that keeps 99% of the evidence that fits
into a context.
"""

from __future__ import annotations

WITH_VECTORS = {
    "bias": -9.489,
    "semantic": 2.369,
    "near": 1.027,
    "keyword": 1.040,
    "around": 2.060,
    "words": 1.753,
    "session": 0.703,
    "speaker": 0.377,
    "question": -0.477,
    "when": 3.016,
    "length": 2.292,
    "fact_semantic": 0.664,
    "fact_keyword": 0.845,
}

EVIDENCE_WITH_VECTORS = {
    "bias": -7.618,
    "semantic": 8.023,
    "near": 0.638,
    "keyword": 1.378,
    "around": 1.902,
    "words": 4.302,
    "floor": 0.336,
    "cut": 0.082,  # by hand until the next fit: scripts/fit_ranking LOCOMO LONGMEMEVAL --cut
}

WITHOUT_VECTORS = {
    "bias": -8.642,
    "keyword": 1.518,
    "around": 1.497,
    "words": 4.371,
    "session": 1.033,
    "speaker": 0.582,
    "question": -0.494,
    "when": 3.286,
    "length": 1.001,
    "fact_keyword": 1.677,
}

EVIDENCE_WITHOUT_VECTORS = {
    "bias": -5.200,
    "keyword": 2.161,
    "around": 1.997,
    "words": 6.105,
    "floor": 0.301,
    "cut": 0.049,  # the same
}
