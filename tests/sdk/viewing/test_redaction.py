"""Redaction: what was removed is nowhere any more, in text, pixels or metadata."""

from __future__ import annotations

import io
import json
import math
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hushdoc_documents import Found
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from PIL.PngImagePlugin import PngInfo

from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc.document.provenance import Source
from hushdoc.errors import InputError, OutputExistsError
from hushdoc.reading.opening import open_document
from hushdoc.viewing import normalised_text
from hushdoc.viewing.redaction import (
    MARK,
    Redaction,
    covered,
    redact,
    redacted_files,
    unread_pages,
)

WIDTH, HEIGHT = 400, 200


def word(text: str, x: float, y: float, *, width: float = 80) -> Word:
    return Word(text=text, box=Box(x0=x, y0=y, x1=x + width, y1=y + 20))


WORDS = (
    word("Name:", 10, 10),
    word("Jane", 100, 10),
    word("Doe", 190, 10),
    word("Total", 10, 60),
    word("12.50", 100, 60),
    word("(jane", 10, 110),
    word("DOE)", 100, 110),
    word("signed", 190, 110),
)


def image(path: Path) -> Path:
    """Writes a scan of the words, with text in its metadata."""
    canvas = Image.new("RGB", (WIDTH, HEIGHT), "white")
    pen = ImageDraw.Draw(canvas)
    for item in WORDS:
        pen.text((item.box.x0 + 2, item.box.y0 + 2), item.text, fill="black", font_size=16)
    notes = PngInfo()
    notes.add_text("Author", "Jane Doe")
    canvas.save(path, pnginfo=notes)
    return path


def document(image: Path | None = None) -> Document:
    return Document(
        id="d", pages=(Page(width=WIDTH, height=HEIGHT, words=WORDS, image=image, frame=0),)
    )


NAME = Found(label="name", text="Jane Doe", word_ids=(1, 2))
TOTAL = Found(label="total", text="12.50", word_ids=(4,))


def texts(made: Redaction) -> list[str]:
    return [item.text for page in made.document.pages for item in page.words]


def test_the_words_of_chosen_labels_are_gone_wherever_they_stand() -> None:
    made = redact(document(), [NAME, TOTAL], labels={"name"})
    assert texts(made) == ["Name:", "Total", "12.50", "signed"]
    assert made.counts == {"name": 2}
    assert made.folder is None
    only_there = redact(document(), [NAME, TOTAL], labels={"name"}, repeats=False)
    assert texts(only_there) == ["Name:", "Total", "12.50", "(jane", "DOE)", "signed"]
    assert texts(redact(document(), [NAME, TOTAL])) == ["Name:", "Total", "signed"]


def test_labels_that_were_not_found_are_told() -> None:
    made = redact(document(), [TOTAL], labels=["name", "total"])
    assert made.counts == {"name": 0, "total": 1}
    with pytest.raises(ValueError, match="not one string"):
        redact(document(), [TOTAL], labels="total")


def test_words_under_a_box_go_with_it() -> None:
    twice = document().pages[0]
    twin = Word(text="I2.5O", box=Box(x0=105, y0=62, x1=175, y1=78))
    beside = word("EUR", 185, 60)
    asked = Document(
        id="d",
        pages=(Page(width=WIDTH, height=HEIGHT, words=(*twice.words, twin, beside)),),
    )
    made = redact(asked, [TOTAL])
    assert "I2.5O" not in texts(made)
    assert "EUR" in texts(made)


def test_images_are_black_there_and_unchanged_elsewhere(tmp_path: Path) -> None:
    source = image(tmp_path / "scan.png")
    made = redact(document(source), [NAME], out=tmp_path / "out")
    before = np.asarray(Image.open(source).convert("RGB"))
    with Image.open(tmp_path / "out/page-0.png") as opened:
        after = np.asarray(opened.convert("RGB"))
        assert opened.info == {}
        assert not opened.getexif()
    assert after.shape == before.shape
    for index in (1, 2, 5, 6):
        box = WORDS[index].box
        inside = after[int(box.y0) - 2 : int(box.y1) + 2, int(box.x0) - 2 : int(box.x1) + 2]
        assert not inside.any()
    # The gap between two words of one line is covered, so that their number is not told.
    assert not after[12:28, 181:189].any()
    for index in (0, 3, 4, 7):
        box = WORDS[index].box
        rows, columns = slice(int(box.y0), int(box.y1)), slice(int(box.x0) + 4, int(box.x1) - 4)
        assert (after[rows, columns] == before[rows, columns]).all()
    assert made.document.pages[0].image == tmp_path / "out/page-0.png"


