"""The subcommands `inspect` and `verify`: what a certificate says, and whether a policy accepts it.

Inspecting explains the certificate of an artifact, whoever wrote it, and says so. Verifying checks
signature, policy and every file. Neither loads a model, and no text of a certificate reaches the
terminal unescaped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import counted, printable
from hushdoc.commands import certificates
from hushdoc.commands.answering import artifact_argument
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc.errors import HushdocError
from hushdoc.explanation import explain

if TYPE_CHECKING:
    from hushdoc.artifact.artifact import VerificationReport
    from hushdoc.certificate.certificate import Certificate
    from hushdoc.certificate.subjects import Subject
    from hushdoc.commands.certificates import Inspected
    from hushdoc.commands.parsing import CommandParser, Subcommands

_ACCOUNTANTS = {
    "fast": "by Renyi accounting, and by privacy loss distributions where that does not suffice",
    "exact": "by privacy loss distributions",
    "offline": "by privacy loss distributions, and by dp-accounting as a second implementation",
}
"""Which accountants each way of recomputing uses."""


_WIDEST = 90
"""Characters of a cell in the table of rules; what a refusal cuts off follows below it."""


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc inspect` and `hushdoc verify`; numpy is imported only when they run."""
    inspect = subcommands.add_parser(
        "inspect",
        help="explain what an artifact's certificate guarantees, and what it does not",
        description="Explains what an artifact's certificate guarantees, to whom, on what that "
        "rests, and what it does not protect. It checks the signature only with --trust, and no "
        "files; `hushdoc verify` checks both. The numbers of whom nobody knows are recomputed only "
        "with --recompute.",
    )
    artifact_argument(inspect)
    certificates.trust_option(inspect)
    inspect.add_argument(
        "--recompute",
        action="store_true",
        help="recompute the numbers although no trusted key signed them, which may take seconds",
    )
    _output_options(inspect)
    inspect.set_defaults(run=run_inspect)

    verify = subcommands.add_parser(
        "verify",
        help="check signature, policy and every file of an artifact",
        description="Checks an artifact against a policy and prints every rule. Exit code 0: "
        "accepted; 4: not a sound artifact or certificate; 5: sound, but the policy refuses it.",
    )
    artifact_argument(verify)
    policy_options(verify)
    _output_options(verify)
    verify.set_defaults(run=run_verify)


def _output_options(parser: CommandParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--html", type=Path, metavar="OUT.html", help="write a page for a privacy officer"
    )
    group.add_argument("--json", action="store_true", help="print one JSON object")
    parser.mark_output("--html")


def run_inspect(options: argparse.Namespace) -> int:
    """Explains a certificate and returns 0, or 4 where a given trust store does not trust it."""
    seen = certificates.inspected(options.artifact, options.trust)
    recomputes = options.recompute or bool(seen.signers)
    if options.html is not None:
        _write_page(
            options.html,
            seen.certificate,
            None,
            seen.subjects,
            signers=seen.signers,
            audits=seen.audits,
            recompute="fast" if recomputes else None,
            payload_sha256=seen.payload_sha256,
        )
    with suppress(BrokenPipeError):  # whoever read has had enough, and the result stands
        if options.json:
            _print_json(_as_json(seen, recomputes=recomputes))
        else:
            _print_inspected(seen, recomputes=recomputes)
            if options.html is not None:
                print(f"\nPage written: {printable(options.html)}")
    return 0 if seen.problem is None else seen.problem.exit_code


def run_verify(options: argparse.Namespace) -> int:
    """Checks an artifact and returns 0, or 5 where the policy refuses it."""
    from hushdoc.artifact import artifact

    try:
        report = artifact.examine(options.artifact, policy_from(options))
    except HushdocError as problem:
        if options.html is not None:
            _write_refusal(options.html, options.artifact, problem)
        if not options.json:
            raise
        with suppress(BrokenPipeError):
            _print_json({"passed": False, "error": {"code": problem.code, "message": str(problem)}})
        return problem.exit_code
    if options.html is not None:
        _write_page(
            options.html,
            report.certificate,
            report,
            report.files,
            audits=report.audits,
            recompute=report.recompute,
            payload_sha256=report.payload_sha256,
        )
    with suppress(BrokenPipeError):
        if options.json:
            _print_json(report.to_dict())
        else:
            _print_report(report)
            if options.html is not None:
                print(f"\nPage written: {printable(options.html)}")
    return 0 if report.passed else 5


