"""The program as a whole: its help, Ctrl-C at any moment, and packages that are not installed."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hushdoc_builders as build
import pytest
from hushdoc_command_runs import write_policy
from hushdoc_processes import in_python

from hushdoc.__main__ import main
from hushdoc.commands.command_line import SECTIONS, build_parser
from hushdoc.commands.extras import EXTRAS
from hushdoc.commands.parsing import CommandParser
from hushdoc.errors import InputError
from hushdoc.signing.keys import write_private_key

Run = Callable[[argparse.Namespace], int]

INTERRUPT = """
import importlib.abc, os, signal, sys
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job would ignore it
from hushdoc.__main__ import main
sys.exit(main(sys.argv[2:]))
"""

LOADING = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.{signal})
    time.sleep(0.2)
except KeyboardInterrupt:
    os.abort()  # as torch does
"""

STOPPED = """
import os, signal, sys, tempfile, time
from hushdoc.commands import command_line
def run(arguments):
    with tempfile.TemporaryDirectory(dir=sys.argv[1]):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
command_line.main = run
from hushdoc.__main__ import main
code = main([])
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
sys.exit(code)
"""

LOADED = """
import signal, sys, time
from hushdoc.commands import command_line
signal.signal(signal.SIGINT, signal.default_int_handler)
def run(arguments):
    import torch
    time.sleep(60)
command_line.main = run
from hushdoc.__main__ import main
sys.exit(main([]))
"""

MISSING = f"""
import sys
from importlib.machinery import PathFinder
class Without(PathFinder):
    def find_spec(name, path=None, target=None):
        if name not in {sorted({name for names in EXTRAS.values() for name in names})}:
            return PathFinder.find_spec(name, path, target)
sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
from hushdoc.__main__ import main
for line in sys.argv[1:]:
    print(main(line.split()), file=sys.stderr)
"""

NEEDED = {
    "data show invented:form": "training",
    "train kie --data invented:form --out run": "training",
    "train docvqa --data invented:form --out run": "training",
    "train images --data invented:form --out run": "training",
    "train clauses --data invented:contract --documents 9 --out run": "crf",
    "train classifier --data invented:form --documents 9 --out run": "crf",
    "synthesize evolution --data invented:form --out run": "training",
    "synthesize selection --data a --public invented:form --label b --out run": "training",
    "federated simulate --data invented:form --documents 8 --out run": "training",
    "audit witness train kie": "crf",
    "audit providers run --start minilm --members a --others b": "crf",
    "audit memorization run --twin other --members a": "training",
    "export . --out model --key key": "export",
    "export minilm --out model --key key": "export",
    "keygen --out key": "keys",
    "sign artifact --key key": "keys",
    "trust revoke --list list --key key --next-update-days 7": "keys",
    "verify artifact --policy policy.toml --recompute offline": "offline",
    "serve artifact --policy policy.toml": "server",
}
"""Command lines, and the extra that each of them needs."""

RUN_MODELS = {"extract", "ask", "classify", "embed", "redact", "evaluate", "bench"}
"""Subcommands that need the extra that runs a model; `test_task_commands` runs them without it."""

NEED_NONE = (
    "sample sample",
    "doctor",
    "ledger init l --data d --epsilon 1",
    "inspect artifact",
    "completion bash",
)


def every_parser(parser: CommandParser) -> Iterator[CommandParser]:
    yield parser
    for _, below in parser.subcommands():
        yield from every_parser(below)


def test_a_deleted_current_folder_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["verify", str(tmp_path)]) == InputError.exit_code
    assert "The current folder was deleted." in capsys.readouterr().err


def test_the_help_follows_the_journey() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(name for name, _ in build_parser().subcommands())
    shown = build_parser().format_help()
    headings = [shown.index(f"\n{heading}:\n") for heading in SECTIONS]
    assert headings == sorted(headings)
    for heading, names in zip(headings, SECTIONS.values(), strict=True):
        assert all(shown.index(f"\n  {name} ") > heading for name in names)


def test_expert_options_are_parsed_and_shown_by_help_all_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = {}
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit, match="0"):
            main(["extract", option])
        shown[option] = capsys.readouterr().out
    for expert in ("--memory-limit", "--adjacency", "--hocr"):
        assert expert not in shown["--help"]
        assert expert in shown["--help-all"]
    assert "--policy" in shown["--help"]
    options = build_parser().parse_args(["extract", "m", "d", "--memory-limit", "1GB"])
    assert options.memory_limit == "1GB"
    assert shown["--help-all"] in build_parser().format_full_help()


def test_help_texts_are_in_one_style() -> None:
    for parser in every_parser(build_parser()):
        for action in parser._actions:
            below = isinstance(action, argparse._SubParsersAction)
            texts = [item.help for item in action._get_subactions()] if below else [action.help]
            for text in texts:
                assert text, (parser.prog, action.option_strings)
                assert not text.endswith("."), (parser.prog, text)
                assert not text[:2].istitle(), (parser.prog, text)  # PDF and FUNSD are names


