"""Sealed folders in hostile hands: every change is refused, each with its own code."""

from __future__ import annotations

import functools
import json
import os
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hushdoc_processes import in_python

from hushdoc.artifact import artifact, onnx_scan, safetensors_scan
from hushdoc.artifact import manifest as contents
from hushdoc.artifact.scan_budget import ScanBudget
from hushdoc.errors import ArtifactError, HushdocError, PolicyViolationError, SignatureError
from hushdoc.policy.policy import Policy
from hushdoc.signing import dsse, keys

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture
def sealed(build: ModuleType, key: Any, tmp_path: Path) -> Path:
    return build.seal(tmp_path / "invoice-kie", key)


open_low = functools.partial(artifact.open_artifact, low_memory=True)


def code_of(path: Path, policy: Policy, **options: Any) -> str:
    """Returns the code with which all ways of opening refuse; none leaves a file open."""
    codes = set()
    before = len(os.listdir("/proc/self/fd"))
    for opened in (artifact.open_artifact, artifact.verify, open_low):
        with pytest.raises(HushdocError) as caught:
            opened(path, policy, **{"now": NOW, **options})
        codes.add(caught.value.code)
    assert len(os.listdir("/proc/self/fd")) <= before
    assert len(codes) == 1
    return codes.pop()


def test_a_sound_artifact_is_opened(build: ModuleType, key: Any, sealed: Path) -> None:
    found = artifact.open_artifact(sealed, build.policy(key), now=NOW)
    assert found.certificate.certificate_id == build.CERTIFICATE_ID
    assert found.manifest["entry"] == build.ENTRY
    assert found.read(build.ENTRY) == build.onnx()
    assert [item.name for item in found.signers] == ["key 0"]
    assert found.report.passed
    with pytest.raises(ArtifactError) as caught:
        found.read("README.md")
    assert caught.value.code == "MISSING_FILE"


def test_verification_lists_rules_and_files(build: ModuleType, key: Any, sealed: Path) -> None:
    report = artifact.verify(sealed, build.policy(key), now=NOW)
    assert report.passed
    assert [item.name for item in report.files] == sorted(build.files())
    assert json.dumps(report.to_dict())


def test_a_refusing_policy_is_a_report_and_an_error(
    build: ModuleType, key: Any, sealed: Path
) -> None:
    policy = build.policy(key, max_epsilon=1, privacy_units={"user"})
    with pytest.raises(PolicyViolationError) as refused:
        artifact.verify(sealed, policy, now=NOW)
    report = artifact.examine(sealed, policy, now=NOW)
    assert refused.value.report == report.policy
    assert not report.passed
    assert not report.files_checked
    with pytest.raises(PolicyViolationError) as caught:
        artifact.open_artifact(sealed, policy, now=NOW)
    assert {rule.code for rule in caught.value.report.failed} == {
        "UNIT_NOT_ACCEPTED",
        "EPSILON_TOO_LARGE",
    }


NAMES = ["hushdoc.json", "labels.json", "onnx/model.onnx", "tokenizer.json"]


def test_a_folder_behind_a_link_is_the_callers_choice(
    build: ModuleType, key: Any, sealed: Path
) -> None:
    link = sealed.parent / "link"
    link.symlink_to(sealed)
    assert artifact.verify(link, build.policy(key), now=NOW).passed


def test_without_a_signature_only_where_the_policy_says_so(
    build: ModuleType, other_key: Any, sealed: Path
) -> None:
    found = artifact.open_artifact(
        sealed, build.policy(other_key, require_signature=False), now=NOW
    )
    assert found.signers == ()


def test_integrity_only_still_checks_signature_and_files(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key, build.certify(build.no_guarantee()))
    assert artifact.verify(path, Policy.integrity_only(build.trust(key)), now=NOW).passed
    assert code_of(path, Policy.integrity_only(build.trust(other_key))) == "NO_TRUSTED_SIGNATURE"
    (path / "labels.json").write_bytes(b"{}")
    assert code_of(path, Policy.integrity_only(build.trust(key))) == "SIZE_MISMATCH"


