"""Long pages are cut where no line is."""

from __future__ import annotations

import io

import pytest
from PIL import Image, ImageDraw

from hushdoc.reading import OCRCache, open_document
from hushdoc.reading.image_pieces import pieces
from hushdoc.reading.images import MAX_SLENDER


def receipt(width: int, height: int, step: int = 50) -> tuple[Image.Image, int]:
    """Returns a long page and how many lines of two words it has."""
    page = Image.new("RGB", (width, height), "white")
    lines = range(20, height - step, step)
    for number, top in enumerate(lines):
        ImageDraw.Draw(page).text((20, top), f"Item {100 + number}", fill="black", font_size=32)
    return page, len(lines)


@pytest.mark.parametrize("size", [(400, 5000), (5000, 400), (300, 2001), (200, 9000)])
def test_pieces_are_the_page(size: tuple[int, int]) -> None:
    page = Image.effect_noise(size, 50)
    again = Image.new("L", size)
    longest = 0
    for place, piece in pieces(page, 2000):
        again.paste(piece, place)
        longest = max(longest, *piece.size)
    assert again.tobytes() == page.tobytes()
    assert longest <= 2000


@pytest.mark.parametrize("size", [(400, 2000), (2000, 1), (1500, 6000), (3000, 2100), (199, 9000)])
def test_usual_pages_stay_whole(size: tuple[int, int]) -> None:
    assert [place for place, _ in pieces(Image.new("L", size), 2000)] == [(0, 0)]


def test_no_line_is_cut() -> None:
    page, _ = receipt(300, 6000)
    found = list(pieces(page, 2000))
    assert len(found) > 3
    for _, piece in found:
        last = piece.crop((0, piece.height - 1, 300, piece.height))
        assert last.getcolors() == [(300, (255, 255, 255))]


@pytest.mark.slow
def test_every_line_of_a_long_receipt_is_read() -> None:
    """In one piece it is shrunk until nothing can be read."""
    page, lines = receipt(400, 10_000)
    assert page.height == MAX_SLENDER * page.width
    page.save(stream := io.BytesIO(), "PNG")
    words = open_document(stream.getvalue(), ocr="rapidocr", cache=OCRCache()).pages[0].words
    assert [word.text for word in words[1::2]] == [str(100 + number) for number in range(lines)]
    assert [word.segment for word in words] == [number // 2 for number in range(2 * lines)]
    tops = [word.box.y0 for word in words[::2]]
    assert all(abs(top - 25 - 50 * number) < 15 for number, top in enumerate(tops))
