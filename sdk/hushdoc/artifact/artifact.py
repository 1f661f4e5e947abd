"""Artifact: a sealed folder, opened only after everything in it has been checked.

The order is fixed: caps, envelope, signature, the statement from the very bytes that were signed,
identity and time, recomputation and policy, then every file with size and digest, files that were
not signed, and only then the formats of what a runtime loads and the certificate id inside.
Nothing is constructed here, and callers get the very bytes that were hashed. Anything unforeseen
is an error, never a pass.

Verifying keeps no file in memory. Opening keeps them all, unless `low_memory` leaves them on disk:
then callers get the open files, and whatever was loaded from one is trusted only if the file is
still as it was when it was hashed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

from hushdoc.arguments import short_repr
from hushdoc.artifact import attestation, folder, hub, manifest
from hushdoc.artifact.attestation import Attestation
from hushdoc.artifact.directory_handle import DirectoryHandle
from hushdoc.artifact.manifest import MANIFEST_FILE, Finding
from hushdoc.artifact.scan_budget import ScanBudget
from hushdoc.artifact.signed_file import Memory, SignedFile
from hushdoc.certificate import statement
from hushdoc.certificate.audit_reports import AuditReport
from hushdoc.certificate.certificate import Certificate, ModelIdentity
from hushdoc.certificate.subjects import Subject
from hushdoc.errors import ArtifactError, HushdocError
from hushdoc.policy import rules as policies
from hushdoc.policy.policy import Policy
from hushdoc.policy.report import PolicyReport
from hushdoc.serialization import strict_json
from hushdoc.signing import dsse
from hushdoc.signing.trust_store import TrustedKey

_Keep = Literal["nothing", "bytes", "open"]
"""What stays of a file that was checked."""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A folder whose every file was checked, with what was checked: bytes, or open files.

    `manifest` is `hushdoc.json` as parsed; its task and entry are those of the certificate. Without
    a demand for signatures there are no `signers`. `attested` are the lines that were signed, for
    `recheck`. With `low_memory` it holds its files open until it is closed; it is its own context
    manager.
    """

    path: Path
    certificate: Certificate
    manifest: Mapping[str, Any]
    subjects: tuple[Subject, ...]
    signers: tuple[TrustedKey, ...]
    report: PolicyReport
    attested: tuple[bytes, ...] = field(repr=False)
    _files: Mapping[str, bytes | SignedFile] = field(repr=False)

    def read(self, name: str) -> bytes:
        """Returns the very bytes that were hashed; `low_memory` reads and hashes them again."""
        file = self._file(name)
        return file if isinstance(file, bytes) else file.read()

    def view(self, name: str) -> memoryview:
        """Returns a signed file as memory; with `low_memory` it is mapped, not read.

        What is mapped is checked here once. Whoever may write to the file can change it later, as
        any mapped file, so map only what nobody else can write.
        """
        file = self._file(name)
        return memoryview(file) if isinstance(file, bytes) else file.mapped()

    @contextmanager
    def source(self, name: str) -> Iterator[bytes | str]:
        """Yields what a runtime loads a signed file from: bytes, or with `low_memory` a path.

        The path opens the very file that was hashed. At the end of the block the file must still
        be as it was then: what was loaded otherwise is not to be used.
        """
        file = self._file(name)
        if isinstance(file, bytes):
            yield file
            return
        try:
            yield file.path()
        finally:
            # Also where the runtime failed: a file that changed is the better explanation.
            file.require_unchanged()

    def close(self) -> None:
        """Closes the open files; content in memory stays."""
        for file in self._files.values():
            if isinstance(file, SignedFile):
                file.close()

    def __enter__(self) -> Self:
        """Returns the artifact, which is closed at the end of the block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Closes the open files."""
        self.close()

    def _file(self, name: str) -> bytes | SignedFile:
        if name not in self._files:
            raise ArtifactError(
                f"The artifact has no signed file {short_repr(name, 120)}, it has "
                f"{', '.join(sorted(self._files))}. Ask for one of these.",
                code="MISSING_FILE",
            )
        return self._files[name]


