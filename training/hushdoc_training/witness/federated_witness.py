"""The witness of `federated simulate`: what several clients train, seen where gradients have noise.

The runs are those of `forms_witness`. The first keys that the operating system gives are those of
the clients' coins, in their order, each followed by its key of noise where a client trains on its
own; all others, noise among them, follow from a seed, which is what changes where noise is renewed.
The canary is the last record of one client, whose coin is chosen.

    feam-dp      at the server's optimizer. Masks cancel in the sum, and what noise is in it is all
                 clients' together
    fedavg-dp    at the optimizer of the canary's client, which has noise of its own. What others do
                 must not depend on the canary, and nobody may have another's noise
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from hushdoc_training.federated.plan import FEDAVG_DP
from hushdoc_training.witness import claimed, findings
from hushdoc_training.witness.claimed import Claimed
from hushdoc_training.witness.command_runs import CommandRuns
from hushdoc_training.witness.federation import NOISE, OTHER_NOISE, Federation, overhead
from hushdoc_training.witness.findings import Finding
from hushdoc_training.witness.forms_witness import (
    FORM,
    IN_BOX,
    Asked,
    Forms,
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
from hushdoc_training.witness.whitening_spy import WhiteningSpy, close

ROUNDED = 1e-6
"""How far rounding to the grid may move a number of a mean."""


def testify(options: argparse.Namespace, runs: CommandRuns) -> list[Finding]:
    """Runs `federated simulate` by feam-dp or fedavg-dp and returns what was found."""
    before = weights_in(Path(options.start))
    return witnessed(options, runs, forms_for(options, runs.folder), before=before)


def witnessed(
    options: argparse.Namespace,
    runs: CommandRuns,
    forms: Forms,
    *,
    before: Mapping[str, torch.Tensor],
    canary: str = FORM,
) -> list[Finding]:
    """Returns what was found of clients that train on some documents; see `forms_witness`."""
    alone = options.algorithm == FEDAVG_DP
    clients = Federation.of(options, forms, keys=2 if alone else 1)
    few, whole = clients.forms.few, clients.forms.all
    own = clients.client if alone else 0

    def frozen(data: Path, coins: bytes, seed: int = NOISE) -> Sequence[Seen]:
        watch = OptimizerSpy(frozen=True)
        runs.run(data, entropy=clients.entropy(coins, seed), spy=watch)
        return watch.every

    asked = Asked(rate=options.sampling_rate, unit=options.privacy_unit)
    below, watch = clients.coins(asked, drawn=True), OptimizerSpy(frozen=False)
    out = runs.run(whole, entropy=clients.entropy(below, NOISE), spy=watch)
    claim = claimed.of_run(out)
    made = _of_whole_run(claim, watch, before, weights_in(out))
    drawn, without = frozen(whole, below), frozen(few, below)
    renewed = frozen(few, below, OTHER_NOISE)
    divided = claim.number("clipping_norm") / claim.divisor
    more = 1.0 if alone else overhead(claim)
    made += of_noise(claim, divided * more, without[own], renewed[own])
    made += _of_others(own, drawn, without, renewed)
    made += of_preparation(drawn[own], without[own])
    made += of_coin_below(claim, divided, norm(drawn[own], without[own]), canary=canary)
    if claim.sampling_rate < 1:
        above = clients.coins(asked, drawn=False)
        left_out = norm(frozen(whole, above)[own], frozen(few, above)[own])
        what = f"a coin {near(claim)} above the sampling rate"
        made.append(findings.coin(what, drawn=left_out > 0, expected=False))
    with Poison(IN_BOX):
        poisoned = frozen(whole, below)[own]
    made += of_second_step(claim, divided, drawn[own], poisoned)
    return made + of_poison(divided, poisoned, without[own])


def _of_whole_run(
    claim: Claimed,
    watch: OptimizerSpy,
    before: Mapping[str, torch.Tensor],
    after: Mapping[str, torch.Tensor],
) -> list[Finding]:
    """Compares the one run in which weights moved."""
    rows = torch.stack([torch.cat([one.cpu().ravel() for one in left]) for left in watch.left])
    left = released(rows.mean(0), watch.whitened, before, after)
    return [
        findings.true("what moved is what optimizers left, or their mean", left),
        *(findings.steps(claim.steps, seen.steps) for seen in watch.every),
        findings.true("every gradient is finite", all(seen.finite for seen in watch.every)),
    ]


def released(
    row: torch.Tensor,
    whitened: WhiteningSpy,
    before: Mapping[str, torch.Tensor],
    after: Mapping[str, torch.Tensor],
) -> bool:
    """Returns whether what moved in a file stands in a row of numbers, or is made of them.

    Where nothing is known of what there was before, whether all that is in the row is in the file.
    """
    made, most = whitened.made_of(row), ROUNDED * whitened.stretch

    def left(tensor: torch.Tensor) -> bool:
        return _holds(row, tensor) or any(close(tensor, one, most) for one in made)

    if before:
        return all(left(after[name]) for name in changed_tensors(before=before, after=after))
    numbers = sum(one.numel() for one in made[:2]) or len(row)
    return sum(one.numel() for one in after.values() if left(one)) >= numbers


def _of_others(
    own: int, drawn: Sequence[Seen], without: Sequence[Seen], renewed: Sequence[Seen]
) -> list[Finding]:
    """Compares what clients without the canary do, where each has an optimizer."""
    made = []
    for other in (number for number in range(len(without)) if number != own):
        moved = norm(drawn[other], without[other])
        made += [
            findings.moved("a document of another client moves a client's sum by", moved, most=0.0),
            findings.uncorrelated(
                "noise of two clients",
                *(renewed[at].gradients[0] - without[at].gradients[0] for at in (own, other)),
            ),
        ]
    return made


def _holds(row: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Whether a tensor's numbers stand in a row of all, one after the other."""
    wanted = tensor.float().ravel()
    near_first = (row[: len(row) - len(wanted) + 1] - wanted[0]).abs() <= ROUNDED
    starts = torch.nonzero(near_first).ravel().tolist()
    parts = (row[at : at + len(wanted)] for at in starts)
    return any(torch.allclose(part, wanted, rtol=0.0, atol=ROUNDED) for part in parts)
