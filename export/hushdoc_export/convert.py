"""A checkpoint becomes a sealed artifact: graph, parity, certificate, signature."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from hushdoc import certificate as certificates
from hushdoc import files
from hushdoc.certificate import Certificate, ModelIdentity, Subject
from hushdoc.errors import LabelMismatchError
from hushdoc.keys import PrivateKey
from hushdoc.runtime.session import Session
from hushdoc_export import graph, parity, sealing
from hushdoc_training.checkpoint import Checkpoint

ASSURANCE = "self-attested"
"""Sealing proves who speaks; that training ran as stated is the issuer's word."""


def export(
    checkpoint_folder: Path,
    out: Path,
    *,
    key: PrivateKey,
    name: str,
    version: int = 1,
    issuer: str,
    expires_at: str | None = None,
) -> Path:
    """Returns the folder of the artifact that was made from a checkpoint.

    Nothing is written before the graph was found to answer like the checkpoint.

    Args:
        checkpoint_folder: What training wrote.
        out: Where the artifact shall stand; nothing may be there yet.
        key: Signs the certificate.
        name: The model's name, for which the key must be authorised where it is loaded.
        version: Grows with every release of that name.
        issuer: Who signs, in words.
        expires_at: "2027-11-21T00:00:00Z", or None.

    Raises:
        OutputExistsError: Something already stands at `out`.
        CheckpointError: The checkpoint is damaged, or its parts do not fit one another.
        ParityError: The graph does not answer like the checkpoint.
        CertificateError: The claim can't be certified.
        OutputWriteError: The disk is full or not writable; nothing half-written stays.
        MissingExtraError: torch, onnx or onnxscript is not installed.
    """
    files.require_free(out)
    checkpoint = Checkpoint.load(checkpoint_folder)
    certificate = Certificate(
        certificate_id=certificates.new_certificate_id(),
        issued_at=certificates.utc_now(),
        expires_at=expires_at,
        issuer=issuer,
        assurance=ASSURANCE,
        model=ModelIdentity(
            name=name,
            version=version,
            task=checkpoint.task,
            format="onnx",
            entry=sealing.ENTRY,
        ),
        claim=checkpoint.claim,
    )
    _require_signable(certificate)
    model = _model(checkpoint)
    content = graph.serialize(
        graph.export_torch(model, max_tokens=checkpoint.preprocessing.max_tokens),
        notes={
            graph.CERTIFICATE_KEY: certificate.certificate_id,
            graph.SUMMARY_KEY: sealing.summary(name, version, checkpoint.claim),
        },
    )
    session = Session(content)
    _require_labels(session, checkpoint)
    result = parity.compare(
        model,
        session,
        preprocessing=checkpoint.preprocessing,
        vocab_size=model.word_embeddings.shape[0],
    )
    certificate = dataclasses.replace(certificate, derivation=(_step(checkpoint, result),))
    payload = sealing.Payload(
        graph=content,
        inputs=session.inputs,
        outputs=session.outputs,
        labels=checkpoint.labels,
        preprocessing=checkpoint.preprocessing,
        tokenizer_json=(checkpoint.folder / "tokenizer.json").read_bytes(),
    )
    return sealing.seal(out, payload, certificate, key=key)


def _require_signable(certificate: Certificate) -> None:
    """Raises what signing would raise, before minutes were spent on the graph."""
    entry = Subject(name=sealing.ENTRY, sha256="0" * 64, size=0)
    certificates.statement(certificate, (entry,))


def _model(checkpoint: Checkpoint) -> Any:
    from hushdoc_training.models import layout

    with graph.silence():
        return layout.load(checkpoint.folder, checkpoint.architecture).eval()


def _require_labels(session: Session, checkpoint: Checkpoint) -> None:
    found = session.outputs[graph.OUTPUT][-1]
    expected = len(checkpoint.labels.tags)
    if found != expected:
        raise LabelMismatchError(
            f"The model answers {found} tags and the checkpoint's labels.json with "
            f"{len(checkpoint.labels.fields)} fields spells {expected}. Train again, or restore "
            "the folder."
        )


def _step(checkpoint: Checkpoint, result: parity.ParityResult) -> dict[str, Any]:
    """Returns what was done to the weights here: a change of format that read no data."""
    weights = checkpoint.folder / "model.safetensors"
    with weights.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {
        "step": "export-onnx",
        "dataDependent": False,
        "from": f"sha256:{digest}",
        "architecture": checkpoint.architecture,
        "parity": result.to_dict(),
    }
