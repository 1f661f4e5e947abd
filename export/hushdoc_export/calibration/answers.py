"""Answers: what a finished model finds in labelled documents, and whether it is right."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from hushdoc import metrics
from hushdoc.document.document import Document
from hushdoc.hashing import segmentation
from hushdoc.labels import OUTSIDE, LabelledDocument, spans_from_tags
from hushdoc.runtime import kie
from hushdoc.runtime.classification import ClassificationModel
from hushdoc.runtime.docvqa import DocVQAModel
from hushdoc.runtime.hashed import model as crf
from hushdoc.runtime.scoring import Scoring
from hushdoc_export.calibration.fitting import Answers
from hushdoc_training import text_spans
from hushdoc_training.labelled_texts import ClassifiedText, LabelledText, TextSpan

RAW = Scoring(fitted_on="nothing", num_answers=0)
"""Scores as they are measured."""


def field_answers(model: kie.KIEModel, documents: Sequence[LabelledDocument]) -> Answers:
    """Returns the fields a model finds and whether each has the exact words of a true one.

    A calibration of the model's own must be off.
    """
    answers = []
    for number, item in enumerate(documents):
        truth = {
            (span.page, frozenset(range(span.start, span.stop)), span.label) for span in item.spans
        }
        for found in model.extract(item.document).fields:
            place = (found.page, frozenset(found.word_ids), found.label)
            answers.append((found.score, place in truth, number))
    return _answers(answers)


def question_answers(model: DocVQAModel, documents: Sequence[LabelledDocument]) -> Answers:
    """Returns what a model answers to questions, where it does, and whether it is right.

    A calibration of the model's own must be off.
    """
    answers = []
    for number, item in enumerate(documents):
        found = model.ask_all(item.document, [asked.text for asked in item.questions])
        answers += [
            (one.best.score, metrics.exact_match(one.text, asked.answers) == 1, number)
            for one, asked in zip(found, item.questions, strict=True)
            if one.text is not None
        ]
    return _answers(answers)


def class_answers(model: ClassificationModel, documents: Sequence[LabelledDocument]) -> Answers:
    """Returns what a classifier, uncalibrated, answers for documents whose class it knows."""
    numbers = {label: number for number, label in enumerate(model.labels)}
    known = [item for item in documents if item.document_type in numbers]
    logits = np.zeros((len(known), len(numbers)))
    for row, item in enumerate(known):
        for found in model.classify(item.document, top_k=len(numbers)).scores:
            logits[row, numbers[found.label]] = np.log(max(found.score, 1e-300))
    truth = np.asarray([numbers[str(item.document_type)] for item in known], dtype=np.int64)
    return Answers(
        scores=np.exp(logits).max(axis=1, initial=0),
        right=logits.argmax(axis=1) == truth,
        documents=np.arange(len(known)),
        logits=logits,
        truth=truth,
    )


def text_answers(model: crf.HashedCRFModel, texts: Sequence[LabelledText]) -> Answers:
    """Returns the fields a table finds and whether each is exactly a true one.

    The truth is cut as for training: a clause is a run of sentences that spans mark, an
    entity the tokens that lie in its span. Texts of nothing but whitespace are left out, and the
    table's own calibration does not count.
    """
    raw = model.scored_by(RAW)
    answers = []
    for number, labelled in enumerate(texts):
        if not labelled.text.strip():
            continue
        truth = set(_true_places(labelled, model.labels.fields, level=model.scheme.level))
        document = Document.from_text(labelled.text, id=f"text {number + 1}")
        for found in raw.extract(document).fields:
            place = (found.label, found.start, found.stop)
            answers.append((found.score, place in truth, number))
    return _answers(answers)


def whole_text_answers(model: ClassificationModel, texts: Sequence[ClassifiedText]) -> Answers:
    """Returns the best class of each text by a table, and whether it is the true one.

    Texts of nothing but whitespace are left out, and the table's own calibration does not count.
    """
    raw = model.scored_by(None)
    answers = []
    for number, classified in enumerate(texts):
        if not classified.text.strip():
            continue
        document = Document.from_text(classified.text, id=f"text {number + 1}")
        (best,) = raw.classify(document).scores
        answers.append((best.score, best.label == classified.label, number))
    return _answers(answers)


def _answers(answers: Sequence[tuple[float, bool, int]]) -> Answers:
    """Returns scores, whether each is right, and the documents' numbers as arrays."""
    scores, right, documents = zip(*answers, strict=True) if answers else ((), (), ())
    return Answers(
        scores=np.asarray(scores, dtype=np.float64),
        right=np.asarray(right, dtype=bool),
        documents=np.asarray(documents, dtype=np.int64),
    )


def _true_places(
    labelled: LabelledText, fields: Sequence[str], *, level: str
) -> Iterator[TextSpan]:
    """Yields label, first character and one past the last of each field, cut at `level`."""
    spans = text_spans.spans_of(labelled, fields)
    sentences = segmentation.sentences(labelled.text)
    if level == "sentence":
        labels = zip(text_spans.sentence_labels(sentences, spans), sentences, strict=True)
        for label, run in itertools.groupby(labels, key=lambda pair: pair[0]):
            places = [place for _, place in run]
            if label != OUTSIDE:
                yield label, places[0][0], places[-1][1]
        return
    for sentence in sentences:
        tokens = segmentation.tokens(labelled.text, *sentence)
        for span in spans_from_tags(list(text_spans.token_tags(tokens, spans))):
            yield span.label, tokens[span.start][0], tokens[span.stop - 1][1]