def test_low_memory_hands_on_the_files_that_were_checked(
    build: ModuleType, key: Any, sealed: Path
) -> None:
    with artifact.open_artifact(sealed, build.policy(key), now=NOW, low_memory=True) as found:
        assert found.manifest["entry"] == build.ENTRY
        (sealed / build.ENTRY).rename(sealed / "moved")
        sealed.rename(sealed.parent / "elsewhere")
        build.write_files(sealed, {name: b"planted" for name in NAMES})
        for name in set(NAMES) - {build.ENTRY}:
            assert found.read(name) == bytes(found.view(name)) == build.files()[name]
        with found.source("labels.json") as source:
            assert Path(source).read_bytes() == build.files()["labels.json"]
    with pytest.raises(ValueError, match="closed"):
        found.read("labels.json")


def in_place(path: Path) -> None:
    """Writes other bytes of the same number into the file, and sets its time back."""
    time.sleep(0.02)  # older kernels stamp a file with a clock of some milliseconds
    before = path.stat()
    with path.open("r+b") as stream:
        stream.write(b"{")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_loaded_while_the_file_changed_is_refused(
    build: ModuleType, key: Any, sealed: Path, fails: bool
) -> None:
    def load() -> None:
        with found.source("labels.json"):
            in_place(sealed / "labels.json")
            if fails:
                raise RuntimeError("what a runtime says of a file that changed under it")

    with artifact.open_artifact(sealed, build.policy(key), now=NOW, low_memory=True) as found:
        with pytest.raises(ArtifactError) as caught:
            load()
        assert caught.value.code == "CHANGED_DURING_LOAD"


