"""Released documents: what is given away of a specification, the same wherever it is drawn."""

from __future__ import annotations

from dataclasses import replace

from hushdoc.labels import LabelledDocument
from hushdoc.viewing.rendition import as_png
from hushdoc_training.invented import drawing, planning
from hushdoc_training.invented.specification import Specification, plan_of


def document_of(specification: Specification, labels: str) -> LabelledDocument:
    """Returns the words, boxes, labels and questions of a specification, without its image."""
    return planning.labelled(plan_of(specification, labels=labels), labels)


def with_image(specification: Specification, labels: str) -> LabelledDocument:
    """Returns the same with its image in memory."""
    labelled = document_of(specification, labels)
    (page,) = labelled.document.pages
    pages = (replace(page, image=image_of(specification)),)
    return replace(labelled, document=replace(labelled.document, pages=pages))


def image_of(specification: Specification) -> bytes:
    """Returns the page's image in shades of gray, as the bytes of a PNG file."""
    return as_png(drawing.draw(plan_of(specification)).convert("L"))
