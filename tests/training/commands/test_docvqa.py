from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from hushdoc import labelled_files
from hushdoc.__main__ import main
from hushdoc_training import invented
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.invented.settings import InventedConfig
from hushdoc_training.models import vt5
from hushdoc_training.recipes.docvqa import public_inputs
from hushdoc_training.recipes.docvqa.settings import DEFAULTS, SCALED
from hushdoc_training.recipes.docvqa.start import start_from
from hushdoc_training.runs import claim_words
from hushdoc_training.runs.run_folder import CONFIGURATION

DATA = ("--data", "invented:receipt,questions=keyed,providers=0:4", "--documents", "6", "--quiet")
KEYED = InventedConfig(document_types=("receipt",), providers=(0, 4), questions="keyed")
SHORT = ("--steps", "2", "--expected-records", "2", "--sampling-rate", "0.5")


def require_defaults(run: Path, architecture: str) -> None:
    """Requires that a public run's settings that nobody gave are the architecture's defaults."""
    kept, expected = tomllib.loads((run / CONFIGURATION).read_text()), DEFAULTS[architecture]
    for name in ("batch_size", "learning_rate"):
        assert kept[name.replace("_", "-")] == getattr(expected, name)
    assert kept["trained"] == "all"


def test_a_pointer_reads_windows_of_its_default_length_where_nobody_says_another() -> None:
    asking = start_from("small", vocabulary=lambda: ["total"]).asking
    assert asking.max_tokens == DEFAULTS["pointer"].max_tokens == 384
    assert DEFAULTS["vt5"].max_tokens == 256


def test_a_public_start_is_trained_on_privately_by_providers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    public, private = tmp_path / "public", tmp_path / "private"
    begin = ["train", "docvqa", *DATA, "--start", "small", "--max-tokens", "128"]
    assert main([*begin, "--public", "--out", str(public)]) == 0
    require_defaults(public, "pointer")
    goes_on = ["train", "docvqa", *DATA, *SHORT, "--start", str(public), "--out", str(private)]
    assert main(goes_on) == 0
    stored = DocVQACheckpoint.load(private)
    (guarantee,) = stored.claim.guarantees
    assert guarantee.unit == "provider"
    assert stored.claim.training["architecture"] == "pointer"
    assert [data.name for data in stored.claim.public_data] == [DATA[1], public_inputs.DATA.name]
    assert (stored.claim.training["trained"], stored.claim.training["scaling"]) == (
        SCALED.trained,
        SCALED.scaling,
    )
    assert stored.asking.max_tokens == 128
    assert main(goes_on) == 3  # two runs are never mixed
    assert main([*goes_on, "--resume"]) == 0
    with pytest.raises(SystemExit):
        main([*goes_on[:-1], str(tmp_path / "longer"), "--max-tokens", "384"])
    assert "was trained with --max-tokens 128, and keeps that" in capsys.readouterr().err
    assert not any("vocabulary" in caveat for caveat in stored.claim.caveats)
    alone = tmp_path / "alone"  # whose vocabulary is of the very documents that are protected
    assert main([*begin, *SHORT, "--out", str(alone)]) == 0
    assert any("vocabulary" in said for said in DocVQACheckpoint.load(alone).claim.caveats)


