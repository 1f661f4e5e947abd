"""Whatever name, key, label or value a line holds: nothing that is printed steers a terminal."""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import hushdoc_command_runs
import pytest

from hushdoc import __main__ as program
from hushdoc.commands import command_line
from hushdoc.commands.parsing import CommandParser
from hushdoc.reading import ReadingWarning
from hushdoc.system import terminals

FORGED = "ACCEPTED."
STEERING = (
    "\x1b[2J\x07\r\b\x7f\x85\x9b31m"
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
    "\u200b\ufeff\u2028\u2029\udcff"
)
NAME = f"evil{STEERING}\n{FORGED}"


def require_harmless(shown: str) -> None:
    """Raises where a character could steer a terminal, or a line is another's."""
    for letter in shown:
        harmless = letter in "\n " or unicodedata.category(letter)[0] not in "CZ"
        assert harmless, f"{letter!a} is shown as it stands"
    assert FORGED not in shown.splitlines()


def leaves(parser: CommandParser, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields a command line for each subcommand, with a hostile name wherever one may stand."""
    below = list(parser.subcommands())
    if not below:
        yield (*words, *_hostile_arguments(parser))
    for name, inner in below:
        yield from leaves(inner, (*words, name))


def _hostile_arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.choices is not None or action.nargs == 0 or action.type in (int, float):
            continue
        if not action.option_strings and action.nargs not in ("?", "*"):
            yield NAME
        elif action.required and action.option_strings:
            yield from (action.option_strings[-1], NAME)


COMMANDS = {
    "-".join(w for w in words if w.isalnum()): words
    for words in leaves(hushdoc_command_runs.parser())
}
NOTHING_NAMED = {"doctor", "completion", "bench"}


@pytest.fixture(autouse=True)
def one_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has no line build the parser anew, which takes longer than all else here."""
    monkeypatch.setattr(command_line, "build_parser", hushdoc_command_runs.parser)


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_no_name_on_a_command_line_reaches_the_terminal(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if words[0] in NOTHING_NAMED:
        words = (words[0], NAME)
    with contextlib.suppress(SystemExit):
        assert program.main([word.replace("\udcff", "") for word in words]) != 2
    told = capsys.readouterr()
    require_harmless(told.out + told.err)
    assert told.out + told.err


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_no_unknown_option_reaches_the_terminal(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    if words[0] == "audit":
        pytest.importorskip("torch")  # its options are those of its recipes
    for wrong in (f"--{NAME}", f"--json={NAME}", f"--seed={NAME}"):
        with pytest.raises(SystemExit, match="2"):
            program.main([*words, wrong])
        told = capsys.readouterr()
        require_harmless(told.out + told.err)
        assert told.err.count("\n") == 1


def test_errors_warnings_and_words_of_any_subcommand_are_harmless(
    subcommand: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of those that are written one day: it is the streams that are guarded."""

    def careless(_: argparse.Namespace) -> int:
        print(NAME.replace(FORGED, "next line"))
        sys.stdout.write(STEERING + "\n")
        sys.stderr.writelines([STEERING, "\n"])
        warnings.warn(NAME, ReadingWarning, stacklevel=1)
        raise OSError(5, NAME, NAME)

    assert subcommand(careless) == 6
    told = capsys.readouterr()
    require_harmless(told.out + told.err)
    assert "\\u202e" in told.out
    assert "\\udcff" in told.err
    assert not isinstance(sys.stdout, terminals.EscapingStream)


@pytest.mark.usefixtures("patient_clock")
def test_no_name_text_or_label_of_a_document_reaches_the_terminal(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = NAME.replace("\udcff", "") + ".txt"
    text = f"It is{STEERING[-14:-1]} governed by the laws of Utah."
    (place / name).write_text(text)
    (place / "cut.json").write_text(json.dumps({"id": NAME, "pages": [{"words": [{NAME: 1}]}]}))
    base = ["extract", "model", name, "cut.json", "--policy", "policy.toml"]
    for more in ([], ["--json"], ["--jsonl"]):
        assert program.main([*base, *more]) == 7
        told = capsys.readouterr()
        require_harmless(told.out + told.err)
        assert "\\u202e" in told.out
        assert "\\u202e" in told.err or "cut.json" in told.err
    redacted = ["redact", "model", name, "--policy", "policy.toml", "--out", "out\u202e"]
    assert program.main(redacted) == 0
    told = capsys.readouterr()
    require_harmless(told.out + told.err)
    assert "out\\u202e" in told.out


@pytest.mark.usefixtures("patient_clock")
def test_tables_for_other_programs_keep_every_character(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A joiner is a letter of some scripts: a file gets it, a terminal gets it escaped."""
    text = "It is governed by the laws\u200cof Utah."
    (place / "a.txt").write_text(f"{text} It is governed by the laws of Utah\u200c.")
    words = ["extract", "model", "a.txt", "--policy", "policy.toml", "--csv"]
    assert program.main(words) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert "Utah\u200c." in rows[-1]["text"]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert program.main(words) == 0
    assert "Utah\\u200c." in capsys.readouterr().out


def test_no_name_of_a_key_reaches_the_terminal(
    key: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from hushdoc.signing.trust_store import TrustedKey, TrustStore

    trusted = TrustedKey.of(key, name=NAME.replace("\udcff", ""))
    path = tmp_path / "trust.json"
    path.write_bytes(TrustStore(keys=(trusted,)).to_json())
    build.seal(tmp_path / "a", key)
    for words in (["trust", "list", "--store", path], ["inspect", tmp_path / "a", "--trust", path]):
        assert program.main([str(word) for word in words]) == 0
        told = capsys.readouterr()
        require_harmless(told.out + told.err)
        assert "\\u202e" in told.out


def test_progress_may_write_over_its_own_line(capsys: pytest.CaptureFixture[str]) -> None:
    with terminals.escaping(ascii):
        print("\u202e")
        print("\r\x1b[K3 of 4", end="", file=terminals.steered(sys.stderr))
    told = capsys.readouterr()
    assert told.out == "'\\u202e''\\n'"
    assert told.err == "\r\x1b[K3 of 4"
    assert terminals.steered(sys.stderr) is sys.stderr
