"""Certificates, guarantees and audits in plain English for a privacy officer, limits first."""

from hushdoc.explanation.guarantees import (
    FALSE_ALARM_RATES,
    comparison,
    computed_by,
    foundations,
    guarantee_words,
    hit_rate_bound,
    is_covered,
    meaning,
    odds,
    percent,
)
from hushdoc.explanation.limits import not_guaranteed
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
    "not_guaranteed",
    "odds",
    "percent",
    "guarantee_words",
    "report_lines",
]
