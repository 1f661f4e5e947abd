"""Release: the one way from a torch model to a sealed artifact.

graph -> parity -> variant -> agreement -> manifest -> certificate -> sealing

Nothing is written before the graph was found to answer like its model, and a variant to lose no
more than its releaser accepts. Every network takes this way; tables of hashed features,
which have no graph, and calibration, which changes none, share its certificates and its sealing.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hushdoc.certificate import certificate as certificates
from hushdoc.certificate import statement
from hushdoc.certificate.certificate import Certificate, ModelIdentity
from hushdoc.certificate.claim import Claim
from hushdoc.certificate.subjects import Subject
from hushdoc.errors import ArtifactError, ParityError
from hushdoc.labels import LabelSet
from hushdoc.runtime.session import Session
from hushdoc.runtime.writing import GRAPHS
from hushdoc.signing.keys import PrivateKey
from hushdoc.system import atomic_files
from hushdoc_export import agreement, graph, parity, quantize, sealing
from hushdoc_export.agreement import MAX_ANLS_LOSS, MAX_F1_LOSS, MIN_COSINE, Agreement, Measure
from hushdoc_export.probes import Inputs, Traceable
from hushdoc_export.quantize import MODEL, VARIANTS
from hushdoc_training import audited_claims, inherited_claims

ASSURANCE = "self-attested"
"""Sealing proves who speaks; that training ran as declared is the issuer's word."""


Seen = Callable[[int, int], None]
"""Is told how much of an export is done, of 100: about its share of the time."""

LOADED, TRACED = 25, 90
"""How much is done once the model is loaded, and once its graph is traced."""


