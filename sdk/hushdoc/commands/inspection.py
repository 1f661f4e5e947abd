"""The verbs `inspect` and `verify`: what a certificate says, and whether it is to be believed.

Inspecting shows what stands in an artifact, whoever wrote it, and says so. Verifying checks
signature, policy and every file. Neither loads a model, and no text of a certificate reaches the
terminal unescaped.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc.errors import HushdocError, SignatureError

if TYPE_CHECKING:
    from hushdoc.artifact import Unverified, VerificationReport
    from hushdoc.certificate import Certificate, Subject
    from hushdoc.trust import TrustedKey


def register(verbs: Any) -> None:
    """Adds `hushdoc inspect` and `hushdoc verify`; numpy is imported only when they run."""
    inspect: argparse.ArgumentParser = verbs.add_parser(
        "inspect",
        help="show in plain words what an artifact's certificate promises, and what not",
        description="Shows what an artifact's certificate says. It checks the signature only with "
        "--trust, and no files; `hushdoc verify` does both.",
    )
    inspect.add_argument("artifact", type=Path, metavar="ARTIFACT", help="folder of the artifact")
    inspect.add_argument("--trust", type=Path, metavar="FILE", help="trust store in JSON")
    inspect.add_argument(
        "--html", type=Path, metavar="OUT", help="write a page for a privacy officer"
    )
    inspect.add_argument("--json", action="store_true", help="print one JSON object")
    inspect.set_defaults(run=run_inspect)

    verify: argparse.ArgumentParser = verbs.add_parser(
        "verify",
        help="check signature, policy and every file of an artifact",
        description="Checks an artifact against a policy and prints every rule. Exit code 0: "
        "accepted; 4: not a sound artifact or certificate; 5: sound, but the policy refuses it.",
    )
    verify.add_argument("artifact", type=Path, metavar="ARTIFACT", help="folder of the artifact")
    policy_options(verify)
    verify.add_argument(
        "--html", type=Path, metavar="OUT", help="write a page for a privacy officer"
    )
    verify.add_argument("--json", action="store_true", help="print one JSON object")
    verify.set_defaults(run=run_verify)


def run_inspect(options: argparse.Namespace) -> int:
    """Shows a certificate and returns 0, or 4 where a given trust store does not believe it."""
    from hushdoc import artifact

    found = artifact.read_unverified(options.artifact)
    signers, problem = _signers(found, options.trust)
    if options.html is not None:
        _write_page(options.html, found.certificate, found.subjects, None, signers)
    if options.json:
        _print_json(_inspected(found, signers, problem))
    else:
        _print_inspected(found, signers, problem)
        if options.html is not None:
            print(f"\nPage written: {_shown(options.html)}")
    return 0 if problem is None else problem.exit_code


def run_verify(options: argparse.Namespace) -> int:
    """Checks an artifact and returns 0, or 5 where the policy refuses it."""
    from hushdoc import artifact

    policy = policy_from(options)
    try:
        report = artifact.examine(options.artifact, policy)
    except HushdocError as problem:
        if not options.json:
            raise
        _print_json({"passed": False, "error": {"code": problem.code, "message": str(problem)}})
        return problem.exit_code
    if options.html is not None:
        _write_page(options.html, report.certificate, report.files, report, report.signers)
    if options.json:
        _print_json(report.to_dict())
    else:
        _print_report(report)
        if options.html is not None:
            print(f"\nPage written: {_shown(options.html)}")
    return 0 if report.passed else 5


def _signers(
    found: Unverified, trust: Path | None
) -> tuple[Sequence[TrustedKey] | None, SignatureError | None]:
    """Returns who signed, None where nobody asked, and why nobody is believed."""
    if trust is None:
        return None, None
    from hushdoc import signing
    from hushdoc.trust import TrustStore

    store = TrustStore.from_file(trust)
    try:
        keys = signing.verify(found.envelope, store).keys
        signing.require_authorised(keys, found.certificate.model.name)
    except SignatureError as problem:
        return (), problem
    return keys, None


def _inspected(
    found: Unverified, signers: Sequence[TrustedKey] | None, problem: HushdocError | None
) -> dict[str, Any]:
    return {
        "signature": {
            "checked": signers is not None,
            "trusted": bool(signers),
            "signers": [{"name": key.name, "keyid": key.keyid} for key in signers or ()],
            "error": None if problem is None else {"code": problem.code, "message": str(problem)},
        },
        "filesChecked": False,
        "recomputed": [asdict(item) for item in found.certificate.recompute()],
        "subjects": [asdict(subject) for subject in found.subjects],
        "certificate": found.certificate.to_dict(),
    }


def _print_inspected(
    found: Unverified, signers: Sequence[TrustedKey] | None, problem: HushdocError | None
) -> None:
    from hushdoc.explanation import printable

    if problem is not None:
        print(f"!!! SIGNATURE NOT TRUSTED ({problem.code}): anybody may have written this.")
        print(f"!!! {printable(str(problem))}")
    elif signers is None:
        print("!!! SIGNATURE NOT CHECKED: anybody may have written this. Check it with --trust.")
    else:
        print(f"Signed by {_names(signers)}.")
    print("Files were not checked; `hushdoc verify` checks them.\n")
    print(_wrapped(found.certificate.explain()))
    print("RECOMPUTED FROM THE TRANSCRIPTS")
    for item in found.certificate.recompute():
        verdict = "reproduced" if item.code is None else f"NOT REPRODUCED ({item.code})"
        print(f"  - guarantee {item.index}: {verdict}: {printable(item.message)}.")
    if not found.certificate.recompute():
        print("  - nothing: no guarantee of differential privacy is claimed.")
    _print_files(found.subjects)


def _wrapped(text: str) -> str:
    """Text in lines that fit a terminal, each continued below its own start."""
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip(" -")))
        lines += textwrap.wrap(
            line, 96, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(lines)


def _print_report(report: VerificationReport) -> None:
    from hushdoc.explanation import printable

    model = report.certificate.model
    print(f"{printable(model.name)}, version {model.version} ({model.task})")
    signed = (
        f"signed by {_names(report.signers)}" if report.signers else "NOT SIGNED BY A TRUSTED KEY"
    )
    print(f"certificate {report.certificate.certificate_id}, {signed}\n")
    rows = [
        (
            "ok" if rule.passed else "FAIL",
            rule.rule,
            rule.found,
            rule.allowed,
            "" if rule.passed else rule.code,
        )
        for rule in report.policy.rules
    ]
    _print_table([("", "rule", "found", "allowed", ""), *rows])
    if report.files_checked:
        print(f"\n{len(report.files)} files checked: each is as it was signed.")
    else:
        print("\nFiles were not checked, because the policy refuses the model before.")
    failed = len(report.policy.failed)
    print("ACCEPTED." if report.passed else f"REFUSED: {failed} of {len(rows)} rules failed.")


def _print_table(rows: list[tuple[str, ...]]) -> None:
    from hushdoc.explanation import printable

    cells = [[printable(cell, limit=90) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def _print_files(subjects: Sequence[Subject]) -> None:
    print("\nSIGNED FILES")
    for subject in subjects:
        print(f"  {subject.sha256}  {subject.size:>12}  {subject.name}")


def _names(signers: Sequence[TrustedKey]) -> str:
    from hushdoc.explanation import printable

    return ", ".join(f"{printable(key.name)} (key {key.keyid[:16]})" for key in signers)


def _write_page(
    path: Path,
    certificate: Certificate,
    subjects: Sequence[Subject],
    report: VerificationReport | None,
    signers: Sequence[TrustedKey] | None,
) -> None:
    from hushdoc import files
    from hushdoc.viewing.certificate_page import certificate_page

    page = certificate_page(certificate, report, subjects, signers=signers)
    files.write_file(path, page.encode("utf-8"))


def _print_json(value: dict[str, Any]) -> None:
    """Prints JSON in ASCII, so that no text of a certificate can steer the terminal."""
    print(json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False))


def _shown(path: Path) -> str:
    from hushdoc.explanation import printable

    return printable(str(path))
