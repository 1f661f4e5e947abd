"""`extract`, `classify`, `embed` and `redact` on folders: whole results, none made twice."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hushdoc_command_runs
import hushdoc_pdf_files as pdfs
import hushdoc_tiny as tiny
import pytest
from hushdoc_processes import in_python
from PIL import Image

from hushdoc.__main__ import main
from hushdoc.commands import answering
from hushdoc.commands.command_line import build_parser
from hushdoc.commands.documents import Source
from hushdoc.commands.results import JOURNAL
from hushdoc.document.document import Document
from hushdoc.errors import InputError, OutputExistsError, OutputWriteError
from hushdoc.reading import ocr, tesseract
from hushdoc.runtime.extraction import Extraction
from hushdoc.runtime.hashed.model import HashedCRFModel
from hushdoc.system import atomic_files, locks

LAWS = "It is governed by the laws of Utah."


@pytest.fixture
def folder(place: Path) -> Path:
    """A folder "in" of three documents and one that can't be read, beside a model that reads it."""
    contents = {
        "b.txt": f"Term. {LAWS}".encode(),
        "b.md": b"A lawless text.",
        "sub/c.txt": f"{LAWS} Laws of Ohio.".encode(),
        "sub/old.txt": b"caf\xe9",
    }
    for name, content in contents.items():
        path = place / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return place


def run(*arguments: str, subcommand: str = "extract", model: str = "model") -> int:
    return hushdoc_command_runs.run(subcommand, model, *arguments, "--policy", "policy.toml")


