"""The example certificates: made again byte for byte, verified, and as strict as they can be."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import onnx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hushdoc_processes import interpreter
from safetensors.numpy import load_file

from hushdoc.accounting.mechanism import HashFill
from hushdoc.artifact import artifact
from hushdoc.certificate import recompute
from hushdoc.certificate.certificate import Certificate
from hushdoc.errors import ArtifactError, PolicyViolationError, SignatureError
from hushdoc.policy import policy as policy_limits
from hushdoc.policy.policy import Policy
from hushdoc.signing.trust_store import TrustStore

EXAMPLES = Path(__file__).parents[2] / "samples" / "certificates"
NAMES = ("dp-adam", "fedavg", "feam-dp", "fl-provider-dp", "dp-docldm", "hash-fill")
NOW = datetime(2026, 12, 1, tzinfo=UTC)
EXPECTED: dict[str, Any] = json.loads((EXAMPLES / "expected.json").read_text())
POLICY = Policy.from_toml(EXAMPLES / "policy.toml")
ACCEPTED = {"fl-provider-dp"}


def certificate(name: str) -> Certificate:
    return artifact.read_unverified(EXAMPLES / name).certificate


def golden_files(folder: Path) -> dict[str, bytes]:
    roots = [folder / name for name in NAMES]
    single = [folder / name for name in ("trust.json", "policy.json", "policy.toml")]
    found = [path for root in roots for path in root.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in (*found, *single, folder / "expected.json")
    }


def test_the_script_makes_the_same_bytes_again(tmp_path: Path) -> None:
    script = EXAMPLES / "make.py"
    interpreter(script, "--out", "again", cwd=tmp_path)
    made, golden = golden_files(tmp_path / "again"), golden_files(EXAMPLES)
    assert made.keys() == golden.keys()
    assert [name for name in golden if made[name] != golden[name]] == []


def test_no_checkout_converts_their_line_ends() -> None:
    assert (EXAMPLES / ".gitattributes").read_text() == "* -text\n"


@pytest.mark.parametrize("name", NAMES)
def test_the_policy_finds_what_is_expected(name: str) -> None:
    report = artifact.examine(EXAMPLES / name, POLICY, now=NOW)
    assert report.passed == EXPECTED[name]["accepted"] == (name in ACCEPTED)
    assert [rule.code for rule in report.policy.failed] == EXPECTED[name]["codes"]
    assert [key.name for key in report.signers] == ["example key (public)"]


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_as_it_was_signed(name: str) -> None:
    """Also of those that a policy about privacy refuses before it looks at files."""
    policy = Policy.integrity_only(POLICY.trust, model=f"example-{name}")
    assert artifact.verify(EXAMPLES / name, policy, now=NOW).files_checked


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_file_is_refused(name: str, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / name, tmp_path / name)
    entry = tmp_path / name / certificate(name).model.entry
    content = bytearray(entry.read_bytes())
    content[-1] ^= 1
    entry.write_bytes(content)
    with pytest.raises(ArtifactError) as refused:
        artifact.verify(tmp_path / name, Policy.integrity_only(POLICY.trust), now=NOW)
    assert refused.value.code == "DIGEST_MISMATCH"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_no_epsilon_is_larger_than_it_has_to_be(name: str, mode: str) -> None:
    """Each is reproduced by its transcript, and one hundredth less is not."""
    claim = certificate(name).claim
    assert all(finding.code is None for finding in recompute.reproduce(claim, mode=mode))
    less = tuple(
        dataclasses.replace(item, epsilon=item.epsilon - 0.01, profile=())
        if item.epsilon is not None
        else item
        for item in claim.guarantees
    )
    findings = recompute.reproduce(dataclasses.replace(claim, guarantees=less), mode=mode)
    assert {finding.code for finding in findings} <= {"EPSILON_NOT_REPRODUCED"}
    assert len(findings) == sum(item.epsilon is not None for item in claim.guarantees)


@pytest.mark.parametrize("name", NAMES)
def test_each_says_what_it_is(name: str) -> None:
    found = certificate(name)
    assert found.model.name == f"example-{name}"
    assert found.issuer.startswith("hushdoc examples")
    assert found.claim.caveats[0].startswith("An example")
    views = [(item.adversary, item.unit, item.kind) for item in found.claim.guarantees]
    assert len(set(views)) == len(views)


def test_an_application_that_demands_8_refuses_all() -> None:
    strict = dataclasses.replace(POLICY, max_epsilon=8)
    for name in NAMES:
        report = artifact.examine(EXAMPLES / name, strict, now=NOW)
        assert not report.policy.passed
        if name in ACCEPTED:
            assert [rule.code for rule in report.policy.failed] == ["EPSILON_TOO_LARGE"]


@pytest.mark.parametrize("name", NAMES)
def test_the_default_policy_refuses_all(name: str) -> None:
    default = Policy(trust=POLICY.trust, max_epsilon=8, max_delta=1e-5, privacy_units={"document"})
    with pytest.raises(PolicyViolationError):
        artifact.verify(EXAMPLES / name, default, now=NOW)


def test_the_same_limits_in_toml_and_in_json() -> None:
    values = tomllib.loads((EXAMPLES / "policy.toml").read_text())
    assert json.loads((EXAMPLES / "policy.json").read_text()) == values
    # What is left to defaults is not about privacy: another implementation needs none of them.
    settable = {item.name for item in dataclasses.fields(policy_limits.Policy) if item.init}
    assert settable - values.keys() == {"model", "max_age_days", "revocations"}


def test_the_key_is_the_one_that_everybody_has() -> None:
    source = (EXAMPLES / "make.py").read_text()
    (text,) = [line.split('"')[1] for line in source.splitlines() if line.startswith("PUBLIC_TEXT")]
    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(text.encode()).digest())
    store = TrustStore.from_file(EXAMPLES / "trust.json")
    assert [item.public_key for item in store.keys] == [key.public_key().public_bytes_raw()]
    assert {item.models for item in store.keys} == {tuple(f"example-{name}" for name in NAMES)}


def test_nobody_else_is_trusted() -> None:
    nobody = Policy.integrity_only(TrustStore(keys=()))
    with pytest.raises(SignatureError):
        artifact.verify(EXAMPLES / "fl-provider-dp", nobody, now=NOW)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"hash-fill"}))
def test_the_placeholder_is_a_valid_onnx_model(name: str) -> None:
    path = EXAMPLES / name / "onnx" / "model.onnx"
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Identity"]
    assert path.stat().st_size < 1024


def test_the_placeholder_table_is_valid() -> None:
    (transcript,) = certificate("hash-fill").claim.transcripts.values()
    assert isinstance(transcript, HashFill)
    table = load_file(EXAMPLES / "hash-fill" / "table.safetensors")
    assert table["weights"].shape == (transcript.rows, transcript.columns)


def test_the_readme_says_what_expected_json_says() -> None:
    readme = (EXAMPLES / "README.md").read_text()
    for name, expected in EXPECTED.items():
        (row,) = [line for line in readme.splitlines() if line.startswith(f"| [{name}](")]
        assert ("**accepted**" in row) == expected["accepted"]
        for short in expected["guarantees"]:
            assert short in row
        for code in set(expected["codes"]):
            assert f"`{code}`" in row
