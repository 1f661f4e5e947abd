"""The witness of `train kie`: a neural training, seen at its optimizer.

Its runs, with F the short forms and X the canary form after them; the first two keys that the
operating system gives are those of coins and of noise:

    whole      F, X   X's coins a little below the sampling rate, and above it in the second step
    drawn      F, X   the same
    without    F      the same entropy: one gradient minus the other is X's part of the sum
    renewed    F      the same coins, another key of noise: one minus the other is noise alone
    left out   F, X   X's coin a little above the sampling rate
    nobody     F      the same entropy: no difference
    poisoned   F, X   as drawn, with X's answers no numbers: nothing of X is in the first step, so
                      what differs in the second is what an optimizer, or sums, keep of X

All but the first leave the weights where they were, so that a second step's noise is seen, too.
What moved in the first is held against the parameters that the claim names.
"""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from hushdoc.errors import InputError
from hushdoc.labels import LabelSet
from hushdoc.runtime.encoding import Preprocessing
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.recipes.kie import recipe
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.witness import canaries, claimed, findings, named_weights
from hushdoc_training.witness.claimed import Claimed
from hushdoc_training.witness.command_runs import CommandRuns, entropy
from hushdoc_training.witness.entropy import CLOSE, Coins, just_above, just_below, key_with
from hushdoc_training.witness.findings import Finding
from hushdoc_training.witness.optimizer_spy import (
    KEPT_STEPS,
    Marked,
    OptimizerSpy,
    Poison,
    Seen,
    changed_elsewhere,
    changed_tensors,
    tensors_of_file,
    with_box,
)

LEAST_FORMS = 7
LABELS = ("answer", "header", "question")
IN_BOX = with_box(canaries.MARK)
NOISE, OTHER_NOISE = b"n" * 32, b"o" * 32
FORM = f"a document of {canaries.WINDOWS} windows"


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

        Or, where it shall not be drawn, all above, one hardly. Where not all are drawn always,
        those of a second step are above.
        """
        records = self.count + asked.canary_records

        def wanted(found: Coins) -> bool:
            own = found[self.count : records].tolist()
            if not drawn:
                return just_above(asked.rate, min(own))
            again = min(found[records + self.count :].tolist())
            return just_below(asked.rate, max(own)) and (asked.rate >= 1 or again > asked.rate)

        what = f"a coin within {CLOSE:g} of the sampling rate {asked.rate:g}"
        return key_with(2 * records, wanted, what=what)


def testify(options: argparse.Namespace, runs: CommandRuns) -> list[Finding]:
    """Runs `train kie` and returns what was found; what is compared is the claim's alone."""
    recipe.complete(options)
    if options.dropout:
        raise InputError(
            f"--dropout is {options.dropout:g}: of the same random numbers, others are drawn for a "
            "document where one more is there. The guarantee allows that, since masks are "
            "independent, but the witness can't tell it from a leak. Leave it out."
        )
    asked = Asked(rate=options.sampling_rate, unit=options.privacy_unit)
    reads_boxes = _preprocessing(options).box_level != "none"
    return witnessed(
        runs,
        forms_for(options, runs.folder),
        asked,
        before=weights_in(Path(options.start)),
        marked=IN_BOX if reads_boxes else canaries.begins_alike,
    )


def _preprocessing(options: argparse.Namespace) -> Preprocessing:
    """Returns how the start of `train kie` reads pages."""
    if kie_start.is_checkpoint(options.start):
        return Checkpoint.load(Path(options.start)).preprocessing
    return kie_start.start_from(
        options.start,
        LabelSet(fields=LABELS),
        max_tokens=options.max_tokens,
        box_level=options.box_level,
        word_order=options.word_order,
    ).preprocessing


def witnessed(
    runs: CommandRuns,
    forms: Forms,
    asked: Asked,
    *,
    before: Mapping[str, torch.Tensor],
    canary: str = FORM,
    marked: Marked | None = IN_BOX,
) -> list[Finding]:
    """Returns what was found of a neural training, from a start whose tensors were `before`.

    There are none where that is no run of the same task; `marked` finds the canary's examples.
    """
    below, watch = forms.key(asked, drawn=True), OptimizerSpy(frozen=False)
    out = runs.run(forms.all, entropy=entropy(1, below, NOISE), spy=watch)
    claim, natural = claimed.of_run(out), watch.seen(out, before)
    made = [*_of_whole_run(claim, natural), *_of_file(claim, before, weights_in(out), natural)]
    said = Asked(rate=claim.sampling_rate, unit=claim.unit)
    if said != asked:
        below = forms.key(said, drawn=True)
    drawn = _frozen(runs, forms.all, below)
    without = _frozen(runs, forms.few, below)
    renewed = _frozen(runs, forms.few, below, noise=OTHER_NOISE)
    divided = claim.number("clipping_norm") / claim.divisor
    made += of_noise(claim, divided, without, renewed)
    made += of_preparation(drawn, without)
    made += of_coin_below(claim, divided, norm(drawn, without), canary=canary)
    if claim.sampling_rate < 1:
        above = forms.key(said, drawn=False)
        left_out = norm(_frozen(runs, forms.all, above), _frozen(runs, forms.few, above))
        what = f"a coin {near(claim)} above the sampling rate"
        made.append(findings.coin(what, drawn=left_out > 0, expected=False))
    if marked is None:
        return made
    with Poison(marked) as poison:
        poisoned = _frozen(runs, forms.all, below)
    if not poison.has_spoiled:
        return [*made, findings.true(f"{canary} is among what the model reads", False)]
    made += of_second_step(claim, divided, drawn, poisoned)
    return made + of_poison(divided, poisoned, without)


