"""samples/desktop_search: a folder is taken up as it changes, searched, and shown in a window."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import hushdoc_tiny
import numpy as np
import pytest
from hushdoc_command_runs import write_policy
from hushdoc_documents import document
from hushdoc_processes import in_python

import hushdoc
from hushdoc.errors import InputError, OutputWriteError

SAMPLE = Path(__file__).parents[2] / "samples/desktop_search"
TEXTS = {"a.txt": "the rent of the flat", "b.txt": "an invoice for glass", "c/d.txt": "a letter"}


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SAMPLE))
    import index

    yield index
    sys.modules.pop("index", None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in TEXTS.items():
        path = tmp_path / "documents" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "documents"


@pytest.fixture(scope="module")
def model() -> Any:
    return hushdoc.EmbeddingModel.load(
        hushdoc_tiny.sealed_embedding(), policy=hushdoc_tiny.policy()
    )


def test_an_index_follows_its_folder(index: Any, folder: Path, model: Any, tmp_path: Path) -> None:
    fields = hushdoc.load(hushdoc_tiny.sealed_table("kie"), policy=hushdoc_tiny.policy())
    found = index.Index(tmp_path / "i.sqlite", folder, model, fields)
    (folder / "torn.pdf").write_bytes(b"%PDF-1.4")
    assert found.update() == 4
    assert found.update() == 0
    assert list(found.notes()) == ["torn.pdf"]
    first, *_ = found.search("an invoice for glass")
    assert (first.path.name, first.page, first.text) == ("b.txt", 0, TEXTS["b.txt"])
    assert first.score == pytest.approx(1, abs=1e-4)
    answer = fields.extract(hushdoc.open_document(folder / "b.txt"))
    assert first.fields == tuple((item.label, item.text) for item in answer.fields)
    # Pages with a field that holds the query come first, however much alike others are.
    last = found.search("order 4711")[-1].path.name
    rows = [(str(Path("c") / last if last == "d.txt" else last), 0, "number", "ORDER 4711/b")]
    found._database.executemany("INSERT INTO fields VALUES (?, ?, ?, ?)", rows)
    assert found.search("order 4711")[0].path.name == last
    (folder / "b.txt").unlink()
    (folder / "a.txt").write_text("an order of glass")
    assert found.update() == 2
    assert {match.path.name for match in found.search("glass")} == {"a.txt", "d.txt"}
    assert found.search("  ") == []
    # What the model of fields can't read is found all the same.
    pages = hushdoc.load(hushdoc_tiny.sealed(), policy=hushdoc_tiny.policy())
    other = index.Index(tmp_path / "j.sqlite", folder, model, pages)
    other.update()
    assert len(other.search("glass")) == 2
    assert list(other.notes()) == ["torn.pdf"]
    # Another artifact begins anew.
    again = index.Index(tmp_path / "i.sqlite", folder, model)
    assert again.search("glass") == []
    assert again.update() == 3


def test_an_index_is_of_what_is_not_hidden_and_of_any_name(
    index: Any, folder: Path, model: Any, tmp_path: Path
) -> None:
    (folder / ".trash").mkdir()
    (folder / ".trash" / "e.txt").write_text("a receipt")
    (folder / "gone.txt").symlink_to(folder / "nowhere")
    strange = folder / os.fsdecode(b"m\xfcller.txt")  # as programs of the last century wrote it
    with suppress(OSError):  # some systems have no such names
        strange.write_text("a receipt of a mill")
    found = index.Index(tmp_path / "i.sqlite", folder, model)
    assert found.update() == 3 + strange.exists()
    assert found.update() == 0
    paths = {match.path for match in found.search("a receipt of a mill")}
    assert paths == {path for path in folder.rglob("[!.]*.txt") if path.exists()} - {
        folder / ".trash" / "e.txt"
    }
    strange.unlink(missing_ok=True)
    (folder / "torn.pdf").write_bytes(b"%PDF-1.4")
    assert found.update() >= 1
    assert list(found.notes()) == ["torn.pdf"]


def test_an_index_is_its_owner_s_and_outlives_its_folder(
    index: Any, folder: Path, model: Any, tmp_path: Path
) -> None:
    found = index.Index(tmp_path / "i.sqlite", folder, model)
    found.update()
    if os.name == "posix":
        assert (tmp_path / "i.sqlite").stat().st_mode & 0o777 == 0o600
    folder.rename(tmp_path / "away")
    with pytest.raises(InputError, match="is no folder"):
        found.update()
    assert len(found.search("glass")) == 3


def test_two_windows_use_one_index(index: Any, folder: Path, model: Any, tmp_path: Path) -> None:
    one, other = (index.Index(tmp_path / "i.sqlite", folder, model) for _ in range(2))
    assert one.update() == 3
    assert len(other.search("glass")) == 3
    (folder / "a.txt").unlink()
    assert other.update() == 1
    assert len(one.search("glass")) == 2


OPENED_AT_ONCE = """
import multiprocessing, sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, sys.argv[1])
import index

def opened(ready):
    model = SimpleNamespace(certificate=SimpleNamespace(certificate_id="x"))
    for number in range(60):
        ready.wait()
        index.Index(Path(f"{number}.sqlite"), Path(), model)

context = multiprocessing.get_context("fork")
ready = context.Barrier(4, timeout=60)
programs = [context.Process(target=opened, args=(ready,)) for _ in range(4)]
for program in programs:
    program.start()
for program in programs:
    program.join()
