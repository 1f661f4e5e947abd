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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.errors import CertificateError, InputError, SignatureError

if TYPE_CHECKING:
    from hushdoc.artifact import Unverified
    from hushdoc.attestation import Attestation
    from hushdoc.labels import LabelSet
    from hushdoc.policy import Policy

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


def run_explain(options: argparse.Namespace) -> int:
    """Explains a certificate and returns 0, or 4 where a given trust store does not believe it."""
    from hushdoc import artifact
    from hushdoc.commands import inspection

    found = artifact.read_unverified(options.artifact)
    signed, problem = attested(options.artifact, options.trust)
    inspection.print_signature(options.trust, signed, problem)
    print("Files were not checked; `hushdoc verify` checks them.")
    print(f"SHA-256 of the signed statement: {payload_sha256(found)}\n")
    inspection.print_explanation(found.certificate, signed)
    return 0 if problem is None else problem.exit_code


def run_export(options: argparse.Namespace) -> int:
    """Renders a certificate and returns 0; nothing is rendered that a given store disbelieves."""
    from hushdoc import artifact, files
    from hushdoc.explanation import printable

    found = artifact.read_unverified(options.artifact)
    _, problem = attested(options.artifact, options.trust)
    if problem is not None:
        raise problem
    text = _FORMATS[options.format](options.artifact, found)
    if options.out is None:
        sys.stdout.write(text)
        return 0
    files.write_file(options.out, text.encode("utf-8"))
    print(f"Written, an unsigned rendering: {printable(str(options.out))}")
    return 0


def attested(
    folder: Path, trust: Path | None
) -> tuple[Attestation | None, CertificateError | None]:
    """Returns what trusted keys say about an artifact, and why they say nothing.

    Args:
        folder: The artifact.
        trust: A trust store, or None where nobody asked.

    Returns:
        The attestation and None; or None and what the store did not believe; or twice None.

    Raises:
        InputError: The trust store can't be read.
    """
    if trust is None:
        return None, None
    from hushdoc.policy import Policy
    from hushdoc.trust import TrustStore

    try:
        return read_attestation(folder, Policy.integrity_only(TrustStore.from_file(trust))), None
    except CertificateError as problem:
        return None, problem


def read_attestation(folder: Path, policy: Policy) -> Attestation:
    """Returns the signed lines of an artifact, believed by a policy.

    Args:
        folder: The artifact.
        policy: Whom it believes.

    Raises:
        ArtifactError: There is no such folder.
        CertificateError: What stands there is not believed.
    """
    from hushdoc import attestation
    from hushdoc import folder as folders

    with folders.pinned(folder) as descriptor:
        return attestation.read(descriptor, policy)


def payload_sha256(found: Unverified) -> str:
    """Returns the digest of the signed statement: what renderings and audits are bound to."""
    from hushdoc import signing

    return hashlib.sha256(signing.read_envelope(found.envelope).payload).hexdigest()


def _cyclonedx(folder: Path, found: Unverified) -> str:
    from hushdoc.interchange import cyclonedx

    document = cyclonedx.bill_of_materials(
        found.certificate, found.subjects, payload_sha256=payload_sha256(found)
    )
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _opendp(folder: Path, found: Unverified) -> str:
    from hushdoc.interchange import opendp

    return opendp.registry_entries(found.certificate, payload_sha256=payload_sha256(found))


def _card(folder: Path, found: Unverified) -> str:
    from hushdoc.viewing.model_card import model_card

    return model_card(
        found.certificate, _labels(folder, found), payload_sha256=payload_sha256(found)
    )


def _labels(folder: Path, found: Unverified) -> LabelSet | None:
    """The fields that the model finds, if the file that says so is the one named as signed."""
    from hushdoc import folder as folders
    from hushdoc import strict_json
    from hushdoc.labels import LabelSet

    subjects = [subject for subject in found.subjects if subject.name == LABELS_FILE]
    if not subjects or subjects[0].size > MAX_LABELS_BYTES:
        return None
    with (
        folders.pinned(folder) as descriptor,
        folders.open_signed(descriptor, subjects[0]) as file,
    ):
        data = strict_json.loads(file.read(), what=f"'{LABELS_FILE}'")
    match data:
        case {"fields": [*names]} if all(isinstance(name, str) for name in names):
            return LabelSet(fields=tuple(names))
    raise InputError(
        f"'{LABELS_FILE}' holds no list of names under 'fields'. Export the model again.",
        code="BAD_LABELS",
    )


_FORMATS: Mapping[str, Callable[[Path, Unverified], str]] = {
    "cyclonedx": _cyclonedx,
    "opendp": _opendp,
    "card": _card,
}
"""How each format is written."""