def test_a_vt5_is_trained_by_the_same_command_with_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages, public, private, none = (tmp_path / name for name in ("pages", "public", "run", "no"))
    files = invented.write(pages, seed=1, count=3, config=KEYED)
    common = ["train", "docvqa", "--data", str(pages), "--quiet"]
    begin = [*common, "--architecture", "vt5", "--max-tokens", "96", "--start", "tiny"]
    seeing = ("--image-encoder", "tiny")
    assert main([*begin, *seeing, "--public", "--out", str(public)]) == 0
    require_defaults(public, "vt5")
    goes_on = [*common, "--start", str(public)]
    by_rank = ("--trained", "lora:2", "--privacy-unit", "document", "--out", str(private))
    assert main([*goes_on, *SHORT, *by_rank]) == 0
    stored = DocVQACheckpoint.load(private)
    assert (stored.architecture, stored.asking.max_tokens) == ("vt5", 96)
    assert stored.asking.image is not None
    assert stored.claim.training["images"] is True
    assert not any("weights" in data.name for data in stored.claim.public_data)  # tiny: random
    (guarantee,) = stored.claim.guarantees
    assert guarantee.unit == "document"
    assert stored.claim.training["trained"] == "lora:2"
    before = vt5.load(public / "checkpoint").state_dict()
    after = vt5.load(stored.folder).state_dict()
    assert before.keys() == after.keys()
    query = "t5.decoder.block.0.layer.0.SelfAttention.q.weight"
    assert not torch.equal(before[query], after[query])
    frozen = ("t5.shared.weight", "vision.embeddings.patch_embeddings.projection.weight")
    assert all(torch.equal(before[name], after[name]) for name in frozen)
    again = str(tmp_path / "again")
    assert main([*goes_on, "--not-private", "--out", again]) == 0
    assert DocVQACheckpoint.load(Path(again)).claim.protected_data
    blind = tmp_path / "blind.jsonl"
    seen = [labelled_files.read_one(file) for file in files]
    pages_alone = [replace(page, image=None) for page in seen[0].document.pages]
    unseen = replace(seen[0].document, pages=tuple(pages_alone))
    blind.write_text(labelled_files.dumps(replace(seen[0], document=unseen)))
    for change, code, said in (
        (("--architecture", "pointer"), 4, "is a vt5; expected a pointer"),
        (seeing, 4, "keeps to that"),
        ((*SHORT, "--canaries", "4"), 3, "canaries are pages of words alone"),
        ((*SHORT, "--data", str(blind)), 3, "has no image"),
    ):
        capsys.readouterr()
        assert main([*goes_on, *change, "--out", str(none)]) == code
        assert said in capsys.readouterr().err
    assert not none.exists()


