"""Fingerprints differ where contents do, agree where they agree, and guess nothing."""

from __future__ import annotations

import datetime
import enum
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import same_records


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Window:
    start: int
    content: object


class Opaque:
    pass


DIFFERENT = [
    *(None, True, 1, 0, 2**80, 1.0, -0.0, 0.0, 1j, float("nan"), float("inf")),
    *("", "a", "b", b"a", "None", range(3), slice(1, 2), Path("a"), Colour.RED, Colour.BLUE),
    *(datetime.date(2026, 1, 1), datetime.timedelta(1)),
    *([], [[]], [1, 2], [2, 1], [[1], 2], [1, [2]], ["ab"], ["a", "b"], {}, {"a": 1}, {1: "a"}),
    *({"a": [1]}, {1, 2}, {1, 3}, frozenset()),
    *(Window(1, None), Window(1, "a"), Window(2, "a"), Window(1, [torch.ones(1)])),
    *(torch.ones(2), torch.ones(2, 1), torch.zeros(2), torch.ones(2).double(), torch.tensor(1.0)),
    *(torch.ones(2).bfloat16(), torch.ones(2).bool(), torch.ones(0), torch.ones(2).half()),
    *(np.ones(2), np.ones(2, np.float32), np.ones((2, 1)), np.int64(1), np.array(["a"])),
    *(np.array(["a", 1], dtype=object), np.array([["a", 2]], dtype=object)),
]


def test_different_contents_have_different_fingerprints() -> None:
    digests = [same_records.of(value) for value in DIFFERENT]
    for at, digest in enumerate(digests):
        assert digests.index(digest) == at, (DIFFERENT[at], DIFFERENT[digests.index(digest)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, "a"], (1, "a")),
        ({"a": 1, "b": 2}, OrderedDict(b=2, a=1)),
        ({"c", "b", "a"}, {"a", "b", "c"}),
        (torch.arange(6).reshape(2, 3).T, torch.arange(6).reshape(2, 3).T.contiguous()),
        (torch.ones(4, requires_grad=True), torch.ones(4)),
        (torch.ones(4)[::2], torch.ones(2)),
        (np.arange(6).reshape(2, 3).T, np.ascontiguousarray(np.arange(6).reshape(2, 3).T)),
        (b"ab", bytearray(b"ab")),
        (Window(1, [2.0]), Window(1, (2.0,))),
    ],
)
def test_equal_contents_have_equal_fingerprints(one: object, other: object) -> None:
    assert same_records.of(one) == same_records.of(other)


@given(st.recursive(st.integers() | st.text() | st.floats() | st.binary(), st.lists, max_leaves=8))
def test_a_copy_is_alike_and_one_more_is_not(value: object) -> None:
    assert same_records.of(value) == same_records.of(value)
    assert same_records.of([value]) != same_records.of([value, value]) != same_records.of(value)


def test_images_are_read() -> None:
    image = pytest.importorskip("PIL.Image")
    one, other = (image.new("RGB", (4, 3), colour) for colour in ("red", "blue"))
    assert same_records.of(one) == same_records.of(one.copy()) != same_records.of(other)


def itself() -> list[object]:
    made: list[object] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("example", "where"),
    [
        (Opaque(), r"'Opaque' \(example\)"),
        ({"page": [1, Opaque()]}, r"'Opaque' \(example\['page'\]\[1\]\)"),
        (Window(1, lambda: 1), r"'function' \(example\.content\)"),
        (torch.ones(2, 2).to_sparse(), r"'Tensor' \(example\)"),
        (np.array([Opaque()], dtype=object), r"'Opaque' \(example\[0\]\)"),
        (itself(), "'list'"),
        (Opaque, r"'type' \(example\)"),
    ],
)
def test_what_can_not_be_seen_is_asked_for(example: object, where: str) -> None:
    with pytest.raises(PrivacyError, match=f"Example 1 of record 2 holds a {where}") as caught:
        same_records.of_records([[1], [2], [3, example]])
    assert "Give `fingerprint`" in str(caught.value)
    assert same_records.of_records([[1], [2], [3, example]], lambda _: 1)


def test_records_are_known_by_order_and_by_what_belongs_together() -> None:
    ways = [
        [[1, 2], [3]],
        [[1], [2, 3]],
        [[3], [1, 2]],
        [[1, 2, 3]],
        [[1, 2], [3], []],
        [[2, 1], [3]],
    ]
    assert len({same_records.of_records(way) for way in ways}) == len(ways)
