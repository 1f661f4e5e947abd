"""Checks the certificate of an artifact in a build pipeline, and says what it found in its formats.

    python samples/release_check.py path/to/model --policy policy.toml --sarif found.sarif
    python samples/release_check.py path/to/model --policy policy.toml --junit found.xml

Exit code 0: accepted; 5: the policy refuses it; 3 or 4: there is nothing sound to check. A pipeline
shows SARIF (2.1.0) beside the code, and JUnit's XML as tests: each rule of the policy is one.
"""

from __future__ import annotations

import argparse
import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hushdoc
from hushdoc.arguments import printable
from hushdoc.artifact import artifact
from hushdoc.errors import HushdocError, PolicyViolationError
from hushdoc.policy.report import RuleResult
from hushdoc.system import atomic_files

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
CODES = "docs/error-codes.md"
NOT_CHECKED = "FILES_NOT_CHECKED"


def checked(path: Path, policy: Path) -> tuple[list[RuleResult], int]:
    """Returns what every rule found and the exit code; what is not sound is one failed rule."""
    try:
        report = artifact.examine(path, hushdoc.Policy.from_toml(policy))
    except HushdocError as error:
        found = printable(error, limit=1000)
        failed = RuleResult(
            rule="sound", code=error.code, found=found, allowed="an artifact", passed=False
        )
        return [failed], error.exit_code
    rules = list(report.policy.rules)
    rules.append(
        RuleResult(
            rule="files",
            code=NOT_CHECKED,
            found="as they were signed" if report.files_checked else "not looked at",
            allowed="as they were signed",
            passed=report.files_checked,
        )
    )
    return rules, 0 if report.passed else PolicyViolationError.exit_code


def told(code: str) -> str:
    """Returns what a rule's code means, or where that stands."""
    return (
        "a policy's rule failed before files were read" if code == NOT_CHECKED else f"see {CODES}"
    )


def sarif(rules: Sequence[RuleResult], path: Path) -> dict[str, Any]:
    """Returns the log of one run: every rule, passed or failed."""
    place = {"artifactLocation": {"uri": path.as_posix()}}
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "hushdoc",
                        "semanticVersion": hushdoc.__version__,
                        "rules": [
                            {"id": code, "shortDescription": {"text": f"{code}: {told(code)}"}}
                            for code in dict.fromkeys(rule.code for rule in rules)
                        ],
                    }
                },
                "results": [
                    {
                        "ruleId": rule.code,
                        "kind": "pass" if rule.passed else "fail",
                        "level": "none" if rule.passed else "error",
                        "message": {"text": words(rule)},
                        "locations": [{"physicalLocation": place}],
                    }
                    for rule in rules
                ],
            }
        ],
    }


def junit(rules: Sequence[RuleResult], path: Path) -> bytes:
    """Returns a suite of tests, one for each rule."""
    failed = sum(not rule.passed for rule in rules)
    suite = ET.Element(
        "testsuite", name="hushdoc", tests=str(len(rules)), failures=str(failed), errors="0"
    )
    for rule in rules:
        case = ET.SubElement(suite, "testcase", classname=path.as_posix(), name=rule.rule)
        if not rule.passed:
            failure = ET.SubElement(case, "failure", type=rule.code, message=words(rule))
            failure.text = words(rule)
    content: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return content


def words(rule: RuleResult) -> str:
    """Returns what a rule found, which an issuer wrote in part, without control characters."""
    return printable(f"{rule.rule}: {rule.found}; allowed: {rule.allowed}", limit=2000)


def main() -> int:
    """Checks one artifact and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("artifact", type=Path, help="folder of the artifact")
    parser.add_argument("--policy", type=Path, required=True, help="policy in TOML")
    parser.add_argument("--sarif", type=Path, help="file to write in SARIF")
    parser.add_argument("--junit", type=Path, help="file to write in JUnit's XML")
    options = parser.parse_args()
    rules, exit_code = checked(options.artifact, options.policy)
    if options.sarif is not None:
        content = json.dumps(sarif(rules, options.artifact), indent=2).encode()
        atomic_files.write_file(options.sarif, content)
    if options.junit is not None:
        atomic_files.write_file(options.junit, junit(rules, options.artifact))
    for rule in rules:
        if not rule.passed:
            print(f"{rule.code}: {words(rule)}", file=sys.stderr)
    print(f"{'accepted' if exit_code == 0 else 'refused'}: {printable(str(options.artifact))}")
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
