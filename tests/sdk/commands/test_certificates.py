"""`hushdoc certificate`: what it explains, what it renders, and what it refuses to render."""

from __future__ import annotations

import argparse
import json
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hushdoc.commands import certificates
from hushdoc.errors import HushdocError

yaml = pytest.importorskip("yaml")


def run(*arguments: str | Path) -> int:
    """Returns the exit code, as hushdoc.__main__ would."""
    parser = argparse.ArgumentParser()
    certificates.register(parser.add_subparsers())
    options = parser.parse_args(["certificate", *(str(argument) for argument in arguments)])
    try:
        return int(options.run(options))
    except HushdocError as error:
        return error.exit_code


@pytest.fixture
def sealed(build: ModuleType, key: Any, tmp_path: Path) -> Path:
    return build.seal(tmp_path / "a", key)


@pytest.fixture
def trust(build: ModuleType, key: Any, tmp_path: Path) -> Path:
    path = tmp_path / "trust.json"
    path.write_bytes(build.trust(key).to_json())
    return path


@pytest.fixture(autouse=True)
def patient_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets certificates be valid whatever the day on which these tests run."""
    monkeypatch.setattr("hushdoc.certificate.certificate.CLOCK_TOLERANCE", timedelta(days=36_500))


def test_explaining_says_first_that_nothing_was_checked(
    build: ModuleType, sealed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("explain", sealed) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("!!! SIGNATURE NOT CHECKED")
    assert build.payload_digest(sealed) in shown
    for part in ("GUARANTEES", "NOT GUARANTEED", "CAVEATS", "Files were not checked"):
        assert part in shown
    assert max(len(line) for line in shown.splitlines()) <= 110


def test_explaining_with_a_trust_store(
    build: ModuleType,
    key: Any,
    other_key: Any,
    sealed: Path,
    trust: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build.append_audit(sealed, other_key)
    auditor = build.trust(other_key, roles=("audit",)).keys
    trust.write_bytes(build.TrustStore(keys=(*build.trust(key).keys, *auditor)).to_json())
    assert run("explain", sealed, "--trust", trust) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Signed by key 0")
    assert "WHAT TRUSTED AUDITORS SIGNED ABOUT IT" in shown
    trust.write_bytes(build.trust(other_key).to_json())
    assert run("explain", sealed, "--trust", trust) == 4
    assert "SIGNATURE NOT TRUSTED (NO_TRUSTED_SIGNATURE)" in capsys.readouterr().out


def test_a_false_claim_is_explained_as_such(
    build: ModuleType, key: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    false = build.certify(build.guarantee(epsilon=1.0, profile=()))
    build.seal_anything(tmp_path / "f", key, certified=false)
    assert run("explain", tmp_path / "f") == 0
    assert "!!! GUARANTEE 0 DOES NOT FOLLOW FROM ITS MECHANISM" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["cyclonedx", "opendp", "card"])
def test_every_rendering_names_what_it_renders(
    build: ModuleType,
    sealed: Path,
    tmp_path: Path,
    form: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "rendering"
    assert run("export", sealed, "--format", form, "--out", out) == 0
    assert "an unsigned rendering" in capsys.readouterr().out
    text = out.read_text("utf-8")
    assert build.payload_digest(sealed) in text
    assert "rendering" in text
    assert run("export", sealed, "--format", form) == 0
    assert capsys.readouterr().out == text


def test_renderings_are_in_their_format(sealed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("export", sealed, "--format", "cyclonedx") == 0
    bom = json.loads(capsys.readouterr().out)
    assert bom["metadata"]["component"]["type"] == "machine-learning-model"
    assert run("export", sealed, "--format", "opendp") == 0
    assert set(yaml.safe_load(capsys.readouterr().out)) == {"url_slug", "deployment"}
    assert run("export", sealed, "--format", "card") == 0
    card = capsys.readouterr().out
    assert card.startswith("---\nlibrary_name: hushdoc\n")
    assert "## Fields\n\n`date`, `total`" in card


def test_nothing_is_rendered_that_a_trust_store_does_not_trust(
    build: ModuleType, other_key: Any, sealed: Path, trust: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rendering"
    export = ("export", sealed, "--format", "cyclonedx", "--trust", trust, "--out", out)
    assert run(*export) == 0
    out.unlink()
    trust.write_bytes(build.trust(other_key).to_json())
    assert run(*export) == 4
    assert not out.exists()


def test_a_card_takes_fields_only_from_the_file_that_was_signed(
    build: ModuleType, key: Any, sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (sealed / "labels.json").write_bytes(b'{"fields": ["evil", "one"]} ')
    assert run("export", sealed, "--format", "card") == 4
    contents = build.files(labels_DOT_json=b'{"fields": 1}')
    build.seal(tmp_path / "odd", key, contents=contents)
    assert run("export", tmp_path / "odd", "--format", "card") == 4
    build.seal(tmp_path / "none", key, contents=build.files(labels_DOT_json=None))
    capsys.readouterr()
    assert run("export", tmp_path / "none", "--format", "card") == 0
    assert "## Fields" not in capsys.readouterr().out


def test_what_is_no_artifact_is_exit_code_4(tmp_path: Path) -> None:
    assert run("explain", tmp_path / "none") == 4
    assert run("export", tmp_path, "--format", "card") == 4


def test_no_text_of_a_certificate_steers_the_terminal(
    build: ModuleType, key: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "x\x1b[2J\u202ey\rz"
    certified = build.certify(
        build.guarantee(unit_definition=hostile, observes=hostile, assumes=(hostile,)),
        issuer=hostile,
        caveats=(hostile,),
        audits=(build.audit(method=hostile),),
        utility={hostile: hostile},
        model=build.ModelIdentity(
            name=hostile, version=1, task="kie", format="onnx", entry=build.ENTRY
        ),
        derivation=({"step": hostile, "dataDependent": True},),
    )
    build.seal(tmp_path / "h", key, certified)
    for what in (
        ("explain", tmp_path / "h"),
        *(("export", tmp_path / "h", "--format", form) for form in ("cyclonedx", "opendp", "card")),
    ):
        assert run(*what) == 0
        shown = capsys.readouterr().out
        assert shown
        assert not {"\x1b", "\u202e", "\r"} & set(shown)
