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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hushdoc.artifact import folder
from hushdoc.artifact.manifest import CERTIFICATE_ID_KEY, FORMAT_VERSION
from hushdoc.certificate import statement
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Guarantee
from hushdoc.certificate.subjects import ENVELOPE_FILE
from hushdoc.labels import LabelSet
from hushdoc.reports.model_card import model_card
from hushdoc.signing import dsse
from hushdoc.signing.keys import PrivateKey
from hushdoc.system import atomic_files

SUMMARY_KEY = "hushdoc.summary"

Shapes = Mapping[str, list[int | str | None]]
"""The shapes of a graph's inputs or outputs by their names; a named dimension is free."""


def seal(
    out: Path,
    contents: Mapping[str, bytes],  # signed files, by their names
    certificate: Certificate,
    *,
    labels: LabelSet | None,  # for the model card
    key: PrivateKey,
) -> Path:
    """Returns the folder of an artifact that was written whole or not at all, where nothing stood.

    Raises:
        OutputExistsError: Something already stands there.
        OutputWriteError: The disk is full or not writable; nothing half-written stays.
        CertificateError: The certificate can't be read back, or its own transcript contradicts it.
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


def manifest(
    certificate: Certificate,
    *,
    preprocessing: Mapping[str, Any],
    inputs: Sequence[Mapping[str, Any]] = (),
    outputs: Sequence[Mapping[str, Any]] = (),
) -> bytes:
    """Returns hushdoc.json: what a runtime must know before it runs the model."""
    return dump(
        {
            "formatVersion": FORMAT_VERSION,
            "task": certificate.model.task,
            "entry": certificate.model.entry,
            "inputs": list(inputs),
            "outputs": list(outputs),
            "preprocessing": dict(preprocessing),
        }
    )


def notes(certificate: Certificate) -> dict[str, str]:
    """Returns the metadata of a model's file: its certificate, and its privacy in one line."""
    model, guarantees = certificate.model, certificate.claim.guarantees
    summary = "; ".join(map(_summary, guarantees))
    return {
        CERTIFICATE_ID_KEY: certificate.certificate_id,
        SUMMARY_KEY: f"{model.name} version {model.version}: {summary}. The signed certificate "
        "decides.",
    }


def _summary(guarantee: Guarantee) -> str:
    numbers = (
        ""
        if guarantee.epsilon is None or guarantee.delta is None
        else f" epsilon={guarantee.epsilon:g} delta={guarantee.delta:g}"
    )
    return f"{guarantee.kind}{numbers} per {guarantee.unit} against {guarantee.adversary}"


def dump(value: Mapping[str, Any]) -> bytes:
    """Returns one of an artifact's JSON files."""
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode("ascii")
