"""One guarantee in plain words: what holds, what its numbers rule out, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterable

from hushdoc.arguments import printable
from hushdoc.certificate.claim import WATCHES_TRAINING, Claim, Guarantee
from hushdoc.explanation.terms import (
    ACCOUNTANT_WORDS,
    ADJACENCY_PITFALLS,
    ADJACENCY_WORDS,
    ADVERSARY_WORDS,
    AGGREGATION_WORDS,
    CLUSTER_SAMPLING_WORDS,
    UNIT_WORDS,
)

FALSE_ALARM_RATES = (0.1, 0.01, 0.001)
"""Rates of wrong accusations for which the bound is written out."""


def hit_rate_bound(epsilon: float, delta: float, false_alarm_rate: float) -> float:
    """Returns the largest share of the members that any membership test can find.

    `false_alarm_rate` is the share of the non-members that the test accuses. (epsilon, delta)-DP
    bounds every test of whether a record was in the training data
    (Wasserman, Zhou 2010, theorem 2.4; Kairouz, Oh, Viswanath 2015, theorem 2.1).
    """
    few = math.exp(min(epsilon, 700.0)) * false_alarm_rate + delta
    many = 1 - math.exp(-epsilon) * (1 - delta - false_alarm_rate)
    return max(0.0, min(1.0, few, many))


def odds(epsilon: float) -> str:
    """Returns e^epsilon as text, rounded up: the factor by which probabilities can change."""
    if epsilon > 30:
        return "more than ten trillion"
    factor = math.exp(epsilon)
    if factor >= 100:
        return f"{math.ceil(factor):,}"
    return f"{math.ceil(factor * 100) / 100:g}"


def percent(share: float) -> str:
    """Returns a share in percent, rounded up because it is a bound."""
    digits = 1 if 0.01 <= share <= 0.99 else 3
    scale = 10**digits
    return f"{math.ceil(share * 100 * scale - 1e-9) / scale:g} %"


def guarantee_words(guarantee: Guarantee) -> str:
    """Returns one guarantee in one or two plain sentences."""
    who = ADVERSARY_WORDS[guarantee.adversary]
    unit = UNIT_WORDS[guarantee.unit]
    if guarantee.kind == "none":
        return (
            f"No privacy guarantee for any {unit} against {who}: "
            f"{printable(guarantee.reason or 'no reason is given')}"
        )
    if guarantee.kind == "empirical":
        return (
            f"Nothing is proven about any {unit} against {who}. Attacks were measured, and their "
            "result rests on a model of the attacker; a better attack may find more."
        )
    words = (
        f"For every single {unit}, against {who}: {ADJACENCY_WORDS[guarantee.adjacency]}, the "
        f"probability of anything they can see changes by at most a factor of "
        f"{odds(guarantee.epsilon or 0.0)}, plus {guarantee.delta:g} (epsilon "
        f"{guarantee.epsilon:g}, delta {guarantee.delta:g})."
    )
    if guarantee.kind == "dp-conditional":
        words += f" This holds only if: {printable(guarantee.condition or '')}"
    return words


def meaning(guarantee: Guarantee) -> tuple[str, ...]:
    """Returns what the numbers of a guarantee rule out, at each of FALSE_ALARM_RATES."""
    if guarantee.epsilon is None or guarantee.delta is None or guarantee.kind == "empirical":
        return ()
    unit = UNIT_WORDS[guarantee.unit]
    bounds = [hit_rate_bound(guarantee.epsilon, guarantee.delta, at) for at in FALSE_ALARM_RATES]
    rates = _listed(f"{round(1 / rate):,}" for rate in FALSE_ALARM_RATES)
    sentence = (
        f"An attacker who wrongly accuses at most 1 in {rates} {unit}s outside the training data "
        f"recognises at most {_listed(map(percent, bounds))} of those inside"
    )
    if len(set(map(percent, bounds))) > 1:
        sentence += ", respectively"
    if bounds[-1] > 0.95:
        sentence += ": these numbers alone rule out next to nothing"
    return (f"{sentence}.",)


def _listed(words: Iterable[str]) -> str:
    """Words as "a, b or c"; one word where all are equal."""
    *head, last = words
    return f"{', '.join(head)} or {last}" if {*head} != {last} else last


def foundations(guarantee: Guarantee) -> tuple[str, ...]:
    """Returns what a guarantee rests on and how to read its numbers."""
    found = [
        f"One unit is: {printable(guarantee.unit_definition)}",
        f"They observe: {printable(guarantee.observes)}.",
        f"They may know: {printable(guarantee.knows)}.",
    ]
    if guarantee.adversary in WATCHES_TRAINING:
        found.append(f"Of training they see {AGGREGATION_WORDS[guarantee.aggregation]}.")
    if guarantee.cluster_sampling_as_implemented != "none":
        drawn = CLUSTER_SAMPLING_WORDS[guarantee.cluster_sampling_as_implemented]
        found.append(f"Clusters of records, such as clients: {drawn}.")
    if guarantee.kind in ("dp", "dp-conditional"):
        found.append(ADJACENCY_PITFALLS[guarantee.adjacency])
        found.append(computed_by(guarantee))
    found += [*_measured_epsilon(guarantee), *_lower_bound(guarantee), *comparison(guarantee)]
    return (*found, *(f"It assumes: {printable(words)}" for words in guarantee.assumes))


def computed_by(guarantee: Guarantee) -> str:
    """Returns how epsilon was computed, and whether that bounds it from above."""
    accountant = guarantee.accountant
    if accountant.name == "none":
        return "No accountant computed epsilon."
    words = (
        f"Epsilon was computed by {ACCOUNTANT_WORDS[accountant.name]} "
        f"({printable(accountant.library, limit=80)} {printable(accountant.version, limit=80)})."
    )
    if accountant.error_bound is not None:
        words += f" It may lie up to {accountant.error_bound:g} above the true value."
    return words


def comparison(guarantee: Guarantee) -> tuple[str, ...]:
    """Returns the value of the central limit theorem with its warning, if there is one."""
    if guarantee.gdp_mu is None:
        return ()
    return (
        f"For comparison alone: the central limit theorem gives mu {guarantee.gdp_mu:g}. It "
        "underestimates the privacy loss, and no guarantee rests on it.",
    )


def _measured_epsilon(guarantee: Guarantee) -> tuple[str, ...]:
    if guarantee.kind != "empirical" or guarantee.epsilon is None:
        return ()
    return (
        f"The declared epsilon {guarantee.epsilon:g} was measured. It rests on a model and bounds "
        "nothing.",
    )


def _lower_bound(guarantee: Guarantee) -> tuple[str, ...]:
    bound = guarantee.audit_lower_bound
    if bound is None:
        return ()
    words = f"The issuer's own audits show that epsilon is at least {bound:g}"
    if guarantee.epsilon is not None and bound > guarantee.epsilon:
        return (f"{words}: THAT REFUTES the declared epsilon {guarantee.epsilon:g}.",)
    return (f"{words}.",)


def is_covered(adversary: str, claim: Claim) -> bool:
    """Returns whether a guarantee of kind dp holds against that adversary.

    Whoever only queries the model sees what can be computed from it, so a guarantee against its
    recipient holds against them as well (post-processing).
    """
    named = {item.adversary for item in claim.guarantees if item.kind == "dp"}
    return adversary in named or (adversary == "api-user" and "model-recipient" in named)
