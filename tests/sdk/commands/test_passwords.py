"""Passwords of PDF files at the command line: from a file or a terminal, for every subcommand."""

from __future__ import annotations

import argparse
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import hushdoc_command_runs
import hushdoc_pdf_files as pdfs
import pytest
from hushdoc_processes import in_python

from hushdoc.commands.command_line import build_parser
from hushdoc.commands.passwords import password_from, password_option
from hushdoc.errors import EncryptedDocumentError, InputError

PASSWORD = "geheim"


@pytest.fixture
def locked(place: Path) -> Path:
    """The folder of `place` with an encrypted PDF file, its password and a wrong one."""
    content = pdfs.file([pdfs.shown("the laws of Utah")], password=PASSWORD)
    (place / "locked.pdf").write_bytes(content)
    (place / "password").write_text(f"{PASSWORD}\n")
    (place / "wrong").write_text("offen")
    return place


def run(subcommand: str, *arguments: str) -> int:
    return hushdoc_command_runs.run(subcommand, "model", *arguments, "--policy", "policy.toml")


def test_extract_opens_an_encrypted_file(locked: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("extract", "locked.pdf", "--password-file", "password", "--json") == 0
    (field,) = json.loads(capfd.readouterr().out)["fields"]
    assert field["text"] == "the laws of Utah"
    for wrong in ([], ["--password-file", "wrong"]):
        assert run("extract", "locked.pdf", *wrong) == 3
        assert "ENCRYPTED_DOCUMENT: locked.pdf: " in capfd.readouterr().err


def test_redact_opens_an_encrypted_file(locked: Path) -> None:
    with pytest.raises(EncryptedDocumentError):
        run("redact", "locked.pdf", "--out", "left")
    assert run("redact", "locked.pdf", "--out", "left", "--password-file", "password") == 0
    told = json.loads((locked / "left/document.json").read_text())
    assert told["pages"][0]["words"] == []
    assert (locked / "left/page-0.png").is_file()
    for path in (locked / "left").iterdir():
        assert PASSWORD.encode() not in path.read_bytes()


@pytest.mark.parametrize("subcommand", ["ask", "classify", "embed", "extract", "redact"])
def test_every_subcommand_that_opens_documents_takes_a_password_file(subcommand: str) -> None:
    shown = dict(build_parser().subcommands())[subcommand].format_help()
    assert "--password-file FILE" in shown
    assert "--password " not in shown


def stored(path: Path) -> str | None:
    parser = argparse.ArgumentParser()
    password_option(parser)
    return password_from(parser.parse_args(["--password-file", str(path)]))


@pytest.mark.parametrize(
    ("content", "password"),
    [
        (b"a b", "a b"),
        (b"a\n", "a"),
        (b"a\r\n", "a"),
        (b" a ", " a "),
        ("p\u00e4ss\n".encode(), "p\u00e4ss"),
        (b"x" * 4095 + b"\n", "x" * 4095),
    ],
)
def test_a_file_holds_one_line(tmp_path: Path, content: bytes, password: str) -> None:
    (tmp_path / "file").write_bytes(content)
    assert stored(tmp_path / "file") == password


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"a\nb", b"a\n\n", b"secret\x00", b"secret\xff", b"x" * 4097]
)
def test_anything_else_is_told_and_never_shown(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match="Password of the PDF files: the file") as raised:
        stored(tmp_path / "file")
    assert "secret" not in str(raised.value)
    assert "xxx" not in str(raised.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "gone", tmp_path):
        with pytest.raises(InputError, match="can't be read"):
            stored(path)


ASK = (
    "import argparse, sys\n"
    "from hushdoc.commands.passwords import password_from, password_option\n"
    "from hushdoc.errors import InputError\n"
    "parser = argparse.ArgumentParser()\n"
    "password_option(parser)\n"
    "try:\n"
    "    print(password_from(parser.parse_args(['--password-file', '-'])))\n"
    "except InputError as error:\n"
    "    print(error)\n"
)


def test_without_a_terminal_standard_input_is_left_alone() -> None:
    done = in_python(
        ASK + "print(sys.stdin.read())",
        input="the document\n",
        start_new_session=True,  # without the terminal that the tests may run in
    )
    assert "no terminal" in done.stdout
    assert done.stdout.endswith("the document\n\n")
    assert done.stderr == ""


def test_on_a_terminal_it_is_asked_for_and_not_shown() -> None:
    here, there = pty.openpty()
    code = "import os\nos.login_tty(int(sys.argv.pop()))\n" + ASK
    code = code.replace("print(password", "print('of', len(password").replace("'-'])))", "'-']))))")
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys\n{code}", str(there)], pass_fds=[there]
    ) as asking:
        os.close(there)
        told = b""
        while b"Password" not in told:
            told += os.read(here, 1000)
        os.write(here, f"{PASSWORD}\n".encode())
        while not told.rstrip().endswith(b"of 6"):
            told += os.read(here, 1000)
        asking.wait(timeout=60)  # before its terminal is closed under it
        os.close(here)
    assert asking.returncode == 0
    assert PASSWORD.encode() not in told


def test_a_key_is_encrypted_and_used_by_its_passphrase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = hushdoc_command_runs.run
    (tmp_path / "passphrase").write_text("open sesame\n")
    given = ("--passphrase-file", tmp_path / "passphrase")
    run("keygen", "--out", tmp_path / "k", "--role", "revocation", *given)
    assert (tmp_path / "k.key").read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    listed = ("trust", "revoke", "--list", tmp_path / "list", "--key", tmp_path / "k.key")
    due = ("--next-update-days", "7")
    assert run(*listed, *due, *given) == 0
    asked: list[str] = []
    monkeypatch.setattr("getpass.getpass", lambda text: asked.append(text) or "open sesame")
    assert run(*listed, *due) == 0
    assert asked == ["Passphrase of the private key: "]
    monkeypatch.setattr("getpass.getpass", lambda text: "wrong")
    before = (tmp_path / "list").read_bytes()
    assert hushdoc_command_runs.refusal(*listed, *due) == "BAD_KEY"
    assert (tmp_path / "list").read_bytes() == before
