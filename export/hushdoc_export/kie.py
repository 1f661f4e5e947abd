"""A checkpoint becomes a sealed artifact: graph, parity, variant, certificate, signature."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.certificate import certificate as certificates
from hushdoc.certificate import statement
from hushdoc.certificate.certificate import Certificate, ModelIdentity
from hushdoc.certificate.subjects import Subject
from hushdoc.errors import LabelMismatchError
from hushdoc.runtime.kie import KIEModel
from hushdoc.runtime.session import Session
from hushdoc.signing.keys import PrivateKey
from hushdoc.system import atomic_files
from hushdoc_export import agreement, graph, parity, quantize, sealing
from hushdoc_export.agreement import MAX_F1_LOSS, Agreement
from hushdoc_export.quantize import VARIANTS, Variant
from hushdoc_training.checkpoint import Checkpoint

ASSURANCE = "self-attested"
"""Sealing proves who speaks; that training ran as stated is the issuer's word."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Job:
    """A checkpoint on its way: what is read, what is said about it, what it shall become."""

    checkpoint: Checkpoint
    certificate: Certificate
    kind: Variant
    max_f1_loss: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Candidate:
    """A graph, loaded, with how it was made."""

    content: bytes
    session: Session
    method: Mapping[str, Any]


def export(
    checkpoint_folder: Path,
    out: Path,
    *,
    key: PrivateKey,
    name: str,
    version: int = 1,
    issuer: str,
    expires_at: str | None = None,
    variant: str = "fp32",
    max_f1_loss: float = MAX_F1_LOSS,
) -> Path:
    """Returns the folder of the artifact that was made from a checkpoint.

    Nothing is written before the graph was found to answer like the checkpoint, and a variant to
    find the same fields.

    Args:
        checkpoint_folder: What training wrote.
        out: Where the artifact shall stand; nothing may be there yet.
        key: Signs the certificate.
        name: The model's name, for which the key must be authorised where it is loaded.
        version: Grows with every release of that name.
        issuer: Who signs, in words.
        expires_at: "2027-11-21T00:00:00Z", or None.
        variant: One of quantize.VARIANTS.
        max_f1_loss: Points of F1, of 100, that a variant may lose on invented documents.

    Raises:
        OutputExistsError: Something already stands at `out`.
        CheckpointError: The checkpoint is damaged, or its parts do not fit one another.
        ParityError: The graph does not answer like the checkpoint, or the variant loses too much.
        CertificateError: The claim can't be certified.
        OutputWriteError: The disk is full or not writable; nothing half-written stays.
        MissingExtraError: torch, onnx, onnxscript or onnxruntime is not installed.
    """
    kind = _variant(variant)
    atomic_files.require_free(out)
    checkpoint = Checkpoint.load(checkpoint_folder)
    certificate = Certificate(
        certificate_id=certificates.new_certificate_id(),
        issued_at=certificates.utc_now(),
        expires_at=expires_at,
        issuer=issuer,
        assurance=ASSURANCE,
        model=ModelIdentity(
            name=name, version=version, task=checkpoint.task, format="onnx", entry=kind.entry
        ),
        claim=checkpoint.claim,
    )
    _require_signable(certificate)
    job = _Job(checkpoint=checkpoint, certificate=certificate, kind=kind, max_f1_loss=max_f1_loss)
    chosen, sealed = _make(job)
    payload = sealing.Payload(
        entry=kind.entry,
        graph=chosen.content,
        inputs=chosen.session.inputs,
        outputs=chosen.session.outputs,
        labels=checkpoint.labels,
        preprocessing=checkpoint.preprocessing,
        tokenizer_json=(checkpoint.folder / "tokenizer.json").read_bytes(),
    )
    return sealing.seal(out, payload, sealed, key=key)


def _variant(name: str) -> Variant:
    if name not in VARIANTS:
        raise ValueError(f"variant is {name!r}; expected one of {', '.join(VARIANTS)}.")
    return VARIANTS[name]


def _require_signable(certificate: Certificate) -> None:
    """Raises what signing would raise, before minutes were spent on the graph."""
    entry = Subject(name=certificate.model.entry, sha256="0" * 64, size=0)
    statement.statement(certificate, (entry,))


