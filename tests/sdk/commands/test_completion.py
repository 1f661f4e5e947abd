"""`hushdoc completion`: scripts that a shell accepts, and that complete what the parsers accept."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hushdoc.__main__ import main
from hushdoc.commands.command_line import SECTIONS, build_parser
from hushdoc.commands.completion import script

COMMANDS = sorted(name for names in SECTIONS.values() for name in names)

ASK = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
$(complete -p hushdoc | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""


def program(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed here")
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns what writes the script of a shell into a file."""

    def write(shell: str) -> Path:
        path = tmp_path_factory.mktemp("completion") / shell
        path.write_text(script(build_parser(), shell))
        return path

    return write


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_accepts_its_script(written: Callable[[str], Path], shell: str) -> None:
    subprocess.run([program(shell), "-n", str(written(shell))], check=True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hushdoc ", COMMANDS),
        ("hushdoc tr", ["train", "trust"]),
        ("hushdoc train ", ["classifier", "clauses", "docvqa", "images", "kie"]),
        ("hushdoc trust a", ["add"]),
        ("hushdoc trust add --pub", ["--public-key"]),
        ("hushdoc extract model --device ", ["cpu", "cuda"]),
        ("hushdoc extract model --mem", ["--memory-limit"]),  # experts get theirs too
        ("hushdoc extract model --policy ", []),  # a file, which bash completes itself
        ("hushdoc completion ", ["bash", "fish", "zsh"]),
    ],
)
def test_bash_completes(written: Callable[[str], Path], line: str, expected: list[str]) -> None:
    done = subprocess.run(
        [program("bash"), "--norc", "-c", ASK, "bash", str(written("bash")), *line.split(" ")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert sorted(done.stdout.split()) == sorted(expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hushdoc ", COMMANDS),
        ("hushdoc train ", ["classifier", "clauses", "docvqa", "images", "kie"]),
        ("hushdoc trust add --pub", ["--public-key"]),
        ("hushdoc extract model --device ", ["cpu", "cuda"]),
    ],
)
def test_fish_completes(written: Callable[[str], Path], line: str, expected: list[str]) -> None:
    done = subprocess.run(
        [program("fish"), "-N", "-c", f"source {written('fish')}; complete -C '{line}'"],
        capture_output=True,
        text=True,
        check=True,
    )
    words = [shown.split("\t")[0] for shown in done.stdout.splitlines()]
    assert sorted(words) == sorted(expected)


def test_zsh_describes_each_word() -> None:
    text = script(build_parser(), "zsh")
    assert text.startswith("#compdef hushdoc\n")
    assert "'verify:check signature, policy and every file of an artifact'" in text
    assert "'--trust:trust store in JSON'" in text


def test_the_script_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    assert capsys.readouterr().out == script(build_parser(), "bash")
    with pytest.raises(SystemExit, match="2"):
        main(["completion", "csh"])
