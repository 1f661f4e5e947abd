"""What makes a run the same run: its start, its labels, the very documents, and its claim."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from hushdoc.document.page import Page
from hushdoc.labels import LabelledDocument
from hushdoc_training import duplicates
from hushdoc_training.data import providers
from hushdoc_training.recipes import starts
from hushdoc_training.recipes.kie.start import Start


def documents_digest(documents: Sequence[LabelledDocument], *, unit: str = "document") -> str:
    """Returns a digest of ids, words, boxes and labels, whatever the order of the documents.

    Where providers are protected it is of their names too, as records are grouped by them: of one
    whose documents moved to another, two records differ. It answers whether a guessed document is
    among them, so it stays with the trainer; a ledger has a salted commitment to it.
    """
    by_provider = unit == "provider"
    if by_provider:
        providers.grouped(documents)  # so that a document without a provider is refused
    return duplicates.digest_of(
        _content(labelled)
        + (providers.spaced(labelled.provider or "").encode() if by_provider else b"")
        for labelled in documents
    )


def cut(start: Start, unit: str) -> str:
    """Returns what cuts documents into windows, where a window is a record; else nothing."""
    if unit != "sequence":
        return ""
    tokenizer = hashlib.sha256(start.tokenizer_json.encode("utf-8")).hexdigest()
    used = start.preprocessing
    return f"windows of {used.max_tokens} tokens by {tokenizer}, words as {used.word_order}"


def images_digest(documents: Sequence[LabelledDocument]) -> str:
    """Returns a digest of the files with the images of pages that have words.

    It stays with the trainer too.
    """
    return duplicates.digest_of(
        f"{labelled.document.id} {number} {page.frame} ".encode() + _file(page)
        for labelled in documents
        for number, page in enumerate(labelled.document.pages)
        if page.words
    )


def identity(start: Start, documents: str, claim: str) -> dict[str, Any]:
    """Returns what a resumed run must share with the run that began; `claim` is a digest."""
    return {
        **starts.identity(start, documents, claim),
        "labels": list(start.labels.fields),
        "preprocessing": start.preprocessing.to_dict(),
    }


def _file(page: Page) -> bytes:
    if page.image is None:
        return b""
    if isinstance(page.image, bytes):
        return hashlib.sha256(page.image).digest()
    with page.image.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def content(labelled: LabelledDocument, *, images: bool = False) -> bytes:
    """Returns all that training reads of a document, and not its id; images where they are read."""
    pages = [
        [[word.text, word.box.to_list()] for word in page.words] for page in labelled.document.pages
    ]
    spans = [[span.page, span.start, span.stop, span.label] for span in labelled.spans]
    files = [_file(page).hex() for page in labelled.document.pages] if images else []
    return json.dumps([pages, spans, *files]).encode()


def _content(labelled: LabelledDocument) -> bytes:
    return json.dumps(labelled.document.id).encode() + content(labelled)
