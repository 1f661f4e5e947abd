"""Artifact: a sealed folder, opened only after everything in it has been checked.

The order is fixed: caps, envelope, signature, the statement from the very bytes that were signed,
identity and time, recomputation and policy, then every file with size and digest, files that were
not signed, the ONNX scan, and the certificate id inside the model. Nothing is constructed here, and
what is handed on are the very bytes that were hashed. Anything unforeseen is an error, never a
pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hushdoc import attestation, folder, onnx_format, signing, strict_json
from hushdoc import certificate as certificates
from hushdoc import policy as policies
from hushdoc.attestation import Attestation
from hushdoc.certificate import TASKS, Certificate
from hushdoc.errors import ArtifactError, CertificateError, HushdocError
from hushdoc.fields import Record, anything, integer, keyed, listed, stored, text, word
from hushdoc.folder import subjects_of
from hushdoc.policy import Policy
from hushdoc.policy_report import PolicyReport
from hushdoc.subjects import Subject
from hushdoc.trust import TrustedKey

__all__ = [
    "Artifact",
    "Unverified",
    "VerificationReport",
    "examine",
    "open_artifact",
    "read_unverified",
    "subjects_of",
    "verify",
]

MANIFEST_FILE = "hushdoc.json"
FORMAT_VERSION = 1
CERTIFICATE_ID_KEY = "hushdoc.certificate_id"
"""Key of the ONNX metadata property that holds the certificate's id."""


