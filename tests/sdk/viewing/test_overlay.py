"""Images of fields: in their place, in their colour, never over the words."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hushdoc_documents import Found
from PIL import Image

import hushdoc
from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word, union
from hushdoc.errors import BoxError, InputError, LimitExceededError, UnsupportedFormatError
from hushdoc.viewing import overlay as drawing
from hushdoc.viewing.overlay import PALETTE, overlay, styles

WIDTH, HEIGHT = 1000, 600


def page(*, rows: int = 3, image: Path | None = None, step: int = 100) -> Page:
    boxes = [
        (100 + 200 * column, 100 + step * row, 240 + 200 * column, 130 + step * row)
        for row in range(rows)
        for column in range(4)
    ]
    words = [f"word{number}" for number in range(len(boxes))]
    return Document.from_words(words, boxes, width=WIDTH, height=HEIGHT, image=image).pages[0]


def found(asked: Page, label: str, *words: int) -> Found:
    box = union(asked.words[index].box for index in words)
    return Found(label=label, score=0.9, box=box, word_ids=words)


def near(pixel: tuple[int, ...], colour: tuple[int, int, int]) -> bool:
    return max(abs(one - other) for one, other in zip(pixel, colour, strict=True)) < 30


def test_a_field_is_outlined_in_its_colour_and_its_words_are_tinted() -> None:
    asked = page()
    image = overlay(asked, [found(asked, "total", 5, 6)])
    assert image.size[0] == WIDTH
    assert image.size[1] > HEIGHT
    (colour,) = [style.colour for style in styles(["total"]).values()]
    assert near(image.getpixel((400, 198)), colour)
    tinted = image.getpixel((320, 204))
    plain = image.getpixel((120, 104))
    assert plain == (255, 255, 255)
    assert tinted != plain
    assert sum(tinted) > 500


def test_the_caption_of_a_field_that_nobody_scored_is_its_label() -> None:
    """NaN stands for labels by people; "nan" would be drawn as widely as a score."""
    asked, field = page(), found(page(), "total", 5)
    (colour,) = [style.colour for style in styles(["total"]).values()]
    drawn = []
    for score in (field.score, math.nan):
        image = overlay(asked, [replace(field, score=score)])
        row = [image.getpixel((x, 190)) for x in range(WIDTH)]
        drawn.append(sum(near(pixel, colour) for pixel in row))
    assert 0 < drawn[1] < 0.8 * drawn[0]


def test_the_page_itself_is_not_changed_outside_its_fields(tmp_path: Path) -> None:
    path = tmp_path / "page.png"
    Image.new("RGB", (WIDTH, HEIGHT), (250, 240, 230)).save(path)
    asked = page(image=path)
    image = overlay(asked, [found(asked, "total", 0)])
    assert image.getpixel((900, 550)) == (250, 240, 230)
    assert image.getpixel((700, 300)) == (250, 240, 230)


def test_fields_of_another_page_are_refused() -> None:
    low = page(rows=4)
    asked = replace(low, height=300, words=low.words[:8])
    with pytest.raises(BoxError, match="'total' lies outside its page of 1000 x 300 pixels"):
        overlay(asked, [found(low, "total", 12)])


def test_boxes_follow_the_size_of_the_image() -> None:
    asked = page()
    large = Image.new("RGB", (2 * WIDTH, 2 * HEIGHT), (255, 255, 255))
    image = overlay(asked, [found(asked, "total", 0)], image=large)
    assert image.size[0] == 2 * WIDTH
    (style,) = styles(["total"]).values()
    assert near(image.getpixel((300, 197)), style.colour)


def test_small_pages_are_drawn_larger() -> None:
    asked = Document.from_words(["a"], [(1, 1, 9, 9)], width=20, height=10).pages[0]
    assert overlay(asked, [found(asked, "total", 0)]).size[0] == 900


def test_a_label_keeps_its_colour_from_page_to_page() -> None:
    every = ("date", "supplier", "total")
    assert styles(every)["total"] == styles(reversed(every))["total"]
    asked = page()
    image = overlay(asked, [found(asked, "total", 0)], labels=every)
    assert near(image.getpixel((170, 98)), styles(every)["total"].colour)


def test_labels_past_the_palette_are_dashed() -> None:
    looks = list(styles(f"label{index:02}" for index in range(12)).values())
    assert len({(style.colour, style.dashed) for style in looks}) == 12
    assert [style.dashed for style in looks] == [False] * 8 + [True] * 4


def luminance(colour: tuple[int, int, int]) -> float:
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (channel / 255 for channel in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", PALETTE)
def test_captions_can_be_read(colour: tuple[int, int, int]) -> None:
    text, paper = luminance(drawing._text_on(colour)), luminance(colour)
    contrast = (max(text, paper) + 0.05) / (min(text, paper) + 0.05)
    assert contrast >= 4.5  # WCAG 2.2, level AA


@pytest.mark.parametrize("step", [100, 40, 30])
def test_captions_never_cover_a_word(step: int) -> None:
    asked = page(rows=4, step=step)
    fields = [found(asked, "a-rather-long-label", index) for index in range(16)]
    without = overlay(asked, [])
    image = overlay(asked, fields)
    (style,) = styles(["a-rather-long-label"]).values()
    for word in asked.words:
        area = tuple(round(value) for value in word.box.to_list())
        shown, before = (np.asarray(drawn.crop(area)).astype(int) for drawn in (image, without))
        # Two pixels of outline and a light tint may fall on a word, a filled caption may not.
        filled = (abs(shown - style.colour).max(-1) < 30) & (abs(before - 255).max(-1) < 30)
        assert filled[3:-3, 3:-3].sum() == 0


def test_a_crowded_page_says_how_many_captions_found_no_room() -> None:
    asked = page(rows=14, step=31)
    crowded = overlay(asked, [found(asked, "x" * 40, index) for index in range(56)])
    roomy = overlay(page(), [found(page(), "x", 0)])
    assert crowded.size[1] >= roomy.size[1]


def test_no_field_is_a_image_too() -> None:
    assert overlay(page(), []).size[1] > HEIGHT


def test_fields_of_the_real_type_can_be_drawn() -> None:
    asked = page()
    field = hushdoc.Field(
        label="total",
        text="word0",
        score=1.0,
        box=asked.words[0].box,
        page=0,
        word_ids=(0,),
        normalized=(100, 166, 240, 216),
    )
    assert overlay(asked, [field]).mode == "RGB"


@pytest.mark.parametrize("text", ["\u202eevil\x1b[2J", "", "\n", "\u6f22\u5b57", "x" * 5000])
def test_strange_words_and_labels_do_no_harm(text: str) -> None:
    # Documents refuse some of these words, but pages made by hand are not checked.
    word = Word(text=text, box=Box(x0=10, y0=10, x1=90, y1=30))
    asked = Page(width=200, height=100, words=(word,))
    assert overlay(asked, [found(asked, text or "x", 0)]).size[0] == 900


def test_boxes_without_area_can_be_drawn() -> None:
    asked = Document.from_words(["a"], [(200, 100, 200, 100)], width=200, height=100).pages[0]
    assert overlay(asked, [found(asked, "total", 0)])


def test_word_numbers_of_another_page_are_left_out() -> None:
    asked = page()
    field = Found(label="total", score=0.5, box=asked.words[0].box, word_ids=(0, 999, -1))
    assert overlay(asked, [field])


def test_a_missing_image_of_the_page_is_replaced_by_its_words() -> None:
    asked = page(image=Path("nowhere.png"))
    assert overlay(asked, []).tobytes() == overlay(page(), []).tobytes()


def test_an_image_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is missing"):
        overlay(page(), [], image=tmp_path / "nowhere.png")


def test_an_image_that_is_none_is_told(tmp_path: Path) -> None:
    path = tmp_path / "page.png"
    path.write_bytes(b"GIF89a")
    with pytest.raises(UnsupportedFormatError, match="can't be read"):
        overlay(page(), [], image=path)


def test_huge_images_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "page.png"
    Image.new("1", (9_000, 9_000)).save(path)
    with pytest.raises(LimitExceededError, match="9000 x 9000 pixels"):
        overlay(page(), [], image=path)


def test_huge_pages_are_refused() -> None:
    asked = Document.from_words(["a"], [(0, 0, 9, 9)], width=900_000, height=900_000).pages[0]
    with pytest.raises(LimitExceededError, match="page's width and height"):
        overlay(asked, [])


def test_a_slender_page_takes_no_more_pixels_than_may_be_read(tmp_path: Path) -> None:
    path = tmp_path / "slender.png"
    Image.new("L", (100, 100_000), 255).save(path)
    word = Word(text="x", box=Box(x0=10, y0=10, x1=50, y1=30))
    asked = Page(width=100, height=100_000, words=(word,), image=path)
    # Nine times as wide it would have 810 million pixels, and letters as high as 14 pages.
    drawn = overlay(asked, [found(asked, "total", 0)])
    assert drawn.width == 100
    assert drawn.height < 100_200


def test_letters_of_a_receipt_are_no_larger_than_its_width_allows() -> None:
    receipt = drawing.View(page=page(), width=900, height=18_000)
    assert (receipt.font_size, receipt.unit) == (45, 5)
    sheet = drawing.View(page=page(), width=1654, height=2339)
    assert (sheet.font_size, sheet.unit) == (29, 3)