def test_a_swap_between_scan_and_load_never_reaches_the_runtime(
    build: ModuleType, key: Any, sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A racer swaps the model by name right after it was looked into."""
    evil = build.onnx(metadata={"hushdoc.certificate_id": "f" * 32})
    honest = contents.scan
    racing = {"on": True}

    def scan(*given: Any) -> Any:
        found = honest(*given)
        if racing["on"]:
            (sealed / "onnx" / "x").write_bytes(evil)
            (sealed / "onnx" / "x").replace(sealed / build.ENTRY)
        return found

    monkeypatch.setattr(contents, "scan", scan)
    policy = build.policy(key)
    found = artifact.open_artifact(sealed, policy, now=NOW)
    assert found.read(build.ENTRY) == build.onnx()
    with found.source(build.ENTRY) as handed_on:
        assert handed_on == build.onnx()
    racing["on"] = False
    assert code_of(sealed, policy) == "DIGEST_MISMATCH"


@pytest.mark.parametrize("changed", ["onnx/model.onnx", "labels.json", "z.safetensors"])
def test_no_format_is_parsed_before_all_digests_were_compared(
    build: ModuleType, key: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    """Whatever file was changed, no parser sees a byte of any."""
    parsed: list[str] = []
    for parser in (onnx_scan, safetensors_scan):
        monkeypatch.setattr(parser, "scan", lambda *given: parsed.append("a file"))
    malformed = build.files(onnx__model_DOT_onnx=b"\xff" * 50, z_DOT_safetensors=b"\xff" * 50)
    folder = build.seal(tmp_path / "invoice-kie", key, contents=malformed)
    content = (folder / changed).read_bytes()
    (folder / changed).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert code_of(folder, build.policy(key)) == "DIGEST_MISMATCH"
    assert parsed == []


@pytest.mark.parametrize("changed", [True, False])
def test_a_malformed_file_that_was_changed_has_the_wrong_digest_and_no_format(
    build: ModuleType, key: Any, tmp_path: Path, changed: bool
) -> None:
    content = build.files(onnx__model_DOT_onnx=b"\xff" * 50)
    folder = build.seal(tmp_path / "invoice-kie", key, contents=content)
    if changed:
        (folder / build.ENTRY).write_bytes(b"\xfe" * 50)
    assert code_of(folder, build.policy(key)) == ("DIGEST_MISMATCH" if changed else "BAD_ONNX")


def test_all_graphs_of_an_artifact_share_one_walk(
    build: ModuleType, key: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each graph alone is small enough; together they are not."""
    monkeypatch.setattr(artifact, "ScanBudget", functools.partial(ScanBudget, fields=50_000))
    graph = build.onnx(graph=build.message(1, b"") * 26_000)
    folders = []
    for count in (1, 2):
        others = {f"g{number}_DOT_onnx": graph for number in range(count)}
        folders.append(
            build.seal(tmp_path / str(count) / "kie", key, contents=build.files(**others))
        )
    assert artifact.verify(folders[0], build.policy(key), now=NOW).passed
    with pytest.raises(ArtifactError, match="all ONNX files") as caught:
        artifact.verify(folders[1], build.policy(key), now=NOW)
    assert caught.value.code == "BAD_ONNX"


def test_verification_holds_no_file_in_memory(build: ModuleType, key: Any, tmp_path: Path) -> None:
    weight = build.message(5, build.message(9, b"\x01" * (48 << 20)))
    files = build.files(
        onnx__model_DOT_onnx=build.onnx(graph=weight), tokenizer_DOT_json=b"x" * (16 << 20)
    )
    path = build.seal(tmp_path / "a", key, contents=files)
    policy = build.policy(key)
    artifact.verify(path, policy, now=NOW)
    tracemalloc.start()
    try:
        artifact.verify(path, policy, now=NOW)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        tracemalloc.reset_peak()
        with open_low(path, policy, now=NOW):
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        artifact.open_artifact(path, policy, now=NOW)
        assert tracemalloc.get_traced_memory()[1] > 64 << 20  # so the measure measures
    finally:
        tracemalloc.stop()


def test_reading_unverified_proves_nothing_and_still_reads_strictly(
    build: ModuleType, key: Any, sealed: Path
) -> None:
    found = artifact.read_unverified(sealed)
    assert found.certificate.model.name == "invoice-kie"
    assert dsse.verify(found.envelope, build.trust(key)).keys
    (sealed / build.ENVELOPE).unlink()
    with pytest.raises(HushdocError) as caught:
        artifact.read_unverified(sealed)
    assert caught.value.code == "MISSING_CERTIFICATE"


def test_verification_needs_no_runtime_and_importing_is_light() -> None:
    script = (
        "import sys; import hushdoc.certificate.certificate; light = 'numpy' in sys.modules; "
        "import hushdoc.artifact.artifact; "
        "heavy = {'onnxruntime', 'onnx', 'torch', 'numpy', 'nacl', 'cryptography'}; "
        "found = heavy & set(sys.modules); "
        "print(light, sorted(found))"
    )
    assert in_python(script).stdout.strip() == "False []"


def test_where_nothing_is_recomputed_not_even_numpy_is_loaded(key: Any, sealed: Path) -> None:
    script = (
        "import sys; from hushdoc.artifact.artifact import verify; "
        "from hushdoc.policy.rules import Policy; "
        "from hushdoc.signing.trust_store import TrustedKey, TrustStore; "
        "key = TrustedKey(name='k', public_key=bytes.fromhex(sys.argv[2])); "
        "policy = Policy.integrity_only(TrustStore.of([key])); "
        "assert verify(sys.argv[1], policy).passed; "
        "print(sorted({'onnxruntime', 'onnx', 'torch', 'numpy', 'safetensors'} & set(sys.modules)))"
    )
    assert in_python(script, sealed, keys.public_key_of(key).hex()).stdout.strip() == "[]"


def test_what_was_opened_is_checked_again_without_its_files(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    policy = build.policy(key)
    opened = artifact.open_artifact(build.seal(tmp_path / "a", key), policy, now=NOW)
    assert artifact.recheck(opened.attested, policy, now=NOW) == opened.report
    stricter = build.policy(key, max_epsilon=0.5)
    with pytest.raises(PolicyViolationError):
        artifact.recheck(opened.attested, stricter, now=NOW)
    with pytest.raises(SignatureError):
        artifact.recheck(opened.attested, build.policy(other_key), now=NOW)
