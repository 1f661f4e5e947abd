"""Memorisation: does a model say what training documents said, where the page no longer says it?

PADQ: Tito et al.: Privacy-Aware Document Visual Question Answering (2023), section 5.1 and appendix
D.1. The answer to a question is taken off the page, from its words and its image, and the model is
asked. Leftovers that a human would read, such as part of a name in a web address, are looked for
too; some stay all the same, or the answer can be guessed. So what a model answers counts as memory
only against a twin: the same training without that provider. What both answer was on the page.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Self

from hushdoc import metrics
from hushdoc.document.page import Page, Word
from hushdoc.labels import LabelledDocument, Question
from hushdoc.reading import page_image
from hushdoc.viewing.normalised_text import normalised
from hushdoc.viewing.rendition import as_png
from hushdoc_training.data.providers import folded
from hushdoc_training.question_scores import Answering, QuestionScore

KEYS = ("provider_name", "email", "tax_id")
"""What is the same in all documents of a provider (PADQ, appendix D.1), by invented keys."""

CONFIDENT = 0.9
UNASKED = "?"
"""A question that names nothing, for what a model says when it is not asked (PADQ, 5.2.2)."""

BLUR_RADIUS = 20
"""In pixels of the page's image; of taller words, their height."""

_SITE = re.compile(r"\w\.[^\W\d_]{2}")
"""What an address of a site holds, such as `acme.com`: a dot in a word, and two letters behind."""

LIKE, LEAST_PART, LEAST_NAME = 0.8, 4, 3
"""Similarity of words that count as the answer's; letters of a part of it; and in an address."""


@dataclass(frozen=True, kw_only=True)
class Memorised:
    """Hidden answers that a model gives, and its twin does not.

    Attributes:
        questions: Asked of both, after the answer was hidden.
        right: Of the model that was trained on the providers.
        twin_right: Of the model that was trained without them.
        memorised: Right by the model and not by the twin.
        twin_alone: Right by the twin and not by the model: what differs by chance.
        confident: Memorised, with a confidence of CONFIDENT or more.
        nls: Mean similarity of the model's answers.
        twin_nls: Mean similarity of the twin's answers.
    """

    questions: int
    right: int
    twin_right: int
    memorised: int
    twin_alone: int
    confident: int
    nls: float
    twin_nls: float

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Unfounded:
    """Answers to questions that have none, of a model and its twin (PADQ, appendix D.1.4).

    Attributes:
        questions: Asked of both, about documents that have no answer to them.
        said: How many of them the model answers.
        known: How many it answers with what another of these documents says.
        twin_said: As `said`, of the twin.
        twin_known: As `known`, of the twin.
    """

    questions: int
    said: int
    known: int
    twin_said: int
    twin_known: int

    @classmethod
    def of(
        cls,
        model: Answering,
        twin: Answering,
        documents: Sequence[LabelledDocument],
        *,
        keys: Collection[str] = KEYS,
    ) -> Self:
        """Asks both the questions of these keys that documents have no answer to."""
        asked = [[one for one in item.questions if one.key in keys] for item in documents]
        known = {metrics.answer_of(text) for own in asked for one in own for text in one.answers}
        lacking = [
            replace(item, spans=(), questions=tuple(one for one in own if not one.answers))
            for item, own in zip(documents, asked, strict=True)
        ]
        own, twins = (_said(each.score(lacking), known) for each in (model, twin))
        return cls(
            questions=sum(len(item.questions) for item in lacking),
            said=own[0],
            known=own[1],
            twin_said=twins[0],
            twin_known=twins[1],
        )

    def to_dict(self) -> dict[str, int]:
        """Returns plain data for JSON."""
        return asdict(self)


def hidden(
    documents: Sequence[LabelledDocument], *, keys: Collection[str] = KEYS
) -> list[LabelledDocument]:
    """Returns documents with one question each, of these keys, whose answers are on no page.

    A document is there once for each key that it has an answer for; it has no spans. One that would
    be left without a word is left out.
    """
    made = []
    for labelled in documents:
        chosen = {
            question.key: question
            for question in reversed(labelled.questions)
            if question.key in keys and question.answers
        }
        for key in sorted(key for key in chosen if key is not None):
            without = hide(labelled, chosen[key].answers)
            if without.document.num_words:
                asked = replace(chosen[key], page=0, word_ids=())
                made.append(replace(without, questions=(asked,)))
    return made


def without_images(documents: Sequence[LabelledDocument]) -> list[LabelledDocument]:
    """Returns documents as models of words and boxes read them: no image has to be blurred."""
    made = []
    for item in documents:
        pages = tuple(replace(page, image=None, frame=0) for page in item.document.pages)
        made.append(replace(item, document=replace(item.document, pages=pages)))
    return made


def hide(labelled: LabelledDocument, answers: Sequence[str]) -> LabelledDocument:
    """Returns a document without these texts: no word like them, and their places blurred.

    Words are hidden where they are an answer, are like one, hold one, spell one together, or are
    part of one; in e-mail and web addresses, also where they hold a word of one. Questions and
    spans are left out.
    """
    pages = tuple(_hidden_page(page, answers) for page in labelled.document.pages)
    document = replace(labelled.document, pages=pages)
    return replace(labelled, document=document, spans=(), questions=())