def near(claim: Claimed) -> str:
    """Returns how near coins are to the rate."""
    return f"at most {CLOSE * claim.sampling_rate:.2g}"


def forms_for(options: argparse.Namespace, folder: Path) -> Forms:
    """Writes the documents of both kinds of runs."""
    labels, capacity = list(LABELS), options.max_tokens - 2
    images = getattr(options, "images", False)
    with contextlib.suppress(OSError):
        if (Path(options.start) / "checkpoint").is_dir():
            stored = Checkpoint.load(Path(options.start))
            labels = list(stored.labels.fields)
            capacity = stored.preprocessing.capacity
            images = stored.preprocessing.image is not None
    count = max(LEAST_FORMS, options.expected_records)
    for name, last in (("few", False), ("all", True)):
        canaries.forms(folder / name, count, labels, capacity=capacity, last=last, images=images)
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


def weights_in(run: Path) -> dict[str, torch.Tensor]:
    """Returns the tensors of a run's checkpoint; none where a start is no run."""
    path = run / "checkpoint" / "model.safetensors"
    return tensors_of_file(path) if path.is_file() else {}


def _of_file(
    claim: Claimed,
    before: Mapping[str, torch.Tensor],
    after: Mapping[str, torch.Tensor],
    seen: Seen | None,
) -> list[Finding]:
    """Compares what moved with the start, where that is a run folder."""
    if seen is None or not before:
        return []
    elsewhere = changed_elsewhere(seen, before=before, after=after)
    trained = str(claim.settings["trained"])
    unnamed = named_weights.unnamed(trained, changed_tensors(before=before, after=after), after)
    unnamed += [name for name, rank in seen.merged.items() if trained != f"lora:{rank}"]
    return [
        findings.true(
            "weights that were not trained are those of the start",
            not elsewhere,
            seen=", ".join(elsewhere[:3]),
        ),
        findings.true(
            f"what moved is what '{trained}' names", not unnamed, seen=", ".join(unnamed[:3])
        ),
    ]


def of_noise(claim: Claimed, divided: float, one: Seen, other: Seen) -> list[Finding]:
    """Compares what other keys of noise change."""
    residuals = [b - a for a, b in zip(one.gradients, other.gradients, strict=True)]
    std = claim.noise_multiplier * divided
    made = findings.noise("noise", np.concatenate(residuals), expected=std, draws=2)
    if len(residuals) > 1:
        made.append(findings.uncorrelated("noise of two steps", *residuals[:2]))
    return made


def of_preparation(one: Seen, other: Seen) -> list[Finding]:
    """Compares what is there before a step on documents with the canary and without."""
    whatever = "is the same whatever the documents"
    made = [findings.true(f"what an optimizer begins with {whatever}", one.begun == other.begun)]
    if one.scales or other.scales:
        scaled = one.scales == other.scales
        made.append(findings.true(f"what inputs are scaled by {whatever}", scaled))
    return made


def of_coin_below(
    claim: Claimed,
    divided: float,
    part: float,
    *,
    canary: str = FORM,
) -> list[Finding]:
    """Compares how the canary moved the sum that it was drawn for."""
    records = Asked(rate=claim.sampling_rate, unit=claim.unit).canary_records
    return [
        findings.coin(
            f"a coin {near(claim)} below the sampling rate", drawn=part > 0, expected=True
        ),
        findings.true(
            "equal entropy gives equal noise",
            math.isfinite(part) and part <= divided * canaries.WINDOWS * 1.01,
        ),
        findings.moved(
            f"{canary}, unit {claim.unit}, moves the sum by",
            part,
            most=divided * records,
        ),
    ]


def of_poison(divided: float, poisoned: Seen, without: Seen) -> list[Finding]:
    """Compares what a canary without a finite gradient changes."""
    return [
        findings.true("every gradient is finite where a record's is not", poisoned.finite),
        findings.moved(
            "a record without a finite gradient moves the sum by",
            norm(poisoned, without),
            most=divided,
        ),
    ]


def of_second_step(claim: Claimed, divided: float, drawn: Seen, poisoned: Seen) -> list[Finding]:
    """Compares what the canary leaves to a step that, unless all are drawn, it is not in."""
    if min(len(drawn.gradients), len(poisoned.gradients)) < KEPT_STEPS:
        return []
    again = Asked(rate=claim.sampling_rate, unit=claim.unit).canary_records
    return [
        findings.moved(
            "a record of the first step moves the sum of the second by",
            norm(drawn, poisoned, step=1),
            most=divided * again if claim.sampling_rate >= 1 else 0.0,
        )
    ]


def norm(one: Seen, other: Seen, *, step: int = 0) -> float:
    """Returns how far the gradients of a step of two runs are apart."""
    if min(len(one.gradients), len(other.gradients)) <= step:
        return math.nan
    difference = one.gradients[step].astype(np.float64) - other.gradients[step]
    return float(np.linalg.norm(difference))
