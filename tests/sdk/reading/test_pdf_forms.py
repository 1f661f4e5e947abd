"""Trees of form fields that PDFium would walk for hours are refused before it does."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import hushdoc_pdf_files as pdfs
import pytest
from hushdoc_documents import nothing_found
from PIL import Image

from hushdoc.document.document import Document
from hushdoc.document.page import Box, Word
from hushdoc.errors import LimitExceededError
from hushdoc.reading import OCRCache, drawing, open_document, pdf, pdf_forms
from hushdoc.reading.pdf_forms import MAX_FIELDS
from hushdoc.runtime.images import ImagePreprocessing, page_pixels
from hushdoc.viewing import redaction
from hushdoc.viewing.html import to_html

FIRST = 12
"""Number of the first object of a file with one page."""

WIDGET = "/FT /Tx /V (value) /Subtype /Widget /Rect [0 0 90 20]"


def fields(*bodies: str, listed: str = f"{FIRST} 0 R", **options: object) -> bytes:
    """Returns a file with these objects, and these of them as the fields of its form."""
    return pdfs.file(
        [pdfs.shown("Total")],
        objects=[f"<< {body} >>".encode() for body in bodies],
        catalog=f"/AcroForm << /Fields [{listed}] >>",
        **options,  # type: ignore[arg-type]
    )


def kids(*numbers: int) -> str:
    return f"/Kids [{' '.join(f'{FIRST + number} 0 R' for number in numbers)}]"


SHARED = [f"/T (a) {kids(number + 1, number + 1)}" for number in range(30)] + [f"/T (a) {WIDGET}"]
CIRCLE = [f"/T (a) {kids(1, 1, 1)}", f"/T (b) {kids(0, 0, 0)}"]
MIXED = [f"/T (a) {kids(1, 0, 1)}", f"/T (b) /Kids [<< /T (c) {kids(0, 0)} >> {FIRST} 0 R]"]


def chain(number: int) -> bytes:
    """Returns a file with fields whose names have so many parts."""
    parents = [f"/T (a) /Parent {FIRST + place + 1} 0 R" for place in range(number)]
    own = [f"/T (f{place}) {WIDGET} /Parent {FIRST} 0 R" for place in range(number)]
    listed = " ".join(f"{FIRST + number + place} 0 R" for place in range(number))
    return fields(*parents, *own, listed=listed)


ENDLESS = {
    "shared": fields(*SHARED),
    "circle": fields(*CIRCLE),
    "mixed": fields(*MIXED),
    "encrypted": fields(*CIRCLE, password=""),
    "packed": fields(*CIRCLE, packed=True),
    "encrypted and packed": fields(*CIRCLE, packed=True, password=""),
    "on a page": fields(
        *CIRCLE,
        f"/T (c) {WIDGET}",
        f"/T (w) /Subtype /Widget /Rect [0 0 9 9] {kids(0, 0)}",
        listed=f"{FIRST + 2} 0 R",
        extra=f"/Annots [{FIRST + 3} 0 R]",
    ),
}

DIRECTLY = """
import sys, resource, pypdfium2
resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
file = pypdfium2.PdfDocument(sys.stdin.buffer.read())
file.init_forms()
file.get_page(0)
"""

XFA = """
import sys, pypdfium2
from hushdoc import open_document
content = sys.stdin.buffer.read()
file = pypdfium2.PdfDocument(content)
forms = pypdfium2.raw.FORMTYPE_XFA_FULL, pypdfium2.raw.FORMTYPE_XFA_FOREGROUND
print(file.get_formtype() in forms, *[word.text for word in open_document(content).pages[0].words])
"""


@pytest.mark.parametrize("name", ENDLESS)
def test_fields_that_share_or_circle_are_refused(name: str) -> None:
    with pytest.raises(LimitExceededError, match="fields that are shared, or circle") as told:
        open_document(ENDLESS[name])
    assert told.value.code == "LIMIT_EXCEEDED"
    assert "'document'" in str(told.value)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
@pytest.mark.parametrize("name", ["encrypted and packed", "on a page"])
def test_pdfium_alone_never_returns(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DIRECTLY],
        input=ENDLESS[name],
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert len(ENDLESS[name]) < 2500
    assert done.returncode < 0  # ended for its time


def test_too_long_chains_of_parents_are_refused() -> None:
    assert open_document(chain(300)).num_words == 1
    with pytest.raises(LimitExceededError, match="parents above them"):
        open_document(chain(3000))


def test_too_many_fields_are_refused() -> None:
    listed = " ".join([f"{FIRST} 0 R"] * (MAX_FIELDS + 1))
    with pytest.raises(LimitExceededError, match=f"more than {MAX_FIELDS} fields"):
        open_document(fields(f"/T (a) {WIDGET}", listed=listed))


@pytest.mark.parametrize("password", [None, ""])
@pytest.mark.parametrize("packed", [False, True])
def test_forms_that_end_are_read(password: str | None, packed: bool) -> None:
    bodies = [
        f"/T (self) {kids(0, 1)}",
        f"/T (twice \\(1\\)) /Parent {FIRST} 0 R {kids(2, 3, 2)}",
        f"/T (one) {WIDGET} /Parent {FIRST + 1} 0 R",
        f"/T <FEFF00E9> {WIDGET} /Parent {FIRST + 2} 0 R",
        f"/T (circle) {kids(5)}",
        f"/T (once) {kids(4)}",
        f"/T (parent) {WIDGET} /Parent {FIRST + 6} 0 R",
        "",
    ]
    listed = " ".join(f"{FIRST + number} 0 R" for number in (0, 1, 2, 4, 6, 7, 99))
    content = fields(*bodies, listed=listed, password=password, packed=packed)
    document = open_document(content)
    assert [word.text for word in document.pages[0].words] == ["Total"]


@pytest.mark.parametrize("listed", ["", f"{FIRST} 0 R"])
def test_a_form_of_xfa_is_read_without_a_word_of_the_library(listed: str) -> None:
    """pypdfium2 logs how to build it with an engine for XFA, which nobody who reads asked for."""
    xfa = b"<xdp:xdp xmlns:xdp='http://ns.adobe.com/xdp/'><template/></xdp:xdp>"
    stream = b"<< /Length %d >>\nstream\n%s\nendstream" % (len(xfa), xfa)
    content = pdfs.file(
        [pdfs.shown("Total")],
        objects=[f"<< /T (a) {WIDGET} >>".encode(), stream],
        catalog=f"/AcroForm << /Fields [{listed}] /XFA {FIRST + 1} 0 R >>",
    )
    done = subprocess.run(
        [sys.executable, "-c", XFA], input=content, capture_output=True, check=False, timeout=120
    )
    assert (done.stdout.split(), done.stderr, done.returncode) == ([b"True", b"Total"], b"", 0)


def test_the_look_takes_time_in_proportion_to_the_file() -> None:
    def seconds(number: int) -> float:
        bodies = [f"/T (f{place}) {WIDGET}" for place in range(number)]
        content = fields(*bodies, listed=" ".join(f"{FIRST + n} 0 R" for n in range(number)))
        with pdf._opened(content, "a", None) as file:
            took = []
            for _ in range(3):
                began = time.process_time()
                pdf_forms.require_bounded(file, "a")
                took.append(time.process_time() - began)
        return min(took)

    assert seconds(4000) < 16 * seconds(500)


class Engine:
    """Reads one word of each page."""

    name, version = "mine", "1"

    def read(self, image: Image.Image) -> list[Word]:
        return [Word(text="hi", box=Box(x0=1, y0=1, x1=9, y1=9))]


PAGES = pdfs.file(
    [pdfs.shown("Total", x=20, y=20)] * 9,
    box="[0 0 150 60]",
    objects=[f"<< /T (a) {WIDGET} >>".encode()],
    catalog="/AcroForm << /Fields [28 0 R] >>",
)


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the files whose forms are walked."""
    found: list[str] = []
    look = pdf_forms.require_bounded

    def counted(file: Any, id: str) -> None:
        found.append(id)
        look(file, id)

    monkeypatch.setattr(pdf, "require_bounded", counted)
    return found