def test_covers_reach_as_far_as_whole_pixels_do(tmp_path: Path) -> None:
    page = document(image(tmp_path / "scan.png")).pages[0]
    boxes = [Box(x0=3.2, y0=5, x1=80.5, y1=20), Box(x0=60, y0=15.9, x1=WIDTH, y1=HEIGHT)]
    expected = Image.open(tmp_path / "scan.png").convert("RGB")
    pen = ImageDraw.Draw(expected)
    for corners in ((3, 5, 81, 20), (60, 15, WIDTH, HEIGHT)):  # the last pixel too
        pen.rectangle(corners, fill="black")
    everything = Box(x0=0, y0=0, x1=WIDTH, y1=HEIGHT)
    made = covered(page, boxes, [everything])  # nothing around the boxes is covered
    assert made is not None
    assert (np.asarray(made) == np.asarray(expected)).all()
    unchanged = covered(page, [], [])
    assert unchanged is not None
    assert np.asarray(unchanged).max() == 255


def test_letters_beside_the_box_of_their_word_are_covered_up_to_the_next_words() -> None:
    # As in PDF files by Tesseract: the last letter stands where the layer has a space.
    words = [word("Nr", 10, 50), word("4711", 100, 50, width=42), word("is", 170, 50, width=30)]
    above = Word(text="above", box=Box(x0=90, y0=26, x1=170, y1=46))
    canvas = Image.new("RGB", (WIDTH, HEIGHT), "white")
    pen = ImageDraw.Draw(canvas)
    for x, y, text in ((102, 50, "471"), (144, 50, "1"), (172, 50, "is"), (92, 28, "above")):
        pen.text((x, y), text, fill="red", font_size=18)
    pen.rectangle((110, 70, 116, 74), fill="red")  # hangs below the line
    stream = io.BytesIO()
    canvas.save(stream, "PNG")
    page = Page(width=WIDTH, height=HEIGHT, words=(*words, above), image=stream.getvalue())
    made = redacted_files(
        Document(id="d", pages=(page,)), [Found(label="number", text="4711", word_ids=(1,))]
    )
    with Image.open(io.BytesIO(dict(made)["page-0.png"])) as opened:
        after = np.asarray(opened.convert("RGB"))
    red = np.argwhere((after != after[..., :1]).any(axis=2))
    assert len(red) > 0
    # The two words that are left, in their own boxes, and no letter of the other one.
    for y, x in red:
        assert 170 <= x <= 200 or 26 <= y <= 46
    before = np.asarray(canvas)
    assert (after[50:71, 170:201] == before[50:71, 170:201]).all()
    assert (after[26:47, 90:171] == before[26:47, 90:171]).all()


@pytest.mark.parametrize(("width", "height"), [(20, 80), (80, 20), (9, 30)])
def test_letters_beside_a_box_are_covered_whichever_way_the_line_runs(
    width: int, height: int
) -> None:
    box = Box(x0=200 - width / 2, y0=100 - height / 2, x1=200 + width / 2, y1=100 + height / 2)
    stream = io.BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT), "white").save(stream, "PNG")
    page = Page(width=WIDTH, height=HEIGHT, words=(), image=stream.getvalue())
    made = covered(page, [box], [])
    assert made is not None
    black = np.argwhere(~np.asarray(made).any(axis=2))
    (top, left), (bottom, right) = black.min(axis=0), black.max(axis=0)
    short = min(width, height)
    if width > height:
        assert (left, right) == (box.x0 - short, box.x1 + short)
    else:
        assert (top, bottom) == (box.y0 - short, box.y1 + short)
        assert (left, right) == (math.floor(box.x0 - short), math.ceil(box.x1 + short))


def test_nothing_that_was_written_holds_what_was_removed(tmp_path: Path) -> None:
    source = image(tmp_path / "scan.png")
    redact(document(source), [NAME], out=tmp_path / "out")
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["document.json", "page-0.png"]
    for name in written:
        content = (tmp_path / "out" / name).read_bytes().lower()
        assert b"jane" not in content
        assert b"doe" not in content
        assert b"scan.png" not in content
    back = open_document(tmp_path / "out/document.json")
    assert [item.text for item in back.pages[0].words] == ["Name:", "Total", "12.50", "signed"]
    assert back.pages[0].image == tmp_path / "out/page-0.png"


def test_files_are_made_one_by_one_as_they_are_written(tmp_path: Path) -> None:
    asked = document(image(tmp_path / "scan.png"))
    redact(asked, [NAME], out=tmp_path / "out")
    made = redacted_files(asked, [NAME, TOTAL], labels={"name"})
    for name, content in made:
        assert (tmp_path / "out" / name).read_bytes() == content
        (tmp_path / "out" / name).unlink()
    assert list((tmp_path / "out").iterdir()) == []
    with pytest.raises(InputError):
        next(redacted_files(document(tmp_path / "gone.png"), [NAME]))