@dataclass(frozen=True, kw_only=True)
class VerificationReport:
    """What checking an artifact found.

    Attributes:
        certificate: What was signed.
        signers: The trusted keys that signed.
        payload_sha256: Digest of the signed bytes, in hexadecimal: what audits are bound to.
        audits: What trusted auditors signed about it.
        untrusted_audits: Further lines that no trusted auditor signed; nothing was read of them.
        policy: What every rule found.
        recompute: How epsilon was recomputed, one of `recompute.RECOMPUTE_MODES`; None where
            the policy demands no privacy.
        files: The signed files.
        files_checked: Whether each of them was found as it was signed; False if the policy
            refused before.
    """

    certificate: Certificate
    signers: tuple[TrustedKey, ...]
    payload_sha256: str
    audits: tuple[AuditReport, ...]
    untrusted_audits: int
    policy: PolicyReport
    recompute: str | None
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
            "payloadSha256": self.payload_sha256,
            "audits": [audit.to_dict() for audit in self.audits],
            "untrustedAudits": self.untrusted_audits,
            "policy": self.policy.to_dict(),
            "recompute": self.recompute,
            "filesChecked": self.files_checked,
            "files": [dataclasses.asdict(subject) for subject in self.files],
        }


@dataclass(frozen=True, kw_only=True)
class Unverified:
    """A certificate as it is in a folder. Its signature has not been checked.

    Of further lines, which others may have signed as auditors, nothing was read but their number.
    """

    certificate: Certificate
    subjects: tuple[Subject, ...]
    envelope: bytes
    further_lines: int


def open_artifact(
    path: str | Path, policy: Policy, *, now: datetime | None = None, low_memory: bool = False
) -> Artifact:
    """Returns an artifact that the policy accepts and whose every file is as it was signed.

    With `low_memory` (on Linux) files stay open on disk instead of being read into memory; close
    the artifact then. The other arguments and the errors are those of `verify`.
    """
    place = hub.located(path)
    with _fail_closed(), folder.opened(place) as directory:
        signed = attestation.read(directory, policy, now=now)
        report = policies.check(policy, signed.certificate, audits=signed.audits)
        report.require_passed()
        declared, files = _check_files(
            directory, signed, policy, keep="open" if low_memory else "bytes"
        )
        return Artifact(
            path=place,
            certificate=signed.certificate,
            manifest=declared,
            subjects=signed.subjects,
            signers=signed.signers,
            report=report,
            attested=signed.lines,
            _files=files,
        )


def verify(path: str | Path, policy: Policy, *, now: datetime | None = None) -> VerificationReport:
    """Returns the report of an artifact that passes every check; anything else raises.

    Loads no model, needs no runtime, and holds no file in memory.

    Args:
        path: The folder, or "hf://ORGANISATION/NAME@REVISION" of a model hub.
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

    Arguments and errors are those of `verify`, but for PolicyViolationError.
    """
    place = hub.located(path)
    with _fail_closed(), folder.opened(place) as directory:
        signed = attestation.read(directory, policy, now=now)
        report = policies.check(policy, signed.certificate, audits=signed.audits)
        if report.passed:
            _check_files(directory, signed, policy, keep="nothing")
        return VerificationReport(
            certificate=signed.certificate,
            signers=signed.signers,
            payload_sha256=signed.digest,
            audits=signed.audits,
            untrusted_audits=signed.untrusted_audits,
            policy=report,
            recompute=policy.recompute if policy.privacy_required else None,
            files=signed.subjects,
            files_checked=report.passed,
        )


def recheck(
    attested: tuple[bytes, ...], policy: Policy, *, now: datetime | None = None
) -> PolicyReport:
    """Returns what the policy finds now of an artifact that was opened before, by its lines.

    Signature, identity, time, revocation and privacy are checked again, its files are not: what was
    loaded from them is what was checked. Raises as `verify` does.
    """
    with _fail_closed():
        signed = attestation.checked(lambda: attested, policy, now=now)
        report = policies.check(policy, signed.certificate, audits=signed.audits)
        report.require_passed()
        return report


