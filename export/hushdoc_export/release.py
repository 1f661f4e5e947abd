"""Release: any one-graph model, traced, compared with its original, certified and sealed."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.certificate import certificate as certificates
from hushdoc.certificate import statement
from hushdoc.certificate.certificate import Certificate, ModelIdentity
from hushdoc.certificate.claim import Claim
from hushdoc.certificate.subjects import Subject
from hushdoc.errors import CheckpointError, ParityError
from hushdoc.labels import LabelSet
from hushdoc.runtime.session import Session
from hushdoc.signing.keys import PrivateKey
from hushdoc.system import atomic_files
from hushdoc_export import graph, quantize, sealing
from hushdoc_export.quantize import VARIANTS

ASSURANCE = "self-attested"
"""Sealing proves who speaks; that training ran as stated is the issuer's word."""

TOLERANCE = 1e-4
"""Largest absolute difference between two outputs that is still rounding in float32, where outputs
are of the size of one; of larger ones it is relative to the largest."""

MIN_LIKENESS = 0.98
"""What a variant that rounds its weights keeps, unless less is asked for by name."""

Inputs = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Release:
    """Who releases a model, and as what.

    Attributes:
        key: Signs the certificate.
        name: The model's name, for which the key must be authorised where it is loaded.
        version: Grows with every release of that name.
        issuer: Who signs, in words.
        expires_at: "2027-11-21T00:00:00Z", or None.
        variant: One of quantize.VARIANTS: how the weights are written.
        min_likeness: The least mean cosine between a variant's answers and the model's.
    """

    key: PrivateKey
    name: str
    version: int = 1
    issuer: str
    expires_at: str | None = None
    variant: str = "fp32"
    min_likeness: float = MIN_LIKENESS

    def __post_init__(self) -> None:
        """Refuses variants that nobody can write."""
        if self.variant not in VARIANTS:
            raise ValueError(f"variant is {self.variant!r}; expected one of {', '.join(VARIANTS)}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Traceable:
    """A torch model with what is needed to trace it and to compare the graph with it.

    Attributes:
        model: Its forward takes the inputs by name and answers with one tensor.
        free: For each input its dimensions that may have another size than the first probe's.
        output: What the answer is called.
        probes: Invented inputs that both are asked; the first is also what is traced, so no free
            dimension of it may be of size 1.
        masked: Whether the answer has a row for each token, of which those outside
            `attention_mask` mean nothing.
    """

    model: Any
    free: Mapping[str, Mapping[int, graph.Free]]
    output: str
    probes: tuple[Inputs, ...]
    masked: bool = False


def seal(
    out: Path,
    traceable: Traceable,
    release: Release,
    *,
    task: str,
    claim: Claim,
    preprocessing: Mapping[str, Any],
    contents: Mapping[str, bytes],
    labels: LabelSet | None = None,
) -> Path:
    """Returns the folder of the artifact; nothing is written before the graph answers alike.

    Args:
        out: Where the folder shall stand; nothing may be there yet.
        traceable: The model.
        release: Who releases it, and as what.
        task: One of certificate.TASKS.
        claim: What training says about privacy.
        preprocessing: What the manifest says about the model's inputs.
        contents: The artifact's further signed files, by their names in it.
        labels: What it tells apart, for the model card.

    Raises:
        OutputExistsError: Something already stands at `out`.
        CheckpointError: The exporter can't follow the model, or the model fails on a probe.
        ParityError: The graph does not answer like the model, or the variant not enough.
        CertificateError: The claim can't be certified.
        LimitExceededError: The weights do not fit into one ONNX file.
        OutputWriteError: The disk is full or not writable; nothing half-written stays.
        MissingExtraError: torch, onnx or onnxscript is not installed.
    """
    atomic_files.require_free(out)
    certificate = _certificate(release, task, claim)
    entry = certificate.model.entry
    # What signing would raise is raised before minutes were spent on the graph.
    statement.statement(certificate, (Subject(name=entry, sha256="0" * 64, size=0),))
    content, session, steps = _made(traceable, release, certificate)
    certificate = dataclasses.replace(certificate, derivation=steps)
    manifest = {
        "formatVersion": sealing.FORMAT_VERSION,
        "task": task,
        "entry": entry,
        "inputs": list(_ports(session.inputs, traceable.probes[0])),
        "outputs": list(_ports(session.outputs, {})),
        "preprocessing": dict(preprocessing),
    }
    parts = {entry: content, "hushdoc.json": sealing.dump(manifest), **contents}
    return sealing.seal_files(out, parts, certificate, labels=labels, key=release.key)


def _made(
    traceable: Traceable, release: Release, certificate: Certificate
) -> tuple[bytes, Session, tuple[dict[str, Any], ...]]:
    """Returns the graph that is sealed, loaded, and the steps that led to it."""
    proto = quantize.optimized(_traced(traceable), VARIANTS["fp32"].level)
    content = _serialized(proto, certificate)
    session = Session(content)
    first = {
        "step": "export-onnx",
        "dataDependent": False,
        "from": f"sha256:{_digest(traceable.model)}",
        "optimized": VARIANTS["fp32"].level,
        "parity": compare(traceable, session),
    }
    if release.variant == "fp32":
        return content, session, (first,)
    tried = []
    for made, method in quantize.written(proto, VARIANTS[release.variant]):
        content = _serialized(made, certificate)
        session = Session(content)
        tried.append((likeness(traceable, session), content, session, method))
    told, content, session, method = max(tried, key=lambda item: item[0]["mean"])
    if not told["mean"] >= release.min_likeness:  # written so that NaN fails
        raise ParityError(
            f"The {release.variant} variant answers with a mean cosine of {told['mean']:.4f} to "
            f"the model's answers on invented inputs; at least {release.min_likeness:g} is asked "
            "for. Export the fp32 variant, or name what you accept: the certificate will state it.",
            code="VARIANT_LOSES_TOO_MUCH",
        )
    second = {
        "step": f"round-to-{release.variant}",
        # Scales come from the weights; activations are rounded as they come.
        "dataDependent": False,
        **method,
        "likeness": told,
    }
    return content, session, (first, second)


def likeness(traceable: Traceable, session: Session) -> dict[str, Any]:
    """Returns the cosines between a variant's answers and the model's, as the derivation says it.

    Answers with a row for each token are averaged over their tokens first.
    """
    cosines: list[float] = []
    for probe in traceable.probes:
        pairs = [_ask(traceable, probe), session.run(probe)[0]]
        if traceable.masked:
            mask = probe["attention_mask"][..., None]
            pairs = [(answer * mask).sum(axis=1) / mask.sum(axis=1) for answer in pairs]
        expected, found = (answer.astype(np.float64) for answer in pairs)
        lengths = np.linalg.norm(expected, axis=1) * np.linalg.norm(found, axis=1)
        cosines += ((expected * found).sum(axis=1) / np.maximum(lengths, 1e-12)).tolist()
    return {
        "answers": len(cosines),
        "mean": round(float(np.mean(cosines)), 6),
        "least": round(float(np.min(cosines)), 6),
        "inputs": "invented",
    }


def compare(traceable: Traceable, session: Session) -> dict[str, Any]:
    """Returns how close a graph is to its model, as the certificate's derivation says it.

    Raises:
        ParityError: They differ; the message names the shapes and the figure.
        CheckpointError: The model can't read a probe.
    """
    worst = 0.0
    for probe in traceable.probes:
        expected = _ask(traceable, probe)
        found = session.run(probe)[0]
        shapes = {name: list(value.shape) for name, value in probe.items()}
        if found.shape != expected.shape:
            raise ParityError(
                f"For inputs of the shapes {shapes} the graph answers {found.shape} and the model "
                f"{expected.shape}. Expected the same; export again with the versions in "
                "constraints.txt."
            )
        if traceable.masked:
            told = probe["attention_mask"].astype(bool)
            found, expected = found[told], expected[told]
        size = max(1.0, float(np.abs(expected).max(initial=0)))
        difference = float(np.abs(found - expected).max(initial=0)) / size
        if not difference <= TOLERANCE:  # written so that NaN fails
            raise ParityError(
                f"For inputs of the shapes {shapes} graph and model differ by {difference:.3g}; at "
                f"most {TOLERANCE:g} is rounding. Nothing was written; export again with the "
                "versions in constraints.txt."
            )
        worst = max(worst, difference)
    return {
        "shapes": [list(next(iter(probe.values())).shape) for probe in traceable.probes],
        "maxDifference": worst,
        "tolerance": TOLERANCE,
        "inputs": "invented",
    }


def token_probes(
    vocab_size: int, *, max_tokens: int, pad_id: int, boxes: bool = False
) -> tuple[Inputs, ...]:
    """Returns invented texts: short, longest, alone and with rows that end in padding.

    Args:
        vocab_size: Token ids are drawn below it.
        max_tokens: Longest window.
        pad_id: Fills rows that are shorter than their batch.
        boxes: Whether the model reads boxes too.
    """
    generator = np.random.default_rng(20261121)
    shapes = dict.fromkeys(
        (rows, min(length, max_tokens))
        for rows, length in ((2, 12), (1, 3), (5, 2), (3, 33), (1, max_tokens))
    )
    probes = []
    for rows, length in shapes:
        mask = np.ones((rows, length), dtype=np.int64)
        for row in range(1, rows):
            mask[row, int(generator.integers(1, length + 1)) :] = 0
        ids = generator.integers(0, vocab_size, size=(rows, length), dtype=np.int64)
        probe = {"input_ids": np.where(mask == 1, ids, pad_id)}
        if boxes:
            corners = generator.integers(0, 1001, size=(rows, length, 2, 2), dtype=np.int64)
            probe["bbox"] = np.sort(corners, axis=2).reshape(rows, length, 4) * mask[..., None]
        probes.append({**probe, "attention_mask": mask})
    return tuple(probes)


def token_axes(max_tokens: int, *, boxes: bool = False) -> dict[str, dict[int, graph.Free]]:
    """Returns the free dimensions of a text's inputs, in the order of `token_probes`.

    Args:
        max_tokens: Longest window.
        boxes: Whether the model reads boxes too.
    """
    names = ("input_ids", "bbox", "attention_mask") if boxes else ("input_ids", "attention_mask")
    return dict.fromkeys(names, {0: graph.BATCH, 1: graph.sequence(max_tokens)})


def _certificate(release: Release, task: str, claim: Claim) -> Certificate:
    return Certificate(
        certificate_id=certificates.new_certificate_id(),
        issued_at=certificates.utc_now(),
        expires_at=release.expires_at,
        issuer=release.issuer,
        assurance=ASSURANCE,
        model=ModelIdentity(
            name=release.name,
            version=release.version,
            task=task,
            format="onnx",
            entry=VARIANTS[release.variant].entry,
        ),
        claim=claim,
    )


def _traced(traceable: Traceable) -> Any:
    import torch

    example = {
        name: torch.from_numpy(np.ascontiguousarray(value))
        for name, value in traceable.probes[0].items()
    }
    return graph.trace(traceable.model, example, free=traceable.free, outputs=(traceable.output,))


def _serialized(proto: Any, certificate: Certificate) -> bytes:
    identity = certificate.model
    notes = {
        graph.CERTIFICATE_KEY: certificate.certificate_id,
        graph.SUMMARY_KEY: sealing.summary(identity.name, identity.version, certificate.claim),
    }
    return graph.serialize(proto, notes=notes)


def _ask(traceable: Traceable, probe: Inputs) -> npt.NDArray[np.float32]:
    import torch

    try:
        with torch.no_grad():
            inputs = {name: torch.from_numpy(value) for name, value in probe.items()}
            answer: npt.NDArray[np.float32] = traceable.model(**inputs).float().numpy()
    except (IndexError, RuntimeError) as error:
        shapes = {name: list(value.shape) for name, value in probe.items()}
        raise CheckpointError(
            f"The model fails on inputs of the shapes {shapes}: {error}. Its preprocessing "
            "promises inputs of that size; state what the model can hold."
        ) from error
    return answer


def _digest(model: Any) -> str:
    """Returns the digest of all weights with their names, in the order of the names."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        digest.update(np.ascontiguousarray(value.detach().cpu().numpy()).data)
    return digest.hexdigest()


def _ports(
    shapes: Mapping[str, list[int | str | None]], example: Inputs
) -> Iterator[dict[str, Any]]:
    for name, shape in shapes.items():
        dtype = str(example[name].dtype) if name in example else "float32"
        yield {"name": name, "dtype": dtype, "shape": shape}
