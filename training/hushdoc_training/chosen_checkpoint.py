"""Checkpoints of chosen pages: public documents that private votes chose, handed to export.

checkpoint.json      format version, task, method
documents.jsonl      the labelled documents, of one page each
images/              the PNG file of each page, in shades of gray
claim.json           what the votes say about privacy; export seals and signs it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hushdoc import labelled_files
from hushdoc.arguments import short_repr
from hushdoc.certificate.claim import Claim
from hushdoc.document.document import Document
from hushdoc.document.page import Page
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument
from hushdoc.reading import drawing
from hushdoc.synthetic_documents import CHOSEN
from hushdoc.system import atomic_files
from hushdoc.viewing.rendition import as_png
from hushdoc_training import checkpoint, duplicates
from hushdoc_training.checkpoint import damage
from hushdoc_training.synthetic_checkpoint import MOST_DOCUMENTS, TASK

VERSION = 1
"""Of what is handed on of a public document."""

_DOCUMENTS, _IMAGES = "documents.jsonl", "images"


@dataclass(frozen=True, kw_only=True)
class ChosenCheckpoint:
    """Public documents that private votes chose.

    Attributes:
        documents: As `released` makes them, each with its image.
        claim: What the votes say about privacy.
    """

    documents: tuple[LabelledDocument, ...]
    claim: Claim


def released(labelled: LabelledDocument) -> LabelledDocument:
    """Returns what is handed on of a document of one page: no file, and an id of its content."""
    (page,) = labelled.document.pages
    plain = Page(width=page.width, height=page.height, words=page.words)
    made = replace(labelled, document=Document(id="", pages=(plain,)))
    name = hashlib.sha256(json.dumps(labelled_files.to_dict(made)).encode()).hexdigest()[:32]
    return replace(made, document=replace(made.document, id=f"public-{name}"))


def content(labelled: LabelledDocument) -> bytes:
    """Returns what tells two documents with the same words apart."""
    return json.dumps(labelled_files.to_dict(released(labelled))).encode()


def digest(documents: Sequence[LabelledDocument]) -> str:
    """Returns a digest of public documents, whatever their order and names; images aside."""
    return f"sha256:{duplicates.digest_of(map(content, documents))}"


def require_one_page(labelled: LabelledDocument) -> None:
    """Raises unless a public document is of one page, with words and an image."""
    pages = labelled.document.pages
    if len(pages) != 1 or not pages[0].words or pages[0].image is None:
        raise AnnotationError(
            f"The public document {short_repr(labelled.document.id)} has {len(pages)} pages, "
            f"{sum(len(page.words) for page in pages)} words and "
            f"{sum(page.image is not None for page in pages)} images. Give public documents of one "
            "page, with words and an image."
        )


def image_of(page: Page) -> bytes:
    """Returns a page's image in shades of gray, as the bytes of a PNG file; it has one."""
    image = drawing.page_image(page)
    assert image is not None
    return as_png(image.convert("L"))


def save(folder: Path, documents: Sequence[LabelledDocument], claim: Claim) -> None:
    """Writes documents with their images where nothing may be yet, whole or not at all."""
    with atomic_files.new_folder(folder) as partial:
        (partial / _IMAGES).mkdir()
        made = []
        for labelled in documents:
            (page,) = labelled.document.pages
            one = released(labelled)
            image = partial / _IMAGES / f"{one.document.id}.png"
            image.write_bytes(image_of(page))
            with_image = replace(one.document.pages[0], image=image)
            made.append(replace(one, document=replace(one.document, pages=(with_image,))))
        labelled_files.write(partial / _DOCUMENTS, made)
        checkpoint.complete(partial, {"task": TASK, "method": CHOSEN}, claim)


def load(folder: Path) -> ChosenCheckpoint:
    """Reads a checkpoint folder, or the run folder around it; a CheckpointError refuses others."""
    folder = checkpoint.folder_of(folder)
    head = checkpoint.read_head(folder, (TASK,))
    with damage(folder):
        try:
            documents = tuple(labelled_files.read(folder / _DOCUMENTS))
            for labelled in documents:
                require_one_page(labelled)
        except AnnotationError as error:
            raise ValueError(str(error)) from error
        names = [labelled.document.id for labelled in documents]
        if head.get("method") != CHOSEN or len(names) > MOST_DOCUMENTS:
            raise ValueError(f"its method is {head.get('method')}, of {len(names)} documents")
        if names != [released(labelled).document.id for labelled in documents]:
            raise ValueError("a document is not what its id says")
        claim = Claim.from_json((folder / "claim.json").read_bytes())
    return ChosenCheckpoint(documents=documents, claim=claim)


def holds_chosen(folder: Path) -> bool:
    """Returns whether a folder, or the checkpoint in it, is of chosen pages."""
    return (checkpoint.folder_of(folder) / _DOCUMENTS).is_file()
