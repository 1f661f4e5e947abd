"""Whether processes that train together read the same records, in the same order.

Each computes its part of one draw, so a document that stands at two places of two lists would be
clipped twice. What examples hold is compared in full. What examples only point to (an index says
nothing of the table behind it) shows in their losses, which are compared on a few, drawn
at random.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import hashlib
import pathlib
import random
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AnySet
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import distributed as dist
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.example_losses import ExampleLosses
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.randomness import dropout_seeds

Example = TypeVar("Example")

COMPARED = 32
"""Examples whose losses are compared. Lists in different orders differ almost everywhere."""

ASSUMED = (
    "examples that are numbers pointed to the same data in every process; the losses of "
    f"{COMPARED} of them were compared"
)


def assumed(
    records: Sequence[Sequence[Example]],
    fingerprint: Callable[[Example], object] | None,
    group: Group,
) -> tuple[str, ...]:
    """Returns what a guarantee rests on besides what every claim says."""
    first = next((record[0] for record in records if len(record)), None)
    bare = fingerprint is None and isinstance(first, int | np.integer)
    return (dropout_seeds.ASSUMED, ASSUMED) if bare and group.size > 1 else (dropout_seeds.ASSUMED,)


def require_same_content(fingerprint: Callable[[], str], group: Group) -> None:
    """Raises PrivacyError, in every process, where the records are not the same in all."""
    if group.size == 1:
        return
    failure: Exception | None = None
    try:
        digest = fingerprint()
    except Exception as error:  # the others learn of it first: they would wait
        failure, digest = error, f"{type(error).__name__} in process {group.rank}"
    try:
        group.require_agreement({"the records": digest})
    except PrivacyError:
        if failure is not None:
            raise failure from None
        raise


def require_same_losses(
    model: nn.Module,
    losses: ExampleLosses[Example],
    records: Sequence[Sequence[Example]],
    group: Group,
    *,
    max_examples: int,
    tolerance: float,
) -> None:
    """Raises PrivacyError, in every process, where the same places have other losses.

    All processes call this with the same weights; dropout is off while it compares.
    """
    if group.size == 1:
        return
    generator = random.Random(group.secret().content)
    places = [place for place in _shuffled(len(records), generator) if len(records[place])][
        :COMPARED
    ]
    examples = [generator.choice(records[place]) for place in places]
    with (
        torch.no_grad(),
        dropout_seeds.in_evaluation_mode(model),
        dropout_seeds.repeated(model.parameters()),
    ):
        found = [
            float(one)
            for at in range(0, len(examples), max_examples)
            for one in losses(examples[at : at + max_examples])
        ]
    gathered: list[list[float]] = [[] for _ in range(group.size)]
    dist.all_gather_object(gathered, found, group=group.handle)
    _refuse_others(torch.tensor(gathered, dtype=torch.float64), places, tolerance)


def _refuse_others(losses: torch.Tensor, places: Sequence[int], tolerance: float) -> None:
    first = losses[0]
    allowed = tolerance * torch.maximum(first.abs(), first.abs().nanmean())
    same = (
        ((losses - first).abs() <= allowed) | (losses.isnan() & first.isnan()) | (losses == first)
    )
    if bool(same.all()):
        return
    process, at = (int(one) for one in (~same).nonzero()[0])
    raise PrivacyError(
        f"Record {places[at]} has the loss {float(losses[0, at]):.6g} in the first process and "
        f"{float(losses[process, at]):.6g} in process {process}, with the same weights: they read "
        "other data, or compute otherwise. Give all of them the same data in the same order, and "
        "the same loss; each takes its own part by itself."
    )


def _shuffled(count: int, generator: random.Random) -> Iterator[int]:
    """Yields places at random, and all of them in the end where the first have no example."""
    some = min(count, 4 * COMPARED)
    yield from generator.sample(range(count), some)
    yield from range(count if some < count else 0)


_PLAIN = (
    *(type(None), bool, int, complex, str, range, slice, enum.Enum),
    *(pathlib.PurePath, uuid.UUID, decimal.Decimal),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
)
"""What `repr` shows completely."""

_DEEPEST = 40


def of_records(
    records: Sequence[Sequence[Example]], fingerprint: Callable[[Example], object] | None = None
) -> str:
    """Returns a digest of all records with their examples, in their order."""
    whole = hashlib.sha256()
    for number in range(len(records)):
        whole.update(b"record")
        for at, example in enumerate(records[number]):
            content = example if fingerprint is None else fingerprint(example)
            try:
                whole.update(of(content))
            except _UnknownError as unknown:
                name, where = unknown.args
                raise PrivacyError(
                    f"Example {at} of record {number} holds a '{name}' (example{where}), whose "
                    "content can't be compared, and whether the data are the same has to be known "
                    "here. Give `fingerprint`, a function that "
                    "returns what stands for an example: numbers, text or tensors; a file's name, "
                    "size and time, say."
                ) from None
    return whole.hexdigest()


def of(value: object) -> bytes:
    """Returns 32 bytes that differ where contents differ."""
    digest = hashlib.sha256()
    _feed(digest, value, "")
    return digest.digest()


class _UnknownError(Exception):
    """Holds the type of a value that can't be compared, and its place in the example."""


