"""Sets of documents as images: one address for published layouts, own folders, other corpora.

path/to/docmix               pages of nine classes, with boxes of their lines (`docmix`)
path/to/rvl-cdip             RVL-CDIP as it is unpacked, images/ and labels/ (`rvl_cdip`)
path/to/folders              a folder of images for each class, as Tobacco3482 is (`class_folders`)
anything else                what `dataset` reads, where documents have images and a document_type
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hushdoc.arguments import printable, short_repr
from hushdoc.document.page import Page
from hushdoc.errors import AnnotationError, EmptyDocumentError
from hushdoc.labels import LabelledDocument
from hushdoc_training.data import class_folders, dataset, docmix, image_documents, rvl_cdip, splits
from hushdoc_training.data.corpus import Problems
from hushdoc_training.data.dataset import Report, Seen, Source
from hushdoc_training.data.image_documents import ImageCorpus, ImageDocument

NO_CLASS = "document without a document_type, left out"
NO_IMAGE = "document with a page that has no image, left out"
ONE_PAGE = "class of one document"

LEFT_OUT = (image_documents.UNREADABLE, image_documents.TINY, rvl_cdip.MISSING, NO_CLASS, NO_IMAGE)
"""Why a document is not read; of protected ones each is refused, as their claims say."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A data set for private training: what is public of it, what is protected, what is scored."""

    public: tuple[ImageDocument, ...]
    private: tuple[ImageDocument, ...]
    test: tuple[ImageDocument, ...]


@contextlib.contextmanager
def opened(
    source: Source,
    *,
    seen: Seen = lambda done, total: None,
    report: Report = lambda line: None,
    protected: bool = False,
) -> Iterator[tuple[ImageDocument, ...]]:
    """Yields the source's documents; images of invented pages are files until the context closes.

    Args:
        source: Where they are.
        seen: Told of progress.
        report: Told what was odd.
        protected: Whether a guarantee is for these documents. One that can't be read, or has no
            class, is refused then, and left out and counted otherwise.

    Raises:
        AnnotationError: No reader knows the files, labels contradict them, two documents have one
            id, or a protected one can't be read.
        EmptyDocumentError: There is no document with an image and a class.
        InputError: A list of files is damaged.
    """
    problems = Problems()
    corpus = None if source.is_invented else corpus_of(Path(source.location))
    with contextlib.ExitStack() as stack:
        if corpus is not None:
            found = corpus.read(Path(source.location), problems)
            title = corpus.title
        else:
            documents = stack.enter_context(
                dataset.opened(source, images=True, seen=seen, report=report)
            )
            found = _of_labelled(documents, problems)
            title = "images of documents"
        kept = _distinct(found, source.location, problems if protected else None)
        for label, count in sorted(Counter(one.label for one in kept).items()):
            if count == 1:
                problems.add(ONE_PAGE, printable(label))
        if corpus is not None:
            report(f"Documents read: {len(kept)} ({title})")
        for line in problems.lines():
            report(line)
        yield kept


def corpus_of(path: Path) -> ImageCorpus | None:
    """Returns the layout of classified images that a path has; None where it has none of them."""
    dataset.refuse_releases(path)
    published = (docmix.CORPUS, rvl_cdip.CORPUS)
    found = next((corpus for corpus in published if corpus.recognises(path)), None)
    # Corpora of words keep their images in a folder too, which is no class.
    if found is not None or any(corpus.recognises(path) for corpus in dataset.CORPORA):
        return found
    return class_folders.CORPUS if class_folders.CORPUS.recognises(path) else None


def corpus_name(source: Source) -> str | None:
    """Returns the name of the layout that `corpus_of` a source finds; None for other documents."""
    found = None if source.is_invented else corpus_of(Path(source.location))
    return None if found is None else found.name


def parts(
    documents: Iterable[ImageDocument],
    *,
    public: Collection[str],
    held_out: float,
    salt: str = splits.SALT,
) -> Parts:
    """Returns a public part, and of all other documents one to protect and one to score on.

    The side of a document follows from the digest of its images alone, so copies of an image are on
    one side, whatever their names.

    Args:
        documents: In any order.
        public: Classes or sources that count as public.
        held_out: The share of the others to score on.
        salt: A public text; another one is another split.

    Raises:
        AnnotationError: A public class or source is of no document.
    """
    every = list(documents)
    known = {one.label for one in every} | {one.source for one in every if one.source}
    if unknown := sorted(set(public) - known):
        raise AnnotationError(
            f"No document is of the class or source {short_repr(unknown, 200)}; there are "
            f"{short_repr(sorted(known), 400)}. Name some of these."
        )
    rest = [one for one in every if not {one.label, one.source} & set(public)]
    split = splits.split(
        rest,
        held_out=held_out,
        traits=lambda one: splits.Traits(id=content_digest(one), texts=()),
        salt=salt,
    )
    return Parts(
        public=tuple(one for one in every if {one.label, one.source} & set(public)),
        private=split.train,
        test=split.held_out,
    )


def content_digest(document: ImageDocument) -> str:
    """Returns a digest of the images of a document, of files by their content."""
    digest = hashlib.sha256()
    for page in document.pages:
        digest.update(file_digest(page) + page.frame.to_bytes(4, "big"))
    return digest.hexdigest()


def file_digest(page: Page) -> bytes:
    """Returns a digest of the file that a page's image is in."""
    image = page.image
    content = image if isinstance(image, bytes) else Path(str(image)).read_bytes()
    return hashlib.sha256(content).digest()


def of_documents(documents: Iterable[LabelledDocument], where: str) -> tuple[ImageDocument, ...]:
    """Returns labelled documents as images; EmptyDocumentError where none has image and class."""
    return _distinct(_of_labelled(documents, Problems()), where)


def _of_labelled(
    documents: Iterable[LabelledDocument], problems: Problems
) -> Iterator[ImageDocument]:
    """Yields labelled documents as images, their lines the boxes of their segments."""
    for labelled in documents:
        document = labelled.document
        if labelled.document_type is None:
            problems.add(NO_CLASS, document.id)
        elif any(page.image is None for page in document.pages):
            problems.add(NO_IMAGE, document.id)
        else:
            yield ImageDocument(
                id=document.id,
                label=labelled.document_type,
                pages=tuple(replace(page, words=()) for page in document.pages),
                lines=tuple(tuple(dict.fromkeys(page.segment_boxes())) for page in document.pages),
            )


def _distinct(
    found: Iterable[ImageDocument], where: str, problems: Problems | None = None
) -> tuple[ImageDocument, ...]:
    """Returns documents of distinct ids; with problems none of them may be left out."""
    kept: dict[str, ImageDocument] = {}
    for one in found:
        if kept.setdefault(one.id, one) is not one:
            raise AnnotationError(
                f"'{printable(where)}' has two documents with the id {short_repr(one.id)}; every "
                "document needs one of its own. Remove one of them, or give it another id."
            )
    if problems is not None and (left := problems.lines(LEFT_OUT)):
        raise AnnotationError(
            f"'{printable(where)}' has documents that can't be read: {', and '.join(left)}. All of "
            "them have to be read, as the guarantee is stated for readable documents alone. "
            "Replace these files by readable images of a class, or take them out of the data."
        )
    if not kept:
        raise EmptyDocumentError(
            f"No document in '{printable(where)}' has an image that can be read and a class; at "
            "least one is needed. Give a folder of images for each class, or documents with a "
            '"document_type" and images (docs/data-formats.md).'
        )
    return tuple(kept.values())
