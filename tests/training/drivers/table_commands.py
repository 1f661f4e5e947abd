"""The commands that train tables, each with data from which it learns in a moment."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hushdoc.__main__ import main
from hushdoc_training.commands.clauses import INVENTED

TOPICS = ("law", "sea", "farm")


@dataclass(frozen=True, kw_only=True)
class TableCommand:
    """One of the commands, data for it, and what the data need."""

    name: str
    invented: str
    data: Callable[[Path], object]
    options: tuple[object, ...]
    filled: tuple[object, ...] = ()
    expected_records: int
    other_labels: tuple[str, ...]
    labels: tuple[str, ...] = ()  # that a run of its own declares

    def train(self, data: object, out: Path, *options: object) -> int:
        arguments = ["train", self.name, "--data", data, "--out", out, *options]
        return main([str(argument) for argument in arguments])

    def train_mode(self, data: object, out: Path, mode: str) -> int:
        """Trains in a mode on data of its own, and scores what the mode makes a score of."""
        scored: tuple[object, ...] = () if mode == "none" else ("--held-out", 0.25)
        if mode in ("term-dp", "dp-sgd"):
            scored += ("--private-numbers", "shown-unused")
        sized = self.sized if mode == "dp-sgd" else () if mode == "term-dp" else self.filled
        labels = [part for name in self.labels for part in ("--label", name)]
        return self.train(data, out, "--mode", mode, *self.options, *labels, *scored, *sized)

    @property
    def sized(self) -> tuple[object, ...]:
        return ("--expected-records", self.expected_records)


def export(run: Path, out: Path, release: Path, *options: str) -> int:
    return main(["export", str(run), "--out", str(out), "--key", f"{release}.key", *options])


def spelled(prefix: str, numbers: np.ndarray) -> str:
    """Words of letters alone: attacks ask for no others."""
    return " ".join(prefix + "".join(chr(97 + int(d)) for d in str(n)) for n in numbers)


def message(name: object, label: str, chance: np.random.Generator) -> str:
    own = spelled(label, chance.integers(40, size=9))
    rest = spelled("word", chance.integers(300, size=12))
    return json.dumps({"id": name, "label": label, "text": f"Of {own}.\n\nThen {rest}.\n{own}"})


def messages(folder: Path, count: int = 320) -> Path:
    chance = np.random.default_rng(0)
    labels = [TOPICS[number] for number in chance.integers(3, size=count)]
    lines = [message(number, label, chance) for number, label in enumerate(labels)]
    path = folder / "messages.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


CLAUSES = TableCommand(
    name="clauses",
    invented=INVENTED,
    data=lambda folder: INVENTED,
    # Of a number of rows that is no power of two.
    options=("--rows", 16411, "--documents", 160),
    filled=("--iterations", 5, "--min-document-frequency", 3),
    expected_records=80,
    other_labels=("--label", "Audit Rights"),
)
CLASSIFIER = TableCommand(
    name="classifier",
    invented="invented:form+receipt",
    data=messages,
    options=("--rows", 8192),
    expected_records=200,
    other_labels=("--label", "law", "--label", "sea"),
    labels=tuple(sorted(TOPICS)),
)
COMMANDS = {command.name: command for command in (CLAUSES, CLASSIFIER)}
