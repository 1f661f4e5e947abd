"""The safetensors walker: what the format's own writer writes, and what its reader lets pass."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushdoc.artifact import safetensors_scan
from hushdoc.errors import ArtifactError


def file(header: Any, data: bytes = b"") -> bytes:
    """Returns a file with a header of our own; text goes in as it is."""
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    return len(header).to_bytes(8, "little") + header + data


def tensor(shape: list[Any], start: int, stop: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def of(**arrays: np.ndarray) -> bytes:
    """Returns the file that safetensors itself writes."""
    numpy = pytest.importorskip("safetensors.numpy")
    content: bytes = numpy.save(arrays, metadata={"hushdoc.certificate_id": "x"})
    return content


def code_of(content: bytes) -> str:
    with pytest.raises(ArtifactError) as caught:
        safetensors_scan.scan(content)
    return caught.value.code


def refusal(content: bytes) -> str:
    assert code_of(content) == "BAD_SAFETENSORS"
    with pytest.raises(ArtifactError) as caught:
        safetensors_scan.scan(content)
    return str(caught.value)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u1", "?"])
def test_what_the_library_writes_is_read(dtype: str) -> None:
    rows = np.arange(1, 13).reshape(6, 2).astype(dtype)
    found = safetensors_scan.scan(of(table=rows, other=np.ones(3, "f4"), scalar=np.array(2, "f4")))
    assert found.metadata == {"hushdoc.certificate_id": "x"}
    shapes = {item.name: item.shape for item in found.tensors}
    assert shapes == {"table": (6, 2), "other": (3,), "scalar": ()}
    table = next(item for item in found.tensors if item.name == "table")
    content = of(table=rows, other=np.ones(3, "f4"), scalar=np.array(2, "f4"))
    assert content[table.start : table.stop] == rows.tobytes()
    assert table.unfilled_rows == (0 if dtype.startswith("f") or dtype == "u1" else None)


def test_the_library_reads_the_same_places(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors")
    content = of(a=np.ones((3, 4), "f4"), b=np.arange(10, dtype="i8"))
    (tmp_path / "x").write_bytes(content)
    found = safetensors_scan.scan(content)
    with library.safe_open(tmp_path / "x", "numpy") as opened:
        for item in found.tensors:
            mine = np.frombuffer(
                content[item.start : item.stop], {"F32": "f4", "I64": "i8"}[item.dtype]
            )
            assert (mine.reshape(item.shape) == opened.get_tensor(item.name)).all()


def test_a_million_metadata_keys_are_refused_before_they_are_parsed() -> None:
    header = b'{"__metadata__":{%b}}' % b",".join(b'"%d":""' % key for key in range(1_000_000))
    content = file(header)
    tracemalloc.start()
    try:
        assert code_of(content) == "BAD_SAFETENSORS"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 300_001, -1])
@pytest.mark.parametrize("shape", [(-1,), (-1, 2), (2, -1)])
def test_weights_that_are_not_finite_are_refused(
    dtype: str, weight: float, place: int, shape: tuple[int, ...]
) -> None:
    weights = np.full(400_000, 0.5, dtype)
    assert safetensors_scan.scan(of(w=weights.reshape(shape)))
    weights[place] = weight
    assert "NaN or infinite" in refusal(of(w=weights.reshape(shape)))


@pytest.mark.parametrize("bits", [0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFFF])
def test_brain_floats_are_looked_at_too(bits: int) -> None:
    largest = np.full(8, 0x7F7F, "<u2")
    assert safetensors_scan.scan(file({"w": tensor([4, 2], 0, 16, "BF16")}, largest.tobytes()))
    largest[5] = bits
    assert "NaN" in refusal(file({"w": tensor([4, 2], 0, 16, "BF16")}, largest.tobytes()))


def table(rows: int = 200_000, columns: int = 3, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(0).normal(size=(rows, columns)).astype(dtype)


def require(weights: np.ndarray, *, rows: int = 200_000, columns: int = 3, name: str = "t") -> None:
    contents = safetensors_scan.scan(of(t=weights, transitions=np.zeros((4, 4), "f4")))
    safetensors_scan.require_table(contents, name, rows=rows, columns=columns)


def test_a_filled_table_is_accepted() -> None:
    for dtype in ("f8", "f4", "f2"):
        weights = table(dtype=dtype)
        weights[7] = (0, 0, 1e-7)
        assert weights[7, 2]
        require(weights)


@pytest.mark.parametrize("empty", [[0], [199_999], [5, 70_000, 150_000]])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_unfilled_rows_are_refused(empty: list[int], zero: float) -> None:
    weights = table()
    weights[empty] = zero
    with pytest.raises(ArtifactError, match=f"{len(empty)} of 200000 rows") as caught:
        require(weights)
    assert caught.value.code == "BAD_SAFETENSORS"


def test_rows_of_any_length_are_read() -> None:
    wide = np.ones((2, 300_000), "f4")
    assert safetensors_scan.scan(of(w=wide)).tensors[0].unfilled_rows is None
    odd = table(1000, 1237)
    odd[500] = 0
    assert safetensors_scan.scan(of(w=odd)).tensors[0].unfilled_rows == 1


def test_memory_does_not_grow_with_the_file() -> None:
    content = of(t=table(4_000_000, 2))
    safetensors_scan.scan(of(t=table(10, 2)))
    tracemalloc.start()
    try:
        safetensors_scan.scan(content)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20 < len(content)
    finally:
        tracemalloc.stop()


def test_rows_of_bytes_are_filled_unless_all_are_zero() -> None:
    bytes_of = np.array([[0, 0], [128, 0], [0, 1], [0, 0]], "u1")
    assert safetensors_scan.scan(of(w=bytes_of)).tensors[0].unfilled_rows == 2