def results(folder: Path) -> dict[str, int]:
    """Returns the files of a folder that are not hidden, with the times they were written."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_mtime_ns
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != JOURNAL
    }


def test_each_document_has_a_result_and_failures_are_listed(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("in", "--out", "out") == 7
    printed, warned = capfd.readouterr()
    assert printed == ""
    assert list(results(folder / "out")) == [
        "b.md.json",
        "b.txt.json",
        "failures.jsonl",
        "sub/c.txt.json",
    ]
    answer = Extraction.from_dict(json.loads((folder / "out/b.txt.json").read_text()))
    assert (answer.document_id, answer.fields[0].text) == ("in/b.txt", LAWS)
    (line,) = (folder / "out/failures.jsonl").read_text().splitlines()
    failure = json.loads(line)
    assert (failure["path"], failure["code"]) == ("in/sub/old.txt", "UNSUPPORTED_FORMAT")
    assert "iconv" in failure["message"]
    first, last = warned.splitlines()
    assert first.startswith("hushdoc extract: UNSUPPORTED_FORMAT: in/sub/old.txt: ")
    assert last == (
        "hushdoc extract: 3 of 4 documents done, 1 failed (1 UNSUPPORTED_FORMAT); results are in "
        "'out'; all failures are in 'out/failures.jsonl'."
    )


def test_what_is_done_is_not_done_again(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("in", "--out", "out") == 7
    before = results(folder / "out")
    capfd.readouterr()
    (folder / "in/sub/old.txt").write_text(LAWS)  # which failed
    (folder / "in/b.md").write_text(LAWS)  # which changed
    (folder / "out/sub/c.txt.json").write_text("{")  # whose result was damaged
    assert run("in", "--out", "out", "--workers", "2", "--threads", "1") == 0
    told = capfd.readouterr().err
    assert "3 of 4 documents done, 1 done before; results are in 'out'." in told
    after = results(folder / "out")
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"b.md.json", "sub/c.txt.json", "sub/old.txt.json"}
    assert "failures.jsonl" not in after
    answer = json.loads((folder / "out/sub/c.txt.json").read_text())
    assert answer["fields"][0]["text"].startswith(LAWS)
    assert run("in", "--out", "out") == 0
    assert "0 of 4 documents done, 4 done before" in capfd.readouterr().err
    assert results(folder / "out") == after


def test_other_options_and_other_models_make_other_results(
    folder: Path, seal_model: Callable[[Path], None]
) -> None:
    (folder / "in/sub/old.txt").unlink()
    views = ("--csv", "--html", "--markdown")
    assert run("in", "--out", "out") == 0
    assert run("in", "--out", "out", *views) == 0
    ends = ("csv", "html", "md")
    names = [f"{name}.{end}" for name in ("b.md", "b.txt", "sub/c.txt") for end in ends]
    assert list(results(folder / "out")) == names  # those of before are gone
    rows = list(csv.DictReader(io.StringIO((folder / "out/sub/c.txt.csv").read_text())))
    assert {row["document_id"] for row in rows} == {"in/sub/c.txt"}
    before = results(folder / "out")
    assert run("in", "--out", "out", *views, "--threads", "1") == 0
    assert results(folder / "out") == before
    shutil.rmtree("model")
    seal_model(folder / "model")
    assert run("in", "--out", "out", *views) == 0
    after = results(folder / "out")
    assert all(after[name] > before[name] for name in names)


def test_a_changed_document_that_fails_leaves_no_result(folder: Path) -> None:
    assert run("in", "--out", "out") == 7
    (folder / "in/b.txt").write_bytes(b"caf\xe9")
    assert run("in", "--out", "out") == 7
    assert "b.txt.json" not in results(folder / "out")
    assert len((folder / "out/failures.jsonl").read_text().splitlines()) == 2


def test_results_may_lie_inside_the_folder_of_documents(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert run("in", "--out", "in/out") == 7
    assert "0 of 4 documents done, 3 done before, 1 failed" in capfd.readouterr().err
    assert run("in", "--jsonl") == 7
    assert len(capfd.readouterr().out.splitlines()) == 4


def test_results_are_mixed_with_nothing_else(folder: Path) -> None:
    with pytest.raises(OutputExistsError, match="already holds something"):
        run("in", "--out", "in")
    assert not (folder / "in" / JOURNAL).exists()
    assert run("in/b.txt", "--out", "out") == 0
    (folder / "trust.json").write_bytes(tiny.TRUST.to_json())
    classifier = tiny.sealed_table("classification")
    with pytest.raises(OutputExistsError, match="holds results of `hushdoc extract`"):
        run("in", "--out", "out", subcommand="classify", model=str(classifier))


def test_a_disk_that_folds_names_has_each_result_or_none(folder: Path) -> None:
    """Such as those of macOS, of Windows, and of most sticks; a link stands for one here."""
    for name in ("in/sub/B.txt", "in/sub/caf\xe9.txt", "in/cafe\u0301.txt"):
        (folder / name).write_text(LAWS)
    named = [("in/b.txt", "in/sub/B.txt"), ("in/cafe\u0301.txt", "in/sub/caf\xe9.txt")]
    for both in named:
        assert run(*both, "--out", "out") == 0
    assert len(results(folder / "out")) == 4
    os.link(folder / "out" / JOURNAL, folder / "out" / JOURNAL.upper())
    for both in named:
        with pytest.raises(InputError, match="would be one file, as the disk"):
            run(*both, "--out", "out")
    assert run("in/b.txt", "in/b.md", "--out", "out") == 0


def test_names_that_differ_by_their_ending_have_a_result_each(folder: Path) -> None:
    assert run("in/b.txt", "in/b.md", "in/sub/c.txt", "--out", "out") == 0
    assert list(results(folder / "out")) == ["b.md.json", "b.txt.json", "c.txt.json"]
    (folder / "in/sub/b.txt").write_text(LAWS)
    with pytest.raises(InputError, match="would have the same name"):
        run("in/b.txt", "in/sub/b.txt", "--out", "other")
    assert not (folder / "other").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="paths are shorter there")
def test_names_as_long_as_they_may_be(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names = ["n" * 250, "m" * 252]
    for name in names:
        (folder / "in" / name).write_text(LAWS)
    assert run(*(f"in/{name}" for name in names), "--out", "out", "--hocr", "--json") == 3
    assert run(*(f"in/{name}" for name in names), "--out", "json") == 7
    assert list(results(folder / "out")) == ["failures.jsonl"]
    assert list(results(folder / "json")) == ["failures.jsonl", f"{names[0]}.json"]
    assert "1 failed (1 OUTPUT_NOT_WRITTEN)" in capfd.readouterr().err


def test_a_list_and_a_stream(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed() -> None:
        stream = io.TextIOWrapper(io.BytesIO(b"in/sub\nin/b.txt\ngone.txt\n"))
        monkeypatch.setattr(sys, "stdin", stream)

    listed()
    assert run("-", "--jsonl") == 7
    printed, warned = capfd.readouterr()
    answers = [json.loads(line) for line in printed.splitlines()]
    named = ["in/sub/c.txt", "in/sub/old.txt", "in/b.txt", "gone.txt"]
    assert [answer["document_id"] for answer in answers] == named
    assert [answer.get("error", {}).get("code") for answer in answers] == [
        None,
        "UNSUPPORTED_FORMAT",
        None,
        "BAD_INPUT",
    ]
    assert warned.splitlines()[-1] == (
        "hushdoc extract: 2 of 4 documents done, 2 failed (1 BAD_INPUT, 1 UNSUPPORTED_FORMAT)."
    )
    for expected in (4, 2):  # the second time, what is done is not in the stream
        listed()
        assert run("-", "--jsonl", "--out", "out") == 7
        assert len(capfd.readouterr().out.splitlines()) == expected
    assert list(results(folder / "out")) == [
        "failures.jsonl",
        "in/b.txt.json",
        "in/sub/c.txt.json",
    ]
    listed()
    assert run("-", "--json") == 7
    assert [answer["document_id"] for answer in json.loads(capfd.readouterr().out)] == named


def test_a_document_that_is_no_unicode_stops_no_other(folder: Path) -> None:
    (folder / "in/a.json").write_text('{"id": "a", "text": "The laws of \\ud800."}')
    assert run("in", "--out", "out", "--csv") == 7
    failures = (folder / "out/failures.jsonl").read_text().splitlines()
    assert [json.loads(line)["path"] for line in failures] == ["in/a.json", "in/sub/old.txt"]
    assert (folder / "out/sub/c.txt.csv").is_file()


def test_files_of_one_name_are_told_apart(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "b.txt").write_text((folder / "in/b.txt").read_text())
    assert run("in/b.txt", "b.txt", "--jsonl") == 0
    lines = capfd.readouterr().out.splitlines()
    assert [json.loads(line)["document_id"] for line in lines] == ["in/b.txt", "b.txt"]
    assert run("in/b.txt", "b.txt", "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out)))
    assert list(dict.fromkeys(row["document_id"] for row in rows)) == ["in/b.txt", "b.txt"]
    assert run("in/b.txt", "in/b.md", "--out", "out") == 0
    assert json.loads((folder / "out/b.txt.json").read_text())["document_id"] == "in/b.txt"


def test_memory_that_is_too_small_for_a_document_stops_no_other(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    extract, read = HashedCRFModel.extract, answering.read_document

    def answered(model: HashedCRFModel, document: Document) -> Any:
        if document.id == "in/b.txt":
            raise MemoryError
        return extract(model, document)

    def opened(source: Source, *others: Any, **settings: Any) -> Document:
        if source.path == "in/b.md":
            raise MemoryError
        return read(source, *others, **settings)

    monkeypatch.setattr(HashedCRFModel, "extract", answered)
    monkeypatch.setattr(answering, "read_document", opened)
    assert run("in/b.md", "in/b.txt", "in/sub/c.txt", "--jsonl") == 7
    answers = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    codes = [answer.get("error", {}).get("code") for answer in answers]
    assert codes == ["OUT_OF_MEMORY", "OUT_OF_MEMORY", None]
    assert run("in/b.md") == 6


@pytest.mark.skipif(os.name != "posix", reason="a shell that closes streams")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_change_nothing(folder: Path, closed: str) -> None:
    command = ["extract", "model", "in/b.txt", "in/sub/c.txt", "--policy", "policy.toml"]
    shell = ("sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "hushdoc")
    done = subprocess.run(
        [*shell, *command, "--out", "out"], capture_output=True, text=True, timeout=280, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert list(results(folder / "out")) == ["b.txt.json", "c.txt.json"]


@pytest.mark.skipif(os.name != "posix", reason="a shell that closes streams")
def test_a_closed_standard_input_is_no_list(folder: Path) -> None:
    shell = ("sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "hushdoc")
    listed = subprocess.run(
        [*shell, "extract", "model", "-", "--policy", "policy.toml"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert listed.returncode == 3
    assert listed.stderr.startswith("hushdoc extract: BAD_INPUT: Standard input is no list")


def test_an_empty_folder_is_said_so(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(InputError, match="The folder 'empty' holds no document"):
        run("empty", "--out", "out")
    assert not (folder / "out").exists()
    (folder / "hollow").mkdir()
    assert run("empty", "in/b.txt", "hollow", "--out", "out") == 7
    assert len((folder / "out/failures.jsonl").read_text().splitlines()) == 2
    assert "BAD_INPUT: empty: The folder 'empty' holds no document" in capfd.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ["in", "--html", "page.html"],
        ["in", "--out", "out", "--html", "page.html"],
        ["in/b.txt", "--html"],
        ["in", "--out", "out", "--workers", "0"],
        ["-", "-"],
    ],
)
def test_wrong_usage_is_refused_before_a_result_is_written(folder: Path, wrong: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(*wrong)
    assert not (folder / "out").exists()


def test_a_full_disk_stops_a_run_that_goes_on_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, full = atomic_files.write_file, OSError(28, "No space left on device")

    def writing(path: Path, content: bytes) -> None:
        if path.name == "b.txt.json":
            raise atomic_files.not_written(path, full) from full
        write(path, content)

    monkeypatch.setattr(atomic_files, "write_file", writing)
    with pytest.raises(OutputWriteError, match="Free some space"):
        run("in", "--out", "out")
    monkeypatch.setattr(atomic_files, "write_file", write)
    assert list(results(folder / "out")) == ["b.md.json"]
    assert run("in", "--out", "out") == 7


INTERRUPTIBLE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job would ignore it
from hushdoc.__main__ import main
from hushdoc.commands import answering
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("workers", ["1", "3"])
def test_an_interrupt_leaves_whole_results_and_is_resumed(
    folder: Path, capfd: pytest.CaptureFixture[str], workers: str
) -> None:
    for number in range(120):
        (folder / f"in/{number:03}.txt").write_text(f"{number}. {LAWS} " * 20)
    command = ["extract", "model", "in", "--out", "out", "--policy", "policy.toml"]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *command, "--workers", workers],
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        deadline = time.monotonic() + 200
        while len(list(folder.glob("out/*.json"))) < 10 and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=200)
    assert (running.returncode, told) == (130, "hushdoc: interrupted.\n")
    whole = results(folder / "out")
    assert 9 <= len(whole) < 120  # the one that was being written is gone
    assert not list((folder / "out").rglob("*.partial"))
    for name in whole:
        assert json.loads((folder / "out" / name).read_text())["coverage"] == 1
    assert run("in", "--out", "out") == 7
    after = results(folder / "out")
    assert len(after) == 124
    done = len(whole)
    again = sum(after[name] != whole[name] for name in whole)
    assert again <= 1  # the one whose line in the journal was not written yet
    assert f"{123 - done + again} of 124 documents done, {done - again} done before" in (
        capfd.readouterr().err
    )


PEAK = """
import resource, sys
from hushdoc.__main__ import main
from hushdoc.commands import answering
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are in kilobytes there")
def test_memory_stays_flat_over_ten_thousand_documents(folder: Path) -> None:
    peaks = {}
    for count in (300, 10_000):
        for number in range(count):
            path = folder / f"many/{number % 100}/{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{number}. {LAWS} " * 50)
        command = ["extract", "model", "many", "--out", f"out-{count}", "--policy", "policy.toml"]
        peaks[count] = int(in_python(PEAK, *command, timeout=1500).stdout)
        assert len(results(folder / f"out-{count}")) == count
    assert peaks[10_000] - peaks[300] < 12_000  # names and digests of 10,000


