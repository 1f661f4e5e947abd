"""samples/release_check.py: pipelines see what the policy says, by exit code and by page."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "sdk/hushdoc/sample"


@pytest.fixture(scope="module")
def sample() -> Any:
    spec = spec_from_file_location("release_check", ROOT / "samples/release_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def strict_policy(folder: Path) -> Path:
    """Returns the sample's policy with a smaller epsilon."""
    text = (MODEL / "policy.toml").read_text()
    changed = [
        "max_epsilon = 1" if line.startswith("max_epsilon") else line for line in text.splitlines()
    ]
    changed = [line.replace('"trust.json"', f'"{MODEL}/trust.json"') for line in changed]
    path = folder / "strict.toml"
    path.write_text("\n".join(changed) + "\n")
    return path


@pytest.mark.parametrize(
    ("artifact", "strict", "code", "failed"),
    [
        (MODEL / "model", False, 0, []),
        (MODEL / "model", True, 5, ["EPSILON_TOO_LARGE", "FILES_NOT_CHECKED"]),
        (MODEL, False, 4, ["MISSING_CERTIFICATE"]),
    ],
)
def test_a_pipeline_sees_every_rule(
    sample: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    artifact: Path,
    strict: bool,
    code: int,
    failed: list[str],
) -> None:
    policy = strict_policy(tmp_path) if strict else MODEL / "policy.toml"
    found = tmp_path / "found.sarif", tmp_path / "found.xml"
    command = [artifact, "--policy", policy, "--sarif", found[0], "--junit", found[1]]
    monkeypatch.setattr(sys, "argv", ["release_check.py", *map(str, command)])
    assert sample.main() == code
    [run] = json.loads(found[0].read_text())["runs"]
    assert [item["ruleId"] for item in run["results"] if item["kind"] == "fail"] == failed
    assert {item["ruleId"] for item in run["results"]} == {
        item["id"] for item in run["tool"]["driver"]["rules"]
    }
    assert all((item["level"] == "error") == (item["kind"] == "fail") for item in run["results"])
    suite = ET.fromstring(found[1].read_bytes())
    assert int(suite.attrib["failures"]) == len(failed) == len(suite.findall("*/failure"))
    assert int(suite.attrib["tests"]) == len(run["results"]) == len(suite)
    if code == 0:
        assert len(suite) > 10
