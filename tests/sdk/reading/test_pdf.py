"""PDF files: text layers where they are drawn, and files that are broken on purpose."""

from __future__ import annotations

import sys
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import hushdoc_pdf_files as pdfs
import numpy as np
import pytest

from hushdoc.document.document import Document
from hushdoc.document.page import Page
from hushdoc.errors import (
    EmptyDocumentError,
    EncryptedDocumentError,
    InputError,
    LimitExceededError,
    MissingExtraError,
    OCRRequiredError,
    UnsupportedFormatError,
)
from hushdoc.reading import ReadingLimits, ReadingWarning, Source, page_image, pdf_images
from hushdoc.reading.drafting import PIXELS_PER_INCH
from hushdoc.reading.opening import open_document
from hushdoc.reading.pdf import text_pages
from hushdoc.reading.pdf_text import TextPage


def texts(document: Document) -> list[list[str]]:
    return [[word.text for word in page.words] for page in document.pages]


def read(content: bytes, **options: object) -> Document:
    return open_document(content, ocr="none", **options)  # type: ignore[arg-type]


def outcome(content: bytes, **options: object) -> list[list[str]] | str:
    """Returns the words of a file that may be broken, or the code of its error."""
    try:
        return texts(read(content, **options))
    except InputError as error:
        return error.code


BROKEN = ("UNSUPPORTED_FORMAT", "EMPTY_DOCUMENT", "OCR_REQUIRED")


def test_the_words_of_every_page_are_read_in_order() -> None:
    content = pdfs.file([pdfs.shown("Total due 12.50"), pdfs.shown("Page two")])
    document = read(content)
    assert texts(document) == [["Total", "due", "12.50"], ["Page", "two"]]
    assert document.source == Source(reader="pdf")
    # US letter.
    page = document.pages[0]
    assert (page.width, page.height) == (8.5 * PIXELS_PER_INCH, 11 * PIXELS_PER_INCH)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("crop", ["", "/CropBox [60 600 400 740]"])
def test_the_ink_of_a_word_stands_in_its_box(tmp_path: Path, rotation: int, crop: str) -> None:
    path = tmp_path / "page.pdf"
    path.write_bytes(pdfs.file([pdfs.shown("Total 12.50")], extra=f"/Rotate {rotation} {crop}"))
    (page,) = open_document(path, ocr="none").pages
    assert (page.width < page.height) == (
        (rotation % 180 == 0) and not crop or (rotation % 180 == 90 and bool(crop))
    )
    image = page_image(page)
    assert image.size == (page.width, page.height)
    ink = np.asarray(image.convert("L")) < 128
    total = ink.sum()
    for word in page.words:
        x0, y0, x1, y1 = (round(value) for value in word.box.to_list())
        inside = ink[max(0, y0 - 1) : y1 + 1, max(0, x0 - 1) : x1 + 1]
        assert inside.any()
        total -= inside.sum()
        ink[max(0, y0 - 1) : y1 + 1, max(0, x0 - 1) : x1 + 1] = False
    assert total == 0 == ink.sum()


def test_what_stands_in_the_fields_of_a_form_is_read() -> None:
    look = b"BT /F1 12 Tf 2 5 Td (Ada Lovelace) Tj ET"
    objects = [
        b"<< /Fields [13 0 R] /DA (/F1 12 Tf) /DR << /Font << /F1 3 0 R >> >> >>",
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Ada Lovelace) /F 4 "
        b"/Rect [150 690 300 712] /P 10 0 R /AP << /N 14 0 R >> >>",
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 150 22] /Resources << /Font << /F1 3 0 R >> "
        b">> /Length %d >>\nstream\n" % len(look) + look + b"\nendstream",
    ]
    content = pdfs.file(
        [pdfs.shown("Name:", size=12)],
        extra="/Annots [13 0 R]",
        catalog="/AcroForm 12 0 R",
        objects=objects,
    )
    assert texts(read(content)) == [["Name:", "Ada", "Lovelace"]]


def test_an_encrypted_file_needs_its_password(tmp_path: Path) -> None:
    path = tmp_path / "secret.pdf"
    path.write_bytes(pdfs.file([pdfs.shown("Total due")], password="swordfish"))
    for password, said in ((None, "needs a password"), ("guess", "does not open with this")):
        with pytest.raises(EncryptedDocumentError, match=said) as raised:
            open_document(path, password=password)
        assert raised.value.code == "ENCRYPTED_DOCUMENT"
        assert "swordfish" not in str(raised.value)
    opened = open_document(path, password="swordfish")
    (page,) = opened.pages
    assert [word.text for word in page.words] == ["Total", "due"]
    locked = replace(page, image=path)
    with pytest.raises(EncryptedDocumentError):
        page_image(locked)
    drawn = page_image(locked, password="swordfish")
    # Whoever opened it needs neither the password nor the file to look at its pages.
    path.unlink()
    unlocked = page_image(page)
    assert unlocked.tobytes() == drawn.tobytes()
    assert opened.to_dict()["pages"][0]["image"] is None
    empty = pdfs.file([pdfs.shown("for all to read")], password="")
    assert read(empty).num_words == 4


