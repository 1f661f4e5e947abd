"""Labelled documents in the order of words that a model's contract states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hushdoc.labels import LabelledDocument, Span, spans_from_words
from hushdoc.runtime import encoding
from hushdoc.runtime.encoding import Preprocessing


def in_order(
    documents: Iterable[LabelledDocument], preprocessing: Preprocessing
) -> list[LabelledDocument]:
    """Returns documents with their words as the model reads them, labels moved along.

    A field between whose words others now stand becomes one field for each part, because that is
    all its tags can say. Documents that are in order stay as they are.

    Args:
        documents: Their words in any order.
        preprocessing: The model's; run time orders words by the same function.
    """
    if preprocessing.word_order == "given":
        return list(documents)
    return [_ordered(labelled, preprocessing) for labelled in documents]


def _ordered(labelled: LabelledDocument, preprocessing: Preprocessing) -> LabelledDocument:
    document, numbers = encoding.in_order(labelled.document, preprocessing)
    places = [{old: new for new, old in enumerate(order)} for order in numbers]
    return replace(
        labelled,
        document=document,
        spans=tuple(part for span in labelled.spans for part in _parts(span, places[span.page])),
        questions=tuple(
            replace(asked, word_ids=tuple(places[asked.page][word] for word in asked.word_ids))
            for asked in labelled.questions
        ),
    )


def _parts(span: Span, places: Mapping[int, int]) -> list[Span]:
    words = [places[word] for word in range(span.start, span.stop)]
    return spans_from_words(words, label=span.label, page=span.page)
