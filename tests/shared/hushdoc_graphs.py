"""Small ONNX graphs, byte by byte: they run where the package onnx is not installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from hushdoc_builders import message, number


def node(
    operator: str, inputs: Sequence[str], output: str, *, domain: str = "", **integers: int
) -> bytes:
    """Returns a node with integer attributes."""
    kind = 2  # AttributeProto.INT
    attributes = (
        message(5, message(1, name), number(3, value), number(20, kind))
        for name, value in integers.items()
    )
    names = (message(1, name) for name in inputs)
    named = (message(2, output), message(4, operator), message(7, domain))
    return b"".join((*names, *named, *attributes))


def port(name: str, shape: Sequence[int | str]) -> bytes:
    """Returns an input or output of float32; a name stands for a free size."""
    sizes = (
        message(1, number(1, size) if isinstance(size, int) else message(2, size)) for size in shape
    )
    return message(1, name) + message(2, message(1, number(1, 1), message(2, *sizes)))


def weight(name: str, values: np.ndarray) -> bytes:
    """Returns an initializer of int8, where values are, or of float32."""
    sizes = b"".join(number(1, size) for size in values.shape)
    kind, stored = (3, values) if values.dtype == np.int8 else (1, values.astype("<f4"))
    return b"".join((sizes, number(2, kind), message(8, name), message(9, stored.tobytes())))


def model(
    nodes: Sequence[bytes],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Mapping[str, Sequence[int | str]],
    weights: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """Returns an ONNX file of operators of version 20."""
    graph = (
        *(message(1, found) for found in nodes),
        message(2, "g"),
        *(message(5, weight(name, values)) for name, values in weights.items()),
        *(message(11, port(name, shape)) for name, shape in inputs.items()),
        *(message(12, port(name, shape)) for name, shape in outputs.items()),
    )
    properties = (
        message(14, message(1, key), message(2, value)) for key, value in (metadata or {}).items()
    )
    operators = (
        message(8, message(1, domain), number(2, version))
        for domain, version in (("", 20), ("com.microsoft", 1))
    )
    return b"".join((number(1, 10), *operators, message(7, *graph), *properties))