def test_too_many_pages_are_refused_before_one_is_read() -> None:
    content = pdfs.file([pdfs.shown("x")] * 1500)
    with pytest.raises(LimitExceededError, match="1500 pages; at most 1000"):
        read(content)
    document = read(content, limits=ReadingLimits(max_pages=1500))
    assert len(document.pages) == document.num_words == 1500


def test_a_file_without_pages_is_empty() -> None:
    with pytest.raises((EmptyDocumentError, UnsupportedFormatError)):
        read(pdfs.file([]))


def test_a_page_of_images_asks_for_ocr() -> None:
    with pytest.raises(OCRRequiredError, match="ocr is"):
        read(pdfs.file([b"0 0 100 100 re f"]))
    assert texts(read(pdfs.file([b"0 0 100 100 re f", pdfs.shown("text")]))) == [[], ["text"]]


LOOPS = {
    "kids": (b"/Kids [10 0 R", b"/Kids [ 2 0 R"),
    "parent": (b"/Parent 2 0 R", b"/Parent 10 0 R"),
    "contents": (b"/Contents 11 0 R", b"/Contents 10 0 R"),
    "length": (b"/Length 44", b"/Length 11 0 R"),
    "font": (b"/F1 3 0 R", b"/F1 10 0 R"),
    "root": (b"/Root 1 0 R", b"/Root 2 0 R"),
    "prev": (b"/Root 1 0 R", b"/Root 1 0 R /Prev 9"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_files_that_refer_to_themselves_end(name: str) -> None:
    content = pdfs.file([pdfs.shown("Total due 12.50")])
    old, new = LOOPS[name]
    changed = content.replace(old, new)
    words = ["Total", "due", "12.50"]
    assert outcome(changed) in ([words], [words, []], *BROKEN)
    assert texts(read(content)) == [["Total", "due", "12.50"]]


def test_a_previous_table_that_is_the_same_table_ends() -> None:
    content = pdfs.file([pdfs.shown("Total")])
    start = content.rindex(b"xref\n0")
    changed = content.replace(b"/Root 1 0 R", f"/Root 1 0 R /Prev {start}".encode())
    assert outcome(changed) in ([["Total"]], *BROKEN)


def test_scripts_are_never_run(tmp_path: Path) -> None:
    script = b"<< /S /JavaScript /JS (this.getField\\('x'\\).value = 'run'; app.alert\\('hi'\\)) >>"
    launch = b"<< /S /Launch /F (touch %s) >>" % str(tmp_path / "ran").encode()
    content = pdfs.file(
        [pdfs.shown("Total")],
        catalog="/OpenAction 12 0 R /Names << /JavaScript << /Names [(a) 12 0 R] >> >>",
        extra="/AA << /O 13 0 R >>",
        objects=[script, launch],
    )
    assert texts(read(content)) == [["Total"]]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9])
def test_files_cut_short_are_told_or_mended(share: float) -> None:
    content = pdfs.file([pdfs.shown("Total due 12.50")])
    found = outcome(content[: int(share * len(content))])
    assert found in ([["Total", "due", "12.50"]], *BROKEN)


@pytest.mark.parametrize("content", [b"%PDF-1.7", b"%PDF-1.7\n%%EOF", b"junk\n%PDF-1.4\n" * 100])
def test_a_head_alone_is_no_file(content: bytes) -> None:
    with pytest.raises(UnsupportedFormatError, match="can't be read") as raised:
        read(content)
    assert raised.value.code == "UNSUPPORTED_FORMAT"


@pytest.mark.parametrize(
    "box", ["[0 0 0 0]", "[0 0 100000 100000]", "[612 792 0 0]", "[0 0 1 14400]", "[0 0 9e9 9e9]"]
)
def test_pages_of_any_size_fit_the_limits(box: str) -> None:
    limits = ReadingLimits(max_pixels=10_000_000)
    content = pdfs.file([pdfs.shown("Total", x=0.1, y=0.1, size=0.5)], box=box)
    found = outcome(content, limits=limits)
    assert found in ([["Total"]], *BROKEN)
    if found not in BROKEN:
        (page,) = read(content, limits=limits).pages
        assert page.width * page.height <= limits.max_pixels


