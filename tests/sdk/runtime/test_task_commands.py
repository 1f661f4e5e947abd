"""The subcommands `classify`, `embed` and `redact`, run as a program would be."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import hushdoc_command_runs
import hushdoc_pdf_files as pdfs
import hushdoc_tiny as tiny
import numpy as np
import pytest
from hushdoc_processes import in_python
from PIL import Image

import hushdoc
from hushdoc.document.document import Document
from hushdoc.errors import OutputExistsError, PolicyViolationError, WordError
from hushdoc.reading.opening import open_document


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an artifact for each task."""
    folder = tmp_path_factory.mktemp("artifacts")
    for name, artifact in (
        ("classes", tiny.sealed_classifier("text")),
        ("images", tiny.sealed_classifier("image")),
        ("table", tiny.sealed_table("classification")),
        ("vectors", tiny.sealed_embedding()),
        ("answers", tiny.sealed_pointer()),
    ):
        (folder / name).symlink_to(artifact)
    return folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents, a trust store and a policy, as the working directory."""
    boxes = [
        (10 + 60 * (i % 6), 10 + 30 * (i // 6), 60 + 60 * (i % 6), 30 + 30 * (i // 6))
        for i in range(12)
    ]
    words = [f"word{index}" for index in range(12)]
    Image.new("RGB", (400, 200), "white").save(tmp_path / "scan.png")
    document = Document.from_words(
        words, boxes, width=400, height=200, id="a", image=Path("scan.png")
    )
    (tmp_path / "a.json").write_text(json.dumps(document.to_dict()))
    (tmp_path / "b.txt").write_text("total 12.50 eur \u202e")
    hushdoc_command_runs.write_policy(tmp_path, tiny.TRUST)
    monkeypatch.chdir(tmp_path)
    return tmp_path


POLICY = "--policy policy.toml"
OPEN = "--trust trust.json --integrity-only"


def run(subcommand: str, *arguments: str, policy: str = POLICY) -> int:
    """Runs a subcommand inside this process."""
    return hushdoc_command_runs.run(subcommand, *arguments, *policy.split())


def test_classify_prints_labels_and_goes_on_after_a_failure(
    home: Path, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("classify", f"{home}/classes", "a.json", "gone.pdf", "b.txt", "--top-k", "2") == 7
    printed, warned = capfd.readouterr()
    *lines, note = printed.splitlines()
    assert [line.split(":")[0] for line in lines] == ["a.json", "b.txt"]
    assert all(line.partition(": ")[2].count(".") == 2 for line in lines)
    assert "not calibrated" in note
    assert warned.startswith("hushdoc classify: BAD_INPUT: gone.pdf: ")
    assert run("classify", f"{home}/classes", "a.json", "--json", "--top-k", "4") == 0
    data = json.loads(capfd.readouterr().out)
    assert sorted(item["label"] for item in data["scores"]) == sorted(tiny.CLASSES)
    assert data["label"] == data["scores"][0]["label"]
    assert run("classify", f"{home}/classes", "a.json", "gone.pdf", "--jsonl") == 7
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line.get("error", {}).get("code") for line in found] == [None, "BAD_INPUT"]


def test_classify_opens_images_without_ocr(
    home: Path, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("classify", f"{home}/images", "scan.png", "--ocr", "none") == 0
    assert capfd.readouterr().out.startswith("scan: ")
    assert run("classify", f"{home}/images", "b.txt") == 3


def test_classify_reads_no_words_of_an_image_on_standard_input(
    home: Path, place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (60, 40), "white").save("blank.png")
    scores = []
    for name in ("blank.png", "-"):
        piped = io.TextIOWrapper(io.BytesIO(Path("blank.png").read_bytes()))
        monkeypatch.setattr(sys, "stdin", piped)
        assert run("classify", f"{home}/images", name, "--ocr", "none", "--json") == 0
        scores.append(json.loads(capfd.readouterr().out)["scores"])
    assert scores[0] == scores[1]


def test_classify_asks_a_table_of_hashed_features(
    home: Path, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("classify", f"{home}/table", "a.json", "b.txt", "--jsonl", "--top-k", "4") == 0
    answers = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    for answer in answers:
        assert {item["label"] for item in answer["scores"]} == set(tiny.CLASSES)
        assert (answer["label"], answer["below_threshold"]) == (answer["scores"][0]["label"], False)


def test_encrypted_files_are_opened_with_a_password(
    home: Path, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("locked.pdf").write_bytes(pdfs.file([pdfs.shown("word1")], password="geheim"))
    Path("password").write_text("geheim\n")
    for subcommand, artifact, policy in (
        ("classify", "images", POLICY),
        ("classify", "classes", POLICY),
        ("embed", "vectors", OPEN),
    ):
        asked = [f"{home}/{artifact}", "locked.pdf"]
        assert run(subcommand, *asked, policy=policy) == 3
        assert "ENCRYPTED_DOCUMENT" in capfd.readouterr().err
        assert run(subcommand, *asked, "--password-file", "password", policy=policy) == 0
        assert "locked" in capfd.readouterr().out


def test_embed_prints_vectors(home: Path, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("embed", f"{home}/vectors", "a.json", "b.txt", policy=OPEN) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    policy = hushdoc.Policy.integrity_only(trust=tiny.TRUST)
    model: Any = hushdoc.load(home / "vectors", policy=policy)
    expected = model.embed(open_document("b.txt")).vector
    assert np.float32(lines[1]["items"][0]["vector"]).tolist() == expected.tolist()
    assert run("embed", f"{home}/vectors", "a.json", "--json", policy=OPEN) == 0
    assert json.loads(capfd.readouterr().out)["level"] == "page"
    policy_text = (place / "policy.toml").read_text()
    (place / "strict.toml").write_text(policy_text.replace("max_epsilon = 8", "max_epsilon = 0.01"))
    with pytest.raises(PolicyViolationError):
        run("embed", f"{home}/vectors", "a.json", policy="--policy strict.toml")


def test_ask_prints_answers_with_their_place(
    home: Path, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model: Any = hushdoc.load(home / "answers", policy=tiny.policy())
    expected = model.ask_all(open_document("a.json"), ["Who?", "Total?"], top_k=2)
    both = [f"{home}/answers", "a.json", "-q", "Who?", "-q", "Total?"]
    assert run("ask", *both, "--json", "--top-k", "2") == 0
    told = json.loads(capfd.readouterr().out)
    assert [item["question"] for item in told["answers"]] == ["Who?", "Total?"]
    for item, answer in zip(told["answers"], expected, strict=True):
        assert item["candidates"] == [one.to_dict() for one in answer.candidates]
    assert run("ask", *both[:4], "--jsonl") == 0
    assert hushdoc.Answers.from_dict(json.loads(capfd.readouterr().out)).question == "Who?"
    assert run("ask", *both, "--overlay", "out.png", "--top-k", "2") == 0
    printed = capfd.readouterr().out
    assert "  Total?\n" in printed
    assert (
        f"{expected[0].candidates[0].text}  {expected[0].candidates[0].score:.2f}  page 0"
        in printed
    )
    assert Image.open("out.png").width >= 400
    with pytest.raises(WordError):  # before a document is opened
        run("ask", *both[:3], "\x1b[2J")
    assert run("ask", f"{home}/answers", "b.txt", "-q", "Who?") == 4
    assert "TASK_MISMATCH" in capfd.readouterr().err


def test_redact_writes_what_is_left(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model: Any = hushdoc.load(tiny.sealed(), policy=tiny.policy())
    found = model.extract(open_document("a.json")).fields
    label = found[0].label
    gone = {index for item in found if item.label == label for index in item.word_ids}
    assert 0 < len(gone) < 12
    assert run("redact", str(tiny.sealed()), "a.json", "--out", "left", "--label", label) == 0
    printed = capfd.readouterr().out
    assert f"left: removed {label} (" in printed
    assert "Inspect the result" in printed
    back = open_document("left/document.json")
    assert [word.text for word in back.pages[0].words] == [
        f"word{index}" for index in range(12) if index not in gone
    ]
    first = min(gone)
    with Image.open("left/page-0.png") as image:
        pixel = image.getpixel((30 + 60 * (first % 6), 20 + 30 * (first // 6)))
    assert pixel == (0, 0, 0)
    with pytest.raises(OutputExistsError):
        run("redact", str(tiny.sealed()), "a.json", "--out", "left")
    assert run("redact", str(tiny.sealed()), "a.json", "--out", "all") == 0
    left = json.loads(Path("all/document.json").read_text())["pages"][0]["words"]
    everything = {index for item in found for index in item.word_ids}
    assert len(left) == 12 - len(everything)


def test_redact_says_of_how_many_documents_the_model_did_not_read_all(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(Path("a.json").read_text())
    Path("whole.json").write_text(json.dumps(data))
    data["pages"][0]["words"][0]["text"] = "合計 " * 300
    Path("long.json").write_text(json.dumps(data))
    assert run("redact", str(tiny.sealed()), "whole.json", "long.json", "--out", "all") == 0
    assert "did not read all words of 1 document;" in capfd.readouterr().out


def test_redact_shows_no_page_that_nobody_read(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(Path("a.json").read_text())
    data["source"] = {"reader": "pdf", "ocr": None, "ocr_pages": [], "unread_pages": [0]}
    for name in ("scan.json", "other.json"):
        Path(name).write_text(json.dumps(data))
    assert run("redact", str(tiny.sealed()), "scan.json", "--out", "left") == 0
    assert "Images of page 0 are black, as they were not read. --ocr" in capfd.readouterr().out
    assert run("redact", str(tiny.sealed()), "scan.json", "other.json", "--out", "all") == 0
    assert "Pages of 2 documents are black" in capfd.readouterr().out
    for folder in ("left", "all/scan.json.redacted", "all/other.json.redacted"):
        with Image.open(f"{folder}/page-0.png") as shown:
            assert shown.getextrema() == ((0, 0), (0, 0), (0, 0))


def test_misspelled_labels_remove_nothing(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        run("redact", str(tiny.sealed()), "a.json", "--out", "left", "--label", "Total")
    assert raised.value.code == 2
    assert "knows no field Total; it knows date, supplier, total" in capfd.readouterr().err
    assert not (place / "left").exists()


def test_a_missing_runtime_is_named(home: Path, place: Path) -> None:
    program = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(name, path, target=None):\n"
        "        if name == 'onnxruntime': raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Absent)\n"
        "from hushdoc.__main__ import main\n"
        "for line in sys.argv[1:]: print(main(line.split()))"
    )
    lines = [
        f"extract {tiny.sealed()} a.json {POLICY}",
        f"redact {tiny.sealed()} a.json --out left {POLICY}",
        f"classify {home}/classes a.json {POLICY}",
        f"embed {home}/vectors a.json {OPEN}",
        f"bench {home}/vectors {OPEN}",
    ]
    done = in_python(program, *lines)
    assert done.stdout.split() == ["6"] * len(lines)
    messages = done.stderr.splitlines()
    assert len(messages) == len(lines)
    assert all(": MISSING_EXTRA: " in line and "hushdoc[cpu]" in line for line in messages)


@pytest.mark.parametrize("wrong", [["-", "-"], ["a.json", "--top-k", "0"]])
def test_wrong_usage(home: Path, place: Path, wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        run("classify", f"{home}/classes", *wrong)
    assert raised.value.code == 2


def test_the_card_tells_how_each_task_is_run(home: Path) -> None:
    told = {name: (home / name / "README.md").read_text() for name in ("classes", "vectors")}
    assert "## Classes\n\n`email`, `form`, `invoice`, `letter`" in told["classes"]
    assert "hushdoc classify . document.pdf" in told["classes"]
    assert "hushdoc embed . document.pdf" in told["vectors"]
    assert "## Fields" not in told["vectors"]


def test_the_page_of_tasks_runs(home: Path, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("classes", "vectors"):
        shutil.copytree(home / name, place / name)
    shutil.copytree(tiny.sealed(), place / "invoice-kie")
    shutil.copy("a.json", "invoice.json")
    page = (Path(__file__).parents[3] / "docs/tasks.md").read_text("utf-8")
    programs = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(programs) == 6
    pandas = importlib.util.find_spec("pandas") is not None
    exec("".join(text for text in programs if pandas or "to_pandas" not in text), {})
    printed = capfd.readouterr().out
    assert "gone.pdf BAD_INPUT" in printed
    assert "(1, 48)" in printed
    assert Path("fields.html").stat().st_size > 5000
    assert Path("redacted/page-0.png").is_file()
    assert Path("fields.md").read_text().startswith("# a\n\n## Fields\n")
    assert Path("fields.csv").read_text().startswith("document_id,label,")
