"""The tiny files that stand in the place of a model: valid, and of no use."""

from __future__ import annotations

import json
import struct
from typing import Any

from examples import hash_fill
from hushdoc.certificate.certificate import Certificate

CERTIFICATE_ID_KEY = "hushdoc.certificate_id"
TABLE = "weights"


def files(certificate: Certificate) -> dict[str, bytes]:
    """Returns the files of an example but for its certificate."""
    model = certificate.model
    if model.format == "safetensors":
        table = {
            "tensor": TABLE,
            "rows": hash_fill.ROWS,
            "columns": hash_fill.COLUMNS,
            "reference": None,
        }
        content, preprocessing = _safetensors(certificate.certificate_id), {"hashTable": table}
    else:
        content, preprocessing = _onnx(certificate.certificate_id), {}
    manifest = {
        "formatVersion": 2,
        "task": model.task,
        "entry": model.entry,
        "inputs": [{"name": "x"}],
        "outputs": [{"name": "y"}],
        "preprocessing": preprocessing,
    }
    return {"hushdoc.json": _json(manifest), model.entry: content}


def _onnx(certificate_id: str) -> bytes:
    """An ONNX model of one Identity node, spelled byte by byte.

    The field numbers are those of onnx.proto3. Written by hand so that it never changes with the
    version of a library.
    """
    shape = _message(2, _message(1, _number(1, 1)))
    tensor = _message(2, _message(1, _number(1, 1), shape))
    node = _message(1, _text(1, "x"), _text(2, "y"), _text(4, "Identity"))
    graph = _message(
        7,
        node,
        _text(2, "placeholder"),
        _message(11, _text(1, "x"), tensor),
        _message(12, _text(1, "y"), tensor),
    )
    opset = _message(8, _text(1, ""), _number(2, 17))
    metadata = _message(14, _text(1, CERTIFICATE_ID_KEY), _text(2, certificate_id))
    return _number(1, 8) + graph + opset + metadata


def _safetensors(certificate_id: str) -> bytes:
    """A table of made-up weights, none of them zero."""
    count = hash_fill.ROWS * hash_fill.COLUMNS
    weights = struct.pack(f"<{count}f", *((index * 7 % 11 - 5.5) / 4 for index in range(count)))
    header = _json(
        {
            "__metadata__": {CERTIFICATE_ID_KEY: certificate_id},
            TABLE: {
                "dtype": "F32",
                "shape": [hash_fill.ROWS, hash_fill.COLUMNS],
                "data_offsets": [0, len(weights)],
            },
        }
    )
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + weights


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode("ascii"))
