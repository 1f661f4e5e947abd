"""From a checkpoint to a sealed artifact: all of it, or nothing."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import hushdoc_tiny as tiny
import hushdoc_tiny_models as tiny_models
import pytest
from hushdoc_processes import in_python

import hushdoc
from hushdoc.artifact.artifact import open_artifact, read_unverified
from hushdoc.errors import (
    CertificateError,
    CheckpointError,
    InputError,
    LabelMismatchError,
    OutputExistsError,
    OutputWriteError,
    ParityError,
)
from hushdoc.labels import LabelSet
from hushdoc.runtime.session import Session
from hushdoc_export import field_agreement
from hushdoc_export.kie import export


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def checkpoint() -> Path:
    return tiny.sealed().parent / "checkpoint"


def test_an_artifact_holds_what_the_layout_says() -> None:
    folder = tiny.sealed()
    assert names(folder) == [
        "README.md",
        "hushdoc.json",
        "labels.json",
        "onnx/model.onnx",
        "privacy.intoto.jsonl",
        "tokenizer.json",
    ]
    manifest = json.loads((folder / "hushdoc.json").read_text())
    assert manifest["formatVersion"] == 2
    assert manifest["entry"] == "onnx/model.onnx"
    assert manifest["inputs"][1] == {
        "name": "bbox",
        "dtype": "int64",
        "shape": ["batch", "sequence", 4],
    }
    assert manifest["outputs"][0]["shape"] == ["batch", "sequence", 7]
    assert manifest["preprocessing"] == tiny.preprocessing().to_dict()


def test_it_passes_every_check_of_its_own_runtime() -> None:
    opened = open_artifact(tiny.sealed(), tiny.policy(model="tiny-kie", min_version=1))
    certificate = opened.certificate
    assert (certificate.issuer, certificate.assurance) == ("the tests", "self-attested")
    (step,) = certificate.derivation
    assert (step["step"], step["dataDependent"]) == ("export-onnx", False)
    assert step["parity"]["maxDifference"] <= step["parity"]["tolerance"] == 1e-4
    assert step["parity"]["argmaxAgreement"] == 1.0
    metadata = Session(opened.read("onnx/model.onnx")).metadata
    assert metadata["hushdoc.certificate_id"] == certificate.certificate_id
    assert "dp epsilon=1.2" in metadata["hushdoc.summary"]


def test_no_file_tells_where_it_was_made() -> None:
    places = [str(Path.home()), sys.prefix, os.getcwd(), str(tiny.sealed().parent)]
    for path in tiny.sealed().rglob("*"):
        if path.is_file() and path.suffix != ".onnx":
            text = path.read_text()
            assert not [place for place in places if place in text], path


def test_the_card_says_what_the_certificate_says() -> None:
    card = (tiny.sealed() / "README.md").read_text()
    certificate = read_unverified(tiny.sealed()).certificate
    assert card.startswith("---\nlibrary_name: hushdoc\n")
    assert certificate.certificate_id in card
    assert "| model-recipient | document | dp | 1.2275 | 1e-05 | add-remove |" in card
    assert "NOT GUARANTEED" in card
    assert "unsigned rendering" in card


@pytest.mark.parametrize("variant", ["int8", "fp16"])
def test_a_variant_is_an_artifact_of_its_own_that_says_what_it_lost(variant: str) -> None:
    folder = tiny.sealed_variant(variant)
    entry = f"onnx/model_{variant}.onnx"
    assert [name for name in names(folder) if name.endswith(".onnx")] == [entry]
    assert (folder / entry).stat().st_size < 0.6 * (
        tiny.sealed() / "onnx/model.onnx"
    ).stat().st_size
    opened = open_artifact(folder, tiny.policy())
    assert opened.certificate.model.entry == opened.manifest["entry"] == entry
    exported, rounded = opened.certificate.derivation
    assert exported["parity"]["tolerance"] == 1e-4
    assert (rounded["step"], rounded["dataDependent"]) == (f"round-to-{variant}", False)
    assert rounded["parity"]["tolerance"] is None
    assert rounded["parity"]["maxDifference"] > 1e-4
    assert 0.9 < rounded["parity"]["argmaxAgreement"] <= 1
    told = rounded["agreement"]
    assert told["documents"] == 60
    assert told["fields"] > 100
    # Random weights read no document, so only their own fields can be compared with.
    assert told["f1LossAgainst"] == "the fields of the float32 graph"
    assert told["f1Loss"] == pytest.approx(100 - told["fieldAgreement"], abs=1e-3)
    assert 0 < told["f1Loss"] < told["maxF1Loss"] == 100
    assert f"This is the {variant} variant" in opened.certificate.claim.caveats[-1]
    assert f"This is the {variant} variant" in (folder / "README.md").read_text()


def test_a_variant_answers_as_an_application_reads_it() -> None:
    words = ["total", "12.50", "date", "2026-11-21"]
    document = hushdoc.Document.from_words(
        words, [(10, 20 * row, 60, 20 * row + 10) for row in range(4)], width=100, height=100
    )
    found = {
        variant: hushdoc.load(folder, policy=tiny.policy()).extract(document)
        for variant, folder in {
            "fp32": tiny.sealed(),
            "int8": tiny.sealed_variant("int8"),
            "fp16": tiny.sealed_variant("fp16"),
        }.items()
    }
    assert found["fp16"].fields
    assert [field.label for field in found["fp16"].fields] == [
        field.label for field in found["fp32"].fields
    ]
    assert {answer.coverage for answer in found.values()} == {1.0}


def test_a_variant_that_loses_too_much_is_refused_unless_the_loss_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field_agreement, "NUM_DOCUMENTS", 8)
    with pytest.raises(ParityError, match="declare the loss that you accept") as raised:
        export(checkpoint(), tmp_path / "artifact", tiny.release(variant="int8"))
    assert raised.value.code == "VARIANT_LOSES_TOO_MUCH"
    assert list(tmp_path.iterdir()) == []


def test_a_second_run_into_the_same_folder_is_refused() -> None:
    folder = tiny.sealed()
    before = (folder / "privacy.intoto.jsonl").read_bytes()
    with pytest.raises(OutputExistsError, match="already holds something"):
        export(folder.parent / "checkpoint", folder, tiny.release())
    assert (folder / "privacy.intoto.jsonl").read_bytes() == before


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    tiny.sealed()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OutputWriteError, match="No space left"):
        tiny.resealed(tmp_path / "artifact")
    assert list(tmp_path.iterdir()) == []


def test_a_claim_that_its_transcript_contradicts_is_never_signed(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    tiny_models.save_checkpoint(folder)
    claim = json.loads((folder / "claim.json").read_text())
    claim["guarantees"][0]["epsilon"] = 0.5
    tiny.replace_claim(folder, claim)
    with pytest.raises(CertificateError) as raised:
        export(folder, tmp_path / "artifact", tiny.release())
    assert raised.value.code == "EPSILON_NOT_REPRODUCED"
    assert names(tmp_path) == names_below(folder, tmp_path)


def names_below(folder: Path, root: Path) -> list[str]:
    return [f"{folder.relative_to(root)}/{name}" for name in names(folder)]


def test_a_model_with_other_labels_is_refused(tmp_path: Path) -> None:
    classifier = tiny_models.model("layoutlm", labels=LabelSet(fields=("a",)))
    tiny_models.save_checkpoint(tmp_path / "checkpoint", classifier=classifier)
    with pytest.raises(LabelMismatchError, match="answers 3 tags .* 3 fields needs 7"):
        export(tmp_path / "checkpoint", tmp_path / "artifact", tiny.release())
    assert not (tmp_path / "artifact").exists()


def test_windows_that_the_model_cannot_hold_are_refused(tmp_path: Path) -> None:
    tiny_models.save_checkpoint(
        tmp_path / "checkpoint", settings=tiny.preprocessing(max_tokens=128)
    )
    with pytest.raises(CheckpointError, match="128"):
        export(tmp_path / "checkpoint", tmp_path / "artifact", tiny.release())
    assert not (tmp_path / "artifact").exists()


@pytest.mark.parametrize(
    "change", [{"name": ""}, {"version": -1}, {"issuer": ""}, {"expires_at": "tomorrow"}]
)
def test_a_certificate_that_cannot_be_read_back_is_never_written(
    tmp_path: Path, change: dict[str, object]
) -> None:
    with pytest.raises(CertificateError):
        export(checkpoint(), tmp_path / "artifact", tiny.release(**change))
    assert list(tmp_path.iterdir()) == []


def test_the_verb_exports(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "invoice-kie"
    told = ("--version", "3", "--issuer", "Acme")
    assert tiny.export_command(tmp_path, checkpoint(), "--out", out, *told) == 0
    printed, warned = capfd.readouterr()
    assert "sealed and signed" in printed
    assert warned == ""
    certificate = read_unverified(out).certificate
    assert (certificate.model.name, certificate.model.version) == ("invoice-kie", 3)
    assert certificate.issuer == "Acme"
    assert hushdoc.verify(out, tiny.policy(min_version=3)).passed


def test_the_verb_exports_a_variant_whose_loss_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field_agreement, "NUM_DOCUMENTS", 8)
    out = tmp_path / "small"
    more = ("--variant", "int8", "--max-f1-loss", "100")
    assert tiny.export_command(tmp_path, checkpoint(), "--out", out, *more) == 0
    assert read_unverified(out).certificate.model.entry == "onnx/model_int8.onnx"


def test_the_verb_needs_a_sound_key(tmp_path: Path) -> None:
    (tmp_path / "release.key").write_text("not a key")
    (tmp_path / "release.key").chmod(0o600)
    with pytest.raises(InputError, match="not a private signing key"):
        tiny.export_command(tmp_path, checkpoint(), "--out", tmp_path / "artifact")


def test_registering_the_subcommand_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from hushdoc.commands.command_line import build_parser\n"
        "build_parser()\n"
        "print({'torch', 'onnx', 'numpy', 'cryptography'} & set(sys.modules))"
    )
    assert in_python(code).stdout == "set()\n"
