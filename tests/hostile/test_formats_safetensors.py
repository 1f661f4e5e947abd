"""Safetensors that the trusted key signed: other layouts, unsound weights, other tables.

Built byte by byte, so that nothing but the check stands between it and an answer.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hushdoc_corruption import Act, Refused, Scene, acceptances, cases, refusals

from hushdoc.accounting.mechanism import HashFill
from hushdoc.policy.policy import Policy

ID = "0123456789abcdef0123456789abcdef"
TABLE = "table.safetensors"
ROWS, COLUMNS = 8, 4

# Safetensors: eight bytes that say how long the header is, a header in JSON, and the data.


def _weights(rows: int = ROWS, columns: int = COLUMNS, kind: str = "<f4") -> np.ndarray[Any, Any]:
    return np.arange(1, rows * columns + 1).astype(kind).reshape(rows, columns)


def _described(weights: np.ndarray[Any, Any], kind: str = "F32", start: int = 0) -> dict[str, Any]:
    return {
        "dtype": kind,
        "shape": list(weights.shape),
        "data_offsets": [start, start + weights.nbytes],
    }


def _packed(header: Mapping[str, Any] | bytes, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


METADATA = {"hushdoc.certificate_id": ID}
DATA = _weights().tobytes()
HEADER = {"__metadata__": METADATA, "table": _described(_weights())}
SOUND = _packed(HEADER, DATA)


def _header(**change: Any) -> bytes:
    return _packed({**HEADER, **change}, DATA)


def _tensor_of(**change: Any) -> bytes:
    return _header(table={**HEADER["table"], **change})


def _spelled(old: str, new: str) -> bytes:
    """The header with a piece of its text replaced."""
    text = json.dumps(HEADER)
    assert old in text
    return _packed(text.replace(old, new, 1).encode(), DATA)


def _holding(place: int, value: float, kind: str = "F32", numpy_kind: str = "<f4") -> bytes:
    weights = _weights(kind=numpy_kind)
    weights.flat[place] = value
    return _packed({**HEADER, "table": _described(weights, kind)}, weights.tobytes())


def _bits(pattern: bytes, kind: str) -> bytes:
    """A table of 16-bit weights, the last of which has these bits."""
    data = b"\x00\x3c" * (ROWS * COLUMNS - 1) + pattern
    described = {"dtype": kind, "shape": [ROWS, COLUMNS], "data_offsets": [0, len(data)]}
    return _packed({**HEADER, "table": described}, data)


def _unfilled(row: int, value: float) -> bytes:
    weights = _weights()
    weights[row] = value
    return _packed(HEADER, weights.tobytes())


def _two(first: tuple[int, int], second: tuple[int, int], size: int) -> bytes:
    def described(place: tuple[int, int]) -> dict[str, Any]:
        return {"dtype": "U8", "shape": [place[1] - place[0]], "data_offsets": list(place)}

    header = {"__metadata__": METADATA, "a": described(first), "b": described(second)}
    return _packed(header, bytes(range(1, size + 1)))


T = json.dumps(HEADER["table"])

SAFETENSORS: dict[str, bytes] = {
    "nothing": b"",
    "seven-bytes": b"\0" * 7,
    "header-of-2-to-the-63": struct.pack("<Q", 1 << 63) + SOUND[8:],
    "header-of-2-to-the-64-less-one": b"\xff" * 8 + SOUND[8:],
    "header-longer-than-the-file": struct.pack("<Q", len(SOUND)) + SOUND[8:],
    "header-of-no-length": struct.pack("<Q", 0) + SOUND[8:],
    "header-cut": struct.pack("<Q", 20) + SOUND[8:],
    # The library's own limit is a hundred megabytes.
    "header-with-a-million-keys": _packed(
        b'{"__metadata__":{' + b",".join(b'"%07d":""' % n for n in range(1_000_000)) + b"}}",
        b"",
    ),
    "metadata-with-1001-keys": _header(__metadata__={str(n): "" for n in range(1001)}),
    "header-is-no-json": _packed(b"hello", b""),
    "header-is-a-list": _packed(b"[]", b""),
    "header-begins-with-a-space": _packed(b" " + json.dumps(HEADER).encode(), DATA),
    "header-in-utf-16": _packed(json.dumps(HEADER).encode("utf-16"), DATA),
    "header-deep": _packed(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", b""),
    # safetensors accepts keys of the metadata and tensors that come twice, and keeps the last.
    "metadata-key-twice": _spelled('{"hushdoc', '{"hushdoc.certificate_id": "x", "hushdoc'),
    "tensor-twice": _spelled('"table": ', f'"table": {T}, "table": '),
    "metadata-twice": _spelled('"table": ', '"__metadata__": {}, "table": '),
    "metadata-is-a-list": _header(__metadata__=[]),
    "metadata-of-numbers": _header(__metadata__={**METADATA, "a": 1}),
    "metadata-of-nan": _spelled(f'"{ID}"', f'"{ID}", "a": NaN'),
    # safetensors ignores keys that it does not know.
    "tensor-with-another-key": _tensor_of(file="weights.bin"),
    "tensor-without-a-shape": _header(table={"dtype": "F32", "data_offsets": [0, len(DATA)]}),
    "tensor-is-null": _header(table=None),
    "tensor-is-a-text": _header(table="x"),
    "name-that-leads-out": _spelled('"table": ', '"../table": '),
    "name-with-escape-sequence": _spelled('"table": ', '"\\u001b[2J": '),
    "name-empty": _spelled('"table": ', '"": '),
    "type-of-other-size": _tensor_of(dtype="F16"),
    "type-unknown": _tensor_of(dtype="F128"),
    "type-of-other-case": _tensor_of(dtype="f32"),
    "type-of-objects": _tensor_of(dtype="O"),
    "shape-of-fewer-bytes": _tensor_of(shape=[2]),
    "shape-negative": _tensor_of(shape=[-ROWS, -COLUMNS]),
    "shape-that-wraps-around": _tensor_of(shape=[1 << 32, 1 << 32]),
    "shape-of-a-trillion-rows": _tensor_of(shape=[1 << 40, 0]),
    "shape-of-true": _tensor_of(shape=[True, ROWS * COLUMNS]),
    "shape-of-fractions": _tensor_of(shape=[8.0, 4.0]),
    "shape-of-nine-axes": _tensor_of(shape=[ROWS, COLUMNS, *[1] * 7]),
    "offsets-swapped": _tensor_of(data_offsets=[len(DATA), 0]),
    "offsets-negative": _tensor_of(data_offsets=[-len(DATA), 0]),
    "offsets-past-the-end": _tensor_of(data_offsets=[8, 8 + len(DATA)]),
    "offsets-past-64-bits": _tensor_of(data_offsets=[0, 1 << 64]),
    "offsets-of-three": _tensor_of(data_offsets=[0, len(DATA), 0]),
    "offsets-of-fractions": _tensor_of(data_offsets=[0.0, float(len(DATA))]),
    "tensors-overlap": _two((0, 6), (4, 10), 10),
    "tensors-on-top-of-each-other": _two((0, 10), (0, 10), 10),
    "hole-between": _two((0, 4), (6, 10), 10),
    "hole-in-front": _two((2, 4), (4, 10), 10),
    "bytes-after": SOUND + b"\0",
    "bytes-missing": SOUND[:-1],
    # safetensors hands NaN and the infinities on.
    "weight-nan-first": _holding(0, np.nan),
    "weight-nan-last": _holding(-1, np.nan),
    "weight-infinite": _holding(5, np.inf),
    "weight-minus-infinite": _holding(5, -np.inf),
    "weight-nan-in-64-bits": _holding(5, np.nan, "F64", "<f8"),
    "weight-nan-in-16-bits": _bits(b"\x01\x7e", "F16"),
    "weight-signalling-nan-in-16-bits": _bits(b"\x01\xfc", "F16"),
    "weight-infinite-in-bfloat": _bits(b"\x80\x7f", "BF16"),
    "row-not-filled": _unfilled(3, 0.0),
    # Every comparison says that minus zero is zero.
    "row-of-minus-zeros": _unfilled(ROWS - 1, -0.0),
    "fewer-rows-than-declared": _packed(
        {**HEADER, "table": _described(_weights(ROWS - 1))}, _weights(ROWS - 1).tobytes()
    ),
    "more-rows-than-declared": _packed(
        {**HEADER, "table": _described(_weights(ROWS + 1))}, _weights(ROWS + 1).tobytes()
    ),
    "rows-and-columns-swapped": _tensor_of(shape=[COLUMNS, ROWS]),
    "table-in-one-row": _tensor_of(shape=[ROWS * COLUMNS]),
    "table-of-integers": _tensor_of(dtype="I32"),
    "table-of-another-name": _spelled('"table": ', '"Table": '),
    "data-without-tensors": _packed({"__metadata__": METADATA}, b"x"),
    "no-tensors": _packed({"__metadata__": METADATA}, b""),
}


def _declared(**change: Any) -> dict[str, Any]:
    return {"tensor": "table", "rows": ROWS, "columns": COLUMNS, "reference": None, **change}


def _packed_of(columns: int) -> bytes:
    weights = _weights(columns=columns)
    return _packed({**HEADER, "table": _described(weights)}, weights.tobytes())


def _sealed_table(
    content: bytes, *, declared: Any = None, fill: tuple[int, int] | None = None
) -> Act:
    """Seals a table of hashed features, which the manifest declares and the transcript fills."""

    def act(scene: Scene) -> None:
        identity = dataclasses.replace(
            scene.build.certify().model, format="safetensors", entry=TABLE
        )
        manifest = {
            **scene.build.MANIFEST,
            "entry": TABLE,
            "preprocessing": {"hashTable": _declared() if declared is None else declared},
        }
        change: dict[str, Any] = {}
        if fill is not None:
            transcript = HashFill(rows=fill[0], columns=fill[1])
            change["transcripts"] = {"training": scene.build.TRANSCRIPT, "fill": transcript}
            # No policy that demands privacy accepts a transcript that no guarantee rests on.
            scene.policy = Policy.integrity_only(scene.policy.trust)
        scene.seal(
            scene.build.certify(model=identity, **change),
            scene.files(
                onnx__model_DOT_onnx=None,
                table_DOT_safetensors=content,
                hushdoc_DOT_json=json.dumps(manifest).encode(),
            ),
        )

    return act


def _other_id(scene: Scene) -> None:
    _sealed_table(_header(__metadata__={"hushdoc.certificate_id": "f" * 32}))(scene)


def _without_id(scene: Scene) -> None:
    _sealed_table(_header(__metadata__={"note": "x"}))(scene)


REFUSED: Refused = {
    "BAD_SAFETENSORS": {
        **{name: _sealed_table(content) for name, content in SAFETENSORS.items()},
        "is-a-pickle": _sealed_table(pickle.dumps(_weights())),
        "reference-that-was-not-left-out": _sealed_table(SOUND, declared=_declared(reference=0)),
        "column-left-out-undeclared": _sealed_table(_packed_of(COLUMNS - 1)),
        "more-columns-filled-than-there-are": _sealed_table(
            _packed_of(COLUMNS - 1), declared=_declared(reference=0), fill=(ROWS, COLUMNS + 1)
        ),
        "rows-other-than-filled": _sealed_table(SOUND, fill=(ROWS * 2, COLUMNS)),
        "second-file-with-nan": lambda s: s.seal(
            contents=s.files(more_DOT_safetensors=_holding(0, np.nan))
        ),
    },
    "EMBEDDED_METADATA_MISMATCH": {
        "id-of-another": _other_id,
    },
    "EMBEDDED_METADATA_MISSING": {
        "id-missing": _without_id,
    },
    "BAD_MANIFEST": {
        "table-not-declared": _sealed_table(SOUND, declared={}),
        "rows-declared-as-true": _sealed_table(SOUND, declared=_declared(rows=True)),
        "declared-with-another-key": _sealed_table(SOUND, declared=_declared(more=1)),
        "reference-not-declared": _sealed_table(
            SOUND, declared={"tensor": "table", "rows": ROWS, "columns": COLUMNS}
        ),
        "reference-beyond-the-columns": _sealed_table(
            _packed_of(COLUMNS - 1), declared=_declared(reference=COLUMNS)
        ),
        "reference-of-one-column": _sealed_table(SOUND, declared=_declared(columns=1, reference=0)),
    },
}

CASES = cases("formats/safetensors-", REFUSED)


test_is_refused = refusals(CASES)


test_a_sound_table_is_opened = acceptances(
    {
        "table": _sealed_table(SOUND),
        "filled": _sealed_table(SOUND, fill=(ROWS, COLUMNS)),
        "smallest-weights": _sealed_table(_unfilled(3, 1e-45)),
        "column-left-out": _sealed_table(_packed_of(COLUMNS - 1), declared=_declared(reference=3)),
        "filled-and-left-out": _sealed_table(
            _packed_of(COLUMNS - 1), declared=_declared(reference=0), fill=(ROWS, COLUMNS)
        ),
    },
    ways=("verify", "open", "open-low-memory"),
)


ACCEPTED_BY_SAFETENSORS = (
    "header-with-a-million-keys",
    "metadata-with-1001-keys",
    "header-begins-with-a-space",
    "metadata-key-twice",
    "tensor-twice",
    "tensor-with-another-key",
    "name-that-leads-out",
    "name-with-escape-sequence",
    "shape-of-nine-axes",
    "weight-nan-first",
    "weight-infinite",
    "row-not-filled",
)


@pytest.mark.parametrize("name", ACCEPTED_BY_SAFETENSORS)
def test_safetensors_reads_what_is_refused_here(name: str) -> None:
    from safetensors.numpy import load

    assert isinstance(load(SAFETENSORS[name]), dict)