def _make(job: _Job) -> tuple[_Candidate, Certificate]:
    """Returns the graph that is to be sealed, and the certificate with the steps that led to it."""
    model = _model(job.checkpoint)
    settings = job.checkpoint.preprocessing
    size = _image_size(model, job.checkpoint)
    proto = graph.export_torch(model, max_tokens=settings.max_tokens, image_size=size)
    level = VARIANTS["fp32"].level
    proto = quantize.optimized(proto, level)
    exported = _load(job, proto, {"optimized": level})
    _require_labels(exported.session, job.checkpoint)
    result = _parity(model, exported, job.checkpoint, tolerance=parity.TOLERANCE)
    step = {**_origin(job.checkpoint), **exported.method, "parity": result.to_dict()}
    if job.kind.name == "fp32":
        return exported, dataclasses.replace(job.certificate, derivation=(step,))
    best, measured = _closest(job, proto, exported)
    agreement.require_agreement(job.kind.name, measured, max_f1_loss=job.max_f1_loss)
    result = _parity(model, best, job.checkpoint, tolerance=None)
    rounding = {
        "step": f"round-to-{job.kind.name}",
        # Scales come from the weights; activations are rounded as they come.
        "dataDependent": False,
        **best.method,
        "parity": result.to_dict(),
        "agreement": measured.to_dict(),
        "maxF1Loss": job.max_f1_loss,
    }
    claim = job.certificate.claim
    claim = dataclasses.replace(claim, caveats=(*claim.caveats, _caveat(job.kind, measured)))
    return best, dataclasses.replace(job.certificate, claim=claim, derivation=(step, rounding))


def _closest(job: _Job, proto: Any, exported: _Candidate) -> tuple[_Candidate, Agreement]:
    """Returns the variant that loses least, of the ways to write it, and what it loses."""
    labels = job.checkpoint.labels
    tried = []
    with agreement.asked(labels, images=job.checkpoint.preprocessing.image is not None) as asked:
        reference = agreement.fields_of(_reader(job, exported.session), asked)
        for made, method in quantize.written(proto, job.kind):
            candidate = _load(job, made, method)
            found = agreement.fields_of(_reader(job, candidate.session), asked)
            tried.append((candidate, agreement.compare(reference, found, asked, labels)))
    return min(tried, key=lambda pair: (pair[1].f1_loss, -pair[1].field_agreement))


def _load(job: _Job, proto: Any, method: Mapping[str, Any]) -> _Candidate:
    identity = job.certificate.model
    summary = sealing.summary(identity.name, identity.version, job.checkpoint.claim)
    notes = {
        graph.CERTIFICATE_KEY: job.certificate.certificate_id,
        graph.SUMMARY_KEY: summary,
    }
    content = graph.serialize(proto, notes=notes)
    return _Candidate(content=content, session=Session(content), method=method)


def _reader(job: _Job, session: Session) -> KIEModel:
    """Returns a graph as an application will use it."""
    return KIEModel(
        certificate=job.certificate,
        labels=job.checkpoint.labels,
        preprocessing=job.checkpoint.preprocessing,
        encoder=job.checkpoint.encoder(),
        session=session,
    )


def _parity(
    model: Any,
    candidate: _Candidate,
    checkpoint: Checkpoint,
    *,
    tolerance: float | None,
) -> parity.ParityResult:
    return parity.compare(
        model,
        candidate.session,
        preprocessing=checkpoint.preprocessing,
        vocab_size=model.word_embeddings.shape[0],
        tolerance=tolerance,
    )


def _model(checkpoint: Checkpoint) -> Any:
    from hushdoc_training.models import layout

    with graph.silence():
        return layout.load(checkpoint.folder, checkpoint.architecture).eval()


def _image_size(model: Any, checkpoint: Checkpoint) -> int | None:
    """Returns the side of the images that a checkpoint reads, None where it reads none."""
    from hushdoc_training.models import layout

    image = checkpoint.preprocessing.image
    return None if image is None else layout.require_size(model, image)


def _require_labels(session: Session, checkpoint: Checkpoint) -> None:
    found = session.outputs[graph.OUTPUT][-1]
    expected = len(checkpoint.labels.tags)
    if found != expected:
        raise LabelMismatchError(
            f"The model answers {found} tags and the checkpoint's labels.json with "
            f"{len(checkpoint.labels.fields)} fields spells {expected}. Train again, or restore "
            "the folder."
        )


def _origin(checkpoint: Checkpoint) -> dict[str, Any]:
    """Returns what was done to the weights here: a change of format that read no data."""
    weights = checkpoint.folder / "model.safetensors"
    with weights.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {
        "step": "export-onnx",
        "dataDependent": False,
        "from": f"sha256:{digest}",
        "architecture": checkpoint.architecture,
    }


def _caveat(kind: Variant, measured: Agreement) -> str:
    return (
        f"This is the {kind.name} variant: its weights were rounded after training. On "
        f"{measured.documents} invented documents {measured.field_agreement:.1f} % (F1) of its "
        f"fields are those of the float32 graph, a loss of {measured.f1_loss:.2f} points. "
        "Measured scores above are those of the weights before rounding."
    )
