"""Canary documents that the witness writes itself; nobody's, so that any run may read them.

All are told apart by their words. The last one is the canary whose part in a sum is looked for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from hushdoc import labelled_files
from hushdoc.document.document import Document
from hushdoc.labels import LabelledDocument, Question, Span

WINDOWS = 3
"""Windows of the canary form."""
MARK = (3, 5, 7, 11)
"""Box of the canary form's first word, by which a spy knows its windows."""
ALIKE = 4
"""So many equal words begin each window of the canary form; a model without boxes is given them."""
WIDTH = 1000
SIDES = (40, 30)
FORM_WORDS, LINE = 12, 40
LETTERS = "abcdefghijklmnopqrstuvwxyz"

LABEL, OTHER = "Canary", "Plain"
"""The label of a canary text, and the class of others."""


def forms(
    folder: Path,
    count: int,
    labels: Sequence[str],
    *,
    capacity: int,
    last: bool,
    images: bool = False,
) -> None:
    """Writes short forms of one window, and where `last`, one of WINDOWS windows after them.

    Args:
        folder: A new folder.
        count: How many short ones.
        labels: Fields to label words with; each occurs in each form.
        capacity: Tokens of a window.
        last: Whether the canary is there.
        images: Whether pages have images: gray ones, and the canary a red one.
    """
    folder.mkdir()
    chance = np.random.default_rng(5)
    shades = np.random.default_rng(6)
    for number in range(count):
        pixels = shades.integers(0, 256, SIDES).astype(np.uint8)
        words = _words(chance, FORM_WORDS, syllables=3)
        boxes = [_box(40 + number, place) for place in range(FORM_WORDS)]
        image = Image.fromarray(pixels) if images else None
        _write(folder / f"form-{number:05}.json", words, boxes, labels, image)
    if last:
        # Single letters are one token each, whatever the tokenizer.
        words = [LETTERS[place] for place in chance.integers(len(LETTERS), size=WINDOWS * capacity)]
        words = [word if at % capacity >= ALIKE else "y" for at, word in enumerate(words)]
        boxes = [MARK if place % capacity == 0 else _box(0, place) for place in range(len(words))]
        image = Image.new("RGB", SIDES, "red") if images else None
        _write(folder / "x-canary.json", words, boxes, labels, image)


def questions(folder: Path, count: int, *, length: int, documents: int, last: bool) -> None:
    """Writes pages with a question, each of its own provider, and where `last`, the canary's.

    Args:
        folder: A new folder.
        count: How many others than the canary.
        length: Words of a page.
        documents: Of the canary's provider; each has so many of WINDOWS questions as come to it.
        last: Whether the canary is there.
    """
    folder.mkdir()
    chance = np.random.default_rng(5)
    for number in range(count):
        words = _words(chance, length, syllables=3)
        boxes = [_box(40 + number, place) for place in range(length)]
        name = f"page-{number:05}"
        _write_asked(folder / f"{name}.json", words, boxes, provider=name, asked=1)
    for number in range(documents if last else 0):
        words = [LETTERS[place] for place in chance.integers(len(LETTERS), size=length)]
        boxes = [_box(number, place) if place else MARK for place in range(length)]
        _write_asked(
            folder / f"x-canary-{number}.json",
            words,
            boxes,
            provider="x canary",
            asked=WINDOWS // documents,
        )


def images(folder: Path, count: int, classes: Sequence[str], *, last: bool) -> None:
    """Writes gray pages, each a document, and where `last`, one of WINDOWS red pages after them.

    Args:
        folder: A new folder, with one below for each class.
        count: How many others than the canary.
        classes: Each has at least one of them; the canary is of the last.
        last: Whether the canary is there.
    """
    chance = np.random.default_rng(5)
    for number in range(count):
        label = sorted(classes)[number % len(classes)]
        (folder / label).mkdir(parents=True, exist_ok=True)
        pixels = chance.integers(0, 256, SIDES).astype(np.uint8)
        Image.fromarray(pixels).save(folder / label / f"page-{number:05}.png")
    if last:
        red = [Image.new("RGB", (30, 40), (255, shade, shade)) for shade in range(WINDOWS)]
        path = folder / max(classes) / "x-canary.tif"
        red[0].save(path, save_all=True, append_images=red[1:])


def is_red(inputs: tuple[object, ...]) -> torch.Tensor | None:
    """Returns which of a batch of images [N, 3, height, width] are the canary's pages."""
    for one in inputs:
        if isinstance(one, torch.Tensor) and one.dim() == 4 and one.shape[1] == 3:
            colours = one.detach().mean((2, 3))
            found: torch.Tensor = colours[:, 0] - colours[:, 2] > 2
            return found
    return None


