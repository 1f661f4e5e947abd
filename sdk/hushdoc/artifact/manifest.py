"""Manifest: what the files of an artifact declare, compared with its certificate.

A file that a runtime loads is scanned (`scan`) once all files are known to be the signed ones, and
then the findings are judged (`require_agreement`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from hushdoc.accounting import mechanism
from hushdoc.accounting.mechanism import HashFill, Mechanism
from hushdoc.arguments import short_repr
from hushdoc.artifact import onnx_scan, safetensors_scan
from hushdoc.artifact.safetensors_scan import TensorFile
from hushdoc.artifact.scan_budget import ScanBudget
from hushdoc.artifact.signed_file import Source
from hushdoc.certificate.certificate import FORMATS, TASKS, Certificate, ModelIdentity
from hushdoc.errors import ArtifactError, CertificateError
from hushdoc.serialization import strict_json
from hushdoc.serialization.records import (
    Record,
    anything,
    integer,
    keyed,
    listed,
    optional,
    record,
    stored,
    text,
    word,
)

MANIFEST_FILE = "hushdoc.json"
FORMAT_VERSION = 2
CERTIFICATE_ID_KEY = "hushdoc.certificate_id"
"""Key of the metadata, in ONNX and safetensors files, that holds the certificate's id."""

_WITHOUT_TABLE = ("synthetic-documents",)
"""Tasks whose entry is a safetensors file of images; that of any other holds a table."""

TABLE_KEY = "hashTable"
"""Key of the manifest's preprocessing that declares the table of an artifact of hashed features."""

GRAPHS_KEY = "graphs"
"""Key of the manifest's preprocessing: what graphs there are beside the entry, by their names."""


@dataclass(frozen=True, kw_only=True)
class _Manifest(Record):
    """Schema of `hushdoc.json`: what the runtime must know to feed the model."""

    format_version: int = stored(integer(minimum=1))
    task: str = stored(word(TASKS))
    entry: str = stored(text)
    inputs: tuple[Any, ...] = stored(listed(anything))
    outputs: tuple[Any, ...] = stored(listed(anything))
    preprocessing: Mapping[str, Any] = stored(keyed(anything))


@dataclass(frozen=True, kw_only=True)
class _Table(Record):
    """Schema of a table of hashed features in the manifest."""

    tensor: str = stored(text)
    rows: int = stored(integer(minimum=1))
    columns: int = stored(integer(minimum=1))
    reference: int | None = stored(optional(integer()))


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a file declares; its metadata must have the certificate's id."""

    metadata: Mapping[str, str]
    tensors: TensorFile | None = None


def format_of(name: str, model: ModelIdentity) -> str | None:
    """Returns the format in which a file is looked into, one of FORMATS, or None.

    The model's entry is in the declared format, whatever its name.
    """
    found = model.format if name == model.entry else name.lower().rpartition(".")[2]
    return found if found in FORMATS else None


def scan(source: Source, form: str, budget: ScanBudget) -> Finding:
    """Returns what a file of one of FORMATS declares; BAD_ONNX, BAD_SAFETENSORS and the like.

    All files of an artifact share one budget.
    """
    if form == "onnx":
        return Finding(metadata=onnx_scan.scan(source, budget))
    tensors = safetensors_scan.scan(source, budget)
    return Finding(metadata=tensors.metadata, tensors=tensors)


def read_manifest(content: bytes, model: ModelIdentity) -> Mapping[str, Any]:
    """Returns `hushdoc.json` as plain data; BAD_MANIFEST where it contradicts the certificate."""
    try:
        data = strict_json.loads(content, what=f"'{MANIFEST_FILE}'")
        manifest = _Manifest.from_dict(data, MANIFEST_FILE)
    except CertificateError as problem:
        raise _bad_manifest(str(problem)) from problem
    declared = (FORMAT_VERSION, model.task, model.entry)
    found = (manifest.format_version, manifest.task, manifest.entry)
    if found != declared:
        raise _bad_manifest(
            f"'{MANIFEST_FILE}' says (version, task, entry) {found}, the certificate {declared}. "
            "Export the model again with this hushdoc."
        )
    return MappingProxyType(data)


def require_agreement(
    findings: Mapping[str, Finding], manifest: Mapping[str, Any], certificate: Certificate
) -> None:
    """Raises unless every file that was looked into agrees with what was signed."""
    tensors = findings[certificate.model.entry].tensors
    if tensors is not None and certificate.model.task not in _WITHOUT_TABLE:
        _require_declared_table(tensors, manifest, certificate.claim.transcripts.values())
    _require_signed_graphs(findings, manifest["preprocessing"].get(GRAPHS_KEY, {}))
    for name, finding in findings.items():
        _require_same_id(name, finding.metadata, certificate.certificate_id)


def _require_declared_table(
    tensors: TensorFile, manifest: Mapping[str, Any], transcripts: Iterable[Mechanism]
) -> None:
    """Raises unless the table is filled and of the size in manifest and transcripts."""
    where = f"{MANIFEST_FILE}.preprocessing.{TABLE_KEY}"
    try:
        table = record(_Table).read(manifest["preprocessing"].get(TABLE_KEY), where)
    except CertificateError as problem:
        raise _bad_manifest(str(problem)) from problem
    if table.reference is not None and (table.columns < 2 or table.reference >= table.columns):
        raise _bad_manifest(
            f"{where} leaves out the column {table.reference} of {table.columns}; expected one of "
            "two or more. Export the model again with this hushdoc."
        )
    sizes = {(table.rows, table.columns)}
    sizes |= {(fill.rows, fill.columns) for event in transcripts for fill in _fills(event)}
    left_out = int(table.reference is not None)
    for rows, columns in sorted(sizes):
        safetensors_scan.require_table(tensors, table.tensor, rows=rows, columns=columns - left_out)


def _require_signed_graphs(findings: Mapping[str, Finding], graphs: Any) -> None:
    """Raises unless every graph beside the entry is a signed file of the format "onnx"."""
    described = graphs.values() if isinstance(graphs, Mapping) else [graphs]
    for graph in described:
        entry = graph.get("entry") if isinstance(graph, Mapping) else None
        found = findings.get(entry) if isinstance(entry, str) else None
        if found is None or found.tensors is not None:
            raise _bad_manifest(
                f"{MANIFEST_FILE}.preprocessing.{GRAPHS_KEY} names {short_repr(entry, 120)}, which "
                "is no signed ONNX file. Expected an object with the entry of each graph; fetch "
                "the artifact again, or export it again."
            )


def _fills(event: Mechanism) -> Iterator[HashFill]:
    if isinstance(event, HashFill):
        yield event
    for part in mechanism.parts(event):
        yield from _fills(part)


def _require_same_id(name: str, metadata: Mapping[str, str], certificate_id: str) -> None:
    embedded = metadata.get(CERTIFICATE_ID_KEY)
    if embedded is None:
        raise ArtifactError(
            f"'{name}' names no certificate in its metadata ({CERTIFICATE_ID_KEY}). Export the "
            "model again.",
            code="EMBEDDED_METADATA_MISSING",
        )
    if embedded != certificate_id:
        raise ArtifactError(
            f"'{name}' names the certificate {short_repr(embedded)}, the signed one is "
            f"{certificate_id}. Files of two models were mixed; fetch the artifact again.",
            code="EMBEDDED_METADATA_MISMATCH",
        )


def _bad_manifest(found: str) -> ArtifactError:
    return ArtifactError(found, code="BAD_MANIFEST")
