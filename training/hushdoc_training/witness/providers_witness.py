"""The witness of FL-PROVIDER-DP: what providers move, seen in the weights of the last round.

Sums are added to the weights as they are, by the server or by central training. So local training
is watched, and lets the canary's provider alone move anything. Then the released weights are those
of the start, the noise of all rounds, and what the canary moved in the first, which it alone is
drawn for. The runs are those of `forms_witness`; each other document has a provider of its own.
"""

from __future__ import annotations

import argparse
import math
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from hushdoc.errors import InputError
from hushdoc_training.witness import canaries, claimed, findings, named_weights
from hushdoc_training.witness.claimed import Claimed
from hushdoc_training.witness.command_runs import CommandRuns
from hushdoc_training.witness.federation import NOISE, OTHER_NOISE, Alone, Federation, overhead
from hushdoc_training.witness.findings import Finding
from hushdoc_training.witness.forms_witness import (
    FORM,
    IN_BOX,
    Asked,
    forms_for,
    near,
    of_coin_below,
    weights_in,
)
from hushdoc_training.witness.local_spy import LocalSpy
from hushdoc_training.witness.optimizer_spy import Poison, changed_tensors

Weights = dict[str, torch.Tensor]


def providers(options: argparse.Namespace, runs: CommandRuns) -> list[Finding]:
    """Runs `federated simulate --algorithm fl-provider-dp` and returns what was found."""
    return changes(options, runs, Federation.of(options, forms_for(options, runs.folder)))


def changes(
    options: argparse.Namespace,
    runs: CommandRuns,
    parties: Federation | Alone,
    *,
    canary: str = FORM,
) -> list[Finding]:
    """Runs a command that steps by what local training moves, and returns what was found.

    Raises:
        InputError: What is released is not what is summed, but was multiplied by something.
    """
    if options.trained.startswith("lora"):
        raise InputError(
            f"--trained {options.trained} is merged into other weights, in which the witness can't "
            "tell providers' parts. Witness the command with another part trained."
        )
    few, whole = parties.forms.few, parties.forms.all

    def run(data: Path, coins: bytes, seed: int = NOISE, *, poisoned: bool = False) -> Path:
        with Poison(IN_BOX) if poisoned else nullcontext():
            return runs.run(data, entropy=parties.entropy(coins, seed), spy=LocalSpy(canaries.MARK))

    asked = Asked(rate=options.sampling_rate, unit="provider")
    below = parties.coins(asked, drawn=True)
    out = run(whole, below)
    claim, drawn, without = claimed.of_run(out), weights_in(out), weights_in(run(few, below))
    renewed = weights_in(run(few, below, OTHER_NOISE))
    divided = claim.number("clipping_norm") / claim.divisor
    times = 1 if claim.sampling_rate < 1 else claim.steps
    made = _of_noise(claim, divided, without, renewed)
    made += _of_file(claim, weights_in(Path(options.start or "")), drawn, without, renewed)
    made += of_coin_below(claim, divided * times, _norm(drawn, without), canary=canary)
    if claim.sampling_rate < 1:
        above = parties.coins(asked, drawn=False)
        left_out = _norm(weights_in(run(whole, above)), weights_in(run(few, above)))
        what = f"a coin {near(claim)} above the sampling rate"
        made.append(findings.coin(what, drawn=left_out > 0, expected=False))
    spoiled = weights_in(run(whole, below, poisoned=True))
    finite = all(bool(torch.isfinite(one).all()) for one in spoiled.values())
    part = _norm(spoiled, without)
    return [
        *made,
        findings.true("every number is finite where a provider's change is not", finite),
        findings.moved("a provider without a finite change moves the sum by", part, most=divided),
    ]


def _of_noise(claim: Claimed, divided: float, one: Weights, other: Weights) -> list[Finding]:
    """Compares what another key of noise changes in all rounds together."""
    std = claim.noise_multiplier * divided * overhead(claim) * math.sqrt(claim.steps)
    names = changed_tensors(before=one, after=other)
    what = f"noise of {claim.steps} rounds"
    return findings.noise(what, _difference(one, other, names), expected=std, draws=2)


def _of_file(
    claim: Claimed, before: Weights, drawn: Weights, without: Weights, renewed: Weights
) -> list[Finding]:
    """Compares which tensors are released otherwise than they were."""
    noised = changed_tensors(before=without, after=renewed)
    moved = {*changed_tensors(before=without, after=drawn)}
    if before:
        moved |= {*changed_tensors(before=before, after=drawn)}
    bare = sorted(moved - {*noised})
    trained = str(claim.settings["trained"])
    unnamed = named_weights.unnamed(trained, sorted(moved), drawn)
    return [
        findings.true("all that moved has noise", not bare, seen=", ".join(bare[:3])),
        findings.true(
            f"what moved is what '{trained}' names", not unnamed, seen=", ".join(unnamed[:3])
        ),
    ]


def _norm(one: Weights, other: Weights) -> float:
    """Returns how far the weights of two runs are apart."""
    return float(np.linalg.norm(_difference(one, other, sorted(one))))


def _difference(one: Weights, other: Weights, names: list[str]) -> npt.NDArray[np.float64]:
    found = [(other[name].double() - one[name].double()).ravel().numpy() for name in names]
    return np.concatenate(found) if found else np.zeros(1)
