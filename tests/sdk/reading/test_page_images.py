"""Pages that are drawn again: from the file that was read, within the limits it was read with."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path

import hushdoc_pdf_files as pdfs
import pytest
from hushdoc_documents import Found, OneWord, nothing_found
from PIL import Image

import hushdoc
from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc.document.provenance import FileFingerprint
from hushdoc.errors import InputError, LimitExceededError
from hushdoc.reading import ReadingLimits, open_document, page_image
from hushdoc.runtime.images import with_image

WHITE, OTHER = (255, 255, 255), (1, 2, 3)
FOUND = Found(text="hi", word_ids=(0,))


def every_view(document: Document, folder: Path) -> None:
    """Draws a document in every way there is."""
    hushdoc.overlay(document.pages[0], [])
    hushdoc.to_html(document, nothing_found())
    hushdoc.redact(document, [FOUND], out=folder)


def image(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (1000, 300)) -> Path:
    Image.new("RGB", size, colour).save(path)
    return path


@pytest.mark.parametrize("size", [(1000, 300), (2000, 600)])
def test_a_file_that_changed_is_not_drawn(tmp_path: Path, size: tuple[int, int]) -> None:
    path = image(tmp_path / "a.png", WHITE)
    document = open_document(path, ocr=OneWord())
    every_view(document, tmp_path / "left")
    before = path.stat()
    image(path, OTHER, size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # its date tells nothing
    for draw in (
        lambda: hushdoc.overlay(document.pages[0], []),
        lambda: hushdoc.redact(document, [FOUND], out=tmp_path / "none"),
        lambda: page_image(document.pages[0]),
        lambda: page_image(pickle.loads(pickle.dumps(document)).pages[0]),
    ):
        with pytest.raises(InputError, match="no longer the one that was opened") as raised:
            draw()
        assert raised.value.code == "FILE_CHANGED"
    assert not (tmp_path / "none").exists()
    assert open_document(path, ocr=OneWord()).pages[0].width == size[0]


def test_a_pdf_file_that_changed_is_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdfs.file([pdfs.shown("Total due")]))
    opened = [open_document(path), with_image(path)]
    for document in opened:
        assert page_image(document.pages[0]) is not None
    path.write_bytes(pdfs.file([pdfs.shown("Other")]))
    for document in opened:
        with pytest.raises(InputError, match="no longer the one"):
            page_image(document.pages[0])


def test_a_copy_and_a_new_date_change_nothing(tmp_path: Path) -> None:
    path = image(tmp_path / "a.png", WHITE)
    document = open_document(path, ocr=OneWord())
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    os.utime(path, (0, 0))
    assert page_image(document.pages[0]) is not None


def test_what_was_seen_of_one_file_says_nothing_of_another(tmp_path: Path) -> None:
    document = open_document(image(tmp_path / "a.png", WHITE), ocr=OneWord())
    (page,) = document.pages
    assert isinstance(page.fingerprint, FileFingerprint)
    assert replace(page, words=()).fingerprint == page.fingerprint
    assert replace(page, image=None).fingerprint is None
    other = replace(page, image=image(tmp_path / "b.png", OTHER))
    assert other.fingerprint is None
    assert page_image(other) is not None
    left = hushdoc.redact(document, [FOUND], out=tmp_path / "left").document.pages[0]
    assert left.fingerprint is None
    assert page_image(left) is not None


def test_images_in_memory_need_no_fingerprint(tmp_path: Path) -> None:
    content = image(tmp_path / "a.png", WHITE).read_bytes()
    (page,) = open_document(content, ocr=OneWord()).pages
    assert page.fingerprint is None
    assert page_image(page) is not None


def test_raised_limits_hold_when_pages_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    Image.new("1", (9_000, 9_000), 1).save(path)
    with pytest.raises(LimitExceededError):
        with_image(path)
    limits = ReadingLimits(max_pixels=81_000_000)
    page = with_image(path, limits=limits).pages[0]
    assert page.limits == limits
    drawn = page_image(page)
    assert drawn.size == (9_000, 9_000)
    with pytest.raises(LimitExceededError):
        page_image(page, limits=ReadingLimits())  # what a caller says comes first


def test_every_view_is_held_to_the_limits_of_the_page(tmp_path: Path) -> None:
    path = image(tmp_path / "a.png", WHITE)
    limits = ReadingLimits(max_pixels=300_000)
    document = open_document(path, ocr=OneWord(), limits=limits)
    every_view(document, tmp_path / "left")
    tight = replace(document.pages[0], limits=ReadingLimits(max_pixels=299_999))
    held = replace(document, pages=(tight,))
    for draw in (
        lambda: hushdoc.overlay(tight, []),
        lambda: hushdoc.overlay(tight, [], image=path),
        lambda: hushdoc.overlay(replace(tight, image=None), []),
        lambda: hushdoc.redact(held, [FOUND], out=tmp_path / "none"),
    ):
        with pytest.raises(LimitExceededError, match="299999"):
            draw()


@pytest.mark.parametrize("form", ["pdf", "image", "bytes", "document"])
def test_every_reader_keeps_its_limits(tmp_path: Path, form: str) -> None:
    limits = ReadingLimits(max_pixels=70_000_000)
    drawn = image(tmp_path / "a.png", WHITE)
    words = [Word(text="hi", box=Box(x0=1, y0=1, x1=2, y1=2))]
    page = Page(width=9, height=9, words=tuple(words), image=Path("a.png"))
    sources: dict[str, bytes | Path] = {
        "pdf": pdfs.file([pdfs.shown("Total due")]),
        "image": drawn,
        "bytes": drawn.read_bytes(),
        "document": tmp_path / "a.json",
    }
    told = json.dumps(Document(id="x", pages=(page,)).to_dict())
    (tmp_path / "a.json").write_text(told)
    found = open_document(sources[form], ocr=OneWord(), limits=limits)
    assert found.pages[0].limits == limits
