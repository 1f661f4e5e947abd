"""The verb `certificate`: an artifact's certificate explained, or rendered for other tools.

Explaining and exporting show what stands in an artifact, whoever wrote it. With --trust the
signature is checked first; no files are: `hushdoc verify` does that. No text of a certificate
reaches the terminal or another format unescaped.
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
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import printable
from hushdoc.errors import ArtifactError, CertificateError, SignatureError
from hushdoc.explanation import explain

if TYPE_CHECKING:
    from hushdoc.artifact.attestation import Attestation
    from hushdoc.certificate.audit_reports import AuditReport
    from hushdoc.certificate.certificate import Certificate
    from hushdoc.certificate.subjects import Subject
    from hushdoc.labels import LabelSet
    from hushdoc.signing.trust_store import TrustedKey

LABELS_FILE = "labels.json"
MAX_LABELS_BYTES = 2**20
"""A signed file of labels is not read beyond."""


def register(verbs: Any) -> None:
    """Adds `hushdoc certificate explain|export`; numpy is imported only when they run."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "certificate",
        help="explain an artifact's certificate, or render it for other tools",
        description="Explains what an artifact's certificate promises and what it does not, or "
        "renders it for other tools. Files are not checked; `hushdoc verify` does that.",
    )
    ways = parser.add_subparsers(title="what to do", required=True, metavar="WHAT")
    explain = ways.add_parser(
        "explain",
        help="say in plain words what is promised, and above all what is not",
        description="Says in plain words what a certificate promises, to whom, on what that rests, "
        "and what it does not protect.",
    )
    _artifact_options(explain)
    explain.set_defaults(run=run_explain)
    export = ways.add_parser(
        "export",
        help="render it as a CycloneDX ML-BOM, a registry entry or a model card",
        description="Renders a certificate for other tools. A rendering is unsigned and says so; "
        "what counts is the signed statement, whose digest it names.",
    )
    _artifact_options(export)
    export.add_argument(
        "--format",
        choices=tuple(_FORMATS),
        required=True,
        help="cyclonedx: ML-BOM 1.6 in JSON; opendp: entries for the registry of differential "
        "privacy deployments in YAML, one for each guarantee; card: README.md for a model hub",
    )
    export.add_argument(
        "--out", type=Path, metavar="FILE", help="write there (default: standard output)"
    )
    export.set_defaults(run=run_export)