def read_unverified(path: str | Path) -> Unverified:
    """Returns the certificate of a folder to look at. It proves nothing until it is verified."""
    with _fail_closed(), folder.opened(Path(path)) as directory:
        line, *further = attestation.read_lines(directory)
    certificate, subjects = statement.parse_statement(dsse.read_envelope(line).payload)
    return Unverified(
        certificate=certificate,
        subjects=subjects,
        envelope=line,
        further_lines=len(further),
    )


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


def _check_files(
    directory: DirectoryHandle, signed: Attestation, policy: Policy, *, keep: _Keep
) -> tuple[Mapping[str, Any], Mapping[str, bytes | SignedFile]]:
    """Returns the manifest, and of every file what is to be kept, once all of them are sound."""
    certificate = signed.certificate
    _require_within(signed.subjects, policy)
    with ExitStack() as opened:
        content, files = _signed_files(directory, signed, opened, keep=keep)
        folder.require_listed(directory, files.keys())
        # From here on every byte is a signed one, and only now is any format parsed.
        declared = manifest.read_manifest(content, certificate.model)
        findings = _looked_into(files, certificate.model)
        manifest.require_agreement(findings, declared, certificate)
        if keep == "open":
            opened.pop_all()
    return declared, files


def _signed_files(
    directory: DirectoryHandle, signed: Attestation, opened: ExitStack, *, keep: _Keep
) -> tuple[bytes, dict[str, bytes | SignedFile]]:
    """Returns the manifest's bytes and every file, once all digests were compared.

    A file that is not kept as bytes is open where it is to be kept so or to be looked into;
    `opened` closes it.
    """
    files: dict[str, bytes | SignedFile] = {}
    content_of_manifest = b""
    for subject in signed.subjects:
        file = opened.enter_context(folder.open_signed(directory, subject))
        if subject.name == MANIFEST_FILE:
            content_of_manifest = file.read()
        elif keep != "bytes":
            file.require_signed()
        files[subject.name] = file.read() if keep == "bytes" else file
        looked_into = manifest.format_of(subject.name, signed.certificate.model) is not None
        if keep == "bytes" or (keep == "nothing" and not looked_into):
            file.close()
    return content_of_manifest, files


def _looked_into(
    files: Mapping[str, bytes | SignedFile], model: ModelIdentity
) -> dict[str, Finding]:
    """Returns what the files declare that a runtime loads; together they have one budget."""
    findings, budget = {}, ScanBudget()
    for name, file in files.items():
        form = manifest.format_of(name, model)
        if form is not None and isinstance(file, bytes):
            findings[name] = manifest.scan(Memory(file), form, budget)
        elif form is not None and isinstance(file, SignedFile):
            with file.source() as source:
                findings[name] = manifest.scan(source, form, budget)
    return findings


def _require_within(subjects: tuple[Subject, ...], policy: Policy) -> None:
    sizes = {subject.name: subject.size for subject in subjects}
    total = sum(sizes.values())
    if total > policy.max_total_bytes or len(subjects) > policy.max_files:
        raise ArtifactError(
            f"The artifact has {len(subjects)} files with {total} bytes; the policy allows "
            f"{policy.max_files} files with {policy.max_total_bytes} bytes. Raise the limits if "
            "the model is meant to be this large.",
            code="TOO_LARGE",
        )
    if MANIFEST_FILE not in sizes:
        raise ArtifactError(
            f"'{MANIFEST_FILE}' was not signed. Export the model again.", code="MISSING_FILE"
        )
    if sizes[MANIFEST_FILE] > strict_json.MAX_BYTES:
        raise ArtifactError(
            f"'{MANIFEST_FILE}' has {sizes[MANIFEST_FILE]} bytes; at most {strict_json.MAX_BYTES} "
            "are read. Export the model again.",
            code="BAD_MANIFEST",
        )