def test_redaction_of_a_folder_leaves_nothing_of_what_failed(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("in", "--out", "left", subcommand="redact") == 7
    told = capfd.readouterr()
    assert "A model misses fields." in told.out
    assert f"Pass on the folders NAME.redacted alone. '{JOURNAL}' beside them has" in told.out
    assert "3 of 4 documents done, 1 failed (1 UNSUPPORTED_FORMAT)" in told.err
    before = results(folder / "left")
    assert list(before) == [
        "b.md.redacted/document.json",
        "b.txt.redacted/document.json",
        "failures.jsonl",
        "sub/c.txt.redacted/document.json",
    ]
    text = json.loads((folder / "left/b.txt.redacted/document.json").read_text())["text"]
    assert "Utah" not in text
    assert text.startswith("Term. ")
    (folder / "in/b.txt").write_bytes(b"caf\xe9")
    (folder / "in/b.md").write_text(LAWS)
    assert run("in", "--out", "left", subcommand="redact") == 7
    after = results(folder / "left")
    assert not (folder / "left/b.txt.redacted").exists()
    assert "laws" not in (folder / "left/b.md.redacted/document.json").read_text()
    assert after["sub/c.txt.redacted/document.json"] == before["sub/c.txt.redacted/document.json"]


def test_a_name_too_long_for_a_redaction_stops_no_other_document(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for length in (240, 255):
        (folder / "in" / f"{'a' * (length - 4)}.txt").write_text(LAWS)
    assert run("in", "--out", "left", subcommand="redact") == 7
    told = capfd.readouterr().err
    assert "4 of 6 documents done, 2 failed (1 OUTPUT_NOT_WRITTEN, 1 UNSUPPORTED_FORMAT)" in told
    assert (folder / "left/sub/c.txt.redacted/document.json").exists()


@pytest.mark.parametrize("line", [b"", b'{"subc', b"{}", b'{"subcommand": 3}'])
def test_a_journal_without_a_sound_first_line_is_damaged(folder: Path, line: bytes) -> None:
    assert run("in/b.txt", "--out", "out") == 0
    (folder / "out" / JOURNAL).write_bytes(line + b"\n")
    with pytest.raises(OutputExistsError, match=f"The first line of 'out/{JOURNAL}' is damaged"):
        run("in/b.txt", "--out", "out")


def test_nothing_is_said_of_scores_where_there_are_none(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for options in ([], ["--csv"], ["--csv", "--out", "out"]):
        assert run("gone.txt", *options) == 3
        printed = capfd.readouterr()
        assert "note: Scores" not in printed.out + printed.err
        assert run("gone.txt", "in/b.txt", *options) == 7
        printed = capfd.readouterr()
        assert "note: Scores" in printed.out + printed.err


def test_a_redaction_that_was_not_noted_is_made_again(folder: Path) -> None:
    assert run("in/b.md", "in/b.txt", "--out", "left", subcommand="redact") == 0
    journal = folder / "left" / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-9])  # as if the disk had stopped there
    assert run("in/b.md", "in/b.txt", "--out", "left", subcommand="redact") == 0
    before = results(folder / "left")
    assert run("in/b.md", "in/b.txt", "--out", "left", subcommand="redact") == 0
    assert results(folder / "left") == before


def test_an_image_that_a_document_names_is_part_of_it(folder: Path) -> None:
    Image.new("RGB", (200, 90), "white").save("in/scan.png")
    words, boxes = ["laws", "of", "Utah"], [(9, 9, 49, 19), (50, 9, 60, 19), (61, 9, 90, 19)]
    page = Document.from_words(
        words, boxes, width=200, height=90, id="page", image=Path("scan.png")
    )
    (folder / "in/page.json").write_text(json.dumps(page.to_dict()))
    asked = ("in/page.json", "in/b.txt", "--out", "left", "--workers", "2")
    assert run(*asked, subcommand="redact") == 0
    before = results(folder / "left")
    assert "page.json.redacted/page-0.png" in before
    Image.new("RGB", (200, 90), "red").save("in/scan.png")
    assert run(*asked, subcommand="redact") == 0
    after = results(folder / "left")
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"page.json.redacted/document.json", "page.json.redacted/page-0.png"}


