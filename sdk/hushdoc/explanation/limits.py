"""What a claim does not guarantee, in plain words; the part that a reader must not miss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hushdoc.arguments import printable
from hushdoc.certificate import adversaries
from hushdoc.certificate.claim import Claim, Guarantee
from hushdoc.explanation.guarantees import guarantee_words, is_covered
from hushdoc.explanation.terms import (
    ADVERSARY_WORDS,
    CLUSTER_SAMPLING_WORDS,
    RELEASE_WORDS,
    UNIT_LIMITS,
    UNIT_WORDS,
    WEIGHTS,
)


def not_guaranteed(claim: Claim, derivation: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Returns what a claim does not guarantee, in plain words, the most serious first.

    `derivation` has the steps since training, of which the claim says nothing.
    """
    found = [guarantee_words(item) for item in claim.guarantees if item.kind == "none"]
    found += [guarantee_words(item) for item in claim.guarantees if item.kind == "empirical"]
    private = [item for item in claim.guarantees if item.kind in ("dp", "dp-conditional")]
    for guarantee in private:
        found += [*_gaps(guarantee), *_large_delta(guarantee, claim)]
    found += _contradictions(claim)
    units = {item.unit: None for item in private}
    found += [f"Unit {unit}: {UNIT_LIMITS[unit]}" for unit in units]
    silent = [words for name, words in ADVERSARY_WORDS.items() if not is_covered(name, claim)]
    if silent:
        found.append(f"There is no unconditional guarantee against: {'; '.join(silent)}.")
    found += [*_steps(derivation), *_accesses(claim)]
    found += [*_public_data(claim), *_further_releases(claim)]
    if private:
        found += _unread(claim)
        found.append(
            "Another model trained on the same data, or anything else released about them, adds "
            "to the privacy loss; epsilon counts only what is declared here."
        )
    found.append(
        "What the data say about everyone, such as the usual layout of an invoice, is meant to be "
        "learned and is not protected. Documents that you hand to the model are not covered."
    )
    return tuple(dict.fromkeys(found))


def _gaps(guarantee: Guarantee) -> list[str]:
    """What one guarantee itself admits to leaving open."""
    found = []
    if not guarantee.covers_all_private_accesses:
        found.append("Some accesses to protected data are outside the guarantee.")
    if guarantee.hyperparameter_tuning == "unaccounted":
        found.append(
            "Settings were chosen on protected data, and epsilon does not account for that."
        )
    if guarantee.sampling_as_implemented in ("shuffled", "fixed-size", "unknown"):
        found.append(
            f"Batches were sampled as '{guarantee.sampling_as_implemented}'; an epsilon for "
            "Poisson sampling does not apply to them."
        )
    if guarantee.cluster_sampling_as_implemented == "unknown":
        found.append(f"Clusters, such as clients, were drawn {CLUSTER_SAMPLING_WORDS['unknown']}.")
    if guarantee.rng != "csprng":
        found.append(f"The source of the noise is {guarantee.rng}; the noise may be predictable.")
    if guarantee.accountant.name in ("gdp-clt", "none"):
        found.append(
            f"Epsilon comes from the accountant {guarantee.accountant.name}, which does not bound "
            "it: the true value may be larger."
        )
    if guarantee.transcript is None:
        found.append("No mechanism is declared from which epsilon could be recomputed.")
    return found


def _contradictions(claim: Claim) -> list[str]:
    """Who sees less can't learn more, so one of two guarantees that say so leaves something out."""
    return [
        f"The guarantee for a {UNIT_WORDS[lesser.unit]} against "
        f"{ADVERSARY_WORDS[lesser.adversary]} is weaker than that against "
        f"{ADVERSARY_WORDS[wider.adversary]}, who sees more: the stronger one leaves something out."
        for lesser, wider in adversaries.contradictions(claim.guarantees)
    ]


def _large_delta(guarantee: Guarantee, claim: Claim) -> list[str]:
    """A delta near 1 / N allows publishing one random record."""
    counts = [
        unit.count
        for data in claim.protected_data
        for unit in data.units
        if unit.unit == guarantee.unit and unit.count
    ]
    if guarantee.delta is None or not counts or guarantee.delta * max(counts) <= 0.1:
        return []
    return [
        f"Delta {guarantee.delta:g} is large for {max(counts)} units: publishing each unit in full "
        f"with that probability would satisfy the same guarantee and reveal "
        f"{guarantee.delta * max(counts):.2g} of them on average."
    ]


def _steps(derivation: Iterable[Mapping[str, Any]]) -> list[str]:
    return [
        "No guarantee covers a step after training, which read protected data: "
        f"{printable(step['step'])}."
        for step in derivation
        if step["dataDependent"]
    ]


_UNCOVERED = {
    "unaccounted": "No guarantee covers this access to",
    "declared-public": "Outside of every guarantee, for its result was declared public: access to",
    "post-processing": "Outside of every guarantee, said to read only what was released: access to",
}


def _accesses(claim: Claim) -> list[str]:
    return [
        f"{words} {printable(access.data)}: {printable(access.purpose)}."
        for treatment, words in _UNCOVERED.items()
        for access in claim.data_accesses
        if access.treatment == treatment
    ]


def _unread(claim: Claim) -> list[str]:
    read = {access.data for access in claim.data_accesses if access.accounted_in}
    return [
        f"No guarantee is about {printable(data.name)}: no access to these data is accounted."
        for data in claim.protected_data
        if data.name not in read
    ]


def _public_data(claim: Claim) -> list[str]:
    return [
        f"Used without a guarantee: {printable(data.name)} (overlap with protected data: "
        f"{data.overlap_with_protected})."
        for data in claim.public_data
        if data.overlap_with_protected != "none"
    ]


def _further_releases(claim: Claim) -> list[str]:
    # What has no weights among its releases is a set of documents.
    main = WEIGHTS if set(WEIGHTS) & {*claim.releases} else ("synthetic-records",)
    further = [RELEASE_WORDS[name] for name in claim.releases if name not in main]
    if not further:
        return []
    itself = "the model itself" if main is WEIGHTS else "the documents"
    return [
        f"Besides {itself} these left the training site: {'; '.join(further)}. A "
        "guarantee covers them only if they are among what its adversary observes."
    ]