@pytest.mark.parametrize(("shown", "verdict", "exit_code"), [(0, 5, 5), (0, 0, 0), (1, 5, 6)])
def test_no_refusal_is_an_acceptance_where_the_reader_has_left(
    subcommand: Callable[[Run], int],
    monkeypatch: pytest.MonkeyPatch,
    shown: int,
    verdict: int,
    exit_code: int,
) -> None:
    """As in `hushdoc verify ... --json | grep -q ...`, which closes its pipe before the end."""

    class Left(io.StringIO):
        def write(self, text: str = "") -> int:
            raise BrokenPipeError

        flush = write  # type: ignore[assignment]

    def run(options: argparse.Namespace) -> int:
        for _ in range(shown):
            print("REFUSED")
        return verdict

    monkeypatch.setattr(sys, "stdout", Left())
    assert subcommand(run) == exit_code


def test_wrong_usage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["extract", "model"])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("hushdoc extract: error: the following arguments are required: DOCUMENT")
    assert line.endswith("See `hushdoc extract --help`.")


def test_memory_that_ran_out_is_one_line(
    subcommand: Callable[[Run], int], capsys: pytest.CaptureFixture[str]
) -> None:
    def run(options: argparse.Namespace) -> int:
        raise MemoryError

    assert subcommand(run) == 6
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("hushdoc look: OUT_OF_MEMORY: What was asked for takes more memory")


def test_the_subcommand_says_that_it_knows_no_such_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in ("extract model x.pdf --policy p", "trust list --store s"):
        with pytest.raises(SystemExit, match="2"):
            main([*command.split(), "--bogus"])
        name = " ".join(command.split()[: 2 if command.startswith("trust") else 1])
        assert capsys.readouterr().err == (
            f"hushdoc {name}: error: unrecognized arguments: --bogus. See `hushdoc {name} --help`."
            "\n"
        )


def test_a_missing_policy_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HUSHDOC_POLICY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    assert main(["verify", str(tmp_path)]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("hushdoc verify: NO_POLICY: No policy was given. Give --policy FILE")


@pytest.mark.parametrize(
    "module", ["argparse", "hushdoc.commands.command_line", "hushdoc.explanation", "cryptography"]
)
def test_an_interrupt_ends_with_one_line_at_any_import(module: str, tmp_path: Path) -> None:
    done = in_python(INTERRUPT, module, "keygen", "--out", tmp_path / "key", check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "hushdoc: interrupted.\n"


def test_what_ends_a_program_leaves_no_temporary_folder(tmp_path: Path) -> None:
    """In which there may be documents, or an unfinished model."""
    done = in_python(STOPPED, tmp_path, check=False, timeout=50)
    assert (done.returncode, done.stderr) == (130, "hushdoc: interrupted.\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_an_interrupt_waits_until_torch_is_imported(tmp_path: Path, number: str) -> None:
    (tmp_path / "torch.py").write_text(LOADING.replace("{signal}", number))
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = in_python(LOADED, check=False, environment={"PYTHONPATH": path}, timeout=50)
    assert (done.returncode, done.stderr) == (130, "hushdoc: interrupted.\n")


def test_missing_extras_are_named_by_every_subcommand(tmp_path: Path) -> None:
    key = build.known_key(1)
    write_private_key(key, tmp_path / "key")
    build.seal(tmp_path / "artifact", key)
    write_policy(tmp_path, build.trust(key))
    done = in_python(MISSING, *NEEDED, cwd=tmp_path)
    messages = done.stderr.splitlines()
    assert len(messages) == 2 * len(NEEDED), done.stderr
    for message, exit_code, extra in zip(
        messages[::2], messages[1::2], NEEDED.values(), strict=True
    ):
        assert ": MISSING_EXTRA: The package '" in message
        assert message.endswith(f"pip install 'hushdoc[{extra}]'.")
        assert exit_code == "6"
    assert "MISSING_EXTRA" not in in_python(MISSING, *NEED_NONE, cwd=tmp_path).stderr
    shown = {line.split()[0] for line in (*NEEDED, *NEED_NONE)} | RUN_MODELS | {"certificate"}
    assert shown == {name for names in SECTIONS.values() for name in names}


@pytest.mark.parametrize(
    ("command", "output", "over"),
    [
        (("extract", "model", "invoice.pdf"), "--overlay", "invoice.pdf"),
        (("extract", "model", "other.pdf", "link.pdf"), "--html", "invoice.pdf"),
        (("extract", "model", "invoice.pdf", "--policy", "policy.toml"), "--hocr", "policy.toml"),
        (("ask", "model", "invoice.pdf", "-q", "Total?"), "--overlay", "./invoice.pdf"),
        (("evaluate", "model", "invoice.pdf"), "--html", "invoice.pdf"),
        (("verify", "model", "--trust", "policy.toml"), "--html", "policy.toml"),
        (("inspect", "model"), "--html", "model/page.html"),
        (("certificate", "export", "model", "--format", "card"), "--out", "model/hushdoc.json"),
    ],
)
def test_what_is_read_is_not_written_over(
    command: tuple[str, ...],
    output: str,
    over: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    files = ("invoice.pdf", "other.pdf", "policy.toml", "model/hushdoc.json")
    for name in files:
        (tmp_path / name).write_text(name)
    (tmp_path / "link.pdf").symlink_to("invoice.pdf")
    with pytest.raises(SystemExit) as stop:
        main([*command, output, over])
    assert stop.value.code == 2
    assert f"{output} names '{Path(over)}', which is read here" in capsys.readouterr().err
    assert [(tmp_path / name).read_text() for name in files] == [*files]
