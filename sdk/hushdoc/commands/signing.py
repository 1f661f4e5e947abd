"""The subcommand `sign`: a further signature on an artifact's certificate, or an audit beside it.

Before anything is signed, every file is compared with the certificate, its epsilon is recomputed,
and what will be signed is printed. The payload stays the same, byte by byte: a further signature
confirms the certificate and never changes it.
"""

from __future__ import annotations

import argparse
import hashlib
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import counted, printable, short_repr
from hushdoc.commands import notices, passwords, stores
from hushdoc.commands.answering import artifact_argument
from hushdoc.commands.passwords import passphrase_option
from hushdoc.errors import ArtifactError, CertificateError, InputError
from hushdoc.system import locks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hushdoc.artifact.artifact import Unverified
    from hushdoc.certificate.audit_reports import AuditReport
    from hushdoc.certificate.certificate import Certificate
    from hushdoc.certificate.subjects import Subject
    from hushdoc.commands.parsing import Subcommands
    from hushdoc.signing.keys import PrivateKey
    from hushdoc.signing.trust_store import TrustedKey

MAX_SIGNATURE_BYTES = 4096
"""Largest signature file, in any encoding."""


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc sign`; numpy and cryptography are imported only when it runs."""
    parser = subcommands.add_parser(
        "sign",
        help="add a signature or an audit to an artifact's certificate",
        description="""Checks that every file of an artifact is as its certificate says, prints what
is signed, and adds a signature. The key's owner can also sign elsewhere: write the
message, have it signed there, and attach the result.""",
        epilog="""with a key service (P-256, SHA-256):
  hushdoc sign ARTIFACT --message message.bin
  ... the service signs message.bin, or its SHA-256 where it takes digests only ...
  hushdoc sign ARTIFACT --signature message.sig --public-key service.pem
as an auditor, who signs a line of their own and never the certificate:
  hushdoc sign ARTIFACT --key auditor.key --audit report.json""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    artifact_argument(parser)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--key", type=Path, metavar="FILE", help="private key in PEM that signs")
    way.add_argument(
        "--message", type=Path, metavar="OUT", help="write the message to be signed elsewhere"
    )
    way.add_argument(
        "--signature",
        type=Path,
        metavar="FILE",
        help="verify and attach a signature made elsewhere, raw or in base64",
    )
    passphrase_option(parser)
    parser.add_argument(
        "--public-key",
        type=Path,
        metavar="FILE",
        help="with --signature: public key of its signer, in PEM or as a trust store of one key",
    )
    parser.add_argument(
        "--audit",
        type=Path,
        metavar="REPORT",
        help="with --key: sign this audit report, in JSON with the keys auditor, conductedAt and "
        "audits, and append it to the artifact",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Signs, writes the message or attaches a signature, and returns 0."""
    from hushdoc.signing import dsse

    if (options.signature is None) != (options.public_key is None):
        options.refuse_usage("--signature and --public-key belong together")
    if options.audit is not None and options.key is None:
        options.refuse_usage("--audit needs --key, the auditor's own")
    with notices.locked(options.artifact):
        found = intact(options.artifact)
        if options.audit is not None:
            return _append_audit(options, found)
        show(found)
        if options.message is not None:
            return _write_message(found, options.message)
        if options.key is not None:
            sign(options.artifact, found, passwords.private_key(options))
            return 0
        signer = _public_key(options.public_key)
        line = dsse.attach(found.envelope, signer, _signature(options.signature))
        _replace_line(options.artifact, found.envelope, line, signer)
    return 0


def intact(folder: Path) -> Unverified:
    """Returns the certificate of an artifact whose files are as it says; lock the folder first."""
    from hushdoc.artifact import artifact
    from hushdoc.artifact import folder as artifact_folder

    found = artifact.read_unverified(folder)
    _require_intact(found.subjects, artifact_folder.subjects_of(folder))
    return found


def show(found: Unverified) -> None:
    """Recomputes a certificate's epsilon and prints what will be signed."""
    _require_reproduced(found.certificate)
    _print_certificate(found)


def sign(folder: Path, found: Unverified, private_key: PrivateKey) -> None:
    """Adds a signature to an artifact's certificate, and says so."""
    from hushdoc.signing import dsse
    from hushdoc.signing.trust_store import TrustedKey

    line = dsse.add_signature(found.envelope, private_key)
    _replace_line(folder, found.envelope, line, TrustedKey.of(private_key))


def _append_audit(options: argparse.Namespace, found: Unverified) -> int:
    """Signs a report about the certificate and appends it to the envelope file as a line."""
    from hushdoc.certificate import audit_reports
    from hushdoc.certificate.subjects import ENVELOPE_FILE
    from hushdoc.signing import dsse
    from hushdoc.signing.trust_store import TrustedKey

    _print_certificate(found)
    report = _report(options.audit, found.certificate.certificate_id)
    if report.certificate_id != found.certificate.certificate_id:
        raise CertificateError(
            f"The report is about the certificate {report.certificate_id}, the artifact has "
            f"{found.certificate.certificate_id}. Sign it beside the one that was audited.",
            code="BAD_SUBJECT",
        )
    payload = dsse.read_envelope(found.envelope).payload
    statement = audit_reports.audit_statement(report, hashlib.sha256(payload).hexdigest())
    private_key = passwords.private_key(options)
    path = options.artifact / ENVELOPE_FILE
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
    if lines[0] != found.envelope:
        raise _changed(path)
    if len(lines) > audit_reports.MAX_AUDITS:
        raise InputError(
            f"The artifact holds {len(lines) - 1} audits, at most {audit_reports.MAX_AUDITS} are "
            "read. Publish this one elsewhere, or have an old one removed.",
            code="LIMIT_EXCEEDED",
        )
    line = dsse.sign(statement, private_key).encode("ascii")
    if len(line) > audit_reports.MAX_AUDIT_BYTES:
        raise InputError(
            f"The signed report has {len(line)} bytes, at most "
            f"{audit_reports.MAX_AUDIT_BYTES} are read. Leave details to the evidence that it "
            "names by digest.",
            code="LIMIT_EXCEEDED",
        )
    locks.rewrite(path, b"\n".join([*lines, line]) + b"\n")
    keyid = TrustedKey.of(private_key).keyid
    noun = "audit" if len(report.audits) == 1 else "audits"
    print(f"Report of {len(report.audits)} {noun} signed with the key {keyid}.")
    return 0


def _report(path: Path, certificate_id: str) -> AuditReport:
    from hushdoc.certificate.audit_reports import AuditReport
    from hushdoc.serialization import strict_json

    data = strict_json.read_file(path, what="The report", code="BAD_AUDIT")
    fields = data if isinstance(data, dict) else {}
    try:
        return AuditReport.from_dict({"certificateId": certificate_id, **fields}, "report")
    except CertificateError as problem:
        raise InputError(
            f"'{path}' is not a report of an audit: {problem} Expected an object with auditor, "
            "conductedAt and audits.",
            code="BAD_AUDIT",
        ) from problem


def _require_intact(signed: Sequence[Subject], there: Sequence[Subject]) -> None:
    """Raises unless the folder's files are those that the certificate is about."""
    listed = {subject.name: subject for subject in signed}
    found = {subject.name: subject for subject in there}
    for name in sorted(listed.keys() | found.keys()):
        if listed.get(name) == found.get(name):
            continue
        if name not in found:
            problem, code = "is missing", "MISSING_FILE"
        elif name not in listed:
            problem, code = "is not named by the certificate", "UNLISTED_FILE"
        elif listed[name].size != found[name].size:
            problem, code = "has another size than the certificate says", "SIZE_MISMATCH"
        else:
            problem, code = "has another content than the certificate says", "DIGEST_MISMATCH"
        raise ArtifactError(
            f"The file {short_repr(name, 120)} {problem}, so nothing was signed. Sign the artifact "
            "as it was exported.",
            code=code,
        )


def _require_reproduced(certificate: Certificate) -> None:
    for finding in certificate.recompute():
        if finding.code is not None:
            raise CertificateError(
                f"Guarantee {finding.index} does not follow from its transcript: "
                f"{finding.message}. Nothing was signed; ask whoever trained the model.",
                code=finding.code,
            )


def _print_certificate(found: Unverified) -> None:
    from hushdoc.explanation.guarantees import guarantee_words
    from hushdoc.reports.rendering import limits
    from hushdoc.signing import dsse

    certificate, model = found.certificate, found.certificate.model
    envelope = dsse.read_envelope(found.envelope)
    print(f"Certificate {certificate.certificate_id}, issued {certificate.issued_at} by")
    print(f"  {printable(certificate.issuer)}; expires: {certificate.expires_at or 'never'}")
    print(f"for the model {printable(model.name)}, version {model.version} ({model.task}).")
    for guarantee in certificate.claim.guarantees:
        _print_item(guarantee_words(guarantee))
    print("What it does not guarantee, and its caveats:")
    for words in limits(certificate, {}):
        _print_item(words)
    print(f"{counted(len(found.subjects), 'file')} checked: each is as the certificate says.")
    print(f"SHA-256 of the statement: {hashlib.sha256(envelope.payload).hexdigest()}")
    named = ", ".join(printable(keyid, 16) or "no key id" for keyid, _ in envelope.signatures)
    print(f"Signatures so far, not checked here: {named or 'none'}")


def _print_item(words: str) -> None:
    print(textwrap.fill(words, 96, initial_indent="  - ", subsequent_indent="    "))


def _write_message(found: Unverified, path: Path) -> int:
    from hushdoc.signing import dsse
    from hushdoc.system import atomic_files

    message = dsse.pae(dsse.PAYLOAD_TYPE, dsse.read_envelope(found.envelope).payload)
    atomic_files.write_file(path, message, overwrite=False)
    print(f"Message written, {len(message)} bytes: {printable(path)}")
    print(f"Its SHA-256: {hashlib.sha256(message).hexdigest()}")
    return 0


def _public_key(path: Path) -> TrustedKey:
    found = stores.public_keys(path)
    if len(found) != 1:
        raise InputError(
            f"'{path}' holds {len(found)} keys, expected the one that signed. Name its own file.",
            code="BAD_KEY",
        )
    return found[0]


def _signature(path: Path) -> bytes:
    """The signature in a file, decoded if the whole file is base64 as some services print it."""
    from hushdoc.signing.trust_store import decode_base64
    from hushdoc.system import atomic_files

    try:
        content = atomic_files.read_file(path, max_bytes=MAX_SIGNATURE_BYTES)
    except OSError as problem:
        raise InputError(
            f"The signature '{path}' can't be read: {problem.strerror or problem}. Check the path.",
            code="BAD_SIGNATURE",
        ) from problem
    try:
        # Programs that write base64 break its lines.
        return decode_base64(b"".join(content.split()).decode("ascii"), "The signature")
    except (UnicodeDecodeError, CertificateError):
        return content


def _replace_line(folder: Path, before: bytes, after: str, signer: TrustedKey) -> None:
    """Writes the first line of the envelope file anew and keeps the others."""
    from hushdoc.certificate.subjects import ENVELOPE_FILE

    path = folder / ENVELOPE_FILE
    first, _, rest = path.read_bytes().partition(b"\n")
    if first != before:
        raise _changed(path)
    locks.rewrite(path, after.encode("ascii") + b"\n" + rest)
    print(f"Signed with the {signer.algorithm} key {signer.keyid}.")


def _changed(path: Path) -> ArtifactError:
    return ArtifactError(
        f"'{path}' changed while it was being signed; nothing was written. Run it again.",
        code="CHANGED_DURING_LOAD",
    )