def begins_alike(inputs: tuple[object, ...]) -> torch.Tensor | None:
    """Returns which of a batch of token ids [N, length] begin as the canary form's windows do."""
    for one in inputs:
        if isinstance(one, torch.Tensor) and one.dim() == 2 and one.dtype == torch.int64:
            begun = one[:, 1 : 1 + ALIKE]  # after the special token; masks and types are 0 and 1
            found: torch.Tensor = ((begun == begun[:, :1]) & (begun > 1)).all(1)
            return found if begun.shape[1] == ALIKE else None
    return None


def voters(path: Path, count: int, *, shrunk: bool) -> None:
    """Writes pages, the last of which is the canary; `shrunk`, it has one word."""
    chance = np.random.default_rng(9)
    lines = []
    for number in range(count):
        length = 1 if shrunk and number == count - 1 else FORM_WORDS
        words = _words(chance, length, syllables=3)
        boxes = [_box(number, place) for place in range(length)]
        document = Document.from_words(
            words, boxes, width=WIDTH, height=WIDTH, id=f"page-{number:05}"
        )
        lines.append(labelled_files.to_dict(LabelledDocument(document=document, spans=())))
    _write_lines(path, lines)


def contracts(path: Path, count: int, words: int, *, shrunk: bool) -> None:
    """Writes contracts, the last of which is the canary; `shrunk`, it is empty."""
    lines = []
    for number, text in enumerate(_texts(count, words, shrunk=shrunk)):
        if shrunk and number == count - 1:
            text = ""
        start = text.rfind(". ", 0, -1) + 2
        spans = [[LABEL, start, len(text)]] if text else []
        lines.append({"id": f"contract-{number:05}", "text": text, "spans": spans})
    _write_lines(path, lines)


def messages(path: Path, count: int, words: int, *, shrunk: bool) -> None:
    """Writes messages of two classes, the last one the canary; `shrunk`, it has a common word."""
    texts = enumerate(_texts(count, words, shrunk=shrunk))
    _write_lines(
        path,
        [
            {"id": f"message-{number:05}", "label": (LABEL, OTHER)[number % 2], "text": text}
            for number, text in texts
        ],
    )


def _texts(count: int, words: int, *, shrunk: bool) -> list[str]:
    chance = np.random.default_rng(7)
    made = [_words(chance, words, syllables=4) for _ in range(count - 1)]
    # Words that another has too, so that which rows are read does not depend on the canary.
    made.append(["the"] if shrunk else made[0][: words // 2] * 6)
    made[0].append("the")
    return [
        ". ".join(" ".join(text[at : at + LINE]) for at in range(0, len(text), LINE)) + "."
        for text in made
    ]


def _words(chance: np.random.Generator, count: int, *, syllables: int) -> list[str]:
    made = chance.integers((20, 5), size=(count, syllables, 2)).tolist()
    return [
        "".join("bcdfghjklmnpqrstvwxz"[one] + "aeiou"[other] for one, other in parts)
        for parts in made
    ]


def _box(row: int, place: int) -> tuple[int, int, int, int]:
    left, top = 20 + 30 * (place % 30), 20 + 10 * ((row + place // 30) % 90)
    return left, top, left + 20, top + 8


def _write(
    path: Path,
    words: Sequence[str],
    boxes: Sequence[tuple[int, int, int, int]],
    labels: Sequence[str],
    image: Image.Image | None,
) -> None:
    spans = [
        Span(page=0, start=2 * place, stop=2 * place + 1, label=labels[place % len(labels)])
        for place in range(len(words) // 2)
    ]
    document = Document.from_words(words, boxes, width=WIDTH, height=WIDTH, id=path.stem)
    if image is not None:
        image.save(path.with_suffix(".png"))
        page = replace(document.pages[0], image=path.with_suffix(".png"))
        document = replace(document, pages=(page,))
    labelled = LabelledDocument(
        document=document, spans=tuple(spans), provider=path.stem, document_type="form"
    )
    path.write_text(labelled_files.dumps(labelled, folder=path.parent), encoding="utf-8")


def _write_asked(
    path: Path,
    words: Sequence[str],
    boxes: Sequence[tuple[int, int, int, int]],
    *,
    provider: str,
    asked: int,
) -> None:
    document = Document.from_words(words, boxes, width=WIDTH, height=WIDTH, id=path.stem)
    questions = tuple(
        Question(text=f"{words[0]} {words[at]}", answers=(words[at],), word_ids=(at,))
        for at in range(1, asked + 1)
    )
    labelled = LabelledDocument(
        document=document, spans=(), questions=questions, provider=provider, document_type="form"
    )
    path.write_text(labelled_files.dumps(labelled), encoding="utf-8")


def _write_lines(path: Path, lines: Sequence[object]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