sys.exit(any(program.exitcode for program in programs))
"""


def test_programs_that_begin_an_index_at_once_wait_for_each_other(tmp_path: Path) -> None:
    in_python(OPENED_AT_ONCE, SAMPLE, cwd=tmp_path)


def test_a_full_disk_leaves_the_index_as_it_was(
    index: Any, folder: Path, model: Any, tmp_path: Path
) -> None:
    found = index.Index(tmp_path / "i.sqlite", folder, model)
    found.update()
    [(pages,)] = found._rows("PRAGMA page_count")
    found._rows(f"PRAGMA max_page_count = {pages}")
    (folder / "large.txt").write_text("glass " * 20_000)
    with pytest.raises(OutputWriteError, match="full"):
        found.update()
    assert len(found.search("glass")) == 3
    (tmp_path / "no-index").write_bytes(b"something else" * 100)
    with pytest.raises(InputError, match="is no index"):
        index.Index(tmp_path / "no-index", folder, model)


def test_ten_thousand_pages_are_searched_at_once(
    index: Any, folder: Path, model: Any, tmp_path: Path
) -> None:
    found = index.Index(tmp_path / "i.sqlite", folder, model)
    vectors = np.random.default_rng(0).normal(size=(10_000, model.dimensions)).astype("<f4")
    rows = [(f"{n}.txt", 0, "text " * 300, vector.tobytes()) for n, vector in enumerate(vectors)]
    fields = [(f"{n}.txt", 0, "total", f"{n}.{item}") for n in range(10_000) for item in range(5)]
    with found._changing():
        found._database.executemany("INSERT INTO pages VALUES (?, ?, ?, ?)", rows)
        found._database.executemany("INSERT INTO fields VALUES (?, ?, ?, ?)", fields)
    found.search("glass")

    def seconds() -> float:
        began = time.thread_time()
        assert len(found.search("rent")) == 20
        return time.thread_time() - began

    assert min(seconds() for _ in range(3)) < 0.05


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A virtual screen."""
    pytest.importorskip("tkinter", reason="this Python has no Tk")
    if shutil.which("Xvfb") is None:
        pytest.skip("Xvfb is not installed")
    reading, writing = os.pipe()
    command = [
        "Xvfb",
        "-displayfd",
        str(writing),
        "-screen",
        "0",
        "1500x900x24",
        "-nolisten",
        "tcp",
    ]
    with subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL) as server:
        os.close(writing)
        with os.fdopen(reading) as pipe:
            display = f":{pipe.readline().strip()}"
        monkeypatch.setenv("DISPLAY", display)
        yield display
        server.terminate()


def descendants(widget: Any) -> Iterator[Any]:
    for child in widget.winfo_children():
        yield child
        yield from descendants(child)


def test_a_window_shows_the_page_with_the_match(
    index: Any, folder: Path, model: Any, tmp_path: Path, screen: str
) -> None:
    import json
    import tkinter as tk

    import window
    from PIL import ImageGrab

    (folder / "page.json").write_text(json.dumps(document(9).to_dict()))
    word = document(9).pages[0].words[4].text
    found = index.Index(tmp_path / "i.sqlite", folder, model)
    found.update()
    root = tk.Tk()
    try:
        shown = window.Window(root, found, [model])
        shown.query.set(" ".join(item.text for item in document(9).pages[0].words))
        until = time.monotonic() + 30
        while not shown.matches and time.monotonic() < until:
            root.update()
        assert shown.matches[0].path.name == "page.json"
        marks = shown._marks(document(9).pages[0], shown.matches[0])
        assert word in {mark.text for mark in marks}
        root.update()
        (promised,) = [item for item in descendants(root) if isinstance(item, tk.Text)]
        assert promised.get("1.0", "end-1c") == hushdoc.explain(model.certificate)
        picture = ImageGrab.grab(xdisplay=screen)
        colours = picture.getcolors(2**24)
        assert colours is not None
        assert len(colours) > 20
        if wanted := os.environ.get("HUSHDOC_SCREENSHOT"):
            picture.crop((0, 0, root.winfo_width(), root.winfo_height())).save(wanted)
    finally:
        root.destroy()
        sys.modules.pop("window", None)


def test_two_windows_that_were_started_by_the_page_s_command_share_an_index(
    folder: Path, tmp_path: Path, screen: str
) -> None:
    page = (SAMPLE.parents[1] / "docs/applications.md").read_text("utf-8")
    (line,) = [item for item in page.splitlines() if item.startswith("python samples/desktop_")]
    program, *arguments = shlex.split(line)[1:]
    assert "--published" in arguments  # MiniLM, which no policy with an epsilon accepts
    shutil.copytree(hushdoc_tiny.sealed_embedding(), tmp_path / "embedding")
    shutil.copytree(hushdoc_tiny.sealed_table("kie"), tmp_path / "sample/model")
    write_policy(tmp_path, hushdoc_tiny.policy().trust)
    command = [sys.executable, SAMPLE.parents[1] / program, *arguments]
    windows = [subprocess.Popen(command, cwd=tmp_path) for _ in range(2)]
    try:
        until, found = time.monotonic() + 60, []
        while len(found) < len(TEXTS) and time.monotonic() < until:
            time.sleep(0.05)
            assert all(window.poll() is None for window in windows)
            if (tmp_path / "search.sqlite").exists():
                with (
                    sqlite3.connect(tmp_path / "search.sqlite") as database,
                    suppress(
                        sqlite3.OperationalError  # it has no tables yet
                    ),
                ):
                    found = database.execute("SELECT path FROM pages").fetchall()
        assert sorted(name for (name,) in found) == sorted(TEXTS)
    finally:
        for window in windows:
            window.kill()
            window.wait()