def compared(model: Sequence[QuestionScore], twin: Sequence[QuestionScore]) -> Memorised:
    """Returns what a model remembers of providers that its twin was not trained on.

    Args:
        model: Scores for `hidden` documents of providers that it was trained on.
        twin: Those of the twin, for the same questions in that order.
    """
    pairs = list(zip(model, twin, strict=True))
    if any((one.document_id, one.text) != (two.document_id, two.text) for one, two in pairs):
        raise ValueError("model and twin were asked other questions; expected the same.")
    own = [one for one, two in pairs if one.exact_match > two.exact_match]
    return Memorised(
        questions=len(pairs),
        right=sum(one.exact_match > 0 for one in model),
        twin_right=sum(two.exact_match > 0 for two in twin),
        memorised=len(own),
        twin_alone=sum(one.exact_match < two.exact_match for one, two in pairs),
        confident=sum(one.confidence >= CONFIDENT for one in own),
        nls=fmean(one.nls for one in model) if pairs else 0.0,
        twin_nls=fmean(two.nls for two in twin) if pairs else 0.0,
    )


def memory_of(
    model: Answering, documents: Sequence[LabelledDocument]
) -> dict[str, tuple[float, float]]:
    """Returns features G4 of PADQ by folded provider: how alike answers are to hidden ones.

    The first is the mean similarity to answers that were hidden. For the second the model is asked
    nothing; what it says is hidden, and it is asked nothing once more: how alike both are.
    """
    named = [labelled for labelled in documents if folded(labelled.provider or "")]
    asked: dict[str, list[float]] = {folded(item.provider or ""): [] for item in named}
    unasked: dict[str, list[float]] = {name: [] for name in asked}
    for score in model.score(hidden(named)):
        asked[folded(score.provider or "")].append(score.nls)
    nothing = (Question(text=UNASKED, answers=()),)
    plain = [replace(item, spans=(), questions=nothing) for item in named]
    said = [score.prediction for score in model.score(plain)]
    again = [
        (text, replace(hide(item, [text]), questions=nothing))
        for item, text in zip(plain, said, strict=True)
        if text
    ]
    again = [(text, item) for text, item in again if item.document.num_words]
    scores = model.score([item for _, item in again])
    for (text, _), score in zip(again, scores, strict=True):
        unasked[folded(score.provider or "")].append(metrics.nls(score.prediction, [text]))
    return {name: (_mean(asked[name]), _mean(unasked[name])) for name in asked}


def _said(scores: Sequence[QuestionScore], known: Collection[str]) -> tuple[int, int]:
    """Returns how many questions are answered, and how many of them with what is known."""
    said = [metrics.answer_of(score.prediction) for score in scores if score.prediction]
    return len(said), sum(text in known for text in said)


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def _hidden_page(page: Page, answers: Sequence[str]) -> Page:
    found = {number for answer in answers for number in _places(page.words, answer)}
    if not found:
        return page
    words = tuple(word for number, word in enumerate(page.words) if number not in found)
    gone = [page.words[number] for number in sorted(found)]
    if page.image is None:
        return replace(page, words=words)
    content = _blurred(page, gone)
    return replace(page, words=words, image=content, frame=0, fingerprint=None)


def _places(words: Sequence[Word], answer: str) -> Iterator[int]:
    """Yields the numbers of words that tell an answer."""
    parts = [part for part in map(_letters, answer.split()) if part]
    whole = "".join(parts)
    if not whole:
        return
    page = [_letters(word.text) for word in words]
    yield from _spelled(page, whole)
    for size in range(max(1, len(parts) - 1), len(parts) + 2):
        for start in range(len(page) - size + 1):
            run = "".join(page[start : start + size])
            if abs(len(run) - len(whole)) <= len(whole) and (
                metrics.similarity(run, whole) >= LIKE
            ):
                yield from range(start, start + size)
    for number, text in enumerate(page):
        inside = len(text) >= LEAST_PART and text in whole
        around = len(whole) >= LEAST_PART and whole in text
        if inside or around or _tells(words[number].text, text, parts):
            yield number


def _spelled(page: Sequence[str], whole: str) -> Iterator[int]:
    """Yields the numbers of words that spell an answer together, however many they are."""
    for start in (number for number, text in enumerate(page) if text):
        run = ""
        for number in range(start, len(page)):
            run += page[number]
            if not whole.startswith(run):
                break
            if run == whole:
                yield from range(start, number + 1)
                break


def _tells(word: str, letters: str, parts: Sequence[str]) -> bool:
    """Returns whether a word is an e-mail or web address with a word of the answer in it."""
    address = "@" in word or "://" in word or word.count(".") > 1 or _SITE.search(word)
    return bool(address) and any(len(part) >= LEAST_NAME and part in letters for part in parts)


def _letters(text: str) -> str:
    """Returns a text's letters and digits alone, without case and accents."""
    return "".join(filter(str.isalnum, normalised(text)))


def _blurred(page: Page, words: Sequence[Word]) -> bytes:
    """Returns the page's image as PNG, each of these words' boxes blurred by itself."""
    from PIL import ImageFilter

    image = page_image(page)
    if image is None:
        raise ValueError("the page has no image; expected one that can be drawn.")
    for word in words:
        box = (
            int(word.box.x0),
            int(word.box.y0),
            min(image.width, int(word.box.x1) + 1),
            min(image.height, int(word.box.y1) + 1),
        )
        if box[0] < box[2] and box[1] < box[3]:
            radius = max(BLUR_RADIUS, box[3] - box[1])
            image.paste(image.crop(box).filter(ImageFilter.GaussianBlur(radius)), box[:2])
    return as_png(image)