@dataclass(frozen=True, kw_only=True)
class _Manifest(Record):
    """How `hushdoc.json` is spelled: what the runtime must know to feed the model."""

    format_version: int = stored(integer(minimum=1))
    task: str = stored(word(TASKS))
    entry: str = stored(text)
    inputs: tuple[Any, ...] = stored(listed(anything))
    outputs: tuple[Any, ...] = stored(listed(anything))
    preprocessing: Mapping[str, Any] = stored(keyed(anything))


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A folder whose every file was checked, with the bytes that were checked.

    Attributes:
        path: Where it was read, for messages.
        certificate: What was signed about it.
        manifest: `hushdoc.json` as parsed: formatVersion, task, entry, inputs, outputs,
            preprocessing. Its task and entry are those of the certificate.
        subjects: Its signed files.
        signers: The trusted keys that signed; empty where the policy demands no signature.
        report: What every rule of the policy found.
    """

    path: Path
    certificate: Certificate
    manifest: Mapping[str, Any]
    subjects: tuple[Subject, ...]
    signers: tuple[TrustedKey, ...]
    report: PolicyReport
    _contents: Mapping[str, bytes] = field(repr=False)

    def read(self, name: str) -> bytes:
        """Returns a signed file: the very bytes that were hashed, not what stands there now.

        Raises:
            ArtifactError: MISSING_FILE: no file of that name was signed.
        """
        if name not in self._contents:
            raise ArtifactError(
                f"The artifact has no signed file {ascii(name)[:120]}, it has "
                f"{', '.join(sorted(self._contents))}. Ask for one of these.",
                code="MISSING_FILE",
            )
        return self._contents[name]


@dataclass(frozen=True, kw_only=True)
class VerificationReport:
    """What checking an artifact found.

    Attributes:
        certificate: What was signed.
        signers: The trusted keys that signed.
        policy: What every rule found.
        files: The signed files.
        files_checked: Whether each of them was found as it was signed; False if the policy
            refused before.
    """

    certificate: Certificate
    signers: tuple[TrustedKey, ...]
    policy: PolicyReport
    files: tuple[Subject, ...]
    files_checked: bool

    @property
    def passed(self) -> bool:
        """Whether the policy accepts the model and every file is as it was signed."""
        return self.policy.passed and self.files_checked

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {
            "passed": self.passed,
            "certificateId": self.certificate.certificate_id,
            "model": self.certificate.model.to_dict(),
            "signers": [{"name": key.name, "keyid": key.keyid} for key in self.signers],
            "policy": self.policy.to_dict(),
            "filesChecked": self.files_checked,
            "files": [dataclasses.asdict(subject) for subject in self.files],
        }


@dataclass(frozen=True, kw_only=True)
class Unverified:
    """A certificate as it stands in a folder. Nobody has checked who wrote it.

    Attributes:
        certificate: What it says.
        subjects: The files it says it about.
        envelope: The envelope's line, for `signing.verify`.
    """

    certificate: Certificate
    subjects: tuple[Subject, ...]
    envelope: bytes


def open_artifact(path: str | Path, policy: Policy, *, now: datetime | None = None) -> Artifact:
    """Returns an artifact that the policy accepts and whose every file is as it was signed.

    Args:
        path: The folder.
        policy: The application's limits.
        now: The time, with its zone; the clock's by default.

    Raises:
        ArtifactError: A file is missing, changed, unlisted or unsafe.
        CertificateError: The certificate is missing, malformed, unsigned, or for another model.
        PolicyViolationError: The policy refuses it; `.report` lists every rule.
    """
    with _fail_closed(), folder.pinned(Path(path)) as descriptor:
        signed = attestation.read(descriptor, policy, now=now)
        report = policies.check(policy, signed.certificate)
        report.require_passed()
        manifest, contents = _read_files(descriptor, signed, policy)
        return Artifact(
            path=Path(path),
            certificate=signed.certificate,
            manifest=manifest,
            subjects=signed.subjects,
            signers=signed.signers,
            report=report,
            _contents=contents,
        )


def verify(path: str | Path, policy: Policy, *, now: datetime | None = None) -> VerificationReport:
    """Returns the report of an artifact that passed every check; anything else raises.

    Loads no model and needs no runtime.

    Args:
        path: The folder.
        policy: The application's limits.
        now: The time, with its zone; the clock's by default.

    Raises:
        ArtifactError: A file is missing, changed, unlisted or unsafe.
        CertificateError: The certificate is missing, malformed, unsigned, or for another model.
        PolicyViolationError: The policy refuses it; `.report` lists every rule.
    """
    report = examine(path, policy, now=now)
    report.policy.require_passed()
    return report


def examine(path: str | Path, policy: Policy, *, now: datetime | None = None) -> VerificationReport:
    """Returns what checking an artifact finds, for people who want to see a refusal as well.

    A policy that refuses is part of the report, so look at `.passed`; `verify` raises instead.
    Files are read only if the policy accepts.

    Args:
        path: The folder.
        policy: The application's limits.
        now: The time, with its zone; the clock's by default.

    Raises:
        ArtifactError: A file is missing, changed, unlisted or unsafe.
        CertificateError: The certificate is missing, malformed, unsigned, or for another model.
    """
    with _fail_closed(), folder.pinned(Path(path)) as descriptor:
        signed = attestation.read(descriptor, policy, now=now)
        report = policies.check(policy, signed.certificate)
        if report.passed:
            _read_files(descriptor, signed, policy)
        return VerificationReport(
            certificate=signed.certificate,
            signers=signed.signers,
            policy=report,
            files=signed.subjects,
            files_checked=report.passed,
        )


def read_unverified(path: str | Path) -> Unverified:
    """Returns the certificate of a folder to look at. It proves nothing until it is verified.

    Raises:
        ArtifactError: There is no such folder.
        CertificateError: The certificate is missing or malformed.
    """
    with _fail_closed(), folder.pinned(Path(path)) as descriptor:
        line = attestation.read_lines(descriptor)[0]
    certificate, subjects = certificates.parse_statement(signing.read_envelope(line).payload)
    return Unverified(certificate=certificate, subjects=subjects, envelope=line)


@contextmanager
def _fail_closed() -> Iterator[None]:
    try:
        yield
    except (HushdocError, MemoryError):
        raise
    except Exception as problem:
        raise ArtifactError(
            f"Checking the artifact failed in an unforeseen way ({type(problem).__name__}: "
            f"{problem}). It is refused; please report this.",
            code="INTERNAL_ERROR",
        ) from problem


def _read_files(
    descriptor: int, signed: Attestation, policy: Policy
) -> tuple[Mapping[str, Any], dict[str, bytes]]:
    _require_within(signed.subjects, policy)
    names = {subject.name for subject in signed.subjects}
    folder.require_listed(descriptor, names, max_files=policy.max_files)
    contents = {
        subject.name: folder.read_signed(descriptor, subject) for subject in signed.subjects
    }
    for name, content in contents.items():
        if name.lower().endswith(".onnx") or name == signed.certificate.model.entry:
            _require_same_id(name, onnx_format.scan(content), signed.certificate.certificate_id)
    return _manifest(contents, signed.certificate), contents


def _require_within(subjects: tuple[Subject, ...], policy: Policy) -> None:
    total = sum(subject.size for subject in subjects)
    if total > policy.max_total_bytes or len(subjects) > policy.max_files:
        raise ArtifactError(
            f"The artifact has {len(subjects)} files with {total} bytes; the policy allows "
            f"{policy.max_files} files with {policy.max_total_bytes} bytes. Raise the limits if "
            "the model is meant to be this large.",
            code="TOO_LARGE",
        )


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
            f"'{name}' names the certificate {ascii(embedded)[:60]}, the signed one is "
            f"{certificate_id}. Files of two models were mixed; fetch the artifact again.",
            code="EMBEDDED_METADATA_MISMATCH",
        )


def _manifest(contents: Mapping[str, bytes], certificate: Certificate) -> Mapping[str, Any]:
    if MANIFEST_FILE not in contents:
        raise ArtifactError(
            f"'{MANIFEST_FILE}' was not signed. Export the model again.", code="MISSING_FILE"
        )
    try:
        data = strict_json.loads(contents[MANIFEST_FILE], what=f"'{MANIFEST_FILE}'")
        manifest = _Manifest.from_dict(data, MANIFEST_FILE)
    except CertificateError as problem:
        raise ArtifactError(str(problem), code="BAD_MANIFEST") from problem
    stated = (FORMAT_VERSION, certificate.model.task, certificate.model.entry)
    found = (manifest.format_version, manifest.task, manifest.entry)
    if found != stated:
        raise ArtifactError(
            f"'{MANIFEST_FILE}' says (version, task, entry) {found}, the certificate {stated}. "
            "Export the model again with this hushdoc.",
            code="BAD_MANIFEST",
        )
    return MappingProxyType(data)
