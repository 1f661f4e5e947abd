"""The subcommand `certificate export`, and how unverified certificates are read and shown.

Exporting renders what is in an artifact, whoever wrote it. With --trust the signature is checked
first; no files are: `hushdoc verify` does that. No text of a certificate reaches the terminal or
another format unescaped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import printable
from hushdoc.commands.answering import artifact_argument
from hushdoc.errors import ArtifactError, CertificateError, SignatureError

if TYPE_CHECKING:
    from hushdoc.artifact.attestation import Attestation
    from hushdoc.certificate.audit_reports import AuditReport
    from hushdoc.certificate.certificate import Certificate
    from hushdoc.certificate.subjects import Subject
    from hushdoc.commands.parsing import CommandParser, Subcommands
    from hushdoc.labels import LabelSet
    from hushdoc.signing.trust_store import TrustedKey

LABELS_FILE = "labels.json"
MAX_LABELS_BYTES = 2**20
"""Largest signed file of labels that is read."""


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc certificate export`; numpy is imported only when it runs."""
    parser = subcommands.add_parser(
        "certificate",
        help="render an artifact's certificate for other tools",
        description="Renders an artifact's certificate for other tools. `hushdoc inspect` explains "
        "it to people, and `hushdoc verify` checks it.",
    )
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    export = actions.add_parser(
        "export",
        help="render it as a CycloneDX ML-BOM, a registry entry or a model card",
        description="Renders a certificate for other tools. A rendering is unsigned and says so: "
        "only the signed statement counts, and the rendering contains its digest. Files are not "
        "checked. With --trust, cyclonedx and card have what its auditors signed, too.",
    )
    artifact_argument(export)
    trust_option(export)
    export.add_argument(
        "--format",
        choices=tuple(_FORMATS),
        required=True,
        help="cyclonedx: ML-BOM 1.6 in JSON; opendp: entries for the registry of differential "
        "privacy deployments in YAML, one for each guarantee; card: README.md for a model hub",
    )
    export.add_argument(
        "--out", type=Path, metavar="FILE", help="file to write (default: standard output)"
    )
    export.mark_output("--out")
    export.set_defaults(run=run_export)


def trust_option(parser: CommandParser) -> None:
    """Adds --trust, with which the signature is checked."""
    parser.add_argument(
        "--trust",
        type=Path,
        metavar="FILE",
        help="trust store in JSON that must contain the signer",
    )


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """A certificate as it is in a folder, and whether a trust store trusts it.

    Nobody has checked its files. `signers` is None where no trust store was given, `problem` why
    the given one does not trust it. Audits that no trusted auditor signed are counted, not read.
    """

    certificate: Certificate
    subjects: Sequence[Subject]
    payload_sha256: str
    signers: Sequence[TrustedKey] | None
    audits: Sequence[AuditReport] = ()
    untrusted_audits: int = 0
    problem: CertificateError | None = None


def inspected(folder: Path, trust: Path | None) -> Inspected:
    """Returns the certificate of an artifact, trusted or not, checked against a given store."""
    from hushdoc.artifact import artifact, attestation
    from hushdoc.artifact import folder as folders
    from hushdoc.policy.policy import Policy
    from hushdoc.signing import dsse
    from hushdoc.signing.trust_store import TrustStore

    problem = None
    if trust is not None:
        policy = Policy.integrity_only(TrustStore.from_file(trust))
        try:
            with folders.opened(folder) as descriptor:
                return _trusted(attestation.read(descriptor, policy))
        except CertificateError as error:
            problem = error
    found = artifact.read_unverified(folder)
    payload = dsse.read_envelope(found.envelope).payload
    return Inspected(
        certificate=found.certificate,
        subjects=found.subjects,
        payload_sha256=hashlib.sha256(payload).hexdigest(),
        signers=None if trust is None else (),
        untrusted_audits=found.further_lines,
        problem=problem,
    )


def _trusted(signed: Attestation) -> Inspected:
    return Inspected(
        certificate=signed.certificate,
        subjects=signed.subjects,
        payload_sha256=signed.digest,
        signers=signed.signers,
        audits=signed.audits,
        untrusted_audits=signed.untrusted_audits,
    )


