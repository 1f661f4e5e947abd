"""Explanation: a claim in plain words for a privacy officer, and above all its limits."""

from __future__ import annotations

import math

from hushdoc.accounting import mechanism
from hushdoc.accounting.mechanism import Mechanism
from hushdoc.claim import Claim, Guarantee

ADVERSARY_WORDS = {
    "model-recipient": "whoever receives the model file",
    "api-user": "whoever only asks the model questions",
    "synthetic-data-recipient": "whoever receives the synthetic data",
    "server": "the server that coordinates training",
    "co-client": "another party that trains along",
    "network-observer": "whoever listens on the network",
}

UNIT_WORDS = {
    "token-term": "term",
    "word-box": "word",
    "sequence": "text window",
    "page": "page",
    "document": "document",
    "client": "client",
    "provider": "provider",
    "user": "person",
}

UNIT_LIMITS = {
    "token-term": "The rest of a document, and several terms together, are not protected.",
    "word-box": "Several words of one document together are not protected, nor what they say.",
    "sequence": "A document that is cut into several windows is not protected as a whole.",
    "page": "A document of several pages is not protected as a whole.",
    "document": "A person, author or issuer of several documents is not protected as such: what "
    "their documents have in common may show.",
    "client": "Single records inside one client are protected only as part of it, and several "
    "clients together are not.",
    "provider": "Several providers together are not protected.",
    "user": "What several persons have in common is not protected.",
}

ASSURANCE_WORDS = {
    "self-attested": "the issuer vouches alone that training ran as stated.",
    "reproduced": "somebody trained again and got the same.",
    "third-party": "a third party vouches that training ran as stated.",
    "enclave-attested": "sealed hardware vouches that training ran as stated.",
}

ADJACENCY_WORDS = {
    "add-remove": "whether it was used or left out",
    "replace-one": "whether it was used or another one in its place",
    "zero-out": "whether it was used or an empty one in its place",
    "all-occurrences-of-one-term": "whether all its places were used or none",
}

FALSE_ALARM_RATES = (0.1, 0.01, 0.001)
"""Rates of wrong accusations for which the bound is spelled out."""


def printable(text: str, limit: int = 4000) -> str:
    r"""Returns text that can't steer a terminal: controls, bidi marks and so on are spelled out.

    Args:
        text: Anybody's text.
        limit: Longest answer; the rest is cut.

    Example:
        >>> printable("safe" + chr(0x202E) + "evas" + chr(27) + "[2J")
        'safe\\u202eevas\\x1b[2J'
    """
    safe = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text[:limit]
    )
    return safe if len(text) <= limit else safe + "..."


def hit_rate_bound(epsilon: float, delta: float, false_alarm_rate: float) -> float:
    """Returns how many members any test can find at most, as a share of them.

    (epsilon, delta)-DP bounds every test that tells from the model whether a record was used
    (Wasserman, Zhou 2010, theorem 2.4; Kairouz, Oh, Viswanath 2015, theorem 2.1).

    Args:
        epsilon: Of the guarantee.
        delta: Of the guarantee.
        false_alarm_rate: How often the test accuses a record that was not used.

    Example:
        >>> round(hit_rate_bound(1.0, 1e-5, 0.01), 4), round(hit_rate_bound(8.0, 1e-5, 0.01), 4)
        (0.0272, 0.9997)
    """
    few = math.exp(min(epsilon, 700.0)) * false_alarm_rate + delta
    many = 1 - math.exp(-epsilon) * (1 - delta - false_alarm_rate)
    return max(0.0, min(1.0, few, many))


def odds(epsilon: float) -> str:
    """Returns e^epsilon in words, rounded upwards: the factor by which probabilities can change.

    Example:
        >>> odds(8), odds(0.5), odds(50)
        ('2,981', '1.65', 'more than ten million million')
    """
    if epsilon > 30:
        return "more than ten million million"
    factor = math.exp(epsilon)
    if factor >= 100:
        return f"{math.ceil(factor):,}"
    return f"{math.ceil(factor * 100) / 100:g}"


def promise(guarantee: Guarantee) -> str:
    """Returns one guarantee in one or two plain sentences."""
    who = ADVERSARY_WORDS[guarantee.adversary]
    unit = UNIT_WORDS[guarantee.unit]
    if guarantee.kind == "none":
        return (
            f"No privacy is promised to any {unit} against {who}: "
            f"{printable(guarantee.reason or 'no reason is given')}"
        )
    if guarantee.kind == "empirical":
        return (
            f"Nothing is proven about any {unit} against {who}. Attacks were measured, and their "
            "result rests on a model of the attacker; a better attack may do better."
        )
    words = (
        f"To every single {unit}, against {who}: {ADJACENCY_WORDS[guarantee.adjacency]}, the "
        f"probability of anything they can see changes by at most the factor "
        f"{odds(guarantee.epsilon or 0.0)} plus {guarantee.delta:g} (epsilon "
        f"{guarantee.epsilon:g}, delta {guarantee.delta:g})."
    )
    if guarantee.kind == "dp-conditional":
        words += f" This holds only if: {printable(guarantee.condition or '')}"
    return words


