"""The public names: listed, sorted, there, and imported only when they are used."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hushdoc_processes import in_python

import hushdoc

HEAVY = (
    "cryptography",
    "nacl",
    "numpy",
    "onnx",
    "onnxruntime",
    "PIL",
    "tokenizers",
    "torch",
    "transformers",
)


DOCUMENT = "hushdoc.Document.from_words(['a'], [(0, 0, 1, 1)], width=2, height=2)"
PARSER = "from hushdoc.commands.command_line import build_parser; build_parser()"


def test_names_are_sorted_and_each_stands_once() -> None:
    assert list(hushdoc.__all__) == sorted(set(hushdoc.__all__))


@pytest.mark.parametrize("name", hushdoc.__all__)
def test_every_name_is_there(name: str) -> None:
    value = getattr(hushdoc, name)
    assert value.__name__ == name
    assert value.__doc__
    assert value.__module__.startswith("hushdoc.")
    assert name in dir(hushdoc)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(hushdoc.__file__).read_text(encoding="utf-8"))
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    told = [alias.name for node in block.body for alias in getattr(node, "names", [])]
    assert sorted(told) == list(hushdoc.__all__)


def test_other_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hushdoc.nothing


@pytest.mark.parametrize("used", ["", DOCUMENT, PARSER])
def test_nothing_heavy_is_loaded_by_importing_documents_or_the_command_line(used: str) -> None:
    report = f"print([name for name in {HEAVY} if name in sys.modules])"
    assert in_python(f"import sys, hushdoc\n{used}\n{report}").stdout == "[]\n"


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="needs wait4")
def test_help_costs_a_few_times_what_importing_asyncio_does() -> None:
    def cpu_seconds(*arguments: str) -> float:
        with open(os.devnull, "wb") as nowhere:
            child = subprocess.Popen([sys.executable, *arguments], stdout=nowhere)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        return usage.ru_utime + usage.ru_stime

    turns = [
        (cpu_seconds("-m", "hushdoc", "--help"), cpu_seconds("-c", "import asyncio, http.client"))
        for _ in range(3)
    ]
    # The fastest of three: what the machine does besides only ever adds. Twice as much is usual,
    # .13 s against .07; one of the runtimes would add ten times that.
    ours, theirs = map(min, zip(*turns, strict=True))
    assert ours <= 5 * theirs