def test_one_run_at_a_time_writes_results(folder: Path) -> None:
    assert run("in/b.txt", "--out", "out") == 0
    killed = folder / "out/.b.md.json.1f2e3d4c.partial"
    killed.write_text("{")
    with locks.locked(folder / "out"), pytest.raises(OutputExistsError, match="Another run"):
        run("in/b.md", "--out", "out")
    assert killed.exists()
    assert run("in/b.md", "--out", "out") == 0
    assert not killed.exists()


def test_no_file_holds_up_the_others(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "in/slow.pdf").write_bytes(pdfs.nested_forms(depth=12, times=10))
    assert run("in", "--out", "out", "--time-limit", "3") == 7
    told = capfd.readouterr().err
    assert "READER_TIMEOUT: in/slow.pdf: " in told
    assert "3 of 5 documents done, 2 failed (1 READER_TIMEOUT, 1 UNSUPPORTED_FORMAT)" in told
    with pytest.raises(SystemExit, match="2"):
        run("in", "--time-limit", "3", "--reader", "here")


def test_images_that_were_not_read_are_counted_and_not_told_one_by_one(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    drawn = pdfs.strips(3, size=(612, 792), top=792, height=792)
    header = pdfs.shown(" ".join(f"word{number}" for number in range(25)), x=9, y=780, size=5)
    shows = {"objects": [pdfs.image(2, 2, b"\x80" * 4)], "shows": "/XObject << /Im1 12 0 R >>"}
    (folder / "in/scan.pdf").write_bytes(pdfs.file([drawn + header], **shows))
    assert main(["extract", "model", "in", "--out", "out", "--policy", "policy.toml"]) == 7
    told = capfd.readouterr().err
    assert "4 of 5 documents done, 1 with images that were not read, 1 failed" in told
    assert "warning" not in told
    answer = json.loads((folder / "out/scan.pdf.json").read_text())
    assert answer["source"]["unread_pages"] == [0]


def test_results_are_made_again_once_an_ocr_engine_is_there(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one, pages that only it reads are missing in results that count as done."""
    monkeypatch.setattr(tesseract, "program", lambda: None)
    made = []
    for installed in (False, False, True):
        monkeypatch.setattr(ocr, "rapid_is_installed", lambda found=installed: found)
        assert run("in/b.txt", "in/b.md", "--out", "out") == 0
        made.append(capfd.readouterr().err.partition(":")[2].partition(";")[0].strip())
    again = "0 of 2 documents done, 2 done before"
    assert made == ["2 of 2 documents done", again, "2 of 2 documents done"]


def test_foreign_files_are_never_removed(folder: Path) -> None:
    (folder / "keep.txt").write_text("mine")
    assert run("in/b.txt", "--out", "out") == 0
    with (folder / "out" / JOURNAL).open("a") as journal:
        for files in ({"../keep.txt": "0"}, {"b.txt./../../keep.txt": "0"}, {"../../x": 3}):
            journal.write(json.dumps({"name": "b.txt", "made_from": "0", "files": files}) + "\n")
        journal.write("[" * 9999 + "\n")
    (folder / "in/b.txt").write_text("changed")
    assert run("in/b.txt", "--out", "out") == 0
    assert (folder / "keep.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("subcommand", "artifact", "result", "part", "further"),
    [
        ("ask", tiny.sealed_pointer, ".json", "candidates", ("-q", "Who?")),
        ("classify", lambda: tiny.sealed_table("classification"), ".json", "scores", ()),
        ("embed", tiny.sealed_embedding, ".json", "items", ()),
        ("extract", lambda: tiny.sealed_table("kie"), ".json", "coverage", ()),
        ("redact", lambda: tiny.sealed_table("kie"), ".redacted/document.json", "pages", ()),
    ],
)
@pytest.mark.parametrize(("named", "below"), [("in", "out"), ("-", "out/in")])
def test_every_subcommand_takes_folders_and_lists(
    folder: Path,
    subcommand: str,
    artifact: Any,
    result: str,
    part: str,
    further: tuple[str, ...],
    named: str,
    below: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "trust.json").write_bytes(tiny.TRUST.to_json())
    words = [f"word{number}" for number in range(9)]
    boxes = [(9 * number, 5, 9 * number + 8, 15) for number in range(9)]
    page = Document.from_words(words, boxes, width=200, height=90, id="page")
    for name in ("b.txt", "b.md", "sub/c.txt"):
        (folder / "in" / name).unlink()
    for name in ("page", "sub/page"):
        (folder / "in" / name).write_text(json.dumps(page.to_dict()))
    model = str(artifact())
    for earlier in (0, 2):
        stream = io.TextIOWrapper(io.BytesIO(b"in/page\nin/sub\n"))
        monkeypatch.setattr(sys, "stdin", stream)
        arguments = (named, "--out", "out", *further)
        assert run(*arguments, subcommand=subcommand, model=model) == 7
        for name in ("page", "sub/page"):
            answer = json.loads((folder / below / f"{name}{result}").read_text())
            assert answer[part]
            assert answer.get("document_id", f"in/{name}") == f"in/{name}"
        told = capfd.readouterr().err
        assert "1 failed (1 UNSUPPORTED_FORMAT)" in told
        assert (" 2 done before" in told) == bool(earlier)


NEUTRAL = {
    *("artifact", "documents", "stdin", "device", "threads", "memory_limit", "workers", "out"),
    *("reader", "time_limit"),
    *("password_file", "policy", "trust", "max_epsilon", "max_delta", "unit", "integrity_only"),
    *("recompute", "adversary", "adjacency", "accept_treatment", "model", "min_version"),
    *("max_age_days", "revocations", "help", "help_all", "jsonl"),
}
"""Options that change no result, only where it comes from and whether it may be made."""


@pytest.mark.parametrize("subcommand", ["extract", "ask", "classify", "embed", "redact"])
def test_every_other_option_makes_other_results(
    subcommand: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = dict(build_parser().subcommands())[subcommand]
    known = {action.dest for action in parser._actions if action.dest != argparse.SUPPRESS}
    seen: dict[str, Any] = {}

    def answer_each(options: Any, sources: Any, task: Any) -> int:
        seen.update(task.settings)
        return 0

    monkeypatch.setattr("hushdoc.commands.batches.answer_each", answer_each)
    models: dict[str, Any] = {
        "classify": lambda: tiny.sealed_table("classification"),
        "embed": tiny.sealed_embedding,
        "ask": tiny.sealed_pointer,
    }
    if subcommand in models:
        (folder / "trust.json").write_bytes(tiny.TRUST.to_json())
    views = (
        ["--csv", "--html", "--hocr", "--overlay", "--markdown"] if subcommand == "extract" else []
    )
    views += ["-q", "Who?"] if subcommand == "ask" else []
    model = str(models.get(subcommand, lambda: "model")())
    run("in", "--out", "out", *views, subcommand=subcommand, model=model)
    assert known - NEUTRAL - {"json"} == seen.keys() - {"json"}
