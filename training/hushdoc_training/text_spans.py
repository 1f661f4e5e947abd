"""Spans of characters become labels of sentences and tokens, the same in training and calibration.

A sentence carries the label of the spans that share more than half of the shorter of the two with
it: a clause that is one line of a long sentence marks the sentence, and so does a clause of ten
sentences each of them; a sentence that a span only grazes stays outside. Of several labels the one
with the most characters holds.

A token belongs to a span that holds more than half of its characters; a span begins anew in every
sentence, since features do not reach beyond one either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence

from hushdoc.errors import AnnotationError
from hushdoc.labels import OUTSIDE
from hushdoc_training.labelled_texts import LabelledText, TextSpan

Place = tuple[int, int]
"""First character and one past the last."""


def spans_of(labelled: LabelledText, names: Container[str]) -> list[TextSpan]:
    """Returns the spans of some labels in order; none may be empty or leave its text."""
    for label, start, stop in labelled.spans:
        if not 0 <= start < stop <= len(labelled.text):
            raise AnnotationError(
                f"The span '{label}' covers the characters {start} to {stop} of a text of "
                f"{len(labelled.text)}. Expected 0 <= start < stop <= {len(labelled.text)}; "
                "correct the span."
            )
    return sorted((span for span in labelled.spans if span[0] in names), key=lambda span: span[1:])


def sentence_labels(places: Sequence[Place], spans: Sequence[TextSpan]) -> Iterator[str]:
    """Yields the label of each sentence, OUTSIDE where it has none."""
    for (start, stop), overlapping in zip(places, _overlapping(places, spans), strict=True):
        shared: defaultdict[str, int] = defaultdict(int)
        for (label, first, last), characters in overlapping:
            if 2 * characters > min(stop - start, last - first):
                shared[label] += characters
        yield max(shared, key=lambda label: shared[label], default=OUTSIDE)


def token_tags(places: Sequence[Place], spans: Sequence[TextSpan]) -> Iterator[str]:
    """Yields the BIO tag of each token of one sentence; no two spans may claim one."""
    previous: TextSpan | None = None
    for (start, stop), overlapping in zip(places, _overlapping(places, spans), strict=True):
        inside = [span for span, characters in overlapping if 2 * characters > stop - start]
        if len(inside) > 1:
            raise AnnotationError(
                f"The spans {inside[0]} and {inside[1]} overlap. Each token can belong to one "
                "field; remove one of the labels."
            )
        span = inside[0] if inside else None
        if span is None:
            yield OUTSIDE
        else:
            yield f"{'I' if span == previous else 'B'}-{span[0]}"
        previous = span


def _overlapping(
    places: Sequence[Place], spans: Sequence[TextSpan]
) -> Iterator[list[tuple[TextSpan, int]]]:
    """Yields for each place the spans that share characters with it, and how many."""
    waiting = list(reversed(spans))
    open_spans: list[TextSpan] = []
    for start, stop in places:
        while waiting and waiting[-1][1] < stop:
            open_spans.append(waiting.pop())
        open_spans = [span for span in open_spans if span[2] > start]
        yield [(span, min(stop, span[2]) - max(start, span[1])) for span in open_spans]
