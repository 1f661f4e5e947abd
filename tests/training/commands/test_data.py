"""`hushdoc data`: any corpus becomes a labelled file, and a person can look at it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from hushdoc import labelled_files
from hushdoc.__main__ import main
from hushdoc.document.document import Document
from hushdoc.labels import LabelledDocument
from hushdoc_training import invented
from hushdoc_training.commands import kie_data
from hushdoc_training.data import labelled, providers, summary


def data(*arguments: object) -> int:
    return main(["data", *map(str, arguments)])


def test_invented_pages_become_a_file_with_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    assert data("convert", "invented:receipt", out, "--documents", 2, "--images") == 0
    said = capsys.readouterr()
    assert said.out.startswith("documents 2, pages 2 (2 with an image)")
    assert said.err.splitlines()[-1] == "document 2/2  0 s left"
    config = invented.InventedConfig(document_types=("receipt",))
    for index, found in enumerate(labelled_files.read(out)):
        made = invented.document(seed=0, index=index, config=config)
        assert (found.document.id, found.spans) == (made.document.id, made.spans)
        page = found.document.pages[0]
        assert isinstance(page.image, Path)
        with Image.open(page.image) as image:
            assert image.size == (page.width, page.height)
    assert data("convert", "invented:receipt", out) == 3  # it is there already
    assert capsys.readouterr().err.startswith("hushdoc data: OUTPUT_EXISTS")


def test_parts_of_a_split_are_what_training_and_its_attack_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = "invented:receipt,questions=keyed,providers=0:9", tmp_path / "split"
    common = ("split", source, "--documents", 24, "--images", "--valid-share", 0.2)
    assert data(*common, "--split-seed", 1, "--out", out) == 0
    said = capsys.readouterr().out
    parts = {
        name: list(labelled_files.read(out / f"{name}.jsonl"))
        for name in ("train", "valid", "members", "non-members")
    }
    for name, what in (("train", "to train on"), ("non-members", "of non-members")):
        assert f"{len(parts[name])} documents {what}" in said
    ids = [item.document.id for part in parts.values() for item in part]
    assert len(ids) == len({*ids}) == 24
    names = {part: {item.provider for item in items} for part, items in parts.items()}
    assert names["valid"] | names["members"] <= names["train"]
    assert not names["train"] & names["non-members"]
    for item in parts["non-members"]:
        image = item.document.pages[0].image
        assert isinstance(image, Path)
        assert image.is_file()
    config = invented.InventedConfig(
        document_types=("receipt",), questions="keyed", providers=(0, 9)
    )
    made = list(invented.documents(seed=0, count=24, config=config))
    expected = providers.split(made, valid=0.2, seed=1)
    assert [item.document.id for item in expected.members] == [
        item.document.id for item in parts["members"]
    ]
    assert data(*common, "--out", out) == 3  # it is there already
    with pytest.raises(SystemExit):
        data(*common, "--member-share", 1, "--out", tmp_path / "other")
    assert data("split", source, "--documents", 1, "--out", tmp_path / "other") == 3
    assert not (tmp_path / "other").exists()


def test_what_decides_by_other_documents_which_are_trained_on_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Private training refuses --documents; a file of the first N tells it of nothing."""
    made, whole = "invented:receipt,providers=0:9", tmp_path / "whole.jsonl"
    data("convert", made, whole, "--documents", 24)
    data("split", made, "--documents", 24, "--out", tmp_path / "made")
    data("convert", whole, tmp_path / "same.jsonl")
    assert "note:" not in capsys.readouterr().err
    data("convert", whole, tmp_path / "first.jsonl", "--documents", 20)
    assert "note: Which documents are the first N depends" in capsys.readouterr().err
    data("split", whole, "--documents", 20, "--out", tmp_path / "part")
    assert "note: Which documents are the first N depends" in capsys.readouterr().err
    data("split", whole, "--out", tmp_path / "split")
    assert "note: Which documents of a provider are in train.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("corpus", "said"), [("sroie", "Defaults"), ("xfund", "Settings of papers"), ("labelled", None)]
)
def test_a_file_that_names_its_corpus_no_more_is_said_to_need_it(
    corpus: str,
    said: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A preset trains on its paper's own corpus as of unaccounted tuning, which a file hides."""
    monkeypatch.setattr(kie_data, "corpus", lambda source: corpus)
    data("convert", "invented:receipt", tmp_path / "out.jsonl", "--documents", 2)
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note:")]
    assert [said is not None and said in note for note in notes] == [True] * (said is not None)


def test_questions_of_chosen_providers_become_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    source = "invented:invoice,questions=keyed,providers=7:9"
    assert data("convert", source, out, "--documents", 20, "--seed", 3) == 0
    said = capsys.readouterr().out
    config = invented.InventedConfig(
        document_types=("invoice",), questions="keyed", providers=(7, 9)
    )
    made = list(invented.documents(seed=3, count=20, config=config))
    assert list(labelled_files.read(out)) == made
    asked = [question for item in made for question in item.questions]
    without = sum(not question.answers for question in asked)
    assert f"questions {len(asked)}, {without} without an answer; keys: " in said
    assert " of 20 documents: one record of many" in said
    with pytest.raises(SystemExit):
        data("show", source, "--seed", -1)
    assert data("show", out, "--documents", 10**30) == 0
    assert data("show", f"{source},pages=0") == 3
    assert "pages is (0, 0)" in capsys.readouterr().err


def test_what_a_file_holds_is_shown_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data("convert", "invented:receipt", tmp_path / "a.jsonl", "--documents", 12)
    capsys.readouterr()
    assert data("show", tmp_path / "a.jsonl", "--draw", tmp_path / "look") == 0
    said = capsys.readouterr()
    found = list(labelled_files.read(tmp_path / "a.jsonl"))
    words = sum(item.document.num_words for item in found)
    assert f"documents 12, pages 12 (0 with an image), words {words}:" in said.out
    assert f"providers {len({item.provider for item in found})}, of 12 documents" in said.out
    totals = [span for item in found for span in item.spans if span.label == "total"]
    (line,) = [line for line in said.out.splitlines() if line.startswith("total ")]
    assert line.split()[1] == str(len(totals))
    assert said.err == "Reading the labelled format.\n"
    drawn = sorted(path.name for path in (tmp_path / "look").iterdir())
    assert drawn == [f"{number:04d}-0.png" for number in range(10)]
    with Image.open(tmp_path / "look" / drawn[0]) as image:
        colours = image.convert("RGB").getcolors(maxcolors=2**24)
    assert colours is not None
    assert any(len({*colour}) == 3 for _, colour in colours)  # labels are in colour


def test_images_that_are_not_there_are_counted_as_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data("convert", "invented:receipt", tmp_path / "a.jsonl", "--documents", 2, "--images")
    (tmp_path / "a-images" / "000001.png").unlink()
    capsys.readouterr()
    for action in (("show",), ("convert", tmp_path / "b.jsonl")):
        assert data(action[0], tmp_path / "a.jsonl", *action[1:]) == 0
        said = capsys.readouterr()
        assert said.out.startswith("documents 2, pages 2 (1 with an image)")
        assert "1 x page whose image is missing" in said.err
    images = [item.document.pages[0].image for item in labelled_files.read(tmp_path / "b.jsonl")]
    assert [image is None for image in images] == [False, True]


def test_boxes_in_thousandths_of_their_page_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def counted(width: int, *, right: int) -> bool:
        words = [("Total", (40, 90, 110, 120)), ("12.50", (right - 80, 940, right, 970))]
        document = Document.from_words(
            [text for text, _ in words], [box for _, box in words], width=width, height=2200, id="a"
        )
        path = tmp_path / "a.jsonl"
        found = [LabelledDocument(document=document, spans=())]
        labelled_files.write(path, found, overwrite=True)
        assert data("show", path) == 0
        return labelled.THOUSANDTHS in capsys.readouterr().err

    assert counted(1700, right=960)
    assert not counted(1700, right=1500)
    assert not counted(990, right=960)


def test_values_are_joined_as_their_script_is_written() -> None:
    assert summary._joined(["Jalan", "Bintang", "7"]) == "Jalan Bintang 7"
    assert summary._joined([*"\u738b\u660e", "2020", "\u5e74"]) == "\u738b\u660e2020\u5e74"
    assert summary._joined(["\uae40", "\ubbfc\uc218"]) == "\uae40 \ubbfc\uc218"  # Korean has blanks


def test_wrong_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("date,total\n")
    out = tmp_path / "out.jsonl"
    assert data("convert", tmp_path / "a.csv", out) == 3
    assert data("convert", "invented:receipt", out, "--documents", 2, "--schema", "funsd") == 3
    lines = capsys.readouterr().err.splitlines()
    lines = [line for line in lines if not line.startswith("document ")]
    assert ["BAD_ANNOTATION" in line for line in lines] == [True, True]
    assert data("convert-imdb", tmp_path / "b.npy", out) == 3
    assert "b.npy' is no file. Name an imdb_*.npy file." in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        data("show", "invented:receipt", "--documents", 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv"]
