"""`hushdoc certificate export`: what it renders, and what it refuses to render."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import pytest

from hushdoc.__main__ import main
from hushdoc.signing.trust_store import TrustedKey, TrustStore

yaml = pytest.importorskip("yaml")

pytestmark = pytest.mark.usefixtures("patient_clock")


def run(*arguments: str | Path) -> int:
    return main(["certificate", "export", *map(str, arguments)])


@pytest.mark.parametrize("form", ["cyclonedx", "opendp", "card"])
def test_every_rendering_names_what_it_renders(
    sealed: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rendering"
    assert run(sealed, "--format", form, "--out", out) == 0
    assert "Unsigned rendering written" in capsys.readouterr().out
    text = out.read_text("utf-8")
    assert build.payload_digest(sealed) in text
    assert "rendering" in text
    assert run(sealed, "--format", form) == 0
    assert capsys.readouterr().out == text


def test_renderings_are_in_their_format(sealed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(sealed, "--format", "cyclonedx") == 0
    bom = json.loads(capsys.readouterr().out)
    assert bom["metadata"]["component"]["type"] == "machine-learning-model"
    assert run(sealed, "--format", "opendp") == 0
    assert set(yaml.safe_load(capsys.readouterr().out)) == {"url_slug", "deployment"}
    assert run(sealed, "--format", "card") == 0
    card = capsys.readouterr().out
    assert card.startswith("---\nlibrary_name: hushdoc\n")
    assert "## Fields\n\n`date`, `total`" in card


def test_the_card_of_a_classifier_has_its_classes(
    key: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = build.files(labels_DOT_json=b'{"labels": ["form", "letter"]}')
    build.seal(tmp_path / "classifier", key, contents=contents)
    assert run(tmp_path / "classifier", "--format", "card") == 0
    assert "`form`, `letter`" in capsys.readouterr().out


def test_nothing_is_rendered_that_a_trust_store_does_not_trust(
    other_key: Any, sealed: Path, trust: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rendering"
    export = (sealed, "--format", "cyclonedx", "--trust", trust, "--out", out)
    assert run(*export) == 0
    out.unlink()
    trust.write_bytes(build.trust(other_key).to_json())
    assert run(*export) == 4
    assert not out.exists()


@pytest.mark.parametrize("form", ["cyclonedx", "card"])
def test_a_rendering_has_what_auditors_signed_whom_the_trust_store_knows(
    key: Any,
    other_key: Any,
    sealed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    form: str,
) -> None:
    build.append_audit(sealed, other_key, build.audit_report(auditor="An outside laboratory"))
    auditor = TrustedKey.of(other_key, name="laboratory", roles=("audit",))
    issuer = TrustedKey.of(key, name="issuer")
    for name, known, shown in (("with", [issuer, auditor], True), ("without", [issuer], False)):
        store = tmp_path / name
        store.write_bytes(TrustStore.of(known).to_json())
        assert run(sealed, "--format", form, "--trust", store) == 0
        text = capsys.readouterr().out
        assert ("An outside laboratory, 2026-11-21T09:00:00Z" in text) == shown
        assert ("It shows that epsilon is at least 0.5" in text) == shown


def test_a_card_takes_fields_only_from_the_file_that_was_signed(
    key: Any, sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (sealed / "labels.json").write_bytes(b'{"fields": ["evil", "one"]} ')
    assert run(sealed, "--format", "card") == 4
    contents = build.files(labels_DOT_json=b'{"fields": 1}')
    build.seal(tmp_path / "odd", key, contents=contents)
    assert run(tmp_path / "odd", "--format", "card") == 4
    build.seal(tmp_path / "none", key, contents=build.files(labels_DOT_json=None))
    capsys.readouterr()
    assert run(tmp_path / "none", "--format", "card") == 0
    assert "## Fields" not in capsys.readouterr().out


def test_what_is_no_artifact_is_exit_code_4(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        assert run(folder, "--format", "card") == 4


def test_no_text_of_a_certificate_steers_the_terminal(
    key: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build.seal(tmp_path / "h", key, build.hostile("x\x1b[2J\u202ey\rz"))
    for form in ("cyclonedx", "opendp", "card"):
        assert run(tmp_path / "h", "--format", form) == 0
        shown = capsys.readouterr().out
        assert shown
        assert not {"\x1b", "\u202e", "\r"} & set(shown)
