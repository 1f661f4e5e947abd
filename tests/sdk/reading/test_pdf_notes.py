"""Form fields and notes on pages of PDF files: what shows is read, after the page's own text."""

from __future__ import annotations

from pathlib import Path

import hushdoc_pdf_files as pdfs
import numpy as np
import pytest

from hushdoc.errors import EncryptedDocumentError, OCRRequiredError, UnsupportedFormatError
from hushdoc.reading import open_document, page_image

HIDDEN, PRINT, NO_VIEW = 2, 4, 32

LINE = b"BT /F1 24 Tf 72 700 Td (Dumm) Tj 74.7 0 Td (y PDF file) Tj ET"
"""A word of two parts, between which a note may stand."""


def noted(
    content: bytes = LINE, *, entries: str = "/F 4", look: bytes | None = None, **options: str
) -> bytes:
    """Returns a file with a page on which a note says "Paid", where the "y" of LINE begins."""
    look = b"BT /F1 24 Tf 2 10 Td (Paid) Tj ET" if look is None else look
    note = f"<< /Type /Annot /Subtype /FreeText {entries} /Rect [144 690 344 712] /P 10 0 R "
    form = pdfs.form(look, matrix="[1 0 0 1 0 0]", resources="/Font << /F1 3 0 R >>")
    form = form.replace(b"[0 0 1000 1000]", b"[0 0 200 22]")
    file: bytes = pdfs.file(
        [content],
        extra="/Annots [12 0 R]",
        objects=[f"{note} /AP << /N 13 0 R >> >>".encode(), form],
        **options,
    )
    return file


def words(content: bytes) -> list[str]:
    (page,) = open_document(content, ocr="none").pages
    return [word.text for word in page.words]


def test_notes_come_after_the_text_below_them() -> None:
    assert words(noted()) == ["Dumm", "y", "PDF", "file", "Paid"]


@pytest.mark.parametrize("flags", [0, PRINT])
def test_notes_that_show_are_read_where_they_stand(flags: int) -> None:
    (page,) = open_document(noted(entries=f"/F {flags}"), ocr="none").pages
    box = page.words[-1].box
    assert box.x0 == pytest.approx((144 + 2) * 200 / 72, abs=2)
    assert box.y1 == pytest.approx((792 - 694) * 200 / 72, abs=2)


@pytest.mark.parametrize("flags", [HIDDEN, NO_VIEW, HIDDEN | PRINT, NO_VIEW | PRINT])
def test_hidden_notes_are_neither_read_nor_drawn(tmp_path: Path, flags: int) -> None:
    path, plain = tmp_path / "noted.pdf", tmp_path / "plain.pdf"
    path.write_bytes(noted(entries=f"/F {flags}"))
    plain.write_bytes(pdfs.file([LINE]))
    (page,) = open_document(path, ocr="none").pages
    (alone,) = open_document(plain, ocr="none").pages
    assert page.words == alone.words
    assert np.array_equal(page_image(page), page_image(alone))


def test_notes_without_a_look_change_nothing() -> None:
    file = noted(entries="/F 4 /Contents (Paid)").replace(b"/AP <<", b"/XX <<")
    for kind in (b"/Stamp", b"/Highlight", b"/Text"):
        assert words(file.replace(b"/FreeText", kind)) == ["Dumm", "y", "PDF", "file"]


@pytest.mark.parametrize("look", [b"/XX <<", b"/AP << >> /XX <<"])
@pytest.mark.parametrize("style", ["", "/DA (/F1 12 Tf 0 g)"])
def test_texts_that_are_given_a_look_where_they_are_drawn_are_read(
    tmp_path: Path, look: bytes, style: str
) -> None:
    path = tmp_path / "noted.pdf"
    path.write_bytes(noted(b"", entries=f"/F 4 /Contents (Paid) {style}").replace(b"/AP <<", look))
    (page,) = open_document(path, ocr="none").pages
    (word,) = page.words
    assert word.text == "Paid"
    image = np.asarray(page_image(page)).min(axis=2) < 128
    left, top = 144 * 200 // 72, (792 - 712) * 200 // 72
    box = word.box
    assert left <= box.x0 < box.x1
    assert top <= box.y0 < box.y1
    assert image[int(box.y0) : int(box.y1), int(box.x0) : int(box.x1)].sum() > 100