def _as_json(seen: Inspected, *, recomputes: bool) -> dict[str, Any]:
    problem = seen.problem
    found = [asdict(item) for item in seen.certificate.recompute()] if recomputes else None
    return {
        "signature": {
            "checked": seen.signers is not None,
            "trusted": bool(seen.signers),
            "signers": [{"name": key.name, "keyid": key.keyid} for key in seen.signers or ()],
            "error": None if problem is None else {"code": problem.code, "message": str(problem)},
        },
        "filesChecked": False,
        "payloadSha256": seen.payload_sha256,
        "recomputed": found,
        "notRecomputed": None if recomputes else _why_not_recomputed(seen),
        "subjects": [asdict(subject) for subject in seen.subjects],
        "certificate": seen.certificate.to_dict(),
        "audits": [item.to_dict() for item in seen.audits],
        "untrustedAudits": seen.untrusted_audits,
    }


def _why_not_recomputed(seen: Inspected) -> str:
    """Why the numbers of a certificate were not recomputed, and how they are."""
    unknown = "no trust store was given" if seen.signers is None else "no trusted key signed it"
    return (
        f"Not recomputed: {unknown}, and whoever wrote it decides how much work that is. Name a "
        "trust store with --trust, or ask for it with --recompute."
    )


def _print_inspected(seen: Inspected, *, recomputes: bool) -> None:
    certificates.print_signature(seen)
    print(f"SHA-256 of the signed statement: {seen.payload_sha256}\n")
    print(certificates.wrapped(explain(seen.certificate)))
    certificates.print_audits(seen.audits, seen.untrusted_audits)
    print("RECOMPUTED FROM THE TRANSCRIPTS")
    if recomputes:
        _print_recomputed(seen.certificate)
    else:
        print(certificates.wrapped(f"  - {_why_not_recomputed(seen)}"))
    print("\nSIGNED FILES")
    for subject in seen.subjects:
        print(f"  {subject.sha256}  {subject.size:>12}  {subject.name}")


def _print_recomputed(certificate: Certificate) -> None:
    findings = certificate.recompute()
    for item in findings:
        verdict = "reproduced" if item.code is None else f"NOT REPRODUCED ({item.code})"
        print(f"  - guarantee {item.index}: {verdict}: {printable(item.message)}.")
    if not findings:
        print("  - nothing: no guarantee of differential privacy is claimed.")


def _print_report(report: VerificationReport) -> None:
    model = report.certificate.model
    print(f"{printable(model.name)}, version {model.version} ({model.task})")
    signers = (
        f"signed by {certificates.names(report.signers)}"
        if report.signers
        else "NOT SIGNED BY A TRUSTED KEY"
    )
    print(f"certificate {report.certificate.certificate_id}, {signers}")
    if report.recompute is not None:
        print(f"recomputed {report.recompute}: {_ACCOUNTANTS[report.recompute]}")
    print()
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
    for rule in report.policy.failed:
        if max(len(rule.found), len(rule.allowed)) > _WIDEST:
            print()
            shown = f"{rule.code}: found {rule.found}; allowed {rule.allowed}"
            print(certificates.wrapped(printable(shown, limit=len(shown))))
    certificates.print_audits(report.audits, report.untrusted_audits)
    if report.files_checked:
        print(f"{counted(len(report.files), 'file')} checked: each is as it was signed.")
    else:
        print("Files were not checked, because the policy refuses the model.")
    failed = len(report.policy.failed)
    noun = "rule" if len(rows) == 1 else "rules"
    print("ACCEPTED." if report.passed else f"REFUSED: {failed} of {len(rows)} {noun} failed.")


def _print_table(rows: list[tuple[str, ...]]) -> None:
    cells = [[printable(cell, limit=_WIDEST) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def _write_page(
    path: Path,
    certificate: Certificate,
    report: VerificationReport | None,
    subjects: Sequence[Subject],
    **further: Any,
) -> None:
    from hushdoc.reports.certificate_page import certificate_page
    from hushdoc.system import atomic_files

    page = certificate_page(certificate, report, subjects, **further)
    atomic_files.write_file(path, page.encode("utf-8"))


def _write_refusal(path: Path, folder: Path, problem: HushdocError) -> None:
    """Writes that an artifact is refused, so that no page of an earlier check says otherwise."""
    from hushdoc.reports.certificate_page import refusal_page
    from hushdoc.system import atomic_files

    atomic_files.write_file(path, refusal_page(str(folder), problem).encode("utf-8"))


def _print_json(value: dict[str, Any]) -> None:
    """Prints JSON in ASCII, so that no text of a certificate can steer the terminal."""
    print(json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False))