def meaning(guarantee: Guarantee) -> tuple[str, ...]:
    """Returns what the numbers of a guarantee exclude, one sentence for each rate of mistakes."""
    if guarantee.epsilon is None or guarantee.delta is None or guarantee.kind == "empirical":
        return ()
    unit = UNIT_WORDS[guarantee.unit]
    sentences = []
    for rate in FALSE_ALARM_RATES:
        bound = hit_rate_bound(guarantee.epsilon, guarantee.delta, rate)
        sentences.append(
            f"An attacker who wrongly accuses at most 1 in {round(1 / rate):,} unused {unit}s "
            f"recognises at most {percent(bound)} of the used ones"
            + (": these numbers alone rule out next to nothing here." if bound > 0.95 else ".")
        )
    return tuple(sentences)


def not_promised(claim: Claim) -> tuple[str, ...]:
    """Returns what the claim does not promise, each in plain words; the gravest first."""
    found = [f"{promise(guarantee)}" for guarantee in claim.guarantees if guarantee.kind == "none"]
    promised = [item for item in claim.guarantees if item.kind in ("dp", "dp-conditional")]
    for guarantee in promised:
        found += [*_gaps(guarantee), *_large_delta(guarantee, claim)]
    units = {item.unit: None for item in promised}
    found += [f"Unit {unit}: {UNIT_LIMITS[unit]}" for unit in units]
    silent = [words for name, words in ADVERSARY_WORDS.items() if not is_covered(name, claim)]
    if silent:
        found.append(f"Nothing is promised without condition against: {'; '.join(silent)}.")
    found += [
        f"{printable(access.purpose)} read {printable(access.data)} and is in no promise."
        for access in claim.data_accesses
        if access.treatment == "unaccounted"
    ]
    found += [
        f"{printable(data.name)} was used without a promise; its overlap with protected data is "
        f"{data.overlap_with_protected}."
        for data in claim.public_data
        if data.overlap_with_protected != "none"
    ]
    found.append(
        "What the data say about everyone, such as the usual layout of an invoice, is meant to be "
        "learned and is not protected. Documents that you hand to the model are not covered."
    )
    return tuple(dict.fromkeys(found))


def mechanism_words(event: Mechanism) -> str:
    """Returns what a mechanism does, in plain words."""
    match event:
        case mechanism.Gaussian():
            return f"Gaussian noise of {event.noise_multiplier:g} times the clipping norm"
        case mechanism.PoissonSampled():
            how = f"each unit drawn with probability {event.sampling_rate:.6g}"
        case mechanism.WithoutReplacement():
            how = f"a batch of {event.sample_size:,} out of {event.population:,} units"
        case mechanism.ClusterSampled():
            how = f"each client taking part with probability {event.sampling_rate:.6g}, publicly"
        case mechanism.Grouped():
            how = f"for a unit of up to {event.size:,} records"
        case mechanism.Composed():
            return f"{event.count:,} times: {mechanism_words(event.event)}"
        case mechanism.RepeatAndSelect():
            how = (
                f"about {event.expected_runs:g} runs ({event.distribution}), the best of which is "
                "released"
            )
        case mechanism.HashFill():
            return (
                f"missing rows of a table of {event.rows:,} x {event.columns} filled with made-up "
                "weights"
            )
        case mechanism.Sequence() | mechanism.Parallel():
            joint = "; then " if isinstance(event, mechanism.Sequence) else "; on other units "
            shown = joint.join(mechanism_words(part) for part in event.events[:8])
            return shown + (f"; and {len(event.events) - 8} more" if len(event.events) > 8 else "")
    return f"{how}, then {mechanism_words(event.event)}"


def explain(claim: Claim) -> str:
    """Returns the claim in plain words: kind none first, then promises, then limits."""
    none = [item for item in claim.guarantees if item.kind == "none"]
    other = [item for item in claim.guarantees if item.kind != "none"]
    lines: list[str] = []
    if none:
        lines += ["NO PROMISE", *(f"  - {promise(item)}" for item in none), ""]
    if other:
        lines.append("WHAT IS PROMISED")
        for item in other:
            lines += [f"  - {promise(item)}", *(f"      {words}" for words in meaning(item))]
            lines.append(f"      One unit is: {printable(item.unit_definition)}")
            lines += [f"      It assumes: {printable(words)}" for words in item.assumes]
        lines.append("")
    lines += ["WHAT IS NOT PROMISED", *(f"  - {words}" for words in not_promised(claim)), ""]
    if claim.caveats:
        lines += ["CAVEATS OF THE ISSUER", *(f"  - {printable(words)}" for words in claim.caveats)]
    return "\n".join(lines).rstrip() + "\n"


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


def percent(share: float) -> str:
    """Returns a share in percent, rounded upwards, because it is a bound."""
    digits = 1 if 0.01 <= share <= 0.99 else 3
    scale = 10**digits
    return f"{math.ceil(share * 100 * scale - 1e-9) / scale:g} %"


def is_covered(adversary: str, claim: Claim) -> bool:
    """Returns whether differential privacy is promised against that adversary.

    Whoever only asks the model questions sees what can be computed from the model, so a promise
    against its recipient holds against them as well (post-processing).
    """
    promised = {item.adversary for item in claim.guarantees if item.kind == "dp"}
    return adversary in promised or (adversary == "api-user" and "model-recipient" in promised)