def test_a_word_divided_over_two_lines_is_two_words() -> None:
    lines = [pdfs.shown("with man-", y=700), pdfs.shown("agement of", y=672)]
    (page,) = read(pdfs.file([b"".join(lines)])).pages
    assert [word.text for word in page.words] == ["with", "man-", "agement", "of"]
    assert all(word.box.y1 - word.box.y0 < 100 for word in page.words)


@pytest.mark.parametrize("size", [(50, 50), (5000, 1), (1, 5000), (3, 800_000)])
def test_a_page_is_drawn_in_any_shape_without_growing(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    (tmp_path / "a.pdf").write_bytes(pdfs.file([pdfs.shown("Total")]))
    page = Page(width=size[0], height=size[1], words=(), image=tmp_path / "a.pdf")
    drawn = page_image(page)
    assert drawn.size == size


def test_a_page_of_millions_of_letters_is_refused() -> None:
    lines = [pdfs.shown("x" * 1000, x=9, y=9 + 0.7 * n, size=1) for n in range(1100)]
    with pytest.raises(LimitExceededError, match="characters; at most 1000000"):
        read(pdfs.file([b"".join(lines)]))


def test_words_off_the_page_are_not_on_it() -> None:
    content = pdfs.file([pdfs.shown("here") + pdfs.shown("there", x=900)])
    assert texts(read(content)) == [["here"]]


def test_text_without_a_map_to_characters_is_not_trusted() -> None:
    """A font whose codes mean private characters: what OCR is for."""
    to_unicode = b"1 beginbfrange <20> <7E> <E020> endbfrange"
    cmap = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def "
        b"1 begincodespacerange <00> <FF> endcodespacerange " + to_unicode + b" endcmap end end"
    )
    content = pdfs.file(
        [pdfs.shown("unreadable", x=20, y=20)],
        box="[0 0 200 60]",
        objects=[b"<< /Length %d >>\nstream\n" % len(cmap) + cmap + b"\nendstream"],
    ).replace(b"/BaseFont /Helvetica", b"/BaseFont /Helvetica /ToUnicode 12 0 R")
    (page,) = read(content).pages
    assert all("\ue000" <= letter < "\uf000" for letter in page.words[0].text)
    document = open_document(content, ocr="auto")
    assert document.source.ocr_pages == (0,)
    assert texts(document) == [["unreadable"]]


