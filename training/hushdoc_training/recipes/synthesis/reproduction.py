"""Reproduction: whether a set of documents is what its specifications give, or a public folder.

A signature says who speaks; this says that no word, box, label, question or pixel of a set came
from anywhere but the public generator, or the public pages that its certificate names.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from PIL import Image

from hushdoc import labelled_files
from hushdoc.arguments import short_repr
from hushdoc.document.page import Page
from hushdoc.errors import ArtifactError
from hushdoc.labels import LabelledDocument
from hushdoc.synthetic_documents import (
    CHOSEN,
    MOVED,
    DrawnPage,
    SyntheticDocument,
    SyntheticDocuments,
    digest_of,
    line_of,
)
from hushdoc_training import chosen_checkpoint, drawn_checkpoint
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.drawn_checkpoint import KEYS
from hushdoc_training.invented import released, specification
from hushdoc_training.invented.specification import Specification
from hushdoc_training.recipes.synthesis import page_squares, selection
from hushdoc_training.recipes.synthesis.public_words import NO_WORDS, PublicWords
from hushdoc_training.recipes.synthesis.selection import MOST_COPIES, MOST_SIDE, Key
from hushdoc_training.recipes.synthesis.simulators import distinct
from hushdoc_training.synthetic_checkpoint import METHOD

_PUBLIC = {"public": True}
"""Specification of a public page that was chosen."""


def require_reproduced(
    documents: SyntheticDocuments,
    *,
    words: PublicWords = NO_WORDS,
    seen: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Draws every document again and compares all of it.

    Raises:
        ArtifactError: DOCUMENTS_NOT_REPRODUCED, where a document is not what its specification
            gives, has a word beside the list, or this version draws other pages; or the list is
            not that of the certificate.
        AnnotationError: A specification is out of range.
    """
    if documents.contents.method == CHOSEN:
        raise _not_reproduced(
            "they are pages of public documents that votes chose; name those with --public, to "
            "compare them"
        )
    if documents.contents.method == MOVED:
        raise _not_reproduced(
            "they are images of public pages that votes chose; name those with --public, to "
            "compare them"
        )
    if documents.contents.method != METHOD:
        raise _not_reproduced(
            f"a model drew them ('{documents.contents.method}'), which is not in the artifact"
        )
    version = documents.contents.generator
    if version != specification.VERSION:
        raise _not_reproduced(
            f"it was drawn by version {version} of the generator, this is {specification.VERSION}"
        )
    named = {data.digest for data in documents.certificate.claim.public_data}
    if not {data.digest for data in words.data} <= named:
        raise _not_reproduced("its certificate names another list of words, or none")
    listed = {*words.words}
    for number, item in enumerate(documents.documents):
        _require_same(item, documents.contents.labels, listed)
        seen(number + 1, len(documents))