def test_what_cannot_be_covered_is_refused_whole(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        redact(document(tmp_path / "gone.png"), [NAME], out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("x")
    with pytest.raises(OutputExistsError):
        redact(document(), [NAME], out=tmp_path / "out")


def test_pages_without_images_get_none(tmp_path: Path) -> None:
    made = redact(document(), [NAME], out=str(tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["document.json"]
    assert made.document.pages[0].image is None
    # Nobody who gets the redacted document is led to the original.
    kept = redact(document(tmp_path / "scan.png"), [NAME])
    assert kept.document.pages[0].image is None


TEXT = "Agreement of Jane Doe.\nJANE\n  DOE signs; Janet Doe does not. Jane Doe."


def test_pages_that_were_not_read_are_black(tmp_path: Path) -> None:
    scan = image(tmp_path / "scan.png")
    pages = (document(scan).pages[0], document(scan).pages[0], document().pages[0])
    source = Source(reader="pdf", unread_pages=(1, 2, 9))
    asked = Document(id="d", pages=pages, source=source)
    made = redact(asked, [TOTAL], out=tmp_path / "out")
    shown = [np.asarray(Image.open(tmp_path / f"out/page-{number}.png")) for number in (0, 1)]
    assert shown[0].any()
    assert not shown[1].any()
    assert len(made.document.pages[1].words) == len(WORDS) - 1
    assert unread_pages(made.document) == [1]


def test_plain_texts_show_marks_of_one_length() -> None:
    asked = Document.from_text(TEXT, id="t")
    start = TEXT.index("Jane Doe")
    field = Found(label="party", text="Jane Doe", start=start, stop=start + 8)
    made = redact(asked, [field])
    assert made.document.text == (
        f"Agreement of {MARK}.\n{MARK} signs; Janet Doe does not. {MARK}."
    )
    assert made.counts == {"party": 3}
    once = redact(asked, [field], repeats=False)
    assert once.document.text.count(MARK) == 1


def test_overlapping_spans_of_a_text_are_one_mark() -> None:
    asked = Document.from_text("abc def ghi", id="t")
    spans = [(0, 7), (4, 11), (5, 6)]
    fields = [Found(label="x", start=start, stop=stop) for start, stop in spans]
    made = redact(asked, fields, repeats=False)
    assert made.document.text.replace(MARK, "") == ""
    blank = [Found(label="x", start=3, stop=4)]
    assert redact(asked, blank).document.text == f"abc{MARK}def ghi"


SAME = [
    ("M\u00fcller", "Mu\u0308ller"),
    ("Mu\u0308ller", "M\u00dcLLER"),
    ("Stra\u00dfe", "STRASSE"),
    ("STRASSE", "stra\u00dfe"),
    ("12.50", "\uff11\uff12\uff0e\uff15\uff10"),
    ("fish", "\ufb01sh"),
    ("Anna", "An\u00adna"),
    ("Anna", "\u200bAnna\u2060"),
    ("Anna", "(\u201eAnna\u201c)."),
    ("\ud55c\uae00", "\u1112\u1161\u11ab\u1100\u1173\u11af"),
]
OTHER = [
    ("Jose", "Jos\u00e9"),
    ("Jose", "Jose\u0301"),
    ("\u0915\u093f", "\u0915\u0940"),
    ("Anna", "Annabel"),
    ("12.50", "112.50"),
]
"""Names, and how else they may be written; the last two of them are others in Devanagari."""


@pytest.mark.parametrize(("field", "elsewhere"), SAME)
def test_what_a_reader_takes_for_the_same_is_gone_too(field: str, elsewhere: str) -> None:
    words = (word(field, 10, 10), word("and", 100, 10), word(elsewhere, 190, 10))
    asked = Document(id="d", pages=(Page(width=WIDTH, height=HEIGHT, words=words),))
    assert texts(redact(asked, [Found(label="x", word_ids=(0,))])) == ["and"]
    told = Document.from_text(f"{field} and {elsewhere}", id="t")
    left = redact(told, [Found(label="x", start=0, stop=len(field))]).document.text
    assert "".join(c for c in left.replace(MARK, "") if c.isalnum()) == "and"


@pytest.mark.parametrize(("field", "elsewhere"), OTHER)
def test_other_words_stay(field: str, elsewhere: str) -> None:
    words = (word(field, 10, 10), word(elsewhere, 190, 10))
    asked = Document(id="d", pages=(Page(width=WIDTH, height=HEIGHT, words=words),))
    assert texts(redact(asked, [Found(label="x", word_ids=(0,))])) == [elsewhere]
    told = Document.from_text(f"{field} {elsewhere}", id="t")
    left = redact(told, [Found(label="x", start=0, stop=len(field))]).document.text
    assert left == f"{MARK} {elsewhere}"


@pytest.mark.parametrize(
    "elsewhere", ["Anna, MUSTER", "\u201eAnna\u201c (Muster).", "anna\n\u200bMuster:"]
)
def test_names_of_several_words_are_found_with_punctuation_around_each(elsewhere: str) -> None:
    pieces = ["Anna", "Muster", "und", *elsewhere.split()]
    words = tuple(word(text, 10 + 40 * n, 10, width=30) for n, text in enumerate(pieces))
    asked = Document(id="d", pages=(Page(width=WIDTH, height=HEIGHT, words=words),))
    assert texts(redact(asked, [Found(label="name", word_ids=(0, 1))])) == ["und"]
    told = Document.from_text(f"Anna Muster und {elsewhere} Anna", id="t")
    made = redact(told, [Found(label="name", start=0, stop=11)])
    left = "".join(c for c in made.document.text.replace(MARK, "") if c.isalnum())
    assert left == "undAnna"
    assert made.counts == {"name": 2}


def test_names_of_several_words_are_found_however_words_are_cut() -> None:
    spelled = ["Anna", "Muster", "x", "An\u00adna", "\u200b", "MUSTER,", "y", "Anna Muster", "Anna"]
    words = tuple(word(text, 10 + 40 * n, 10, width=30) for n, text in enumerate(spelled))
    asked = Document(id="d", pages=(Page(width=WIDTH, height=HEIGHT, words=words),))
    made = redact(asked, [Found(label="name", word_ids=(0, 1))])
    assert texts(made) == ["x", "y", "Anna"]
    assert made.counts == {"name": 3}


@given(text=st.text(max_size=40), form=st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_folding_does_not_depend_on_the_form_of_writing(text: str, form: Any) -> None:
    written = unicodedata.normalize(form, text)
    assert normalised_text.normalised(written) == normalised_text.normalised(text)
    placed = normalised_text.normalised_with_places(written)
    assert sorted(placed.text) == sorted(normalised_text.normalised(written))
    assert len(placed.text) == len(placed.starts) == len(placed.stops)
    assert list(placed.starts) == sorted(placed.starts)


@pytest.mark.parametrize(
    "wrong",
    [
        Found(label="x", page=1, word_ids=(0,)),
        Found(label="x", page=-1, word_ids=(0,)),
        Found(label="x", word_ids=(99,)),
        Found(label="x", word_ids=(-1,)),
        Found(label="x"),
    ],
)
def test_fields_of_another_document_are_refused(wrong: Found, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this very document"):
        redact(document(), [NAME, wrong], out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="this very document"):
        redact(Document.from_text("abc", id="t"), [Found(label="x", start=1, stop=9)])


@given(data=st.data())
def test_no_word_of_a_field_is_ever_left(data: Any) -> None:
    count = data.draw(st.integers(1, 12))
    numbers = st.floats(0, 300)
    words = tuple(
        word(f"secret{index}", data.draw(numbers), data.draw(st.floats(0, 170)))
        for index in range(count)
    )
    asked = Document(id="d", pages=(Page(width=WIDTH, height=HEIGHT, words=words),))
    chosen = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=4, unique=True))
    made = redact(asked, [Found(label="x", word_ids=tuple(chosen))])
    assert not {f"secret{index}" for index in chosen} & set(texts(made))
    told = json.dumps(made.document.to_dict())
    assert all(f'"secret{index}"' not in told for index in chosen)


def test_pages_of_a_pdf_file_become_covered_images(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2", reason="the reader of PDF files is not installed")
    with Image.open(image(tmp_path / "scan.png")) as scan:
        scan.convert("RGB").save(
            tmp_path / "scan.pdf", save_all=True, append_images=[Image.new("RGB", scan.size)]
        )
    pages = tuple(
        Page(width=WIDTH, height=HEIGHT, words=words, image=tmp_path / "scan.pdf", frame=frame)
        for frame, words in enumerate((WORDS, ()))
    )
    made = redact(Document(id="d", pages=pages), [NAME], out=tmp_path / "out")
    with Image.open(tmp_path / "out/page-0.png") as opened:
        after = np.asarray(opened)
    assert after.shape == (HEIGHT, WIDTH, 3)
    box = WORDS[1].box
    assert not after[int(box.y0) : int(box.y1), int(box.x0) : int(box.x1)].any()
    box = WORDS[3].box
    assert after[int(box.y0) : int(box.y1), int(box.x0) : int(box.x1)].min() < 100
    assert after[150:190].min() == 255
    assert [page.frame for page in made.document.pages] == [0, 0]
    assert (tmp_path / "out/page-1.png").is_file()