@pytest.mark.parametrize(
    "option",
    [("--ledger", "a"), ("--documents-changed",), ("--scaling", "public"), ("--directions", "3")],
)
def test_options_of_private_training_are_refused_without_it(
    option: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        main(["train", "docvqa", *DATA, "--public", *option, "--out", str(tmp_path / "run")])


@pytest.mark.parametrize("chosen", [("--start", "small"), ("--architecture", "vt5")])
def test_private_documents_give_no_vocabulary(
    chosen: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ("--data", str(tmp_path / "unread"), *chosen, "--out", str(tmp_path / "run"))
    with pytest.raises(SystemExit):
        main(["train", "docvqa", *told])
    assert "--start small learns its vocabulary from public documents" in capsys.readouterr().err


def test_changes_of_providers_are_not_scaled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ("--algorithm", "fl-provider-dp", "--scaling", "public", "--out", str(tmp_path / "run"))
    with pytest.raises(SystemExit):
        main(["train", "docvqa", *DATA, "--start", "small", *told])
    assert "--scaling public is of private training" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_delta_is_at_most_a_tenth_of_one_over_the_declared_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    # 50 records in a step, of 1000.
    declared = ("--steps", "2", "--expected-records", "50", "--sampling-rate", "0.05")
    begin = ["train", "docvqa", *declared, "--start", "minilm", "--out", str(out)]
    assert main([*begin, *DATA, "--delta", "1.01e-4"]) == 5
    said = capsys.readouterr().err
    assert "DELTA_TOO_LARGE" in said
    assert "with about 1000 records at most 0.0001" in said
    preset = ("--preset", "pa-docvqa-eps8", "--start", "tiny", "--delta", "1.01e-4")
    assert main([*begin, *DATA, *preset]) == 5  # whose delta is 1e-5
    assert "DELTA_TOO_LARGE" in capsys.readouterr().err
    ledger = tmp_path / "budget.ledger"
    begin_ledger = ["ledger", "init", str(ledger), "--data", "forms", "--unit", "document"]
    assert main([*begin_ledger, "--epsilon", "9", "--delta", "0.001"]) == 0
    by_document = ("--ledger", str(ledger), "--privacy-unit", "document")
    assert main([*begin, *DATA, *by_document]) == 5
    assert "DELTA_TOO_LARGE" in capsys.readouterr().err
    assert not out.exists()
    # At the limit it goes on, to documents that are not there.
    assert main([*begin, "--data", str(tmp_path / "gone"), "--delta", "1e-4"]) == 3
    # Of 100,000 records 1e-5 would be refused; where nobody says a delta, it is smaller.
    many = [*begin, "--sampling-rate", "0.0005", "--data", str(tmp_path / "gone")]
    assert main([*many, "--delta", "1e-5"]) == 5
    assert main(many) == 3


def receipts(folder: Path) -> Path:
    """Writes two receipts as SROIE has them, each of another company."""
    (folder / "images").mkdir(parents=True)
    lines = [[40, 10, 360, 30], [40, 54, 240, 74], [40, 110, 200, 130], [300, 212, 360, 232]]
    entries = []
    for name in ("MOON LTD", "SUN LTD"):
        words = [name, "NO 7 ROAD", "03/04/2018", "20.00"]
        told = dict(zip(("company", "address", "date", "total"), words, strict=True))
        key = name.partition(" ")[0]
        size = {"width": 400, "height": 600}
        entry = {"key": key, "file_name": f"images/{key}.jpg", "image_size": size}
        entries.append({**entry, "entities": told, "words": words, "bboxes": lines})
        Image.new("L", (40, 60), 255).save(folder / "images" / f"{key}.jpg")
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, entries)) + "\n")
    return folder


@pytest.fixture(scope="module")
def kindred(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Returns receipts of SROIE, and a start that learned from others of it."""
    home = tmp_path_factory.mktemp("kindred")
    pages = home / "pages"
    invented.write(pages, seed=1, count=4, config=KEYED, images=False)
    told = ("--public", "--public-overlap", "none", "--name", "SROIE, train", "--epochs", "0.1")
    begin = ["train", "docvqa", "--data", str(pages), "--start", "small", "--max-tokens", "128"]
    assert main([*begin, *told, "--quiet", "--out", str(home / "start")]) == 0
    return receipts(home / "sroie"), home / "start"


@pytest.mark.parametrize("command", ["train", "federated"])
def test_receipts_at_which_defaults_were_chosen_and_kin_of_the_starts_are_told(
    kindred: tuple[Path, Path], tmp_path: Path, command: str
) -> None:
    data, start = kindred
    begin = ["--data", str(data), "--start", str(start), "--public-overlap", "none", "--quiet"]
    train = ["train", "docvqa", *SHORT, *begin]
    clients = ["--task", "docvqa", "--privacy-unit", "provider", "--clients", "2"]
    few = ["--rounds", "2", "--expected-records", "1", "--sampling-rate", "0.5"]
    run = train if command == "train" else ["federated", "simulate", *begin, *clients, *few]
    assert main([*run, "--out", str(tmp_path / "run")]) == 0
    claim = DocVQACheckpoint.load(tmp_path / "run").claim
    (guarantee, *_) = claim.guarantees
    assert guarantee.hyperparameter_tuning == "unaccounted"
    assert claim_words.PROVIDERS_GIVEN in guarantee.assumes
    assert any("the same data set" in caveat for caveat in claim.caveats)
    assert main([*run, "--tuned-on", "none", "--out", str(tmp_path / "told")]) == 0
    told = DocVQACheckpoint.load(tmp_path / "told").claim
    assert told.guarantees[0].hyperparameter_tuning == "none"