def test_a_note_of_no_known_kind_is_read_as_it_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "noted.pdf"
    path.write_bytes(noted(b"", entries="/F 1").replace(b"/FreeText", b"/Own"))
    (page,) = open_document(path, ocr="none").pages
    assert [word.text for word in page.words] == ["Paid"]
    assert np.asarray(page_image(page)).min() < 128


def test_a_page_of_a_note_alone_is_not_blank() -> None:
    assert words(noted(b"")) == ["Paid"]
    with pytest.raises(OCRRequiredError):
        words(noted(b"", look=b"0 0 9 9 re f"))


def test_a_note_without_an_area_is_neither_read_nor_drawn(tmp_path: Path) -> None:
    path = tmp_path / "noted.pdf"
    path.write_bytes(noted(LINE).replace(b"/Rect [144 690 344 712]", b"/Rect [144 690 144 690]"))
    (page,) = open_document(path, ocr="none").pages
    assert [word.text for word in page.words] == ["Dumm", "y", "PDF", "file"]


@pytest.mark.parametrize("end", [b" (", b" <41", b" [ 1", b" BI /W 2 /H 2 /BPC 8 /CS /G ID \0"])
def test_notes_that_a_broken_page_swallows_are_told(end: bytes) -> None:
    def unread(content: bytes) -> tuple[int, ...]:
        document = open_document(content, ocr="none")
        assert [word.text for word in document.pages[0].words] == ["Dumm", "y", "PDF", "file"]
        assert document.source is not None
        return document.source.unread_pages

    assert unread(noted(LINE + end)) == (0,)
    assert unread(noted(LINE + end, entries=f"/F {HIDDEN}")) == ()


def test_notes_are_read_on_a_page_that_inherits_its_size() -> None:
    """PDFium cuts flattened pages to US letter where only their parent has a size."""
    top = b"BT /F1 24 Tf 72 900 Td (top) Tj ET"
    file = noted(top, tree="/MediaBox [0 0 595 960]")
    own = b"/MediaBox [0 0 612 792]"
    file = file.replace(own, b" " * len(own))
    assert words(file) == ["top", "Paid"]


@pytest.mark.parametrize("kind", ["/FT /Tx", "/FT /Btn"])
def test_fields_are_drawn_as_they_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "form.pdf"
    widget = noted(entries=f"/F 4 {kind} /T (a)").replace(b"/FreeText", b"/Widget")
    path.write_bytes(
        widget.replace(b"/Pages 2 0 R", b"/Pages 2 0 R /AcroForm << /Fields [12 0 R] >>")
    )
    (page,) = open_document(path, ocr="none").pages
    assert page.words[-1].text == "Paid"
    ink = np.asarray(page_image(page).convert("L")) < 128
    x0, y0, x1, y1 = (round(value) for value in page.words[-1].box.to_list())
    assert ink[y0:y1, x0:x1].any()


def test_a_file_whose_catalog_leads_nowhere_is_told_so() -> None:
    # PDFium says so with the code of whatever failed before.
    with pytest.raises(EncryptedDocumentError):
        words(pdfs.file([LINE], password="x"))
    file = pdfs.file([LINE]).replace(b"/Type /Pages /Kids", b"/Type /Xages /Kixs")
    file = file.replace(b"/Pages 2 0 R", b"/Pages 9 0 R")
    with pytest.raises(UnsupportedFormatError, match="lead to no page") as raised:
        words(file)
    assert "Success" not in str(raised.value)


def test_a_file_for_the_owners_of_certificates_is_told_to_be_encrypted() -> None:
    file = pdfs.file([LINE], password="x").replace(b"/Filter /Standard", b"/Filter /Adobe.Pub")
    with pytest.raises(EncryptedDocumentError, match="no password opens"):
        words(file)


def test_a_missing_page_is_told_by_its_number() -> None:
    file = pdfs.file([LINE, LINE]).replace(b"/Kids [10 0 R 12 0 R]", b"/Kids [10 0 R 99 0 R]")
    with pytest.raises(UnsupportedFormatError, match=r"Page 1 .* holds no page\. Write"):
        words(file)
