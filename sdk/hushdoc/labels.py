"""BIO tags and their spans, shared by metrics and by decoding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hushdoc.arguments import short_repr
from hushdoc.document.document import Document
from hushdoc.errors import AnnotationError

OUTSIDE = "O"


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Span:
    """A labelled run of neighbouring words on one page, from word `start` to one before `stop`."""

    page: int
    start: int
    stop: int
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question about a document with its answers and, if known, the words that answer it.

    One without answers asks for what is not there: the right answer is none. Its `key` names what
    it asks for, such as "total", however it is worded; `question_id` names it in its data set.
    """

    text: str
    answers: tuple[str, ...]
    page: int = 0
    word_ids: tuple[int, ...] = ()
    key: str | None = None
    question_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledDocument:
    """A document with its annotations, by people or by our generator.

    Spans of one page never overlap. Its provider, who issued it, is the privacy unit "provider".
    """

    document: Document
    spans: tuple[Span, ...]
    questions: tuple[Question, ...] = ()
    provider: str | None = None
    document_type: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelSet:
    """The fields a model can find, and the tags that encode them.

    Whether they were taken from documents makes no difference to which labels they are: but names
    that are released tell then that some document has each of them.
    """

    fields: tuple[str, ...]
    taken_from_documents: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        """Sorts the names so that equal sets are equal."""
        object.__setattr__(self, "fields", tuple(sorted(set(self.fields))))

    @property
    def tags(self) -> tuple[str, ...]:
        """All tags in the order of a model's outputs."""
        return (OUTSIDE, *(f"{prefix}-{name}" for name in self.fields for prefix in "BI"))

    @classmethod
    def from_documents(cls, documents: Iterable[LabelledDocument]) -> LabelSet:
        """Returns the labels that occur in these documents."""
        names = {span.label for item in documents for span in item.spans}
        return cls(fields=tuple(names), taken_from_documents=True)


def require_known(labelled: LabelledDocument, schema: LabelSet) -> None:
    """Raises AnnotationError unless every label of a document is in the schema."""
    unknown = sorted({span.label for span in labelled.spans} - set(schema.fields))
    if unknown:
        raise AnnotationError(
            f"The document {short_repr(labelled.document.id)} has the labels "
            f"{short_repr(unknown, 200)}, which are not in the schema: "
            f"{short_repr(list(schema.fields), 200)}. Correct the labels, or add them to it."
        )


def tags_of_pages(labelled: LabelledDocument) -> list[list[str]]:
    """Returns the tags of each page; a span that fits no page, or another one, is refused."""
    pages = labelled.document.pages
    for span in labelled.spans:
        require_page(span.page, f"The span '{span.label}'", len(pages))
    found = []
    for number, page in enumerate(pages):
        try:
            spans = (span for span in labelled.spans if span.page == number)
            found.append(tags_from_spans(len(page.words), spans))
        except AnnotationError as error:
            raise AnnotationError(f"On page {number}: {error}") from error
    return found


def require_page(page: int, what: str, num_pages: int) -> None:
    """Raises AnnotationError unless a document has a page of this number."""
    if not 0 <= page < num_pages:
        raise AnnotationError(
            f"{what} is on page {page} of a document with {num_pages} pages. Pages are numbered "
            f"from 0; expected 0 to {num_pages - 1}."
        )


def tags_from_spans(num_words: int, spans: Iterable[Span]) -> list[str]:
    """Returns one BIO tag for each word of a page; empty or overlapping spans are refused."""
    tags = [OUTSIDE] * num_words
    for span in spans:
        if not 0 <= span.start < span.stop <= num_words:
            raise AnnotationError(
                f"The span '{span.label}' covers words {span.start} to {span.stop} of a page with "
                f"{num_words} words. Expected 0 <= start < stop <= {num_words}; correct the label."
            )
        if any(tag != OUTSIDE for tag in tags[span.start : span.stop]):
            raise AnnotationError(
                f"The span '{span.label}' over words {span.start} to {span.stop} overlaps another "
                "span. Each word can belong to one field; remove one of the labels."
            )
        tags[span.start] = f"B-{span.label}"
        for index in range(span.start + 1, span.stop):
            tags[index] = f"I-{span.label}"
    return tags


def spans_from_tags(tags: Sequence[str], *, page: int = 0) -> list[Span]:
    """Returns the spans that a page's tags encode.

    An I that follows neither B nor I of its own label opens a new span, as the CoNLL-2000
    evaluation does.
    """
    spans: list[Span] = []
    start, label = 0, ""
    for index, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, name = tag.partition("-")
        if label and (prefix != "I" or name != label):
            spans.append(Span(page=page, start=start, stop=index, label=label))
            label = ""
        if prefix in ("B", "I") and not label:
            start, label = index, name
    return spans


def spans_from_words(words: Iterable[int], *, label: str, page: int = 0) -> list[Span]:
    """Returns the spans that some words of a page fill: one, unless others are between them."""
    members = set(words)
    starts = sorted(word for word in members if word - 1 not in members)
    stops = sorted(word + 1 for word in members if word + 1 not in members)
    return [
        Span(page=page, start=start, stop=stop, label=label)
        for start, stop in zip(starts, stops, strict=True)
    ]
