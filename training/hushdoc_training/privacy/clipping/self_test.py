"""The start-up self-test: a clipper against one backward pass per record, and rows against rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812
from torch.overrides import TorchFunctionMode

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.contract import ClippedBatch, Clipper
from hushdoc_training.privacy.clipping.one_by_one import one_by_one
from hushdoc_training.privacy.clipping.placement import Placement

LossesOf = Callable[[Sequence[int]], torch.Tensor]
"""Returns the losses of some rows of a sample, in that order, from one forward pass over them."""

# Below this share of a record's norm a parameter's gradient is rounding: an attention's key bias.
_NEGLIGIBLE = 1e-6


def check(
    clipper: Clipper, losses_of: LossesOf, *, rows: int, tolerance: float = 1e-3
) -> frozenset[str]:
    """Refuses to train where the clipped gradients would not be those of single records.

    Dropout is off while it looks. It leaves the clipper's sums at zero and releases nothing.

    Args:
        clipper: The clipper to be used.
        losses_of: Runs the model on the chosen rows of a sample of data.
        rows: How many rows the sample has; at least 2, and 4 or more find more.
        tolerance: Largest relative difference of a norm or a clipped sum. The default is for fp32;
            3e-2 is what bf16 allows.

    Returns:
        The parameters that got no gradient from any row. Noise would move them all the same:
        freeze them.

    Raises:
        PrivacyError: A loss depends on other rows, or a parameter's gradients differ from those of
            one backward pass per record; the message names it.
        ValueError: Fewer than 2 rows.
    """
    if rows < 2:
        raise ValueError(f"The self-test got {rows} rows; it needs at least 2.")
    clipper.clear()
    training = {module: module.training for module in clipper.model.modules()}
    try:
        with _NoDropout():
            if not _repeatable(losses_of, rows):
                clipper.model.eval()
                _refuse_chance(losses_of, rows)
            _refuse_coupled_rows(losses_of, rows, tolerance)
            return _compare(clipper, losses_of, rows, tolerance)
    finally:
        clipper.clear()
        for module, mode in training.items():
            module.training = mode


class _NoDropout(TorchFunctionMode):
    """Turns dropout off without touching the model."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Runs a function, dropout left out."""
        kwargs = dict(kwargs or {})
        if func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func is F.scaled_dot_product_attention:
            kwargs["dropout_p"] = 0.0
            args = args[:4]
        return func(*args, **kwargs)


_DROPOUTS = {
    F.dropout,
    F.dropout1d,
    F.dropout2d,
    F.dropout3d,
    F.feature_alpha_dropout,
    torch.dropout,
}


def _repeatable(losses_of: LossesOf, rows: int) -> bool:
    with torch.no_grad():
        first, second = losses_of(range(rows)), losses_of(range(rows))
    return torch.allclose(first, second, rtol=1e-6, equal_nan=True)


def _refuse_chance(losses_of: LossesOf, rows: int) -> None:
    if not _repeatable(losses_of, rows):
        raise PrivacyError(
            "The losses of the same rows differ from one forward pass to the next, even in "
            "evaluation mode, so nothing can be compared. Hand in losses whose draws are fixed, "
            "and that don't switch the model back to training."
        )


def _refuse_coupled_rows(losses_of: LossesOf, rows: int, tolerance: float) -> None:
    # Every row among all others, and in the company of one.
    with torch.no_grad():
        together = losses_of(range(rows)).double()
        pairs = [losses_of([(row + 1) % rows, row]).double() for row in range(rows)]
    if together.shape != (rows,) or any(pair.shape != (2,) for pair in pairs):
        raise PrivacyError(
            f"The losses of {rows} rows have shape {list(together.shape)}; expected [{rows}], one "
            "loss for every row. A mean over the batch couples records."
        )
    if not bool(torch.isfinite(together).all()):
        raise PrivacyError(
            "A row of the self-test's sample has a loss that is not finite, so nothing can be "
            "compared. Look at the data and the model's start."
        )
    typical = float(together.abs().mean())
    for row, pair in enumerate(pairs):
        among, beside = float(together[row]), float(pair[1])
        if not abs(among - beside) <= tolerance * max(abs(among), typical):
            raise PrivacyError(
                f"The loss of row {row} is {among:.6g} among {rows} rows and {beside:.6g} beside "
                "one: it depends on other rows, so clipping one does not bound its influence. Give "
                "every row a loss of its own (no mean over the batch's tokens, no negatives from "
                "the batch) and replace layers that look across the batch."
            )


def _compare(clipper: Clipper, losses_of: LossesOf, rows: int, tolerance: float) -> frozenset[str]:
    truth = one_by_one(clipper.model, clipping_norm=clipper.clipping_norm)
    for records in _groupings(rows):
        truth.clear()
        clipper.clear()
        losses = lambda: losses_of(range(rows))  # noqa: E731
        expected = truth.add(losses, records)
        found = clipper.add(losses, records)
        _refuse_other_squares(found, expected, tolerance, truth.placement)
        _refuse_other_sums(clipper.sums, truth.sums, tolerance, truth.placement)
    return frozenset(name for name, square in expected.squares.items() if not bool(square.any()))


def _groupings(rows: int) -> Iterable[torch.Tensor]:
    # The last one makes two rows one record, and one padding where there are enough.
    yield torch.arange(rows)
    records = torch.arange(rows) - 1
    records[0] = 0
    if rows > 3:
        records[2] = -1
        records[3:] -= 1
    yield records


def _refuse_other_squares(
    found: ClippedBatch, expected: ClippedBatch, tolerance: float, placement: Placement
) -> None:
    slack = _NEGLIGIBLE * expected.norms
    worst, layer = 0.0, ""
    for name, square in expected.squares.items():
        norms, others = square.sqrt(), found.squares[name].sqrt()
        error = float(((others - norms).abs() / (norms + slack).clamp(min=1e-30)).max())
        if not error <= worst:
            worst, layer = error, name
    worst = placement.worst(worst)
    if not worst <= tolerance:
        raise PrivacyError(_difference("norm", layer, worst, tolerance))


def _refuse_other_sums(
    found: Mapping[str, torch.Tensor],
    expected: Mapping[str, torch.Tensor],
    tolerance: float,
    placement: Placement,
) -> None:
    sizes = _norms(expected, placement)
    whole = sizes.norm()
    errors = _norms({name: found[name] - total for name, total in expected.items()}, placement)
    worst, layer = 0.0, ""
    for name, size, difference in zip(expected, sizes, errors, strict=True):
        error = float(difference / (size + _NEGLIGIBLE * whole).clamp(min=1e-30))
        if not error <= worst:
            worst, layer = error, name
    worst = placement.worst(worst)
    if not worst <= tolerance:
        raise PrivacyError(_difference("clipped sum", layer, worst, tolerance))


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