def run_export(options: argparse.Namespace) -> int:
    """Renders a certificate and returns 0; renders nothing that a given store does not trust."""
    from hushdoc.system import atomic_files

    seen = inspected(options.artifact, options.trust)
    if seen.problem is not None:
        raise seen.problem
    text = _FORMATS[options.format](options.artifact, seen)
    if options.out is None:
        sys.stdout.write(text)
        return 0
    atomic_files.write_file(options.out, text.encode("utf-8"))
    print(f"Unsigned rendering written: {printable(options.out)}")
    return 0


def print_signature(seen: Inspected) -> None:
    """Prints who is known to have signed, and that no file was checked."""
    if isinstance(seen.problem, SignatureError):
        print(f"!!! SIGNATURE NOT TRUSTED ({seen.problem.code}): anybody may have written this.")
        print(f"!!! {printable(seen.problem)}")
    elif seen.problem is not None:
        print(f"!!! NOT TO BE TRUSTED ({seen.problem.code}): {printable(seen.problem)}")
    elif seen.signers is None:
        print("!!! SIGNATURE NOT CHECKED: anybody may have written this. Check it with --trust.")
    else:
        print(f"Signed by {names(seen.signers)}. Revocation was not checked.")
    print("Files were not checked; `hushdoc verify` checks them, and a policy's revocation list.")


def print_audits(audits: Sequence[AuditReport], untrusted: int) -> None:
    """Prints what trusted auditors signed, and how many lines no trusted auditor signed."""
    from hushdoc.explanation.measurements import report_lines

    print()
    if audits:
        print("WHAT TRUSTED AUDITORS SIGNED ABOUT IT")
        print(wrapped("\n".join(report_lines(audits))) + "\n")
    if untrusted:
        print(f"Lines that no trusted auditor signed: {untrusted}. They were not read.\n")


def names(signers: Sequence[TrustedKey]) -> str:
    """Returns who signed, for people."""
    return ", ".join(f"{printable(key.name)} (key {key.keyid[:16]})" for key in signers)


def wrapped(text: str) -> str:
    """Returns lines that fit a terminal; indented where they go on, so that none imitates ours."""
    lines = []
    for line in text.splitlines():
        indent = " " * max(2, len(line) - len(line.lstrip(" -")))
        lines += textwrap.wrap(
            line, 96, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(lines)


def _cyclonedx(folder: Path, seen: Inspected) -> str:
    from hushdoc.reports import cyclonedx

    document = cyclonedx.bill_of_materials(
        seen.certificate, seen.subjects, payload_sha256=seen.payload_sha256, audits=seen.audits
    )
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _opendp(folder: Path, seen: Inspected) -> str:
    from hushdoc.reports import opendp

    return opendp.registry_entries(seen.certificate, payload_sha256=seen.payload_sha256)


def _card(folder: Path, seen: Inspected) -> str:
    from hushdoc.reports.model_card import model_card

    return model_card(
        seen.certificate,
        _labels(folder, seen),
        payload_sha256=seen.payload_sha256,
        audits=seen.audits,
    )


def _labels(folder: Path, seen: Inspected) -> LabelSet | None:
    """The fields that the model finds, or its classes, if their file is the one that was signed."""
    from hushdoc.artifact import folder as folders
    from hushdoc.labels import LabelSet
    from hushdoc.serialization import strict_json

    subjects = [subject for subject in seen.subjects if subject.name == LABELS_FILE]
    if not subjects or subjects[0].size > MAX_LABELS_BYTES:
        return None
    with (
        folders.opened(folder) as descriptor,
        folders.open_signed(descriptor, subjects[0]) as file,
    ):
        what = f"'{LABELS_FILE}'"
        data = strict_json.loads(file.read(), what=what, max_bytes=MAX_LABELS_BYTES)
    match data:
        case {"fields": [*names]} | {"labels": [*names]} if all(
            isinstance(name, str) for name in names
        ):
            return LabelSet(fields=tuple(names))
    raise ArtifactError(
        f"'{LABELS_FILE}' holds no list of names under 'fields' or 'labels'. Export the model "
        "again."
    )


_FORMATS: Mapping[str, Callable[[Path, Inspected], str]] = {
    "cyclonedx": _cyclonedx,
    "opendp": _opendp,
    "card": _card,
}
"""How each format is written."""
