"""docs/command-line.md documents every subcommand, and every documented command line is accepted.

Run as a program, it writes the page: `python tests/docs/test_commands.py`.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from hushdoc.commands.command_line import EXIT_CODES, SECTIONS, build_parser
from hushdoc.commands.parsing import CommandParser

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/command-line.md"
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "samples/**/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"  # which also tells what no longer is
)

INTRODUCTION = """# The command line

Every subcommand and option of `hushdoc`, written from the program by
`python tests/docs/test_commands.py` and held to it by a test. `hushdoc SUBCOMMAND --help` shows the
usual options, and `--help-all` also those marked with * here. `hushdoc completion` prints a
completion script for bash, zsh or fish.

**Policy.** Subcommands that open an artifact take a policy: the file of `--policy`, or the trust
store of `--trust` with its limits. Without either, they take the file that the environment variable
`HUSHDOC_POLICY` names by an absolute path, else `hushdoc/policy.toml` in the user's configuration
folder (`$XDG_CONFIG_HOME` or `~/.config`; `~/Library/Application Support` on macOS; `%APPDATA%` on
Windows), and print which one on standard error. A policy is never taken from the working directory
or from beside the artifact. The artifact of `hushdoc sample` alone brings its own, which is shipped
with the program and counts where there is no other.

**Keys.** `--key` is a private signing key in PEM everywhere, and `--public-key` a public key.

**Output.** Control, bidirectional and other invisible characters are printed escaped, whatever
name, label or text holds them, and an error is one line. `--json` escapes them as JSON does;
`--csv` into a file or pipe keeps them.
"""


@cache
def program() -> CommandParser:
    return build_parser()


def parsers(parser: CommandParser) -> Iterator[CommandParser]:
    """Yields a parser and all below it."""
    yield parser
    for _, below in parser.subcommands():
        yield from parsers(below)


def page() -> str:
    below = dict(program().subcommands())
    lines = [INTRODUCTION, f"```text\n{EXIT_CODES}\n```\n"]
    for section, names in SECTIONS.items():
        lines.append(f"## {section[0].upper()}{section[1:]}\n")
        for name in names:
            for parser in parsers(below[name]):
                lines += described(parser)
    return "\n".join(lines)


def described(parser: CommandParser) -> Iterator[str]:
    """Yields the part of the page about one subcommand."""
    if list(parser.subcommands()):
        return
    yield f"### `{parser.prog}`\n"
    yield (parser.description or "").split("\n\n")[0].replace("\n", " ") + "\n"
    yield "| | |\n|---|---|"
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction) and "--help-all" not in (
            action.option_strings
        ):
            yield f"| {shown(parser, action)} | {(action.help or '').replace('|', ' or ')} |"
    yield ""


def shown(parser: CommandParser, action: argparse.Action) -> str:
    """Returns an option or argument with its value, as its row names it."""
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if action.choices:
        value = ", ".join(map(str, action.choices))
    name = action.option_strings[0] if action.option_strings else str(action.metavar)
    value = str(value) if action.option_strings else ""
    mark = " *" if parser.is_expert(action) else ""
    return f"`{name}`{' ' + value if value else ''}{mark}"


def command_lines(path: Path) -> Iterator[str]:
    """Yields the command lines of a page: those of its blocks of code, and whole ones in text."""
    text = path.read_text("utf-8")
    blocks = re.findall(r"```(?:sh|bash|console)?\n(.*?)```", text, re.DOTALL)
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith(("hushdoc ", "$ hushdoc ")):
                yield line.removeprefix("$ ").partition(" #")[0]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    yield from (" ".join(found.split()) for found in re.findall(r"`(hushdoc [^`]+)`", prose))


LINES = [(path, line) for path in DOCUMENTS for line in command_lines(path)]


def accepts(line: str) -> str | None:
    """Returns why the program does not accept a command line, or None where it does.

    One that is shortened in prose must name subcommands and options that exist.
    """
    parser, names = program(), shlex.split(line)[1:]
    shortened = {"...", "\u2026", "SUBCOMMAND", "TASK"} & {*names} or line.endswith(":")
    while names and (below := dict(parser.subcommands())):
        if names[0] not in below:
            break
        parser = below[names.pop(0)]
    if any(action.nargs == argparse.REMAINDER for action in parser._actions):
        # What follows is a command line of its own.
        names = names[: next((at for at, name in enumerate(names) if name[0] != "-"), len(names))]
    options = {name for action in parser._actions for name in action.option_strings}
    unknown = [name for name in names if name.startswith("--") and name not in options]
    if unknown:
        return f"{parser.prog} has no {unknown[0]}"
    if list(parser.subcommands()) and names and not names[0].startswith("-") and not shortened:
        return f"{parser.prog} has no {names[0]}"
    return None


def test_the_page_is_what_the_program_says() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python tests/docs/test_commands.py"


@pytest.mark.parametrize(("path", "line"), LINES, ids=[f"{p.name}: {li}" for p, li in LINES])
def test_documented_commands_exist(path: Path, line: str) -> None:
    assert accepts(line) is None


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks_of_commands_parse(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text('data = "path/to/receipts"')  # what --config names is read at once
    text = path.read_text("utf-8")
    for block in re.findall(r"```(?:sh|bash|console)\n(.*?)```", text, re.DOTALL):
        for name, content in re.findall(r"cat > (\S+) <<'END'\n(.*?)END\n", block, re.DOTALL):
            Path(name).write_text(content)
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("hushdoc "):
                words = shlex.split(line, comments=True)[1:]
                program().parse_args(["0" * 32 if word == "ID" else word for word in words])


def test_there_are_documented_commands() -> None:
    assert len(LINES) > 60


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
