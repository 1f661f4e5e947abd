"""docs/corpora: what each page shows of a corpus is read, and its commands run on it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

from hushdoc import labelled_files
from hushdoc.__main__ import main
from hushdoc.labels import LabelledDocument
from hushdoc_training.data import dataset, docile

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {path.stem: path.read_text("utf-8") for path in sorted((DOCS / "corpora").glob("*.md"))}
CORPORA = {corpus.name: corpus for corpus in dataset.CORPORA if corpus.documents}
SHORTER = {
    "train kie --data invented": "--documents 6 --epochs 1 --max-tokens 64 --quiet",
    "train kie --data": "--steps 2 --expected-records 1 --quiet",
}
"""What the test adds to a command, by its beginning: the model is then not worth having."""

VALUES = {
    "cord": [("menu.nm", "Nasi"), ("total.total_price", "45.000")],
    "docile": [("amount_due", "4,585.49")],
    "funsd": [("question", "Date:"), ("answer", "9 May")],
    "sroie": [("company", "MOON & SONS, TRADING"), ("total", "9.00")],
    "wildreceipt": [
        ("store_name.value", "MoonCafe"),
        ("total.key", "TOTAL"),
        ("total.value", "$9.50"),
    ],
    "xfund": [("question", "姓 名"), ("answer", "王 明")],
}
"""What is labelled in the example of each page."""


def example(corpus: str, language: str) -> list[str]:
    """Returns the blocks of a page that are in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGES[corpus], flags=re.DOTALL)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def draw(path: Path, size: tuple[int, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size).save(path)


def publish(corpus: str) -> None:
    """Writes the example of a page here as a corpus with two splits, as its files are published."""
    shown = example(corpus, "json")
    match corpus:
        case "cord":
            for split in ("train", "test"):
                write(Path(f"cord/{split}/json/receipt_00000.json"), shown[0])
                draw(Path(f"cord/{split}/image/receipt_00000.png"), (864, 1296))
        case "docile":
            for name in ("a", "b"):
                write(Path(f"docile/annotations/{name}.json"), shown[0])
                write(Path(f"docile/ocr/{name}.json"), shown[1])
            write(Path("docile/train.json"), '["a"]')
            write(Path("docile/val.json"), '["b"]')
        case "funsd":
            for split in ("training_data", "testing_data"):
                write(Path(f"funsd/{split}/annotations/a.json"), shown[0])
                draw(Path(f"funsd/{split}/images/a.png"), (100, 100))
        case "sroie":
            for split in ("train", "test"):
                write(Path(f"sroie/{split}/metadata.jsonl"), json.dumps(json.loads(shown[1])))
        case "wildreceipt":
            for split in ("train", "test"):
                write(Path(f"wildreceipt/{split}.txt"), json.dumps(json.loads(shown[0])))
        case "xfund":
            for split in ("train", "val"):
                write(Path(f"xfund/zh.{split}.json"), shown[0])


@pytest.fixture(params=PAGES)
def corpus(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a corpus, whose files are in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    publish(request.param)
    return str(request.param)


def commands(corpus: str) -> list[str]:
    return "".join(example(corpus, "sh")).splitlines()


def run(command: str) -> None:
    began = command.removeprefix("hushdoc ")
    more = next((more for start, more in SHORTER.items() if began.startswith(start)), "")
    assert main(shlex.split(f"{began} {more}")) == 0, command


def values(labelled: LabelledDocument) -> list[tuple[str, str]]:
    return [
        (
            span.label,
            " ".join(
                word.text
                for word in labelled.document.pages[span.page].words[span.start : span.stop]
            ),
        )
        for span in labelled.spans
    ]


def test_every_corpus_has_its_page_and_the_counts_are_those_of_its_reader() -> None:
    assert PAGES.keys() == CORPORA.keys() == VALUES.keys()
    listed = (DOCS / "data-formats.md").read_text("utf-8")
    for name, known in CORPORA.items():
        numbers = list(known.documents.values())
        for number in numbers:
            assert re.search(rf"\b{number}\b", PAGES[name])
        row = rf"\[{name}\]\(corpora/{name}.md\) \|.*\| {len(known.labels.fields)} \|"
        assert re.search(rf"{row} {numbers[0]}, {numbers[-1]}\b", listed)
    assert docile.OVERLAP == 0.5
    assert "at least half of the area" in " ".join(PAGES["docile"].split())


def test_the_files_are_read_converted_and_planned_for(
    corpus: str, capsys: pytest.CaptureFixture[str]
) -> None:
    *reading, planning = commands(corpus)[:4]
    known = [one.name for one in dataset.CORPORA if one.recognises(Path(reading[0].split()[3]))]
    assert known == [corpus]
    for command in reading:
        run(command)
    for name in ("train", "test"):
        (found,) = labelled_files.read(Path(f"{name}.jsonl"))
        assert values(found) == VALUES[corpus]
    capsys.readouterr()
    assert main(shlex.split(planning.removeprefix("hushdoc "))) == 0
    assert "epsilon 8" in capsys.readouterr().out
    assert not Path("runs").exists()


@pytest.mark.slow
def test_the_files_become_a_private_model(corpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in commands(corpus):
        run(command)
    assert "documents" in capsys.readouterr().out


def test_the_other_form_of_sroie_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    key, _ = map(json.loads, example("sroie", "json"))
    write(Path("sroie/train/box/X1.csv"), example("sroie", "text")[0])
    write(Path("sroie/train/key/X1.json"), json.dumps(key))
    draw(Path("sroie/train/img/X1.jpg"), (463, 1013))
    run("hushdoc data convert sroie out.jsonl")
    (found,) = labelled_files.read(Path("out.jsonl"))
    assert values(found) == VALUES["sroie"][:1]
