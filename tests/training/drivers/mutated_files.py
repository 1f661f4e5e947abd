"""Damaged files of a corpus: refused with an error of ours, or read as sound documents."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hushdoc_damage import damaged, edited

from hushdoc.errors import InputError
from hushdoc.labels import LabelledDocument, tags_from_spans
from hushdoc_training.data.corpus import Problems

Read = Callable[[Path, Problems], Iterable[LabelledDocument]]

SECONDS = 5.0
"""No damaged file may take more processor time to read or refuse."""

_TEXTS = (".csv", ".json", ".jsonl", ".txt")
_NUMBERS = (-1, 0, 0.5, 10**6, 10**12, 10**400, 1e308, -1e308, float("nan"), float("inf"))


@dataclass(kw_only=True)
class Tally:
    """What became of the damage: errors by their codes, what was read, what was counted as odd."""

    refused: Counter[str] = field(default_factory=Counter)
    read: int = 0
    problems: Counter[str] = field(default_factory=Counter)


def survive(folder: Path, read: Read, *, number: int, seed: int, path: str = "") -> Tally:
    """Damages one file of a sound corpus at a time and reads the corpus; the files are put back.

    Args:
        folder: Holds the corpus; small, as it is read `number` times.
        read: The corpus's reader.
        number: How many damaged files are tried.
        seed: Of the damage.
        path: What is read: the folder, or a file or folder in it.
    """
    rng = random.Random(seed)
    files = {file: file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}
    texts = [file for file in files if file.suffix in _TEXTS]
    _require_sound(read(folder / path, Problems()))
    tally = Tally()
    for trial in range(number):
        # Most of all the annotations: what opens an image has tests of its own.
        file = rng.choice(texts if texts and rng.random() < 0.95 else list(files))
        other = files[rng.choice(list(files))]
        file.write_bytes(_mutated(files[file], rng, other))
        problems = Problems()
        begun = time.process_time()
        try:
            code = _refusal(read(folder / path, problems))
        except Exception as error:
            content = file.read_bytes()
            error.add_note(f"{file.name}, trial {trial} of seed {seed}: {content!r:.2000}")
            raise
        assert time.process_time() - begun < SECONDS, f"{file.name}, trial {trial} of seed {seed}"
        if code is None:
            tally.read += 1
        else:
            tally.refused[code] += 1
        tally.problems.update(problems.counts)
        file.write_bytes(files[file])
    return tally


def _refusal(documents: Iterable[LabelledDocument]) -> str | None:
    """Returns the code of the error that a reader raised, or None where its documents are sound."""
    try:
        _require_sound(documents)
    except InputError as error:
        refused = error
    else:
        return None
    assert str(refused).isprintable()
    return refused.code


def _require_sound(documents: Iterable[LabelledDocument]) -> None:
    """Raises unless every document can be used and no two have one id."""
    seen = set()
    for labelled in documents:
        assert labelled.document.id not in seen
        seen.add(labelled.document.id)
        labelled.document.check()
        for number, page in enumerate(labelled.document.pages):
            spans = [span for span in labelled.spans if span.page == number]
            tags_from_spans(len(page.words), spans)
        for question in labelled.questions:
            words = labelled.document.pages[question.page].words
            assert all(0 <= index < len(words) for index in question.word_ids)
        assert all(span.page < len(labelled.document.pages) for span in labelled.spans)
        assert labelled.provider is None or labelled.provider.strip()
    assert seen


def _mutated(content: bytes, rng: random.Random, other: bytes) -> bytes:
    """Returns damage that is blind, or knows JSON, or knows boxes."""
    lines = content.split(b"\n")
    place = rng.randrange(len(lines))
    chance = rng.random()
    if chance < 0.35:
        return damaged(content, rng, other)
    for part, before, after in (
        (content, [], []),
        (lines[place], lines[:place], lines[place + 1 :]),
    ):
        try:
            data = json.loads(part)
        except ValueError:
            continue
        changed = edited(part, rng) if chance < 0.7 else json.dumps(_boxed(data, rng)).encode()
        return b"\n".join([*before, changed, *after])
    cells = lines[place].split(b",")  # a line of a table
    if chance < 0.7:
        rng.shuffle(cells)
    else:
        cells[rng.randrange(len(cells))] = str(rng.choice(_NUMBERS)).encode()
    return b"\n".join([*lines[:place], b",".join(cells), *lines[place + 1 :]])


def _boxed(data: Any, rng: random.Random) -> Any:
    """Changes one list of numbers: corners swapped, dropped or doubled, or a number that is odd."""
    boxes = list(_boxes(data))
    if boxes:
        box = rng.choice(boxes)
        match rng.randrange(4):
            case 0:
                box.reverse()
            case 1:
                box.pop()
            case 2:
                box.extend(box[:2])
            case _:
                box[rng.randrange(len(box))] = rng.choice(_NUMBERS)
    return data


def _boxes(data: Any) -> Iterable[list[Any]]:
    if isinstance(data, list) and data and all(type(item) in (int, float) for item in data):
        yield data
    elif isinstance(data, dict | list):
        for item in data.values() if isinstance(data, dict) else data:
            yield from _boxes(item)