def _feed(digest: Any, value: Any, where: str, depth: int = 0) -> None:
    if depth > _DEEPEST:  # it may hold itself
        raise _UnknownError(type(value).__name__, where)
    if isinstance(value, _PLAIN):
        _put(digest, type(value).__qualname__, repr(value).encode())
    elif isinstance(value, float):
        _put(digest, "float", struct.pack("<d", value))
    elif isinstance(value, bytes | bytearray | memoryview):
        _put(digest, "bytes", bytes(value))
    elif isinstance(value, torch.Tensor):
        _put_tensor(digest, value, where)
    elif _is_array(value):
        _put_array(digest, np.asarray(value), where)
    else:
        _feed_parts(digest, value, where, depth)


def _feed_parts(digest: Any, value: Any, where: str, depth: int) -> None:
    if isinstance(value, Mapping):
        name, keys = "mapping", sorted(value, key=of)
        parts = [(f"[{key!r}]", pair) for key in keys for pair in (key, value[key])]
    elif isinstance(value, AnySet):
        name, parts = "set", [("", one) for one in sorted(value, key=of)]
    elif is_dataclass(value) and not isinstance(value, type):
        name = type(value).__qualname__
        parts = [(f".{field.name}", getattr(value, field.name)) for field in fields(value)]
    elif isinstance(value, Sequence):
        name, parts = "sequence", [(f"[{at}]", one) for at, one in enumerate(value)]
    else:
        raise _UnknownError(type(value).__name__, where)
    _put(digest, name, str(len(parts)).encode())
    for name, part in parts:
        _feed(digest, part, where + name, depth + 1)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array_interface__")


def _put_array(digest: Any, array: Any, where: str) -> None:
    if array.dtype.hasobject:
        _feed(digest, array.tolist(), where, 1)
        return
    _put(digest, f"{array.dtype.str}{array.shape}", np.ascontiguousarray(array).tobytes())


def _put_tensor(digest: Any, tensor: torch.Tensor, where: str) -> None:
    try:
        plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
        content = plain.reshape(-1).view(torch.uint8).numpy()
    except (RuntimeError, TypeError, NotImplementedError):  # sparse, quantized, on no device
        raise _UnknownError(type(tensor).__name__, where) from None
    _put(digest, f"{tensor.dtype}{tuple(tensor.shape)}", content)


def _put(digest: Any, name: str, content: Any) -> None:
    """Adds lengths too, so that no two values run into the same bytes."""
    digest.update(f"{name}:{len(content)}:".encode())
    digest.update(content)