def _artifact_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("artifact", type=Path, metavar="ARTIFACT", help="folder of the artifact")
    parser.add_argument(
        "--trust", type=Path, metavar="FILE", help="trust store in JSON that must know the signer"
    )


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A certificate as it stands in a folder, and what a trust store says about it.

    Attributes:
        certificate: What it says.
        subjects: The files it says it about; nobody looked at them.
        payload_sha256: Digest of the signed statement, which renderings and audits are bound to.
        signers: The trusted keys that signed; none of them: empty; nobody asked: None.
        audits: What trusted auditors signed about it.
        untrusted_audits: Lines that no trusted auditor signed; nothing was read of them.
        problem: Why a trust store that was asked does not trust it.
    """

    certificate: Certificate
    subjects: Sequence[Subject]
    payload_sha256: str
    signers: Sequence[TrustedKey] | None
    audits: Sequence[AuditReport] = ()
    untrusted_audits: int = 0
    problem: CertificateError | None = None


def look(folder: Path, trust: Path | None) -> Seen:
    """Returns the certificate of an artifact, trusted or not.

    Args:
        folder: The artifact.
        trust: A trust store, or None where nobody asks.

    Raises:
        ArtifactError: There is no such folder.
        CertificateError: The certificate is missing or malformed.
        InputError: The trust store can't be read.
    """
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
    return Seen(
        certificate=found.certificate,
        subjects=found.subjects,
        payload_sha256=hashlib.sha256(payload).hexdigest(),
        signers=None if trust is None else (),
        problem=problem,
    )


def _trusted(signed: Attestation) -> Seen:
    return Seen(
        certificate=signed.certificate,
        subjects=signed.subjects,
        payload_sha256=signed.digest,
        signers=signed.signers,
        audits=signed.audits,
        untrusted_audits=signed.untrusted_audits,
    )


def run_explain(options: argparse.Namespace) -> int:
    """Explains a certificate and returns 0, or 4 where a given trust store does not trust it."""
    seen = look(options.artifact, options.trust)
    print_signature(seen)
    print(f"SHA-256 of the signed statement: {seen.payload_sha256}\n")
    print_explanation(seen)
    return 0 if seen.problem is None else seen.problem.exit_code


def run_export(options: argparse.Namespace) -> int:
    """Renders a certificate and returns 0; nothing is rendered that a given store distrusts."""
    from hushdoc.system import atomic_files

    seen = look(options.artifact, options.trust)
    if seen.problem is not None:
        raise seen.problem
    text = _FORMATS[options.format](options.artifact, seen)
    if options.out is None:
        sys.stdout.write(text)
        return 0
    atomic_files.write_file(options.out, text.encode("utf-8"))
    print(f"Written, an unsigned rendering: {printable(options.out)}")
    return 0


def print_signature(seen: Seen) -> None:
    """Prints whether anybody is known to have signed, and that no file was looked at."""
    if isinstance(seen.problem, SignatureError):
        print(f"!!! SIGNATURE NOT TRUSTED ({seen.problem.code}): anybody may have written this.")
        print(f"!!! {printable(seen.problem)}")
    elif seen.problem is not None:
        print(f"!!! NOT TO BE BELIEVED ({seen.problem.code}): {printable(seen.problem)}")
    elif seen.signers is None:
        print("!!! SIGNATURE NOT CHECKED: anybody may have written this. Check it with --trust.")
    else:
        print(f"Signed by {names(seen.signers)}.")
    print("Files were not checked; `hushdoc verify` checks them.")


def print_explanation(seen: Seen) -> None:
    """Prints the certificate in plain words, and the audits of others that are trusted."""
    print(wrapped(explain(seen.certificate)))
    print_audits(seen.audits, seen.untrusted_audits)
    for item in seen.certificate.recompute():
        if item.code is not None:
            print(f"!!! GUARANTEE {item.index} DOES NOT FOLLOW FROM ITS MECHANISM ({item.code}):")
            print(f"!!! {printable(item.message)}.")


def print_audits(audits: Sequence[AuditReport], untrusted: int) -> None:
    """Prints what trusted auditors signed, and how many lines nobody trusted signed."""
    from hushdoc.explanation import report_lines

    print()
    if audits:
        print("WHAT TRUSTED AUDITORS SIGNED ABOUT IT")
        print(wrapped("\n".join(report_lines(audits))) + "\n")
    if untrusted:
        print(f"Lines that no trusted auditor signed: {untrusted}. Nothing was read of them.\n")


def names(signers: Sequence[TrustedKey]) -> str:
    """Returns who signed, in words."""
    return ", ".join(f"{printable(key.name)} (key {key.keyid[:16]})" for key in signers)


def wrapped(text: str) -> str:
    """Returns text in lines that fit a terminal, each continued below its own start.

    What goes on is always indented, so that no text can choose where a line of ours begins.
    """
    lines = []
    for line in text.splitlines():
        indent = " " * max(2, len(line) - len(line.lstrip(" -")))
        lines += textwrap.wrap(
            line, 96, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(lines)


def _cyclonedx(folder: Path, seen: Seen) -> str:
    from hushdoc.reports import cyclonedx

    document = cyclonedx.bill_of_materials(
        seen.certificate, seen.subjects, payload_sha256=seen.payload_sha256
    )
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _opendp(folder: Path, seen: Seen) -> str:
    from hushdoc.reports import opendp

    return opendp.registry_entries(seen.certificate, payload_sha256=seen.payload_sha256)


def _card(folder: Path, seen: Seen) -> str:
    from hushdoc.reports.model_card import model_card

    return model_card(seen.certificate, _labels(folder, seen), payload_sha256=seen.payload_sha256)


def _labels(folder: Path, seen: Seen) -> LabelSet | None:
    """The fields that the model finds, if the file that says so is the one named as signed."""
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
        data = strict_json.loads(file.read(), what=f"'{LABELS_FILE}'")
    match data:
        case {"fields": [*names]} if all(isinstance(name, str) for name in names):
            return LabelSet(fields=tuple(names))
    raise ArtifactError(
        f"'{LABELS_FILE}' holds no list of names under 'fields'. Export the model again."
    )


_FORMATS: Mapping[str, Callable[[Path, Seen], str]] = {
    "cyclonedx": _cyclonedx,
    "opendp": _opendp,
    "card": _card,
}
"""How each format is written."""
