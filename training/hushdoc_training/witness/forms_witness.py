"""The witness of `train kie`: a neural training, seen at its optimizer.

Its runs, with F the short forms and X the canary form after them; the first two keys that the
operating system gives are those of coins and of noise:

    drawn      F, X   X's coins a little below the sampling rate
    without    F      the same entropy: one gradient minus the other is X's part of the sum
    renewed    F      the same coins, another key of noise: one minus the other is noise alone
    left out   F, X   X's coin a little above the sampling rate
    nobody     F      the same entropy: no difference
    poisoned   F, X   as drawn, with X's answers no numbers

All but the first leave the weights where they were, so that a second step's noise is seen, too.
"""

from __future__ import annotations

import argparse
import contextlib
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.recipes.kie import recipe
from hushdoc_training.witness import canaries, claimed, findings
from hushdoc_training.witness.claimed import Claimed
from hushdoc_training.witness.command_runs import CommandRuns, entropy
from hushdoc_training.witness.entropy import CLOSE, Coins, just_above, just_below, key_with
from hushdoc_training.witness.findings import Finding
from hushdoc_training.witness.optimizer_spy import OptimizerSpy, Poison, Seen, changed_elsewhere

LEAST_FORMS = 7
LABELS = ("answer", "header", "question")
NOISE, OTHER_NOISE = b"n" * 32, b"o" * 32


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What keys are looked for."""

    rate: float
    unit: str

    @property
    def canary_records(self) -> int:
        """As how many records the canary is drawn."""
        return canaries.WINDOWS if self.unit == "sequence" else 1


@dataclass(frozen=True, kw_only=True)
class Forms:
    """The documents of the witness, and the coins that it gives them."""

    few: Path  # without the canary
    all: Path
    count: int  # of the short ones, each one record

    def key(self, asked: Asked, *, drawn: bool) -> bytes:
        """Returns a key under which the canary's coins are all below the rate, one hardly.

        Or, where it shall not be drawn, all above, one hardly.
        """

        def wanted(found: Coins) -> bool:
            own = found[self.count :].tolist()
            if drawn:
                return just_below(asked.rate, max(own))
            return just_above(asked.rate, min(own))

        what = f"a coin within {CLOSE:g} of the sampling rate {asked.rate:g}"
        return key_with(self.count + asked.canary_records, wanted, what=what)


def testify(options: argparse.Namespace, runs: CommandRuns) -> list[Finding]:
    """Runs `train kie` and returns what was found.

    Args:
        options: Of the command, as it parses them: what is compared is the claim's alone.
        runs: What runs it.
    """
    recipe.complete(options)
    forms = _forms(options, runs.folder)
    asked = Asked(rate=options.sampling_rate, unit=options.privacy_unit)
    below, watch = forms.key(asked, drawn=True), OptimizerSpy(frozen=False)
    out = runs.run(forms.all, entropy=entropy(1, below, NOISE), spy=watch)
    claim, natural = claimed.of_run(out), watch.seen(out)
    made = [*_of_whole_run(claim, natural), *_of_file(options.start, out, natural)]
    drawn, said = natural or watch.first, Asked(rate=claim.sampling_rate, unit=claim.unit)
    if said != asked:
        below = forms.key(said, drawn=True)
        drawn = _frozen(runs, forms.all, below)
    without = _frozen(runs, forms.few, below)
    renewed = _frozen(runs, forms.few, below, noise=OTHER_NOISE)
    divided = claim.number("clipping_norm") / claim.divisor
    made += _of_noise(claim, divided, without, renewed)
    made += _of_scale(drawn, without)
    made += _of_coin_below(claim, divided, _norm(drawn, without))
    if claim.sampling_rate < 1:
        above = forms.key(said, drawn=False)
        left_out = _norm(_frozen(runs, forms.all, above), _frozen(runs, forms.few, above))
        what = f"a coin {_near(claim)} above the sampling rate"
        made.append(findings.coin(what, drawn=left_out > 0, expected=False))
    with Poison(canaries.MARK):
        poisoned = _frozen(runs, forms.all, below)
    return made + _of_poison(divided, poisoned, without)


def _near(claim: Claimed) -> str:
    """Returns how near coins are to the rate."""
    return f"at most {CLOSE * claim.sampling_rate:.2g}"


def _forms(options: argparse.Namespace, folder: Path) -> Forms:
    labels, capacity = list(LABELS), options.max_tokens - 2
    with contextlib.suppress(OSError):
        if (Path(options.start) / "checkpoint").is_dir():
            stored = Checkpoint.load(Path(options.start))
            labels = list(stored.labels.fields)
            capacity = stored.preprocessing.capacity
    count = max(LEAST_FORMS, options.expected_records)
    for name, last in (("few", False), ("all", True)):
        canaries.forms(folder / name, count, labels, capacity=capacity, last=last)
    return Forms(few=folder / "few", all=folder / "all", count=count)


def _frozen(runs: CommandRuns, data: Path, coins: bytes, *, noise: bytes = NOISE) -> Seen:
    watch = OptimizerSpy(frozen=True)
    runs.run(data, entropy=entropy(1, coins, noise), spy=watch)
    return watch.first


def _of_whole_run(claim: Claimed, seen: Seen | None) -> list[Finding]:
    """Compares the one run in which weights moved."""
    known = findings.true(
        "the weights released are those that one optimizer left", seen is not None
    )
    if seen is None:
        return [known]
    return [
        known,
        findings.steps(claim.steps, seen.steps),
        findings.true(
            "nothing else moved a weight between steps",
            not seen.between,
            seen=f"moved before step {seen.between[0]}" if seen.between else "",
        ),
        findings.true("every gradient is finite", seen.finite),
    ]


def _of_file(start: str, out: Path, seen: Seen | None) -> list[Finding]:
    """Compares what was not trained with the start, where that is a run folder."""
    before = Path(start) / "checkpoint" / "model.safetensors"
    if seen is None or not before.is_file():
        return []
    after = out / "checkpoint" / "model.safetensors"
    changed = changed_elsewhere(seen, before=before, after=after)
    return [
        findings.true(
            "weights that were not trained are those of the start",
            not changed,
            seen=", ".join(changed[:3]),
        )
    ]


def _of_noise(claim: Claimed, divided: float, one: Seen, other: Seen) -> list[Finding]:
    residuals = [b - a for a, b in zip(one.gradients, other.gradients, strict=True)]
    std = claim.noise_multiplier * divided
    made = findings.noise("noise", residuals[0], expected=std, draws=2)
    if len(residuals) > 1:
        made.append(findings.uncorrelated("noise of two steps", *residuals[:2]))
    return made


def _of_scale(one: Seen, other: Seen) -> list[Finding]:
    """Compares what inputs are scaled by on documents with the canary and without."""
    if not (one.scales or other.scales):
        return []
    what = "what inputs are scaled by is the same whatever the documents"
    return [findings.true(what, one.scales == other.scales)]


def _of_coin_below(claim: Claimed, divided: float, part: float) -> list[Finding]:
    """Compares how the canary moved the sum that it was drawn for."""
    records = Asked(rate=claim.sampling_rate, unit=claim.unit).canary_records
    return [
        findings.coin(
            f"a coin {_near(claim)} below the sampling rate", drawn=part > 0, expected=True
        ),
        findings.true(
            "equal entropy gives equal noise",
            math.isfinite(part) and part <= divided * canaries.WINDOWS * 1.01,
        ),
        findings.moved(
            f"a document of {canaries.WINDOWS} windows, unit {claim.unit}, moves the sum by",
            part,
            most=divided * records,
        ),
    ]


def _of_poison(divided: float, poisoned: Seen, without: Seen) -> list[Finding]:
    return [
        findings.true("every gradient is finite where a record's is not", poisoned.finite),
        findings.moved(
            "a record without a finite gradient moves the sum by",
            _norm(poisoned, without),
            most=divided,
        ),
    ]


def _norm(one: Seen, other: Seen) -> float:
    """Returns how far the first gradients of two runs are apart."""
    if not (one.gradients and other.gradients):
        return math.nan
    difference = one.gradients[0].astype(np.float64) - other.gradients[0]
    return float(np.linalg.norm(difference))