def unseen(done: int, total: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """Who releases a model, and as what.

    Attributes:
        key: Signs the certificate.
        name: The model's name, for which the key must be authorised where it is loaded.
        version: Grows with every release of that name.
        issuer: Who signs, in words.
        expires_at: "2027-11-21T00:00:00Z", or None.
        variant: One of quantize.VARIANTS: how the weights of a network are written. Tables have a
            `dtype` of their own, and calibration keeps the variant that it finds.
        max_f1_loss: Points of F1, of 100, that a variant of a model that finds fields may lose on
            invented documents.
        max_anls_loss: Points of ANLS, of 100, that a variant of a model that answers questions may
            lose on invented ones.
        min_cosine: The least mean cosine between the answers of any other model's variant and the
            model's.
    """

    key: PrivateKey
    name: str
    version: int = 1
    issuer: str
    expires_at: str | None = None
    variant: str = "fp32"
    max_f1_loss: float = MAX_F1_LOSS
    max_anls_loss: float = MAX_ANLS_LOSS
    min_cosine: float = MIN_COSINE

    def __post_init__(self) -> None:
        """Refuses variants that nobody can write."""
        if self.variant not in VARIANTS:
            raise ValueError(f"variant is {self.variant!r}; expected one of {', '.join(VARIANTS)}.")

    def certificate(self, claim: Claim, *, task: str, format: str, entry: str) -> Certificate:
        """Returns a new certificate, as yet without the steps from the checkpoint to the artifact.

        What signing would raise is raised here, before minutes are spent on the graph.

        Raises:
            PrivacyError: An audit of the claim refutes it.
            InputError: An audit of what it guarantees has no lower bound.
            CertificateError: It can't be read back, or its own transcript contradicts it.
        """
        audited_claims.require_unrefuted(claim)
        certificate = Certificate(
            certificate_id=certificates.new_certificate_id(),
            issued_at=certificates.utc_now(),
            expires_at=self.expires_at,
            issuer=self.issuer,
            assurance=ASSURANCE,
            model=ModelIdentity(
                name=self.name, version=self.version, task=task, format=format, entry=entry
            ),
            claim=claim,
            derivation=inherited_claims.steps_of(claim.training),
        )
        statement.statement(certificate, (Subject(name=entry, sha256="0" * 64, size=0),))
        return certificate


Sessions = Mapping[str, Session]
"""The graphs of a model, loaded, by their names."""

MeasureAll = Callable[[Certificate, Sessions, Sequence[Sessions]], list[Agreement]]
"""An `agreement.Measure` of models of several graphs."""


class Product(Protocol):
    """A torch model that becomes several graphs, one of which is the artifact's entry."""

    @property
    def model(self) -> Any:
        """The torch model."""

    @property
    def entry(self) -> str:
        """The name of the graph that is the entry."""

    def traced(self, *, fused: bool) -> Mapping[str, Any]:
        """Returns the onnx.ModelProto of each graph by its name."""

    def compared(self, graphs: Sessions, *, tolerance: float | None) -> dict[str, Any]:
        """Returns how close graphs are to the model; a ParityError if not within a tolerance."""

    def example(self, name: str) -> Inputs:
        """Returns inputs of a graph, and those of its outputs that are no float32."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Alone:
    """A model of one graph as a product."""

    traceable: Traceable
    entry: str = MODEL

    @property
    def model(self) -> Any:
        """The torch model."""
        return self.traceable.model

    def traced(self, *, fused: bool) -> Mapping[str, Any]:
        """Returns the graph under its name; windows that the model can't read fail at once."""
        self.traceable.answer(self.traceable.probes[-1])  # the longest
        return {MODEL: self.traceable.traced(fused=fused)}

    def compared(self, graphs: Sessions, *, tolerance: float | None) -> dict[str, Any]:
        """Returns how close it is to the model."""
        return parity.compare(self.traceable, graphs[MODEL], tolerance=tolerance)

    def example(self, name: str) -> Inputs:
        """Returns inputs of it."""
        return self.traceable.probes[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Made:
    """Graphs that may be sealed, with how they were made."""

    contents: Mapping[str, bytes]
    sessions: Sessions
    method: Mapping[str, Any]


def seal(
    out: Path,
    traceable: Traceable,
    release: Release,
    *,
    measure: Measure | None = None,  # how close variants are; cosines of answers by default
    **settings: Any,  # those of `seal_graphs`, which raises
) -> Path:
    """Returns the folder of the artifact of a model of one graph; see `seal_graphs`."""
    alone = measure or agreement.of_answers(traceable, min_mean=release.min_cosine)
    return seal_graphs(
        out,
        Alone(traceable=traceable),
        release,
        measure=lambda certificate, graphs, variants: alone(
            certificate, graphs[MODEL], [variant[MODEL] for variant in variants]
        ),
        **settings,
    )


def seal_graphs(
    out: Path,
    product: Product,
    release: Release,
    *,
    task: str,
    claim: Claim,
    preprocessing: Mapping[str, Any],  # the manifest's description of the model's inputs
    contents: Mapping[str, bytes],  # further signed files, by their names
    measure: MeasureAll,  # how close variants are
    labels: LabelSet | None = None,  # for the model card
    origin: Mapping[str, Any] | None = None,  # where the weights come from; their digest by default
    seen: Seen = unseen,
) -> Path:
    """Returns the folder of the artifact; nothing is written before the graphs answer alike.

    Raises:
        OutputExistsError: Something already stands at `out`.
        CheckpointError: The exporter can't follow the model, or the model fails on a probe.
        ParityError: The graphs do not answer like the model, or the variant not enough.
        CertificateError: The claim can't be certified.
        PrivacyError: An audit of the claim refutes it.
        LimitExceededError: The weights do not fit into one ONNX file.
        OutputWriteError: The disk is full or not writable; nothing half-written stays.
        MissingExtraError: torch, onnx, onnxscript or onnxruntime is not installed.
    """
    atomic_files.require_free(out)
    variant = VARIANTS[release.variant]
    entry = variant.file(product.entry)
    certificate = release.certificate(claim, task=task, format="onnx", entry=entry)
    origin = origin or {"from": f"sha256:{_digest(product.model)}"}
    sealed, certificate = _made(product, certificate, origin, variant, measure, seen)
    graphs: dict[str, dict[str, Any]] = {
        name: {
            "entry": variant.file(name),
            "inputs": _ports(session.inputs, product.example(name)),
            "outputs": _ports(session.outputs, product.example(name)),
        }
        for name, session in sealed.sessions.items()
    }
    main = graphs.pop(product.entry)
    parts = {
        **{variant.file(name): content for name, content in sealed.contents.items()},
        "hushdoc.json": sealing.manifest(
            certificate,
            inputs=main["inputs"],
            outputs=main["outputs"],
            preprocessing={**preprocessing, **({GRAPHS: graphs} if graphs else {})},
        ),
        **contents,
    }
    sealing.seal(out, parts, certificate, labels=labels, key=release.key)
    seen(100, 100)
    return out


def origin_of(folder: Path, architecture: str) -> dict[str, str]:
    """Returns where the weights of a checkpoint's folder come from."""
    with (folder / "model.safetensors").open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"from": f"sha256:{digest}", "architecture": architecture}


def _made(
    product: Product,
    certificate: Certificate,
    origin: Mapping[str, Any],
    variant: quantize.Variant,
    measure: MeasureAll,
    seen: Seen,
) -> tuple[_Made, Certificate]:
    """Returns the graphs to seal, and the certificate with the steps that led to them."""
    try:
        protos, exported, parities = _exported(product, certificate, fused=variant.fused)
    except ArtifactError:
        if not variant.fused:
            raise
        # Of operators that stand for several, ONNX Runtime can't run all that torch writes:
        # RotaryEmbedding for positions that the rows of a batch share, as ModernBERT has it.
        protos, exported, parities = _exported(product, certificate, fused=False)
    seen(TRACED, 100)
    before = certificate.derivation
    # A change of format that read no data.
    step = {"step": "export-onnx", "dataDependent": False, **origin, **exported.method}
    step["parity"] = parities
    if variant.name == "fp32":
        return exported, dataclasses.replace(certificate, derivation=(*before, step))
    best, measured = _closest(protos, exported, certificate, variant, measure)
    measured.require(variant.name)
    rounding = {
        "step": f"round-to-{variant.name}",
        # Scales come from the weights; activations are rounded as they come.
        "dataDependent": False,
        **best.method,
        "parity": product.compared(best.sessions, tolerance=None),
        "agreement": measured.to_dict(),
    }
    claim = certificate.claim
    claim = dataclasses.replace(claim, caveats=(*claim.caveats, measured.caveat(variant.name)))
    derivation = (*before, step, rounding)
    return best, dataclasses.replace(certificate, claim=claim, derivation=derivation)


def _exported(
    product: Product, certificate: Certificate, *, fused: bool
) -> tuple[Mapping[str, Any], _Made, dict[str, Any]]:
    """Returns graphs that answer like their model, as protos and loaded, and how close they are."""
    level = VARIANTS["fp32"].level
    traced = product.traced(fused=fused)
    protos = {name: quantize.optimized(proto, level) for name, proto in traced.items()}
    exported = _loaded(protos, {"optimized": level}, certificate)
    return protos, exported, product.compared(exported.sessions, tolerance=parity.TOLERANCE)


def _closest(
    protos: Mapping[str, Any],
    exported: _Made,
    certificate: Certificate,
    variant: quantize.Variant,
    measure: MeasureAll,
) -> tuple[_Made, Agreement]:
    """Returns the way to write a variant that loses least, and how close it is.

    One that computes some products in floats is taken only where no other is close enough.
    """
    # A way that some graph has and another has not is left out.
    ways = zip(*(quantize.written(proto, variant) for proto in protos.values()), strict=False)
    candidates = [
        _loaded(
            {name: rounded for name, (rounded, _) in zip(protos, graphs, strict=True)},
            graphs[0][1],
            certificate,
        )
        for graphs in ways
    ]
    sessions = [candidate.sessions for candidate in candidates]
    measured = measure(certificate, exported.sessions, sessions)
    found = [*zip(candidates, measured, strict=True)]
    close = [pair for pair in found if _is_close(pair[1], variant)]
    return min(
        close or found,
        key=lambda pair: (bool(close) and quantize.IN_FLOATS in pair[0].method, pair[1].distance),
    )


def _is_close(found: Agreement, variant: quantize.Variant) -> bool:
    """Returns whether a variant may be sealed."""
    try:
        found.require(variant.name)
    except ParityError:
        return False
    return True


def _loaded(
    protos: Mapping[str, Any], method: Mapping[str, Any], certificate: Certificate
) -> _Made:
    notes = sealing.notes(certificate)
    contents = {name: graph.serialize(proto, notes=notes) for name, proto in protos.items()}
    sessions = {name: Session(content) for name, content in contents.items()}
    return _Made(contents=contents, sessions=sessions, method=method)


def _digest(model: Any) -> str:
    """Returns the digest of all weights with their names, in the order of the names."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        digest.update(np.ascontiguousarray(value.detach().cpu().numpy()).data)
    return digest.hexdigest()


def _ports(shapes: sealing.Shapes, example: Inputs) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "dtype": str(example[name].dtype) if name in example else "float32",
            "shape": shape,
        }
        for name, shape in shapes.items()
    ]
