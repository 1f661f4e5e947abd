"""Audits in plain words: what attacks measured, could have shown at best, and may still test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from hushdoc.arguments import printable
from hushdoc.certificate import attack_rates
from hushdoc.certificate.audit_reports import Audit, AuditReport, PreRegisteredAudit
from hushdoc.explanation.terms import ADVERSARY_WORDS, UNIT_WORDS

WHAT_AUDITS_MEAN = (
    "An audit can refute a guarantee and never prove one: an attack that finds little may be a "
    "weak attack."
)


def audit_ceiling(audit: Audit, training: object = None) -> float | None:
    """Returns the largest epsilon that an audit could show, or None where that is unknown.

    Even an attacker who guesses right about every canary shows no more: r right guesses out of r
    happen under epsilon with probability (1 / (1 + e^-epsilon))^r at most (Steinke, Nasr,
    Jagielski 2023, theorem 3.1), which has to reach 1 - confidence. Each canary is one guess in
    each run at most. Who guesses about fewer shows less: `training`, of the claim that an audit
    stands in, may state how much, and is believed where it states less.
    """
    found = [each for each in (_most(audit), _stated(audit, training)) if each is not None]
    return min(found, default=None)


def _most(audit: Audit) -> float | None:
    """Returns what a right guess about every canary would show."""
    if not audit.canaries or audit.confidence is None or not 0 < audit.confidence < 1:
        return None
    rate = math.log1p(-audit.confidence) / (audit.canaries * audit.runs)
    return max(0.0, rate - math.log(-math.expm1(rate)))


def _stated(audit: Audit, training: object) -> float | None:
    """Returns the ceiling that the list `audits` of settings, or of those before, has for one."""
    bound = {
        "epsilon_lower": audit.epsilon_lower,
        "delta": audit.delta,
        "confidence": audit.confidence,
    }
    while isinstance(training, Mapping) and audit.epsilon_lower is not None:
        entries = training.get("audits")
        for entry in entries if isinstance(entries, list | tuple) else ():
            if not isinstance(entry, Mapping) or bound != {key: entry.get(key) for key in bound}:
                continue
            method, ceiling = entry.get("method"), entry.get("ceiling")
            if not (isinstance(method, str) and method and audit.method.endswith(method)):
                continue
            if isinstance(ceiling, bool) or not isinstance(ceiling, int | float):
                continue
            if ceiling >= audit.epsilon_lower:
                return float(ceiling)
        training = training.get("startedFrom")
    return None


def audit_words(audit: Audit, training: object = None) -> tuple[str, ...]:
    """Returns what one attack measured, a sentence each; `training` as in `audit_ceiling`."""
    trials = f"{audit.runs:,} training run{'s' * (audit.runs != 1)}"
    if audit.canaries is not None:
        trials = f"{audit.canaries:,} canaries, {trials}"
    found = [
        f"{printable(audit.method)}, with the view of {ADVERSARY_WORDS[audit.adversary]}, about "
        f"one {UNIT_WORDS[audit.unit]} ({trials})."
    ]
    found += [*_bound_words(audit, training), *_rate_words(audit)]
    if len(found) == 1:
        found.append("No result is declared.")
    return tuple(found)


def _bound_words(audit: Audit, training: object) -> list[str]:
    if audit.epsilon_lower is None or audit.confidence is None or audit.delta is None:
        return _implied_words(audit)
    found = [
        f"It shows that epsilon is at least {audit.epsilon_lower:g} at delta {audit.delta:g}, with "
        f"{audit.confidence * 100:g} % confidence."
    ]
    ceiling = audit_ceiling(audit, training)
    if ceiling is None:
        found.append("How much it could have shown at best does not follow from what is declared.")
    elif audit.epsilon_lower > ceiling:
        found.append(
            f"So many guesses can show {ceiling:.3g} at best, so the bound does not come from "
            "counting them; ask the auditor how it was found."
        )
    elif ceiling == _most(audit):
        found.append(
            f"However good the attack, so many guesses can show {ceiling:.3g} at best: it says "
            "nothing about a larger epsilon."
        )
    else:
        found.append(
            f"Its guesses, had all been right, would have shown {ceiling:.3g}: it says nothing "
            "about a larger epsilon."
        )
    return found


def _implied_words(audit: Audit) -> list[str]:
    """What the rates alone show, where the auditor gives no bound."""
    num_trials = None if audit.canaries is None else audit.canaries * audit.runs
    compared = attack_rates.comparisons(audit.tpr_at_fpr, num_trials)
    least = attack_rates.least_epsilon(compared, 0.0)
    if least == 0:
        return []
    how = (
        "the rates are taken as exact, for no number of trials is declared"
        if num_trials is None
        else f"{attack_rates.CONFIDENCE * 100:g} % confidence, half of the trials being members"
    )
    shown = "no epsilon holds" if math.isinf(least) else f"epsilon is at least {least:.3g}"
    return [f"No bound is declared; from its rates it follows that {shown} at delta 0 ({how})."]


def _rate_words(audit: Audit) -> list[str]:
    found = [
        f"It recognised {hits * 100:.3g} % of the members and wrongly accused "
        f"{alarms * 100:.3g} % of the non-members."
        for hits, alarms in audit.tpr_at_fpr
    ]
    if audit.auc is not None:
        found.append(f"Area under the ROC curve {audit.auc:.3g}; 0.5 is guessing.")
    return found


def invitation_words(audit: PreRegisteredAudit) -> str:
    """Returns what an outside auditor is invited to do."""
    return (
        f"{printable(audit.protocol)} Population: {printable(audit.population)}; up to "
        f"{audit.query_budget:,} queries; the seed is fixed by {audit.seed_commitment}."
    )


def audit_lines(audits: Iterable[Audit], training: object = None) -> list[str]:
    """Returns audits as lines of a list; `training` as in `audit_ceiling`."""
    lines = []
    for audit in audits:
        first, *further = audit_words(audit, training)
        lines += [f"  - {first}", *(f"      {words}" for words in further)]
    return lines


def report_lines(reports: Iterable[AuditReport]) -> list[str]:
    """Returns what trusted auditors signed, as lines of a list under who they are."""
    lines = []
    for report in reports:
        lines.append(f"{printable(report.auditor)}, {report.conducted_at}:")
        lines += audit_lines(report.audits)
    return lines