def test_a_form_is_walked_once_and_not_for_each_page_that_ocr_reads(walked: list[str]) -> None:
    found = open_document(PAGES, ocr=Engine(), cache=OCRCache(max_pages=0))
    assert [page.words[0].text for page in found.pages] == ["hi"] * 9
    assert len(walked) == 2  # once for the text layers, and once for all pages that are drawn


def redacted(document: Document) -> int:
    return len(list(redaction.redacted_files(document, []))) - 1  # with document.json


def html(document: Document) -> int:
    return to_html(document, nothing_found()).count("data:image")


def of_images(document: Document) -> int:
    settings = ImagePreprocessing(height=8, width=8, mean=(0.5,) * 3, std=(0.5,) * 3)
    return len(list(page_pixels(document, settings)))


@pytest.mark.parametrize("made", [redacted, html, of_images])
def test_a_form_is_walked_once_for_all_pages_that_are_drawn_in_turn(
    made: Callable[[Document], int], walked: list[str]
) -> None:
    document = open_document(PAGES)
    walked.clear()
    assert made(document) == 9
    assert len(walked) == 1


def test_files_that_are_drawn_in_turn_are_told_apart(walked: list[str]) -> None:
    one = open_document(PAGES).pages[0]
    other = open_document(pdfs.file([pdfs.shown("Other sum")])).pages[0]
    alone = [drawing.page_image(page) for page in (one, other, one)]
    with drawing.kept_open() as draw:
        drawn = [draw(page) for page in (one, other, one)]
    assert [image.tobytes() for image in drawn if image] == [
        image.tobytes() for image in alone if image
    ]
    assert alone[0] != alone[1]
