"""The witness of `federated simulate`: sums of several clients, seen where the server steps.

The runs are those of `forms_witness`. The first keys that the operating system gives are those of
the clients' coins, in their order; all others, noise among them, follow from a seed, which is what
changes where noise is renewed. The canary is the last record of one client, whose coin is chosen.
Masks cancel in the sum, and what noise is in it is all clients' together.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from hushdoc_training import duplicates
from hushdoc_training.data import dataset
from hushdoc_training.federated import partition
from hushdoc_training.witness import canaries, claimed, findings
from hushdoc_training.witness.claimed import Claimed
from hushdoc_training.witness.command_runs import CommandRuns
from hushdoc_training.witness.entropy import Entropy
from hushdoc_training.witness.findings import Finding
from hushdoc_training.witness.forms_witness import (
    Asked,
    forms_for,
    near,
    norm,
    of_coin_below,
    of_noise,
    of_poison,
    of_preparation,
    of_second_step,
    weights_in,
)
from hushdoc_training.witness.optimizer_spy import OptimizerSpy, Poison, Seen, changed_tensors

NOISE, OTHER_NOISE = 1, 2


def testify(options: argparse.Namespace, runs: CommandRuns) -> list[Finding]:
    """Runs `federated simulate --algorithm feam-dp` and returns what was found."""
    forms = forms_for(options, runs.folder)
    client, before = _canary(options, forms.all)
    own = replace(forms, count=before)

    def entropy(coins: bytes, seed: int) -> Callable[[int], bytes]:
        fixed = {number: _filler(number) for number in range(options.clients)}
        return Entropy(seed, {**fixed, client: coins})

    def frozen(data: Path, coins: bytes, seed: int = NOISE) -> Seen:
        watch = OptimizerSpy(frozen=True)
        runs.run(data, entropy=entropy(coins, seed), spy=watch)
        return watch.first

    asked = Asked(rate=options.sampling_rate, unit=options.privacy_unit)
    below, watch = own.key(asked, drawn=True), OptimizerSpy(frozen=False)
    out = runs.run(forms.all, entropy=entropy(below, NOISE), spy=watch)
    claim = claimed.of_run(out)
    made = _of_whole_run(claim, watch, weights_in(Path(options.start)), weights_in(out))
    drawn, without = frozen(forms.all, below), frozen(forms.few, below)
    divided = claim.number("clipping_norm") / claim.divisor
    renewed = frozen(forms.few, below, OTHER_NOISE)
    made += of_noise(claim, divided * _overhead(claim), without, renewed)
    made += of_preparation(drawn, without)
    made += of_coin_below(claim, divided, norm(drawn, without))
    if claim.sampling_rate < 1:
        above = own.key(asked, drawn=False)
        left_out = norm(frozen(forms.all, above), frozen(forms.few, above))
        what = f"a coin {near(claim)} above the sampling rate"
        made.append(findings.coin(what, drawn=left_out > 0, expected=False))
    with Poison(canaries.MARK):
        poisoned = frozen(forms.all, below)
    made += of_second_step(claim, divided, drawn, poisoned)
    return made + of_poison(divided, poisoned, without)


def _canary(options: argparse.Namespace, folder: Path) -> tuple[int, int]:
    """Returns which client has the canary, and how many documents it has before it."""
    documents = dataset.read(
        dataset.Source(location=str(folder), documents=None, seed=options.seed)
    )
    words = [
        [word.text for page in labelled.document.pages for word in page.words]
        for labelled in documents
    ]
    held = partition.apart(
        [duplicates.key_of(duplicates.words_of(texts)) for texts in words],
        [[1.0] * options.clients] * len(documents),
        seed=options.seed,
    )
    last = len(documents) - 1
    (client,) = [number for number, share in enumerate(held) if last in share]
    return client, len(held[client]) - 1


def _filler(number: int) -> bytes:
    return hashlib.sha256(f"coins of client {number}".encode()).digest()


def _overhead(claim: Claimed) -> float:
    """Returns how much more noise a sum has, where all clients take part, than is counted on."""
    run = claim.settings["federated"]
    counted = run["perRound"] - run["silent"] - run["colluding"]
    return math.sqrt(run["perRound"] / counted)


def _of_whole_run(
    claim: Claimed,
    watch: OptimizerSpy,
    before: Mapping[str, torch.Tensor],
    after: Mapping[str, torch.Tensor],
) -> list[Finding]:
    """Compares the one run in which weights moved."""
    row = torch.cat([one.cpu().ravel() for one in watch.left])
    changed = [after[name] for name in changed_tensors(before=before, after=after)]
    # With a start that is no checkpoint nothing is known of what was there before.
    released = not before or all(_holds(row, tensor) for tensor in changed)
    return [
        findings.true("what moved is what the server's steps left", released),
        findings.steps(claim.steps, watch.first.steps),
        findings.true("every sum is finite", watch.first.finite),
    ]


def _holds(row: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Whether a tensor's numbers stand in a row of all, one after the other."""
    wanted = tensor.float().ravel()
    starts = torch.nonzero(row[: len(row) - len(wanted) + 1] == wanted[0]).ravel().tolist()
    return any(torch.equal(row[at : at + len(wanted)], wanted) for at in starts)
