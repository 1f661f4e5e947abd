"""What a claim does not promise, in plain words; the part that a reader must not miss."""

from __future__ import annotations

from hushdoc.arguments import printable
from hushdoc.certificate.claim import Claim, Guarantee
from hushdoc.explanation.promises import is_covered, promise
from hushdoc.explanation.terms import ADVERSARY_WORDS, RELEASE_WORDS, UNIT_LIMITS, WEIGHTS


def not_promised(claim: Claim) -> tuple[str, ...]:
    """Returns what the claim does not promise, each in plain words; the gravest first."""
    found = [promise(item) for item in claim.guarantees if item.kind == "none"]
    found += [promise(item) for item in claim.guarantees if item.kind == "empirical"]
    promised = [item for item in claim.guarantees if item.kind in ("dp", "dp-conditional")]
    for guarantee in promised:
        found += [*_gaps(guarantee), *_large_delta(guarantee, claim)]
    units = {item.unit: None for item in promised}
    found += [f"Unit {unit}: {UNIT_LIMITS[unit]}" for unit in units]
    silent = [words for name, words in ADVERSARY_WORDS.items() if not is_covered(name, claim)]
    if silent:
        found.append(f"Nothing is promised without condition against: {'; '.join(silent)}.")
    found += [*_accesses(claim), *_public_data(claim), *_further_releases(claim)]
    if promised:
        found.append(
            "Another model trained on the same data, or anything else released about them, adds "
            "to what is given away; epsilon counts only what is stated here."
        )
    found.append(
        "What the data say about everyone, such as the usual layout of an invoice, is meant to be "
        "learned and is not protected. Documents that you hand to the model are not covered."
    )
    return tuple(dict.fromkeys(found))


def _gaps(guarantee: Guarantee) -> list[str]:
    """What one guarantee itself admits to leave open."""
    found = []
    if not guarantee.covers_all_private_accesses:
        found.append("Some accesses to protected data are outside the promise.")
    if guarantee.hyperparameter_tuning == "unaccounted":
        found.append("Settings were chosen on protected data, and that is not in epsilon.")
    if guarantee.sampling_as_implemented in ("shuffled", "fixed-size", "unknown"):
        found.append(
            f"Batches were drawn as '{guarantee.sampling_as_implemented}'; epsilon for Poisson "
            "sampling does not apply to that."
        )
    if guarantee.rng != "csprng":
        found.append(f"The noise came from a {guarantee.rng} source and may be predictable.")
    if guarantee.accountant.name in ("gdp-clt", "none"):
        found.append(
            f"Epsilon comes from the accountant {guarantee.accountant.name}, which does not bound "
            "it: the true value may be larger."
        )
    if guarantee.transcript is None:
        found.append("No mechanism is stated that epsilon could be recomputed from.")
    return found


def _large_delta(guarantee: Guarantee, claim: Claim) -> list[str]:
    """A delta near 1 / N allows to publish one random record."""
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
        f"with that probability would keep the same promise and reveal "
        f"{guarantee.delta * max(counts):.2g} of them on average."
    ]


def _accesses(claim: Claim) -> list[str]:
    return [
        f"{printable(access.purpose)} read {printable(access.data)} and is in no promise."
        for access in claim.data_accesses
        if access.treatment == "unaccounted"
    ]


def _public_data(claim: Claim) -> list[str]:
    return [
        f"{printable(data.name)} was used without a promise; its overlap with protected data is "
        f"{data.overlap_with_protected}."
        for data in claim.public_data
        if data.overlap_with_protected != "none"
    ]


def _further_releases(claim: Claim) -> list[str]:
    further = [RELEASE_WORDS[name] for name in claim.releases if name not in WEIGHTS]
    if not further:
        return []
    return [
        f"Besides the model itself these left the training site: {'; '.join(further)}. A promise "
        "covers them only where they are among what its adversary is said to see."
    ]
