"""What all tests of training share: tiny data, tiny models, and chance that never changes."""

from __future__ import annotations

import copy
import ctypes
import functools
import os
import random
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hushdoc_smaller import smaller
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from hushdoc.accounting import calibration
from hushdoc.commands import command_line
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc_training import invented
from hushdoc_training.models import layout
from hushdoc_training.privacy import earlier_steps
from hushdoc_training.privacy.clipping import self_test
from hushdoc_training.recipes.docvqa import public_inputs as public_questions
from hushdoc_training.recipes.kie import public_inputs, start
from hushdoc_training.runs import step_log

# Tests are no package: what several of them share is imported by name.
DRIVERS = Path(__file__).parent / "drivers"
sys.path.append(str(DRIVERS))

Forks = Callable[..., list[dict[str, Any]]]
"""Runs a driver in processes of its own and returns what each of them saved."""

torch.set_num_threads(1)  # tiny models: a second thread costs more than it brings


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Gives every test, with its fixtures, the same bytes from the operating system in every run.

    Privacy noise has no seed, on purpose, and a bound that a draw may miss fails some day for no
    reason. Torch's own generator, and the C library's by which CRFsuite shuffles, would otherwise
    go on from the test before. Only this process is meant: those that tests start draw afresh.
    As draws are the same, so is much of what trainings leave, and each test knows its own alone.

    The self-test, which every private training begins with, compares fewer gradients than it ships
    with, except where it is tested itself.
    """
    torch.manual_seed(0)
    ctypes.CDLL(None).srand(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", random.Random(0).randbytes)
        patch.setattr(earlier_steps, "_LEFT", {})
        patch.setattr(earlier_steps, "_LEFT_OPENLY", {})
        if not item.path.is_relative_to(Path(__file__).parent / "privacy"):
            patch.setattr(self_test, "COMPARED", 3)
        return (yield)


@pytest.fixture(autouse=True, scope="session")
def _smaller_still() -> Iterator[None]:
    """Tests of training train `--start small` many times, and prepare by public documents."""
    with smaller(), pytest.MonkeyPatch.context() as patch:
        for inputs in (public_inputs, public_questions):
            patch.setattr(inputs, "NUM_DOCUMENTS", 4)
        yield


@pytest.fixture(autouse=True, scope="session")
def _made_once() -> Iterator[None]:
    """The parser, the noise of a target and the plot of a kind of log are made once for all tests.

    A program makes each of them once; tests run hundreds of commands in one process.
    """
    drawn: dict[tuple[str, frozenset[str]], bytes] = {}
    plot, noise_multiplier = step_log.plot, calibration.noise_multiplier

    @functools.lru_cache(maxsize=None, typed=True)
    def found(tolerance: float, **target: Any) -> float:
        return noise_multiplier(**target)

    def noise(**target: Any) -> float:
        return found(calibration.RELATIVE_TOLERANCE, **target)

    def plotted(path: Path, entries: list[dict[str, Any]], *, title: str) -> None:
        there = (name for entry in entries for name, value in entry.items() if value is not None)
        kind = title, frozenset(there)
        if kind in drawn:
            path.write_bytes(drawn[kind])
            return
        plot(path, entries, title=title)
        drawn[kind] = path.read_bytes()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command_line, "build_parser", functools.cache(command_line.build_parser))
        patch.setattr(calibration, "noise_multiplier", noise)
        patch.setattr(step_log, "plot", plotted)
        yield


@pytest.fixture(scope="session")
def in_processes() -> Iterator[Forks]:
    """Yields what starts so many processes; all of them are forked from one."""
    launcher = subprocess.Popen(
        [sys.executable, str(DRIVERS / "launcher.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    asked, answers = launcher.stdin, launcher.stdout

    def run(size: int, driver: str, folder: Path, *arguments: object) -> list[dict[str, Any]]:
        print(size, driver, folder, *arguments, sep="\t", file=asked, flush=True)
        answer = answers.readline().strip()
        logs = [path.read_text() for path in folder.glob("rank*.log")]
        assert answer == "ok", "\n".join(logs)
        return [torch.load(folder / f"rank{rank}.pt") for rank in range(size)]

    try:
        yield run
    finally:
        launcher.kill()
        launcher.communicate()


@pytest.fixture(scope="session")
def in_two_processes(in_processes: Forks) -> Forks:
    return functools.partial(in_processes, 2)


@pytest.fixture(scope="session")
def receipts() -> list[LabelledDocument]:
    config = invented.InventedConfig(document_types=("receipt",), labels="fields")
    return list(invented.documents(seed=5, count=24, config=config))


@pytest.fixture(scope="session")
def _small_start(receipts: list[LabelledDocument]) -> start.Start:
    return start.start_from(
        "small",
        LabelSet.from_documents(receipts),
        max_tokens=64,
        vocabulary=lambda: [w.text for r in receipts for w in r.document.pages[0].words],
    )


@pytest.fixture
def small_start(_small_start: start.Start) -> start.Start:
    return replace(_small_start, model=copy.deepcopy(_small_start.model))


Publish = Callable[..., Path]
"""Writes a model of an architecture as it is published, with random weights, to a folder."""


@pytest.fixture
def publish(tmp_path: Path, receipts: list[LabelledDocument]) -> Publish:
    words = (word.text for item in receipts for word in item.document.pages[0].words)
    tokenizer = Tokenizer.from_str(layout.wordpiece(words))

    def write(architecture: str, **settings: int) -> Path:
        torch.manual_seed(0)
        sizes = {
            "vocab_size": tokenizer.get_vocab_size(),
            "hidden_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
            "max_position_embeddings": 130,
            "pad_token_id": 0,
        }
        model = layout._class(architecture)
        model(model.config_class(**sizes, **settings)).save_pretrained(tmp_path / "published")
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            cls_token="[CLS]",
            sep_token="[SEP]",
            pad_token="[PAD]",
            unk_token="[UNK]",
        ).save_pretrained(tmp_path / "published")
        return tmp_path / "published"

    return write


@pytest.fixture
def layoutlmv3_folder(publish: Publish) -> Path:
    """A folder as LayoutLMv3 is published, for small images."""
    return publish("layoutlmv3", coordinate_size=8, shape_size=8, input_size=32, patch_size=8)
