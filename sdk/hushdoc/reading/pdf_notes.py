"""Form fields and notes of a page of a PDF file: what of them shows, as a page of its own.

PDFium reads the text of a page as one stream, and words of notes drawn over others would come
between their letters. Here the page's own text stays as it is. Every call here is inside
`pdf._pdfium`, and changes the open file: pages are to be drawn from another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

UNREAD = "unread"
"""In place of a page of fields and notes that show, where the content of their page breaks off."""


@contextmanager
def notes_alone(file: Any, number: int, page: Any) -> Iterator[Any | None]:
    """Yields a page of nothing but the fields and notes of `page` that show; None without any.

    UNREAD where they can't be told apart from the page: PDFium draws them after its content, which
    may end inside a string.
    """
    import pypdfium2.raw as raw

    _give_looks(page)
    if not _shown(page):
        yield None
        return
    own = raw.FPDFPage_CountObjects(page)
    # It puts all of them into one form, the last object of the page.
    flattened = raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)
    if flattened != raw.FLATTEN_SUCCESS:
        yield UNREAD if flattened == raw.FLATTEN_FAIL else None
        return
    with closing(file.get_page(number)) as notes:
        if raw.FPDFPage_CountObjects(notes) != own + 1:
            yield UNREAD
            return
        for _ in range(own):
            found = raw.FPDFPage_GetObject(notes, 0)
            if raw.FPDFPage_RemoveObject(notes, found):
                raw.FPDFPageObj_Destroy(found)
        yield notes


def _give_looks(page: Any) -> None:
    """Has PDFium make looks for texts without one, which it does only where it draws a page."""
    import pypdfium2.raw as raw

    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        note = raw.FPDFPage_GetAnnot(page, index)
        if not note:
            continue
        subtype = raw.FPDFAnnot_GetSubtype(note)
        raw.FPDFPage_CloseAnnot(note)
        if subtype == raw.FPDF_ANNOT_FREETEXT:
            pixel = raw.FPDFBitmap_Create(1, 1, 0)
            raw.FPDF_RenderPageBitmap(pixel, page, 0, 0, 1, 1, 0, raw.FPDF_ANNOT)
            raw.FPDFBitmap_Destroy(pixel)
            return


def _shown(page: Any) -> int:
    """Returns how many annotations have a look of their own and show it; hides all others."""
    import pypdfium2.raw as raw

    count = 0
    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        note = raw.FPDFPage_GetAnnot(page, index)
        if not note:
            continue
        flags = raw.FPDFAnnot_GetFlags(note)
        unseen = flags & (raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW)
        if unseen or not (raw.FPDFAnnot_HasKey(note, b"AP") and _has_area(note)):
            raw.FPDFAnnot_SetFlags(note, flags | raw.FPDF_ANNOT_FLAG_HIDDEN)
        else:
            # What is of no known kind is drawn in spite of this flag.
            raw.FPDFAnnot_SetFlags(note, flags & ~raw.FPDF_ANNOT_FLAG_INVISIBLE)
            count += raw.FPDFAnnot_GetSubtype(note) != raw.FPDF_ANNOT_POPUP
        raw.FPDFPage_CloseAnnot(note)
    return count


def _has_area(note: Any) -> bool:
    import pypdfium2.raw as raw

    place = raw.FS_RECTF()
    return bool(raw.FPDFAnnot_GetRect(note, place)) and (
        place.left != place.right and place.bottom != place.top
    )