def require_public(
    documents: SyntheticDocuments,
    public: Sequence[LabelledDocument],
    *,
    seen: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Compares every document of a set that votes chose with the public ones.

    Raises:
        ArtifactError: DOCUMENTS_NOT_REPRODUCED, where a document is none of them, they are not
            those that the certificate names, or the set was not chosen.
    """
    if documents.contents.method != CHOSEN:
        raise _not_reproduced("they were made, not chosen among public ones; leave out --public")
    named = {data.digest for data in documents.certificate.claim.public_data}
    if chosen_checkpoint.digest(distinct(public)) not in named:
        raise _not_reproduced("its certificate names other public documents")
    pages = {chosen_checkpoint.content(labelled): labelled for labelled in public}
    for number, item in enumerate(documents.documents):
        labelled = item.labelled
        same = pages.get(chosen_checkpoint.content(labelled))
        if item.specification != _PUBLIC:
            raise _not_reproduced(f"{short_repr(labelled.document.id)} declares more than its page")
        if same is None or labelled.document.id != chosen_checkpoint.released(same).document.id:
            raise _not_reproduced(f"{short_repr(labelled.document.id)} is no public page")
        if _pixels(labelled.document.pages[0].image) != _pixels(
            chosen_checkpoint.image_of(same.document.pages[0])
        ):
            raise _not_reproduced(f"{short_repr(labelled.document.id)} has another image")
        _require_line(item, labelled_files.to_dict(chosen_checkpoint.released(same)), _PUBLIC)
        seen(number + 1, len(documents))


def require_moved(
    documents: SyntheticDocuments,
    public: Sequence[ImageDocument],
    *,
    seen: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Moves every page of a set of images anew, from the public page that it names, and compares.

    The public documents come in the order they are read in.

    Raises:
        ArtifactError: DOCUMENTS_NOT_REPRODUCED, where a page shows anything else, the public
            documents are not those that the certificate names, or the set is none of such images.
    """
    claim = documents.certificate.claim
    if documents.contents.method != MOVED:
        raise _not_reproduced("they are no images of public pages")
    if f"sha256:{page_squares.digest(public)}" not in {data.digest for data in claim.public_data}:
        raise _not_reproduced("its certificate names other public documents")
    pages, classes = selection.pages_of(public), claim.training.get("classes")
    if not isinstance(classes, Sequence) or isinstance(classes, str):
        raise _not_reproduced(f"the classes are {short_repr(classes)}; expected names")
    side = _number(claim.training, "side", MOST_SIDE, least=1)
    for number, item in enumerate(documents.documents):
        name, label = item.labelled.document.id, item.labelled.document_type
        if name != drawn_checkpoint.id_of(number) or set(item.specification) != KEYS[MOVED]:
            raise _not_reproduced(f"{short_repr(name)} has another id or other keys than a page")
        key = _key_of(item, claim.training, len(pages))
        made = selection.moved_page(*pages[key[1]], side, key)
        if _pixels(item.labelled.document.pages[0].image) != (made.shape[::-1], made.tobytes()):
            raise _not_reproduced(f"{short_repr(name)} shows another page than it names")
        if label != item.specification.get("label") or label not in classes:
            raise _not_reproduced(f"{short_repr(name)} has another class")
        page = DrawnPage(id=name, width=side, height=side, document_type=label)
        _require_line(item, page.to_dict(), {"label": label, "page": key[1], "copy": key[2]})
        seen(number + 1, len(documents))


def num_public(documents: SyntheticDocuments) -> int:
    """Returns among how many public documents votes chose, as the certificate of a set says."""
    return _number(documents.certificate.claim.training, "public_documents", 2**31 - 1)


def _key_of(item: SyntheticDocument, training: Mapping[str, Any], pages: int) -> Key:
    """Returns seed, page and copy of a page, where specification and certificate declare them."""
    copies = _number(training, "copies", MOST_COPIES)
    return (
        _number(training, "seed", 2**31 - 1),
        _number(item.specification, "page", pages - 1),
        _number(item.specification, "copy", copies),
    )


def _number(declared: Mapping[str, Any], name: str, most: int, *, least: int = 0) -> int:
    value = declared.get(name)
    if type(value) is not int or not least <= value <= most:
        raise _not_reproduced(f"the {name} is {short_repr(value)}; expected {least} to {most}")
    return value


def _require_same(item: SyntheticDocument, labels: str, listed: Set[str]) -> None:
    found = item.labelled
    made = Specification.from_dict(dict(item.specification))
    if beside := [word for word in made.words if word not in listed]:
        raise _not_reproduced(
            f"{short_repr(found.document.id)} has the word {short_repr(beside[0])}, and no list of "
            "words that was given has it"
        )
    drawn = released.document_of(made, labels)
    pages = found.document.pages
    differs = [
        what
        for what, left, right in (
            ("id", found.document.id, drawn.document.id),
            ("words and boxes", _words(pages), _words(drawn.document.pages)),
            ("labels", found.spans, drawn.spans),
            ("questions", found.questions, drawn.questions),
            ("provider", found.provider, drawn.provider),
            ("document type", found.document_type, drawn.document_type),
        )
        if left != right
    ]
    if not differs and _pixels(pages[0].image) != _pixels(released.image_of(made)):
        differs = ["image"]
    if differs:
        raise _not_reproduced(
            f"{short_repr(found.document.id)} has other {', '.join(differs)} than its "
            "specification gives"
        )
    _require_line(item, labelled_files.to_dict(drawn), made.to_dict())


def _require_line(
    item: SyntheticDocument, document: Mapping[str, Any], specification: Mapping[str, Any]
) -> None:
    """Raises where the line of a document that was compared holds anything besides."""
    if item.digest != digest_of(line_of(document, specification)):
        raise _not_reproduced(
            f"the line of {short_repr(item.labelled.document.id)} is not the one that export "
            "writes of it: it holds more, such as who read it, or is written otherwise"
        )


def _words(pages: tuple[Page, ...]) -> list[object]:
    return [(page.width, page.height, page.words) for page in pages]


def _pixels(content: object) -> tuple[tuple[int, int], bytes]:
    """Returns size and shades of an image whose file holds nothing else."""
    if not isinstance(content, bytes):
        raise _not_reproduced("a page has no image")
    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as opened:
            if opened.mode == "L" and _of_shades_alone(content, *opened.size):
                return opened.size, opened.tobytes()
    except (OSError, struct.error, zlib.error, Image.DecompressionBombError):
        pass
    raise _not_reproduced("an image's file holds more, or less, than a shade of gray for a pixel")


def _of_shades_alone(content: bytes, width: int, height: int) -> bool:
    """Whether a PNG file has lines of a byte for a pixel, and no chunk or byte besides."""
    place, chunks, packed = 8, [], b""
    while place < len(content):
        size, name = struct.unpack_from(">I4s", content, place)
        chunks.append(name)
        packed += content[place + 8 :][:size] if name == b"IDAT" else b""
        place += 12 + size
    others = 8 + (12 + 13) + 12 * chunks.count(b"IDAT") + 12
    inflated, expected = zlib.decompressobj(), (1 + width) * height
    lines = inflated.decompress(packed, expected + 1)
    return (
        [*dict.fromkeys(chunks)] == [b"IHDR", b"IDAT", b"IEND"]
        and len(content) == others + len(packed)
        and len(lines) == expected
        and inflated.eof
        and not inflated.unused_data
    )


def _not_reproduced(found: str) -> ArtifactError:
    return ArtifactError(
        f"The synthetic documents were not drawn from their specifications: {found}. Ask their "
        "issuer; where fonts differ, draw again with the versions that the issuer names.",
        code="DOCUMENTS_NOT_REPRODUCED",
    )
