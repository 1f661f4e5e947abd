"""A torch model as one ONNX file: weights inside, batch and sequence free, no trace of its origin.

Contract: the bytes hold no path, stack trace or comment of the machine that exported them. The
exporter writes thousands; everything it notes beside the graph itself is removed, and the texts
that remain are searched before the file leaves this module.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.errors import (
    CheckpointError,
    HushdocError,
    LimitExceededError,
    MissingExtraError,
    needs_extra,
)
from hushdoc.runtime.session import SCALED_BY_RUN
from hushdoc_export import attention

MAX_MODEL_BYTES = 2**31 - 2**20
"""A protobuf message, and so an ONNX file with its weights inside, can't reach 2 GiB (bytes)."""

_NOTES = ("doc_string", "metadata_props")


@dataclass(frozen=True, kw_only=True)
class Free:
    """A dimension of an input that may have any size in a range.

    Inputs of one graph share it by its name.
    """

    name: str
    minimum: int
    maximum: int


BATCH = Free(name="batch", minimum=1, maximum=4096)


def sequence(max_tokens: int) -> Free:
    """Returns the free dimension of a text's tokens."""
    return Free(name="sequence", minimum=2, maximum=max_tokens)


def trace(
    model: Any,
    example: Mapping[str, Any],  # no free dimension of size 0 or 1
    *,
    free: Mapping[str, Mapping[int, Free]],  # of each input
    outputs: Sequence[str],
    fused: bool = True,
) -> Any:
    """Returns the onnx.ModelProto of any torch model, bare of notes.

    The model's forward takes the example's tensors in their order. Attention is one operator of the
    graph if it is to be `fused` and this version of torch can write it.
    """
    torch = require_packages()
    _require_one_file(model)
    sizes = {dim for axes in free.values() for dim in axes.values()}
    dims = {dim: torch.export.Dim(dim.name, min=dim.minimum, max=dim.maximum) for dim in sizes}
    try:
        with silence(), torch.no_grad(), attention.in_one_step(model):
            program = torch.onnx.export(
                model.eval(),
                tuple(example.values()),
                dynamo=True,
                external_data=False,
                verbose=False,
                opset_version=attention.opset(torch) if fused else None,
                input_names=list(example),
                output_names=list(outputs),
                dynamic_shapes=_as_taken(
                    model,
                    [
                        {axis: dims[dim] for axis, dim in free.get(name, {}).items()}
                        for name in example
                    ],
                ),
            )
            proto = program.model_proto
    except HushdocError:
        raise
    except Exception as error:  # the exporter raises many types, its own among them
        raise CheckpointError(
            f"The model can't be exported: {_last_line(error)}. Expected one that this version "
            "of torch can trace, such as a token classifier of LayoutLM, LayoutLMv3, LiLT, BERT or "
            "RoBERTa."
        ) from error
    strip(proto)
    return proto


def _as_taken(model: Any, each: Sequence[Any]) -> tuple[Any, ...]:
    """Returns what belongs to each input as the forward takes them: those of `*rest` as a tuple."""
    kinds = [parameter.kind for parameter in inspect.signature(model.forward).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        return tuple(each)
    named = kinds.index(inspect.Parameter.VAR_POSITIONAL)
    return (*each[:named], tuple(each[named:]))


def _require_one_file(model: Any) -> None:
    size = sum(value.numel() * value.element_size() for value in model.state_dict().values())
    if size > MAX_MODEL_BYTES:
        raise LimitExceededError(
            f"The weights hold {size} bytes; one ONNX file holds at most {MAX_MODEL_BYTES}. "
            "Export a smaller model, or one in half precision."
        )


def strip(message: Any) -> None:
    """Removes every doc string and metadata entry, in subgraphs and functions too."""
    for field, value in message.ListFields():
        if field.name in _NOTES:
            message.ClearField(field.name)
        else:
            for part in _parts(field, value):
                if not isinstance(part, (str, bytes)):
                    strip(part)


def _parts(field: Any, value: Any) -> list[Any]:
    """Returns the messages and texts of a protobuf field, one or many; numbers are left out."""
    if field.message_type is None and field.type not in (field.TYPE_STRING, field.TYPE_BYTES):
        return []
    single = isinstance(value, (str, bytes)) or hasattr(value, "ListFields")
    return [value] if single else list(value)


def serialize(proto: Any, *, notes: Mapping[str, str]) -> bytes:
    """Returns the file's bytes, with our own metadata and nobody else's.

    The proto is stripped; the notes, beside whether activations are scaled by the run, are set in
    place, weights are never copied. A local path that is left in the graph is a CheckpointError.
    """
    with needs_extra("onnx", "export"):
        import onnx
    metadata = dict(notes)
    if any(node.op_type.startswith("DynamicQuantize") for node in proto.graph.node):
        metadata[SCALED_BY_RUN] = "true"
    onnx.helper.set_model_props(proto, dict(sorted(metadata.items())))
    content: bytes = proto.SerializeToString(deterministic=True)
    require_no_path(proto, content)
    return content


def require_no_path(proto: Any, content: bytes) -> None:
    """Raises if a path of this machine, or a piece of a stack trace, is left in a graph.

    Weights are searched only for texts too long to stand there by chance.
    """
    marks = _marks()
    for text in _texts(proto):
        for mark in marks:
            if mark in text:
                raise _leak(text)
    for trace in (b'File "', b"site-packages"):
        if trace in content:
            raise _leak(trace.decode())


def _marks() -> list[str]:
    """Returns what no text of an exported graph may hold."""
    home = os.path.expanduser("~")  # without an error where nobody knows it, as in a container
    places = (sys.prefix, sys.base_prefix, tempfile.gettempdir(), os.getcwd(), home)
    here = str(Path(__file__).resolve().parents[2])
    # A root such as "/" would be found in any text with a slash.
    return ['File "', "site-packages", *(place for place in (*places, here) if len(place) > 3)]


def _texts(message: Any) -> Iterator[str]:
    """Yields every text in a protobuf message, tensors' raw bytes left out."""
    for field, value in message.ListFields():
        if field.name == "raw_data":
            continue
        for part in _parts(field, value):
            if isinstance(part, str):
                yield part
            elif isinstance(part, bytes):
                yield part.decode("utf-8", errors="replace")
            else:
                yield from _texts(part)


def _leak(text: str) -> CheckpointError:
    return CheckpointError(
        f"The exported graph holds {text[:80]!r}, which reveals something about this machine; "
        "nothing was written. Expected only operators, shapes and weights; please report the model."
    )


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keeps the progress, warnings and log lines of torch and transformers from the terminal."""
    previous = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            with contextlib.redirect_stderr(io.StringIO()):
                yield
    finally:
        logging.disable(previous)


def require_packages() -> Any:
    """Returns torch; raises MissingExtraError unless all that an export needs is installed."""
    for name in ("torch", "transformers", "onnx", "onnxscript", "onnxruntime"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(name, "export")
    import torch

    return torch


def _last_line(error: BaseException) -> str:
    """Returns the exporter's summary: its messages are pages long and end with the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    summary = [line for line in lines if line.startswith("<class")] or lines[:1]
    return (summary or [type(error).__name__])[0].rstrip(".")[:300]
