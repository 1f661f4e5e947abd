from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from PIL import Image

from hushdoc.document.document import Document
from hushdoc.labels import LabelledDocument, Question
from hushdoc.reading import page_image
from hushdoc_training.audit import memorization
from hushdoc_training.question_scores import QuestionScore

WORDS = (
    "Invoice",
    "ACME",
    "Trading",
    "www.acme.example",
    "sales@kc.example",
    "Acne",
    "TRADlNG",
    "Total",
    "12.50",
    "trade",
    "acmetrading2",
)
BOXES = [(10, 40 * number, 90, 40 * number + 30) for number in range(len(WORDS))]
NAME = Question(text="Who is it?", answers=("Acme Trading",), key="provider_name", word_ids=(1, 2))
TOTAL = Question(text="How much?", answers=("12.50",), key="total", word_ids=(8,))


def page_of(words: Sequence[str] = WORDS, *, image: bytes | None = None) -> LabelledDocument:
    document = Document.from_words(
        words, BOXES[: len(words)], width=100, height=480, image=image, id="one"
    )
    return LabelledDocument(
        document=document, spans=(), questions=(NAME, TOTAL), provider="Acme Trading"
    )


def texts(labelled: LabelledDocument) -> list[str]:
    return [word.text for page in labelled.document.pages for word in page.words]


@dataclass(frozen=True)
class Answers:
    """A rule that answers by the page's words and the question."""

    rule: Callable[[list[str], str], str | None]

    def score(self, documents: Sequence[LabelledDocument]) -> list[QuestionScore]:
        return [
            QuestionScore(
                document_id=labelled.document.id,
                provider=labelled.provider,
                key=asked.key,
                text=asked.text,
                answers=asked.answers,
                prediction=self.rule(texts(labelled), asked.text),
                confidence=0.95,
                loss=0.0,
            )
            for labelled in documents
            for asked in labelled.questions
        ]


def test_an_answer_is_hidden_with_whatever_tells_it() -> None:
    # Equal, like it, a part of it, in an address, around it; what is less alike stays.
    kept = texts(memorization.hide(page_of(), NAME.answers))
    assert kept == ["Invoice", "sales@kc.example", "Total", "12.50", "trade"]
    assert texts(memorization.hide(page_of(), ["KC"])) == list(WORDS)  # two letters are no name
    assert "sales@kc.example" not in texts(memorization.hide(page_of(), ["Sales"]))
    assert texts(memorization.hide(page_of(), ["12.50"])) == [
        word for word in WORDS if word != "12.50"
    ]
    assert texts(memorization.hide(page_of(), ["?"])) == list(WORDS)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("VAT", "DE", "123", "456", "789", "Total"), "DE123456789"),
        (("VAT", "1", "2", "-", "3", "4", "Total"), "12-34"),
        (("VAT", "A.", "C.", "M.", "E.", "Total"), "ACME"),
    ],
)
def test_an_answer_is_hidden_in_however_many_words_it_is_spelled(
    words: tuple[str, ...], answer: str
) -> None:
    document = Document.from_words(words, BOXES[: len(words)], width=100, height=480, id="one")
    labelled = LabelledDocument(document=document, spans=(), questions=())
    assert texts(memorization.hide(labelled, [answer])) == ["VAT", "Total"]


@pytest.mark.parametrize(
    "word", ["kcci.com", "kcci.com/pay", "KCCI.co.uk", "www.kcci", "https://kcci", "pay@kcci"]
)
def test_an_address_is_hidden_that_holds_a_word_of_the_answer(word: str) -> None:
    kept = texts(memorization.hide(page_of((word, "12.50", "tv.com")), ["KCCI Television Inc"]))
    assert kept == ["12.50", "tv.com"]


def test_places_of_hidden_words_are_blurred_and_no_others() -> None:
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 2, (480, 100), dtype=np.uint8) * 255
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    labelled = memorization.hide(page_of(image=content.getvalue()), ["12.50"])
    drawn = page_image(labelled.document.pages[0])
    assert drawn is not None
    seen = np.asarray(drawn.convert("L")).astype(float)
    x0, y0, x1, y1 = BOXES[8]
    inside = np.zeros(seen.shape, dtype=bool)
    inside[y0 : y1 + 1, x0 : x1 + 1] = True
    assert pixels[inside].std() > 120
    assert seen[inside].std() < 12
    assert (seen[~inside] == pixels[~inside]).all()


def test_no_image_is_drawn_for_models_that_read_none(monkeypatch: pytest.MonkeyPatch) -> None:
    (plain,) = memorization.without_images([page_of(image=b"an image")])
    monkeypatch.setattr(memorization, "page_image", None)
    hidden = memorization.hide(plain, ["12.50"])
    assert texts(hidden) == texts(memorization.hide(page_of(), ["12.50"]))
    assert [page.image for page in hidden.document.pages] == [None]
    assert replace(plain, document=page_of().document) == page_of()


def test_one_question_of_a_key_is_asked_of_each_document() -> None:
    [asked] = memorization.hidden([page_of()])
    assert [question.text for question in asked.questions] == ["Who is it?"]
    assert (asked.questions[0].word_ids, asked.provider) == ((), "Acme Trading")
    assert memorization.hidden([page_of(("ACME", "Trading"))]) == []  # no word would be left
    assert memorization.hidden([page_of()], keys=("email",)) == []


def test_only_what_the_twin_does_not_answer_is_memory() -> None:
    documents = memorization.hidden([page_of()] * 3)
    knows = Answers(lambda words, text: "ACME Trading").score(documents)
    reads = Answers(lambda words, text: words[0]).score(documents)
    found = memorization.compared(knows, [reads[0], *knows[1:]])
    assert (found.questions, found.right, found.twin_right) == (3, 3, 2)
    assert (found.memorised, found.confident, found.twin_alone) == (1, 1, 0)
    assert found.nls == 1.0
    back = memorization.compared([reads[0], *knows[1:]], knows)
    assert (back.memorised, back.twin_alone) == (0, 1)
    with pytest.raises(ValueError, match="other questions"):
        memorization.compared(knows[:1], Answers(lambda words, text: None).score([page_of()])[1:])


def test_who_remembers_says_the_same_without_the_page_and_who_reads_does_not() -> None:
    remembers = Answers(lambda words, text: "Acme Trading")
    assert memorization.memory_of(remembers, [page_of()]) == {"acmetrading": (1.0, 1.0)}
    reads = Answers(lambda words, text: words[0])
    assert memorization.memory_of(reads, [page_of()]) == {"acmetrading": (0.0, 0.0)}
    silent = Answers(lambda words, text: None)
    assert memorization.memory_of(silent, [page_of()]) == {"acmetrading": (0.0, 0.0)}


def test_answers_to_questions_that_have_none_are_counted() -> None:
    lacks = Question(text="Tax number?", answers=(), key="tax_id")
    tells = Question(text="Tax number?", answers=("91-08 ",), key="tax_id")
    date = Question(text="When?", answers=(), key="date")
    documents = [
        replace(page_of(), questions=questions)
        for questions in ((lacks, date, TOTAL), (lacks,), (tells,))
    ]
    knows, guesses = Answers(lambda words, text: "91-08"), Answers(lambda words, text: "7")
    assert memorization.Unfounded.of(knows, guesses, documents) == memorization.Unfounded(
        questions=2, said=2, known=2, twin_said=2, twin_known=0
    )
    silent = Answers(lambda words, text: None)
    found = memorization.Unfounded.of(silent, knows, documents)
    assert (found.said, found.known, found.twin_known) == (0, 0, 2)
