"""Readers on damaged files: a checked document or an InputError, thousands of times."""

from __future__ import annotations

import copy
import io
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import hushdoc_pdf_files as pdfs
import pytest
from PIL import Image

from hushdoc.errors import InputError
from hushdoc.reading import ReadingLimits, in_reading_order
from hushdoc.reading.opening import open_document

LIMITS = ReadingLimits(max_bytes=2**20, max_pages=20, max_pixels=2**21, max_words=5000)
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**31, 10**400, 1e308, -0.0, 5e-324, float("nan"), float("inf"), "", "\x00",
    "\ud800", "a" * 20_000, [], {}, [[]], [None], {"": None},
)  # fmt: skip


@pytest.fixture(scope="session")
def seeds(fixtures: Path) -> list[bytes]:
    """Returns a sound file of every format."""
    with Image.open(fixtures / "page.png") as image:
        small = image.convert("L").resize((160, 96))
    images = []
    for form in ("PNG", "JPEG", "TIFF", "GIF", "BMP", "WEBP"):
        stream = io.BytesIO()
        small.save(stream, format=form)
        images.append(stream.getvalue())
    pages = [pdfs.shown("Total due 12.50"), pdfs.shown("second page")]
    files = [pdfs.file(pages), pdfs.file(pages, extra="/Rotate 90"), pdfs.file(pages, password="")]
    texts = ["A text.\n".encode(form) for form in ("utf-8", "utf-16")]
    samples = [
        path.read_bytes()
        for path in sorted(fixtures.rglob("*"))
        if path.suffix in (".hocr", ".json", ".tsv")
    ]
    return [*images, *files, *texts, *samples]


def spoiled(content: bytes, dice: random.Random) -> bytes:
    """Returns a file with bytes changed, cut out, doubled, or lost at the end."""
    data = bytearray(content)
    for _ in range(dice.choice((1, 1, 2, 5, 20))):
        if not data:
            break
        place = dice.randrange(len(data))
        length = dice.randrange(1, 1 + min(64, len(data)))
        match dice.randrange(6):
            case 0:
                data[place] = dice.randrange(256)
            case 1:
                data[place] ^= 1 << dice.randrange(8)
            case 2:
                del data[place : place + length]
            case 3:
                data[place:place] = data[place : place + length]
            case 4:
                data[place : place + length] = dice.randbytes(length)
            case _:
                digits = str(dice.choice((0, -1, 2**31, 2**63, 99999))).encode()
                data[place : place + len(digits)] = digits
    return bytes(data[: dice.randrange(len(data) + 1)] if dice.random() < 0.1 else data)


def spoiled_json(content: bytes, dice: random.Random) -> bytes:
    """Returns JSON of which some values are others."""
    data = json.loads(content)
    for _ in range(dice.choice((1, 1, 2, 4))):
        holder: Any = data
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            if not keys:
                break
            key = dice.choice(keys)
            if isinstance(holder[key], (dict, list)) and holder[key] and dice.random() < 0.9:
                holder = holder[key]
                continue
            if dice.random() < 0.2:
                del holder[key]
            else:
                holder[key] = copy.deepcopy(dice.choice(VALUES))
            break
    return json.dumps(data).encode()


def hunt(seeds: list[bytes], rounds: int, seed: int) -> Counter[str]:
    """Opens spoiled files and returns how often each outcome was met."""
    dice = random.Random(seed)
    outcomes: Counter[str] = Counter()
    for _ in range(rounds):
        content = dice.choice(seeds)
        structured = content.startswith((b"{", b"[")) and dice.random() < 0.6
        broken = spoiled_json(content, dice) if structured else spoiled(content, dice)
        try:
            # No OCR: it is the decoders that are hunted.
            document = open_document(broken, ocr="none", limits=LIMITS)
        except InputError as error:
            outcomes[error.code if len(str(error)) < 2000 else "message too long"] += 1
        else:
            (document.check_text if document.text is not None else document.check)()
            assert in_reading_order(document).num_words == document.num_words
            outcomes["read"] += 1
    return outcomes


OUTCOMES = {
    "read",
    "BAD_BOX",
    "BAD_INPUT",
    "BAD_WORD",
    "EMPTY_DOCUMENT",
    "ENCRYPTED_DOCUMENT",
    "LIMIT_EXCEEDED",
    "OCR_REQUIRED",
    "UNSUPPORTED_FORMAT",
}


@pytest.mark.parametrize(
    "rounds", [3_000, pytest.param(200_000, marks=(pytest.mark.slow, pytest.mark.timeout(1800)))]
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_spoiled_files_are_read_or_told(seeds: list[bytes], rounds: int) -> None:
    outcomes = hunt(seeds, rounds=rounds, seed=20261121)
    # The hunt is worth something only where it meets all of them.
    assert set(outcomes) == OUTCOMES