def test_many_threads_may_read_at_once() -> None:
    files = [pdfs.file([pdfs.shown(f"number {n}")] * 5) for n in range(8)]
    found: dict[int, list[list[str]]] = {}

    def work(number: int) -> None:
        for _ in range(5):
            found[number] = texts(read(files[number]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [["number", str(number)]] * 5 for number in range(8)}


def pages(content: bytes) -> list[TextPage]:
    return list(text_pages(content, id="x", limits=ReadingLimits()))


def drawn(content: bytes) -> bytes:
    """Returns a file of one page that may draw the image /Im1."""
    file: bytes = pdfs.file(
        [content], objects=[pdfs.image(2, 2, b"\x80" * 4)], shows="/XObject << /Im1 12 0 R >>"
    )
    return file


WHOLE = {"size": (612, 792), "top": 792, "height": 792}


@pytest.mark.parametrize("number", [1, 3, 8, 500])
@pytest.mark.parametrize("stamp", ["", "Received 2026"])
def test_a_scan_in_strips_is_a_scan(number: int, stamp: str) -> None:
    content = pdfs.strips(number, **WHOLE) + (pdfs.shown(stamp) if stamp else b"")
    (page,) = pages(drawn(content))
    assert page.needs_ocr
    assert page.scan
    assert not page.blank


@pytest.mark.parametrize("rotation", ["", "/Rotate 90", "/CropBox [0 200 612 792]"])
def test_the_share_that_images_cover_is_that_of_the_page_shown(rotation: str) -> None:
    for height, scan in ((0.4, False), (0.6, True)):
        bottom, top = (200, 792) if "Crop" in rotation else (0, 792)
        share = int(height * (top - bottom))
        content = pdfs.strips(5, size=(612, 792), top=top, height=share) + pdfs.shown(
            "stamp", y=300
        )
        file = drawn(content).replace(b"/Contents", f"{rotation} /Contents".encode())
        (page,) = pages(file)
        assert page.scan is scan


def test_images_on_one_another_cover_what_one_of_them_does() -> None:
    logos = pdfs.strips(1, size=(612, 792), top=792, height=99) * 20
    (page,) = pages(drawn(logos + pdfs.shown("Total due")))
    assert not page.needs_ocr


@pytest.mark.parametrize(("scale", "scan"), [(0.75, True), (0.1, False)])
def test_images_inside_forms_are_found_where_they_are_shown(scale: float, scan: bool) -> None:
    content = b"q 2 0 0 2 0 0 cm /Fm1 Do Q\n" + pdfs.shown("stamp")
    objects = [
        pdfs.form(
            b"q %f 0 0 %f 0 0 cm /Fm2 Do Q" % (scale, scale),
            matrix="[1 0 0 1 0 0]",
            resources="/XObject << /Fm2 13 0 R >>",
        ),
        pdfs.form(
            b"q 306 0 0 396 0 0 cm /Im1 Do Q",
            matrix="[1 0 0 1 0 0]",
            resources="/XObject << /Im1 14 0 R >>",
        ),
        pdfs.image(2, 2, b"\x80" * 4),
    ]
    file = pdfs.file([content], objects=objects, shows="/XObject << /Fm1 12 0 R >>")
    (page,) = pages(file)
    assert page.scan is scan


def header(number: int = 25) -> bytes:
    line: bytes = pdfs.shown(" ".join(f"header{n}" for n in range(number)), x=9, y=780, size=5)
    return line


def test_many_words_on_a_image_are_told_not_to_be_all() -> None:
    content = drawn(pdfs.strips(3, **WHOLE) + header())
    with pytest.warns(ReadingWarning, match="cover most of page 0 of 'scan'") as told:
        document = open_document(content, id="scan")
    assert told[0].filename == __file__
    assert document.num_words == 25
    source = Source(reader="pdf", unread_pages=(0,))
    assert document.source == source
    assert str(source) == "pdf, images of page 0 not read"
    assert Source.from_dict(source.to_dict()) == source
    # Whoever wants no image read knows it; the source says it all the same.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(content).source == source


@pytest.mark.parametrize("where", ["without ink", "under the image"])
def test_what_an_ocr_program_wrote_below_a_scan_is_its_text(where: str) -> None:
    scan = pdfs.strips(3, **WHOLE)
    content = b"3 Tr " + scan + header() if "ink" in where else header() + scan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        document = open_document(drawn(content))
    assert document.num_words == 25
    assert document.source == Source(reader="pdf")


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes both OCR engines away: an installation for PDF files alone."""
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    monkeypatch.setenv("PATH", "")


@pytest.mark.usefixtures("no_engine")
def test_an_empty_page_needs_no_ocr() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        document = open_document(pdfs.file([b"", pdfs.shown("Total due"), b" q Q "]))
    assert texts(document) == [[], ["Total", "due"], []]
    assert document.source == Source(reader="pdf")
    for ocr in ("auto", "none"):
        with pytest.raises(EmptyDocumentError):
            open_document(pdfs.file([b""]), ocr=ocr)


@pytest.mark.usefixtures("no_engine")
def test_pages_that_only_ocr_could_read_are_told_where_others_have_words() -> None:
    frame = b"0 0 100 100 re f"
    content = pdfs.file([frame, pdfs.shown("Total due"), frame])
    said = r"Pages 0, 2 of 'a' can be read by OCR.*hushdoc\[ocr\]"
    with pytest.warns(ReadingWarning, match=said):
        document = open_document(content, id="a")
    assert texts(document) == [[], ["Total", "due"], []]
    assert document.source == Source(reader="pdf", unread_pages=(0, 2))
    with pytest.raises(MissingExtraError):
        open_document(pdfs.file([frame]))


def test_so_many_objects_are_looked_at_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kilobytes that draw a thousand times, and an image after all of them."""
    objects = [
        pdfs.form(
            b"/X Do " * 10 if level < 2 else b"0 0 1 1 re f",
            matrix="[1 0 0 1 0 0]",
            resources=f"/XObject << /X {13 + level} 0 R >>",
        )
        for level in range(3)
    ]
    file = pdfs.file(
        [b"/X Do " * 10 + pdfs.strips(1, **WHOLE) + pdfs.shown("stamp")],
        objects=[*objects, pdfs.image(2, 2, b"\x80" * 4)],
        shows="/XObject << /X 12 0 R /Im1 15 0 R >>",
    )
    assert pages(file)[0].scan
    monkeypatch.setattr(pdf_images, "MAX_OBJECTS", 1000)
    assert not pages(file)[0].scan
