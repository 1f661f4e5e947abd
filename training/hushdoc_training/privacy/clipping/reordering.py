"""Functions after which entry i of a tensor may no longer belong to example i of the batch.

Sorting examples by length, computing and putting them back is one case. A layer between would
leave its gradients under the wrong examples, and so would clip the wrong records. Whether an index
happens to be in order in one batch does not matter: what depends on content counts as out of order
always.

Only what depends on content, or on an index that somebody brings along, is found here. Where
examples are moved the same way in every batch (a flip, a transposition), gradients are wrong in
every batch, and the self-test finds that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

IsPerExample = Callable[[Any], bool]

_PICKING = frozenset(
    [
        "masked_select",
        "nonzero",
        "argwhere",
        "take",
        "put",
        "put_",
        "masked_scatter",
        "masked_scatter_",
        "_pack_padded_sequence",
        "_pad_packed_sequence",
    ]
)
_SORTING = {"sort": 1, "argsort": 1, "topk": 2, "kthvalue": 2}  # where the axis stands
_TAKING = frozenset({"index_select", "gather"})
_PUTTING = frozenset(
    ["index_add", "index_copy", "index_reduce", "scatter", "scatter_add", "scatter_reduce"]
)


def reorders(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], is_per_example: IsPerExample
) -> bool:
    """Returns whether a function of examples moves them by content or by an index."""
    if name in _PICKING or "unique" in name:
        return True
    if name == "where":
        return len(args) + len(kwargs) == 1
    if name == "msort":
        return is_per_example(args[0])
    values = [*args, *kwargs.values()]
    if not values or not isinstance(values[0], torch.Tensor):
        return False
    whole = name.removesuffix("_") if not name.startswith("__") else name
    if whole in _SORTING:
        return is_per_example(values[0]) and _axis(args, kwargs, _SORTING[whole], -1) == 0
    if whole == "embedding":
        return is_per_example(_argument(args, kwargs, 1, "weight"))
    if whole == "take_along_dim":
        axis = _axis(args, kwargs, 2, None)
        return is_per_example(values[0]) and axis in (0, None)
    if whole == "repeat_interleave":
        repeats = _argument(args, kwargs, 1, "repeats")
        return not isinstance(repeats, int) and _axis(args, kwargs, 2, None) in (0, None)
    if whole in _TAKING | _PUTTING:
        return _moves_along_an_axis(whole, args, kwargs, is_per_example)
    return _moves_by_index(whole, args, kwargs, is_per_example)


def _moves_along_an_axis(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], is_per_example: IsPerExample
) -> bool:
    x, index = _argument(args, kwargs, 0, "input"), _argument(args, kwargs, 2, "index")
    if _axis(args, kwargs, 1, None) != 0:
        return False
    if name in _TAKING and not is_per_example(x):
        return False  # entries of a table, in the order of the index
    return not (name.startswith("index") and _in_order(index, len(x), 1, is_per_example))


def _moves_by_index(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], is_per_example: IsPerExample
) -> bool:
    if name not in {"__getitem__", "__setitem__", "index_put"}:
        return False
    x, index = _argument(args, kwargs, 0, "input"), _argument(args, kwargs, 1, "indices")
    # To fill places moves nothing.
    moved = x if name == "__getitem__" else _argument(args, kwargs, 2, "values")
    if not is_per_example(moved) or not moved.dim():
        return False
    first, dimensions = _on_the_first_axis(index, x.dim())
    if first is None or type(first) in (int, slice):
        return False
    if isinstance(first, torch.Tensor) and not first.dim() and first.dtype != torch.bool:
        return is_per_example(first)
    return not _in_order(first, len(x), dimensions, is_per_example)


def _on_the_first_axis(index: Any, axes: int) -> tuple[Any, int]:
    # What an index does to the first axis, None for nothing; and the axes that all its tensors
    # together become.
    items = list(index) if isinstance(index, tuple) else [index]
    lists = [_as_tensor(item) for item in items if isinstance(item, torch.Tensor | Sequence)]
    dimensions = max((item.dim() for item in lists if item is not None), default=1)
    taken = sum(_axes_of(item) for item in items)
    for item in items:
        if item is None:
            continue
        if item is Ellipsis:
            if axes > taken:
                return None, dimensions
            continue
        return item, dimensions
    return None, dimensions


def _axes_of(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    masks = isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8)
    return item.dim() if masks else 1


def _in_order(index: Any, length: int, dimensions: int, is_per_example: IsPerExample) -> bool:
    # Whether an index, broadcast to so many axes, names entry after entry along the first one.
    if is_per_example(index):
        return False
    index = _as_tensor(index)
    if index is None or index.dtype in (torch.bool, torch.uint8) or index.is_floating_point():
        return False
    if index.dim() != dimensions or len(index) != length:
        return False
    order = torch.arange(length, device=index.device, dtype=index.dtype)
    return bool((index == order.view(-1, *[1] * (dimensions - 1))).all())


def _as_tensor(value: Any) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        # Inside vmap and the like no content can be looked at.
        return None if torch._C._functorch.is_functorch_wrapped_tensor(value) else value
    try:
        return torch.as_tensor(value if not isinstance(value, range) else list(value))
    except (TypeError, ValueError, RuntimeError):
        return None


def _argument(args: Sequence[Any], kwargs: Mapping[str, Any], place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


def _axis(args: Sequence[Any], kwargs: Mapping[str, Any], place: int, default: int | None) -> Any:
    # The axis that a function works along, counted from the front; None for none.
    axis = args[place] if len(args) > place else kwargs.get("dim", kwargs.get("axis", default))
    x = args[0] if args else kwargs.get("input")
    if isinstance(axis, int) and axis < 0 and isinstance(x, torch.Tensor):
        return axis + x.dim()
    return axis
