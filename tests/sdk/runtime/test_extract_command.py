"""The subcommand `extract`, run as a program would be."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import hushdoc_command_runs
import hushdoc_pdf_files as pdfs
import hushdoc_tiny as tiny
import pytest
from hushdoc_processes import interpreter
from PIL import Image

from hushdoc.__main__ import main
from hushdoc.document.document import Document
from hushdoc.errors import HushdocError, PolicyViolationError
from hushdoc.runtime.extraction import Extraction


def document(name: str, words: int = 12) -> Document:
    boxes = [
        (10 + 60 * (i % 6), 10 + 30 * (i // 6), 60 + 60 * (i % 6), 30 + 30 * (i // 6))
        for i in range(words)
    ]
    return Document.from_words(
        [f"word{index}" for index in range(words)], boxes, width=400, height=200, id=name
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents, a trust store and a policy, as the working directory."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(document(name).to_dict()))
    nested = {"document": document("nested").to_dict(), "spans": []}
    (tmp_path / "nested.json").write_text(json.dumps(nested))
    bad = document("bad").to_dict()
    bad["pages"][0]["words"][3]["box"] = [9, 9, 1, 1]
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    hushdoc_command_runs.write_policy(tmp_path, tiny.TRUST)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, policy: str = "--policy policy.toml") -> int:
    """Runs the subcommand inside this process."""
    return hushdoc_command_runs.run("extract", tiny.sealed(), *arguments, *policy.split())


def test_people_get_a_table(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("a.json", "--threads", "1") == 0
    printed, warned = capfd.readouterr()
    assert warned == ""
    lines = printed.splitlines()
    assert lines[0].startswith("a: ")
    assert "100% of the words read" in lines[0]
    assert lines[1].split() == ["field", "score", "page", "text"]
    starts = {line.index("word") for line in lines[2:-1]}
    assert starts == {lines[1].index("text")}
    assert lines[-1].startswith("note: Scores are the model's own probabilities and not calibrated")


def test_programs_get_json_that_can_be_read_back(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("nested.json", "--json") == 0
    alone = Extraction.from_dict(json.loads(capfd.readouterr().out))
    assert alone.document_id == "nested"
    assert run("a.json", "b.json", "--json") == 0
    both = [Extraction.from_dict(item) for item in json.loads(capfd.readouterr().out)]
    assert [item.document_id for item in both] == ["a.json", "b.json"]
    assert run("a.json", "b.json", "--jsonl") == 0
    lines = capfd.readouterr().out.splitlines()
    assert [Extraction.from_dict(json.loads(line)) for line in lines] == both


def test_spreadsheets_get_rows(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("a.json", "b.json", "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out)))
    assert {row["document_id"] for row in rows} == {"a.json", "b.json"}
    assert all(0 <= float(row["score"]) <= 1 for row in rows)


def test_standard_input_is_a_document(
    place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.dumps(document("piped").to_dict()).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert run("-", "--json") == 0
    assert json.loads(capfd.readouterr().out)["document_id"] == "piped"


def test_one_bad_document_does_not_stop_the_others(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("a.json", "bad.json", "missing.json", "b.json", "--jsonl") == 7
    printed, warned = capfd.readouterr()
    answers = [json.loads(line) for line in printed.splitlines()]
    assert [answer["document_id"] for answer in answers] == [
        "a.json",
        "bad.json",
        "missing.json",
        "b.json",
    ]
    assert answers[1]["error"]["code"] == "BAD_BOX"
    assert "BAD_BOX: bad.json: The box [9.0, 9.0, 1.0, 1.0] of word 3" in warned
    assert "BAD_INPUT: missing.json: It can't be read: No such file" in warned


def test_the_fields_can_be_looked_at(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = document("a").to_dict()
    data["pages"][0]["image"] = "page.png"
    (place / "sub").mkdir()
    Image.new("RGB", (400, 200), (200, 255, 200)).save(place / "sub" / "page.png")
    (place / "sub" / "a.json").write_text(json.dumps(data))
    assert run("sub/a.json", "--overlay", "out.png") == 0
    with Image.open(place / "out.png") as image:
        assert image.getpixel((890, 440)) == (200, 255, 200)
    assert run("a.json", "--overlay", "out.png", "--page", "3") == 3
    assert "has 1 page, and" in capfd.readouterr().err


FIXTURES = Path(__file__).parents[1] / "reading" / "fixtures"


def test_other_programs_output_is_read_as_it_is(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = ["tesseract.hocr", "tesseract.tsv", "doctr.json", "azure_document_intelligence.json"]
    paths = [str(FIXTURES / name) for name in names]
    assert run(*paths, "--jsonl") == 0
    answers = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [answer["document_id"] for answer in answers] == paths
    assert all(answer["coverage"] == 1 for answer in answers)
    assert all(answer["warnings"] == [] for answer in answers)
    readers = [answer["source"]["reader"] for answer in answers]
    assert readers == ["hocr", "tesseract-tsv", "doctr", "azure-read"]
    assert all(answer["source"]["ocr"] is None for answer in answers)
    assert run(str(FIXTURES / "tesseract.hocr"), "a.json", "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out)))
    assert {(row["document_id"], row["source"]) for row in rows} == {
        (str(FIXTURES / "tesseract.hocr"), "hocr"),
        ("a.json", ""),  # words that nobody read
    }
    assert run(str(FIXTURES / "doctr.json"), "--format", "textract") == 3
    assert "UNSUPPORTED_FORMAT" in capfd.readouterr().err


@pytest.mark.tesseract
def test_a_image_is_read_by_the_engine_that_the_answer_names(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page = str(FIXTURES / "page.png")
    assert run(page, "--ocr", "tesseract", "--json", "--overlay", "out.png") == 0
    answer = json.loads(capfd.readouterr().out)
    (warning,) = answer["warnings"]
    assert "image, page 0 by tesseract 5" in warning
    source = answer["source"]
    assert (source["reader"], source["ocr_pages"]) == ("image", [0])
    assert source["ocr"].startswith("tesseract 5")
    with Image.open(place / "out.png") as image, Image.open(page) as drawn:
        assert image.width == 900  # the page's own image, enlarged for its captions
        assert image.height > drawn.height
        assert image.convert("L").getextrema() != (255, 255)
    assert run(page, "--ocr", "none") == 3
    assert "OCR_REQUIRED: " in capfd.readouterr().err


def scan(name: str) -> bytes:
    """Returns a PDF file of one page: lines of a header above an image that fills the page."""
    drawn = pdfs.strips(3, size=(612, 792), top=792, height=792)
    header = pdfs.shown(" ".join(f"{name}{n}" for n in range(25)), x=9, y=780, size=5)
    shown = {"objects": [pdfs.image(2, 2, b"\x80" * 4)], "shows": "/XObject << /Im1 12 0 R >>"}
    content: bytes = pdfs.file([drawn + header], **shown)
    return content


@pytest.mark.parametrize(
    ("filters", "exit_code"), [("", 0), ("ignore::UserWarning", 0), ("error::UserWarning", 7)]
)
def test_warnings_are_lines_beside_the_answers(place: Path, filters: str, exit_code: int) -> None:
    for name in ("one", "two"):
        (place / f"{name}.pdf").write_bytes(scan(name))
    given = ["one.pdf", "two.pdf", "one.pdf", "a.json", "--jsonl", "--policy", "policy.toml"]
    asked = ("-m", "hushdoc", "extract", tiny.sealed(), *given)
    done = interpreter(*asked, check=False, environment={"PYTHONWARNINGS": filters})
    assert done.returncode == exit_code
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    told = done.stderr.splitlines()
    said = "Images cover most of page 0 of '{}', and the text beside or on them alone was read."
    if not exit_code:
        assert [answer["document_id"] for answer in answers] == given[:4]
        lines = [] if filters else [said.format(name) for name in ("one", "two")]
        assert len(told) == len(lines)
        for line, expected in zip(told, lines, strict=True):
            assert line.startswith(f"hushdoc: warning: {expected}")
        return
    assert [answer.get("error", {}).get("code") for answer in answers] == ["BAD_INPUT"] * 3 + [None]
    for line, name in zip(told, ("one", "two", "one"), strict=True):
        assert line.startswith(f"hushdoc extract: BAD_INPUT: {name}.pdf: {said.format(name)}")
        assert line.endswith("Here warnings are errors (-W, PYTHONWARNINGS).")


def test_an_answer_becomes_a_web_page_and_hocr(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = str(FIXTURES / "tesseract.hocr")
    assert run(source, "--json", "--html", "out.html", "--hocr", "out.hocr") == 0
    found = json.loads(capfd.readouterr().out)["fields"]
    assert (place / "out.html").read_text().count("<tr id=") == len(found)
    assert "not calibrated" in (place / "out.html").read_text()
    assert "Where the words came from</h2>\n<p>hocr</p>" in (place / "out.html").read_text()
    words = (place / "out.hocr").read_text()
    assert words.count("data-field=") == sum(len(field["word_ids"]) for field in found)
    assert run("out.hocr", "--json") == 0
    assert json.loads(capfd.readouterr().out)["coverage"] == 1
    for name in ("--html", "--hocr"):
        with pytest.raises(SystemExit, match="2"):
            run(source, source, name, "two.out")


@pytest.mark.tesseract
def test_a_pdf_file_on_standard_input_is_read(
    place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Image.open(FIXTURES / "page.png") as image:
        stream = io.BytesIO()
        image.save(stream, format="PDF")
    for content, code in ((stream.getvalue(), 0), (stream.getvalue()[:99], 3)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert run("-", "--ocr", "tesseract", "--json") == code
    printed, warned = capfd.readouterr()
    assert "pdf, page 0 by tesseract" in printed
    assert "UNSUPPORTED_FORMAT" in warned


def test_texts_of_a_document_cannot_steer_the_terminal(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data: dict[str, Any] = document("a").to_dict()
    for word in data["pages"][0]["words"]:
        word["text"] = "x\u202e"
    data["id"] = "id\x1b[2J"
    (place / "x.json").write_text(json.dumps(data))
    assert run("x.json") == 0
    data["pages"][0]["words"][4]["text"] = "x\x1b[2J"
    (place / "y.json").write_text(json.dumps(data))
    assert run("y.json") == 3
    printed, warned = capfd.readouterr()
    assert "BAD_WORD: y.json: The word 4 ('x\\x1b[2J')" in warned
    assert "\x1b" not in printed + warned
    assert "\u202e" not in printed + warned


LIMITS = "--trust trust.json --max-epsilon 8 --max-delta 1e-5 --unit document"


@pytest.mark.parametrize(
    "policy",
    [
        "--policy policy.toml --max-epsilon 9",
        f"{LIMITS} --unit galaxy",
        f"{LIMITS} --max-epsilon -1",
        f"{LIMITS} --threads 0",
        f"{LIMITS} --memory-limit lots",
        f"{LIMITS} --page 1",
        f"{LIMITS} --json --csv",
    ],
)
def test_wrong_usage_is_exit_code_2(
    place: Path, capfd: pytest.CaptureFixture[str], policy: str
) -> None:
    with pytest.raises(SystemExit) as raised:
        run("a.json", policy=policy)
    assert raised.value.code == 2
    assert capfd.readouterr().err.endswith("--help`.\n")


def test_one_overlay_needs_one_document(place: Path) -> None:
    with pytest.raises(SystemExit):
        run("a.json", "b.json", "--overlay", "out.png")
    with pytest.raises(SystemExit):
        run("-", "-")


@pytest.mark.parametrize(
    ("policy", "error", "code"),
    [
        (LIMITS.replace("8", "0.1"), PolicyViolationError, 5),
        (LIMITS.replace("document", "provider"), PolicyViolationError, 5),
        (LIMITS.replace("trust.json", "missing.json"), HushdocError, 3),
    ],
)
def test_a_refusal_stops_before_any_document_is_read(
    place: Path, policy: str, error: type[HushdocError], code: int
) -> None:
    with pytest.raises(error) as raised:
        run("missing.json", policy=policy)
    assert raised.value.exit_code == code


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("a.json", "--policy", "policy.toml"), 0, "a: "),
        (("a.json", "bad.json", "--policy", "policy.toml"), 7, "a.json: "),
        (("a.json", *LIMITS.replace("8", "0.1").split()), 5, "EPSILON_TOO_LARGE"),
        (("a.json", "--policy", "policy.toml", "--device", "cuda"), 6, "DEVICE_UNAVAILABLE"),
    ],
)
def test_main_returns_the_code_that_it_documents(
    place: Path,
    arguments: tuple[str, ...],
    code: int,
    said: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["extract", str(tiny.sealed()), *arguments]) == code
    printed, warned = capfd.readouterr()
    assert said in printed + warned
    assert "Traceback" not in warned


def test_the_program_ends_with_that_code(place: Path) -> None:
    arguments = ("a.json", "bad.json", "--policy", "policy.toml")
    done = interpreter("-m", "hushdoc", "extract", tiny.sealed(), *arguments, check=False)
    assert done.returncode == 7
    assert "a.json: " in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
