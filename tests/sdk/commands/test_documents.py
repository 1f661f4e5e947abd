"""Documents that a command line names: files, folders and lists, in a stable order."""

from __future__ import annotations

import argparse
import io
import os
import sys
from pathlib import Path

import pytest

from hushdoc.commands import documents
from hushdoc.commands.documents import Source, apart
from hushdoc.commands.results import JOURNAL
from hushdoc.errors import InputError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a folder "in" of documents and of what is none."""
    for name in ("b.txt", "a.pdf", "a.png", "sub/a", ".hidden", ".git/x", "out/b.txt.json"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("words")
    (tmp_path / "in/out" / JOURNAL).write_text("")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/secret").write_text("words")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def named(*arguments: str, stdin: str = "auto") -> list[Source]:
    return documents.named(argparse.Namespace(documents=list(arguments), stdin=stdin))


def piped(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_a_folder_is_walked_in_order_without_hidden_files_and_results(folder: Path) -> None:
    found = named("in", "in/b.txt")
    assert [(source.path, source.name) for source in found] == [
        ("in/a.pdf", "a.pdf"),
        ("in/a.png", "a.png"),
        ("in/b.txt", "b.txt"),
        ("in/sub/a", "sub/a"),
        ("in/b.txt", "b.txt"),
    ]
    assert [source.id for source in found[-2:]] == ["in/sub/a", "in/b.txt"]
    assert [source.id for source in named("in/b.txt")] == ["b"]
    assert [source.name for source in apart(found, [".json"])] == [
        "a.pdf",
        "a.png",
        "b.txt",
        "sub/a",
    ]


def test_links_neither_escape_nor_run_in_circles(folder: Path) -> None:
    (folder / "in/circle").symlink_to(folder / "in", target_is_directory=True)
    (folder / "in/out-of-it").symlink_to(folder / "elsewhere", target_is_directory=True)
    (folder / "in/secret").symlink_to(folder / "elsewhere/secret")
    (folder / "in/broken").symlink_to("nothing")
    assert [source.name for source in named("in")] == ["a.pdf", "a.png", "b.txt", "sub/a"]
    # A link that the command line names is followed.
    assert [source.name for source in named("in/out-of-it", "in/secret")] == ["secret", "secret"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_pipes_and_devices_in_a_folder_are_no_documents(folder: Path) -> None:
    os.mkfifo(folder / "in/pipe")
    assert "pipe" not in [source.name for source in named("in")]


@pytest.mark.parametrize("name", ["empty", "in/out", "hidden"])
def test_a_folder_without_documents_is_an_error_that_says_so(folder: Path, name: str) -> None:
    (folder / "empty/below").mkdir(parents=True)
    (folder / "hidden").mkdir()
    (folder / "hidden/.x").write_text("words")
    with pytest.raises(InputError, match=f"The folder '{name}' holds no document"):
        named(name)
    found = named(name, "in")
    assert [source.error is not None for source in found] == [True, False, False, False, False]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may list anything")
def test_a_folder_that_may_not_be_listed_is_named(folder: Path) -> None:
    (folder / "in/sub").chmod(0)
    found = named("in")
    (folder / "in/sub").chmod(0o700)
    assert [source.error is not None for source in found] == [False, False, False, True]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\0"])
def test_a_list_keeps_the_paths_that_it_names(
    folder: Path, end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = str(folder / "elsewhere/../elsewhere/secret")
    lines = [
        "in/a.pdf",
        "in/sub",
        "./in//b.txt",
        "gone",
        outside,
        "../" + folder.name + "/in/a.png",
    ]
    piped(end.join([*map(os.fsencode, lines), b""]), monkeypatch)
    root = (folder / "x").relative_to(folder.anchor).parent.as_posix()
    assert [(source.path, source.name) for source in named("-")] == [
        ("in/a.pdf", "in/a.pdf"),
        ("in/sub/a", "in/sub/a"),
        ("./in//b.txt", "in/b.txt"),
        ("gone", "gone"),
        (outside, f"{root}/elsewhere/secret"),
        (lines[-1], f"{root}/in/a.png"),
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\0"])
def test_a_list_with_a_byte_order_mark_names_the_same_paths(
    folder: Path, encoding: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "é.txt").write_text("words")
    piped(f"in/a.pdf{end}é.txt{end}".encode(encoding), monkeypatch)
    assert [source.path for source in named("-")] == ["in/a.pdf", "é.txt"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ["in/a.pdf\n", "./in", "中中/中/a.pdf", "/中中/中", "..中中\n"])
@pytest.mark.parametrize("meaning", ["auto", "list"])
def test_a_list_in_wide_characters_names_no_folder_by_one_of_them(
    folder: Path, encoding: str, text: str, meaning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(text.encode(encoding), monkeypatch)
    with pytest.raises(InputError, match="Standard input is no list of paths"):
        named("-", stdin=meaning)


@pytest.mark.parametrize("content", [b"\xff\xfei", b"\xff\xfei\0\x00\xd8"])
def test_a_list_that_is_not_what_its_mark_says_is_refused(
    folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(content, monkeypatch)
    with pytest.raises(InputError, match="byte order mark of UTF-16-LE.*Give it in UTF-8"):
        named("-")


def test_separated_by_nul_a_name_may_be_one_letter(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a").write_text("words")
    piped(b"a\0in/b.txt\0", monkeypatch)
    assert [source.path for source in named("-")] == ["a", "in/b.txt"]


@pytest.mark.parametrize("line", [".", "..", "/", "in/b.txt"])
def test_a_text_with_a_line_that_is_a_path_is_no_list(
    folder: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = f"Dear Sir,\n{line}\nplease deliver".encode()
    piped(content, monkeypatch)
    with pytest.raises(InputError, match="1 of its 3 lines.*--stdin list"):
        named("-")
    piped(content, monkeypatch)
    assert named("-", stdin="document")[0].content == content
    piped(b"gone\nlost\nin/b.txt", monkeypatch)
    assert len(named("-", stdin="list")) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no text, and hold line ends")
def test_names_of_any_bytes_go_through_a_list(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [b"caf\xe9.txt", b"two\nlines.txt"]
    for name in names:
        Path(os.fsdecode(name)).write_text("words")
    piped(b"\0".join(names), monkeypatch)
    found = named("-")
    assert [os.fsencode(source.name) for source in found] == names
    assert [source.id for source in found] == ["caf\\xe9.txt", "two\nlines.txt"]


@pytest.mark.parametrize(
    ("content", "meaning"),
    [
        (b"%PDF-1.7\n\0", "auto"),
        (b"\x89PNG\r\n\x1a\n\0", "auto"),
        (b'{"id": "a", "pages": []}', "auto"),
        (b"in/b.txt", "document"),
        (b"Dear Sir,\nplease", "document"),
    ],
)
def test_one_document_may_be_piped(
    folder: Path, content: bytes, meaning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(content, monkeypatch)
    (source,) = named("-", stdin=meaning)
    assert (source.path, source.name, source.content) == ("-", "document", content)


@pytest.mark.parametrize("content", [b"", b"Dear Sir,\nplease", b"gone\0", b"\xff\xfe\x01\n"])
def test_what_names_no_file_is_no_list(
    folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(content, monkeypatch)
    with pytest.raises(InputError, match="is no list of paths.*--stdin document"):
        named("-")


@pytest.mark.parametrize(
    "arguments", [("in/a.pdf", "x/a.pdf"), ("in", "in/sub", "other"), ("a", "nested")]
)
def test_no_two_results_share_a_name(folder: Path, arguments: tuple[str, ...]) -> None:
    for name in ("x/a.pdf", "other/a", "a", "nested/a.json/b"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("words")
    with pytest.raises(InputError, match="would have the same name"):
        apart(named(*arguments), [".json"])
