"""Explanation: a claim in plain words for a privacy officer, and above all its limits."""

from hushdoc.explanation.limits import not_promised
from hushdoc.explanation.measurements import (
    WHAT_AUDITS_MEAN,
    audit_ceiling,
    audit_lines,
    audit_words,
    invitation_words,
    report_lines,
)
from hushdoc.explanation.mechanisms import mechanism_words
from hushdoc.explanation.narrative import explain, explain_claim
from hushdoc.explanation.promises import (
    FALSE_ALARM_RATES,
    comparison,
    computed_by,
    foundations,
    hit_rate_bound,
    is_covered,
    meaning,
    odds,
    percent,
    promise,
)
from hushdoc.explanation.terms import (
    ACCOUNTANT_WORDS,
    ADJACENCY_PITFALLS,
    ADJACENCY_WORDS,
    ADVERSARY_WORDS,
    AGGREGATION_WORDS,
    ASSURANCE_WORDS,
    RELEASE_WORDS,
    UNIT_LIMITS,
    UNIT_WORDS,
    WEIGHTS,
)

__all__ = [
    "ACCOUNTANT_WORDS",
    "ADJACENCY_PITFALLS",
    "ADJACENCY_WORDS",
    "ADVERSARY_WORDS",
    "AGGREGATION_WORDS",
    "ASSURANCE_WORDS",
    "FALSE_ALARM_RATES",
    "RELEASE_WORDS",
    "UNIT_LIMITS",
    "UNIT_WORDS",
    "WEIGHTS",
    "WHAT_AUDITS_MEAN",
    "audit_ceiling",
    "audit_lines",
    "audit_words",
    "comparison",
    "computed_by",
    "explain",
    "explain_claim",
    "foundations",
    "hit_rate_bound",
    "invitation_words",
    "is_covered",
    "meaning",
    "mechanism_words",
    "not_promised",
    "odds",
    "percent",
    "promise",
    "report_lines",
]
