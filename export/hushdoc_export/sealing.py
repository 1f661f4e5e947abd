"""Seals an artifact: files, certificate and signature in one folder that appears whole or not.

hushdoc.json          manifest: task, entry file, inputs and outputs, preprocessing
onnx/model.onnx       the graph with its weights (onnx/model_int8.onnx or onnx/model_fp16.onnx where
                      it is a variant), or table.safetensors, a table of hashed features
tokenizer.json        labels.json
privacy.intoto.jsonl  the signed statement over all of the above
README.md             model card, written from the certificate; unsigned, never parsed
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.artifact import folder
from hushdoc.certificate import statement
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Claim
from hushdoc.certificate.subjects import ENVELOPE_FILE
from hushdoc.labels import LabelSet
from hushdoc.reports.model_card import model_card
from hushdoc.runtime.encoding import PIXELS, Preprocessing
from hushdoc.signing import dsse
from hushdoc.signing.keys import PrivateKey
from hushdoc.system import atomic_files

FORMAT_VERSION = 1
ENTRY = "onnx/model.onnx"

Shapes = Mapping[str, list[int | str | None]]


@dataclass(frozen=True, kw_only=True)
class Payload:
    """What an artifact holds besides its certificate.

    Attributes:
        entry: What the ONNX file is called.
        graph: The ONNX file.
        inputs: Name and shape of each of its inputs, integers all but pixels, which are floats; a
            named dimension is free.
        outputs: The same of its outputs, which are floats.
        labels: The fields it finds.
        preprocessing: How words become its inputs.
        tokenizer_json: The tokenizer's content.
    """

    entry: str = ENTRY
    graph: bytes
    inputs: Shapes
    outputs: Shapes
    labels: LabelSet
    preprocessing: Preprocessing
    tokenizer_json: bytes


def seal(out: Path, payload: Payload, certificate: Certificate, *, key: PrivateKey) -> Path:
    """Writes an artifact, whole or not at all.

    Args:
        out: Where the folder shall stand; nothing may be there yet.
        payload: Its files.
        certificate: What is said about them.
        key: Who says so.

    Returns:
        The folder.

    Raises:
        OutputExistsError: Something already stands there.
        OutputWriteError: The disk is full or not writable; nothing half-written stays.
        CertificateError: The certificate can't be read back, or its own transcript contradicts it.
    """
    contents = {
        payload.entry: payload.graph,
        "hushdoc.json": dump(manifest(payload, task=certificate.model.task)),
        "labels.json": dump({"fields": list(payload.labels.fields)}),
        "tokenizer.json": payload.tokenizer_json,
    }
    return seal_files(out, contents, certificate, labels=payload.labels, key=key)


def seal_files(
    out: Path,
    contents: Mapping[str, bytes],
    certificate: Certificate,
    *,
    labels: LabelSet | None,
    key: PrivateKey,
) -> Path:
    """Writes an artifact of any files, whole or not at all; as `seal`, which see.

    Args:
        out: Where the folder shall stand; nothing may be there yet.
        contents: Its signed files, by their names in it.
        certificate: What is said about them.
        labels: What it finds or tells apart, for the model card; None where that is nothing.
        key: Who says so.
    """
    with atomic_files.new_folder(out) as partial:
        for name, content in contents.items():
            (partial / name).parent.mkdir(exist_ok=True)
            (partial / name).write_bytes(content)
        signed = statement.statement(certificate, folder.subjects_of(partial))
        digest = hashlib.sha256(signed).hexdigest()
        card = model_card(certificate, labels, payload_sha256=digest)
        (partial / "README.md").write_bytes(card.encode("utf-8"))
        (partial / ENVELOPE_FILE).write_bytes(dsse.sign(signed, key).encode("ascii") + b"\n")
    return out


def manifest(payload: Payload, *, task: str) -> dict[str, Any]:
    """Returns the content of hushdoc.json: what a runtime must know before it runs the graph."""
    return {
        "formatVersion": FORMAT_VERSION,
        "task": task,
        "entry": payload.entry,
        "inputs": [
            _port(name, shape, "float32" if name == PIXELS else "int64")
            for name, shape in payload.inputs.items()
        ],
        "outputs": [_port(name, shape, "float32") for name, shape in payload.outputs.items()],
        "preprocessing": payload.preprocessing.to_dict(),
    }


def summary(name: str, version: int, claim: Claim) -> str:
    """Returns one line about a model's privacy, for tools that show a graph's metadata."""
    told = [
        f"{guarantee.kind}"
        if guarantee.epsilon is None or guarantee.delta is None
        else f"{guarantee.kind} epsilon={guarantee.epsilon:g} delta={guarantee.delta:g}"
        for guarantee in claim.guarantees
    ]
    places = [f"per {item.unit} against {item.adversary}" for item in claim.guarantees]
    promises = "; ".join(f"{words} {place}" for words, place in zip(told, places, strict=True))
    return f"{name} version {version}: {promises}. The signed certificate decides."


def _port(name: str, shape: list[int | str | None], dtype: str) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": shape}


def dump(value: Mapping[str, Any]) -> bytes:
    """Returns one of an artifact's JSON files."""
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode("ascii")
