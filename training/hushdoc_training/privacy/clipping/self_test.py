"""The start-up self-test: a clipper against single backward passes, losses against other losses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.clipper import Clipper
from hushdoc_training.privacy.clipping.contract import ClippedBatch
from hushdoc_training.privacy.clipping.one_by_one import OneByOne
from hushdoc_training.privacy.clipping.placement import Placement
from hushdoc_training.privacy.clipping.replayed_draws import Controlled, ReplayedDraws
from hushdoc_training.privacy.clipping.unwrapped_torch import uncompiled
from hushdoc_training.randomness.dropout_seeds import modes_restored

LossesOf = Callable[[Sequence[int]], torch.Tensor]
"""Returns the losses of some examples of a sample, in that order, from one forward pass."""

MOST_TOLERANCE = 0.1
"""What is off by more is not rounding."""

COMPARED = 6
"""Examples whose gradients are compared; all others of the sample share their forward passes."""

# What fp32 allows; a larger tolerance is granted where the computation is rounded further.
_EXACT = 1e-3
# Below this share of a record's norm a parameter's gradient is rounding: an attention's key bias.
_NEGLIGIBLE = 3e-6


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    """How far a clipper was from the truth, and which parameters got no gradient."""

    differences: tuple[tuple[str, str, float], ...]
    unused: frozenset[str]

    def require(self, tolerance: float) -> None:
        for what, layer, error in self.differences:
            if not error <= tolerance:
                raise PrivacyError(_difference(what, layer, error, tolerance))


@uncompiled()
def check(
    clipper: Clipper, losses_of: LossesOf, *, num_examples: int, tolerance: float = _EXACT
) -> frozenset[str]:
    """Refuses to train where the clipped gradients would not be those of single records.

    Dropout is off while it looks, and whatever else the model draws is drawn again for each pass.
    It leaves the clipper's sums at zero and releases nothing. `tolerance` is the largest relative
    difference of a norm or a clipped sum; 3e-2 is what bf16 allows, and is granted only where
    something is computed in bf16 that can't be computed in fp32 instead. Returns the parameters
    without a gradient from any example: noise would move them all the same.
    """
    if num_examples < 2:
        raise ValueError(f"The self-test got {num_examples} examples; it needs at least 2.")
    if not 0 < tolerance <= MOST_TOLERANCE:
        raise ValueError(
            f"tolerance is {tolerance}; expected more than 0 and at most {MOST_TOLERANCE}: what "
            "differs by more is not rounding."
        )
    clipper.clear()
    try:
        with modes_restored(clipper.model), ReplayedDraws() as replay:
            repeats, draws = _refuse_coupled_examples(
                clipper.model, losses_of, num_examples, tolerance, replay
            )
            if not repeats:
                clipper.model.eval()
            return _compare(clipper, losses_of, num_examples, tolerance, replay, draws=draws)
    finally:
        clipper.clear()


@uncompiled()
def check_drawing(
    clipper: Clipper, losses_of: LossesOf, *, num_examples: int, tolerance: float = _EXACT
) -> bool:
    """Holds a clipper to one-by-one gradients on losses that draw at random.

    All passes get the same draws, so it is seen whether the clipped gradients are those of single
    records, and so whether a gradient leads from a loss to other examples. Losses of the same
    example in other company can't be compared, for there it draws otherwise: that `check` does, on
    losses that draw nothing. Returns False where losses draw from a generator of their own, so
    nothing compares.
    """
    clipper.clear()
    try:
        with modes_restored(clipper.model), ReplayedDraws() as replay:
            with Controlled(precise=True), torch.no_grad():
                repeats, draws = _repeats(losses_of, num_examples, replay)
            if repeats:
                _compare(clipper, losses_of, num_examples, tolerance, replay, draws=draws)
            return repeats
    finally:
        clipper.clear()


def _refuse_coupled_examples(
    model: nn.Module,
    losses_of: LossesOf,
    num_examples: int,
    tolerance: float,
    replay: ReplayedDraws,
) -> tuple[bool, bool]:
    # Returns whether the same draws give the same losses in the mode that the model is in, and
    # whether anything is drawn although dropout is left out.
    with modes_restored(model), Controlled(precise=True) as controlled, torch.no_grad():
        repeats, draws = _repeats(losses_of, num_examples, replay)
        if draws or not repeats:
            model.eval()
            _refuse_unrepeatable(losses_of, num_examples)
        together, others = _in_company_and_alone(losses_of, num_examples)
        limit = tolerance if controlled.lowered else min(tolerance, _EXACT)
    typical = float(together.abs().mean())
    for example, company, loss in others:
        among = float(together[example])
        if not abs(among - loss) <= limit * max(abs(among), typical):
            raise PrivacyError(
                f"The loss of example {example} is {among:.6g} among {num_examples} examples and "
                f"{loss:.6g} {company}: it depends on other examples, so clipping one does not "
                "bound its influence. Give every example a loss of its own (no mean over the "
                "batch's tokens or over the length of its longest example, no negatives from the "
                "batch) and replace layers that look across the batch."
            )
    return repeats, draws


def _repeats(losses_of: LossesOf, num_examples: int, replay: ReplayedDraws) -> tuple[bool, bool]:
    # Whether the same draws give the same losses, and whether anything is drawn at all: two passes
    # with draws of their own may agree by replay.
    replay.rewind()
    first = losses_of(range(num_examples))
    draws = replay.drawn()
    replay.rewind()
    return torch.allclose(first, losses_of(range(num_examples)), rtol=1e-6, equal_nan=True), draws


def _refuse_unrepeatable(losses_of: LossesOf, num_examples: int) -> None:
    first, second = losses_of(range(num_examples)), losses_of(range(num_examples))
    if not torch.allclose(first, second, rtol=1e-6, equal_nan=True):
        raise PrivacyError(
            "The losses of the same examples differ from one forward pass to the next, even in "
            "evaluation mode, so nothing can be compared. Hand in losses whose draws are fixed, "
            "and that don't switch the model back to training."
        )


def _in_company_and_alone(
    losses_of: LossesOf, num_examples: int
) -> tuple[torch.Tensor, list[tuple[int, str, float]]]:
    # Every example among all, among all but one in another order, and by itself.
    together = losses_of(range(num_examples)).double()
    if together.shape != (num_examples,):
        raise _not_one_for_each(together, num_examples)
    if not bool(torch.isfinite(together).all()):
        raise PrivacyError(
            "An example of the self-test's sample has a loss that is not finite, so nothing can be "
            "compared. Look at the data and the model's start."
        )
    turned = list(range(num_examples - 1, 0, -1))
    found: list[tuple[int, str, float]] = []
    for order, company in [
        (turned, "among others"),
        *(([example], "alone") for example in range(num_examples)),
    ]:
        losses = losses_of(order)
        if losses.shape != (len(order),):
            raise _not_one_for_each(losses, len(order))
        found += [
            (example, company, loss) for example, loss in zip(order, losses.tolist(), strict=True)
        ]
    return together, found


def _not_one_for_each(losses: torch.Tensor, num_examples: int) -> PrivacyError:
    return PrivacyError(
        f"The losses of {num_examples} examples have shape {list(losses.shape)}; expected "
        f"[{num_examples}], one loss for every example, also where a draw is a single one. A mean "
        "over the batch couples records."
    )


def _compare(
    clipper: Clipper,
    losses_of: LossesOf,
    num_examples: int,
    tolerance: float,
    replay: ReplayedDraws,
    *,
    draws: bool,
) -> frozenset[str]:
    # Where dropout is inside of a function that the clipper opens, and the truth does not, it would
    # be left out for one of the two alone. So what draws draws all, the same for both.
    with Controlled(precise=False, dropout=draws) as controlled:
        found = _comparison(clipper, losses_of, num_examples, replay)
    found.require(tolerance)
    if controlled.autocast and tolerance > _EXACT:
        with Controlled(precise=True, dropout=draws) as controlled:
            precise = _comparison(clipper, losses_of, num_examples, replay)
        precise.require(tolerance if controlled.lowered else _EXACT)
    return found.unused


def _comparison(
    clipper: Clipper, losses_of: LossesOf, num_examples: int, replay: ReplayedDraws
) -> _Comparison:
    clipping = clipper.clipping
    truth = OneByOne(clipper.model, clipping_norm=clipping.norm, clipping=clipping.kind)
    differences: list[tuple[str, str, float]] = []
    used: set[str] = set()
    for order, records in _arrangements(min(num_examples, COMPARED)):
        losses = lambda order=order: losses_of(order)  # noqa: E731
        truth.clear()
        clipper.clear()
        replay.rewind()
        expected = truth.add(losses, records)
        replay.rewind()
        found = clipper.add(losses, records)
        differences.append(_of_squares(found, expected, truth.placement))
        differences.append(_of_sums(clipper.sums, truth.sums, truth.placement))
        used |= {name for name, square in expected.squares.items() if bool(square.any())}
    return _Comparison(
        differences=tuple(differences), unused=frozenset(expected.squares.keys() - used)
    )


def _arrangements(num_examples: int) -> Iterable[tuple[list[int], torch.Tensor]]:
    # Examples as they come, each a record; then one less and backwards, two of them one record, and
    # one padding where there are enough. What is wrong only where some length equals the number of
    # examples, or only out of order, is not wrong in both.
    order = list(range(num_examples))
    yield order, torch.arange(num_examples)
    turned = order[:0:-1] if num_examples > 2 else order[::-1]
    records = torch.arange(len(turned)) - 1
    records[0] = 0
    if len(turned) > 3:
        records[2] = -1
        records[3:] -= 1
    yield turned, records


def _of_squares(
    found: ClippedBatch, expected: ClippedBatch, placement: Placement
) -> tuple[str, str, float]:
    slack = _NEGLIGIBLE * expected.norms
    worst, layer = 0.0, ""
    for name, square in expected.squares.items():
        norms, others = square.sqrt(), found.squares[name].sqrt()
        error = float(((others - norms).abs() / (norms + slack).clamp(min=1e-30)).max())
        if not error <= worst:
            worst, layer = error, name
    return "norm", layer, placement.worst(worst)


def _of_sums(
    found: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], placement: Placement
) -> tuple[str, str, float]:
    sizes = _norms(expected, placement)
    whole = sizes.norm()
    errors = _norms({name: found[name] - total for name, total in expected.items()}, placement)
    worst, layer = 0.0, ""
    for name, size, difference in zip(expected, sizes, errors, strict=True):
        error = float(difference / (size + _NEGLIGIBLE * whole).clamp(min=1e-30))
        if not error <= worst:
            worst, layer = error, name
    return "clipped sum", layer, placement.worst(worst)


def _norms(tensors: Mapping[str, torch.Tensor], placement: Placement) -> torch.Tensor:
    norms = torch.stack([torch.linalg.vector_norm(one) for one in tensors.values()])
    if not placement.sharded:
        return norms
    # Squares are added up in fp64: a tiny gradient's would vanish in fp32.
    return placement.over_shards(norms.double().square()).sqrt()


def _difference(what: str, layer: str, error: float, tolerance: float) -> str:
    return (
        f"The {what} of the gradients of '{layer}' is off by {error:.1e} (relative) from one "
        f"backward pass per record; at most {tolerance:.0e} is rounding. Freeze the layer, or "
        "choose the backend one-by-one."
    )
