"""Keyed questions: what is asked, in many wordings, with and without an answer, on many pages."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from hushdoc import labelled_files
from hushdoc.labels import LabelledDocument
from hushdoc_training import invented
from hushdoc_training.invented import imprints, line_ocr, providers
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.word_lists import word_lists

TYPES = ("form", "invoice", "receipt", "till-receipt")
KEYED = invented.InventedConfig(document_types=TYPES, questions="keyed")


def made(config: invented.InventedConfig, count: int = 80) -> list[LabelledDocument]:
    return list(invented.documents(seed=5, count=count, config=config))


def text_of(item: LabelledDocument) -> str:
    return " ".join(word.text for page in item.document.pages for word in page.words).casefold()


def test_every_key_has_twenty_wordings_of_its_own() -> None:
    wordings = word_lists("wordings.fields") | word_lists("wordings.common")
    counts = Counter(wording for options in wordings.values() for wording in options)
    assert {len(options) for options in wordings.values()} == {invented.NUM_WORDINGS}
    assert counts.most_common(1)[0][1] == 1
    assert {"email", "registration_number", "provider_name", "tax_id"} <= wordings.keys()
    assert word_lists("questions.fields").keys() <= wordings.keys()
    assert word_lists("wordings.cues").keys() <= wordings.keys()


def test_questions_have_keys_and_their_words_stand_where_they_say() -> None:
    found = made(replace(KEYED, pages=(1, 3)))
    answered = [(item, asked) for item in found for asked in item.questions if asked.answers]
    for item, asked in answered:
        words = item.document.pages[asked.page].words
        assert asked.answers[0] == " ".join(words[place].text for place in asked.word_ids)
    keys = Counter(asked.key for _, asked in answered)
    assert min(keys[key] for key in ("email", "registration_number", "tax_id", "total")) >= 5
    assert len({asked.text for _, asked in answered if asked.key == "total"}) > 15
    for item in found:
        item.document.check()


def test_what_has_no_answer_stands_nowhere() -> None:
    found = made(replace(KEYED, pages=(1, 2)), 100)
    absent = [(item, asked) for item in found for asked in item.questions if not asked.answers]
    share = len(absent) / sum(len(item.questions) for item in found)
    assert 0.1 < share < 0.25
    assert {asked.key for _, asked in absent} == word_lists("wordings.cues").keys()
    for item, asked in absent:
        assert asked.key is not None
        assert asked.word_ids == ()
        assert asked.key not in {span.label for span in item.spans}
        assert not any(cue in text_of(item) for cue in word_lists("wordings.cues")[asked.key])
    assert all(
        asked.answers for item in made(replace(KEYED, unanswerable=0.0)) for asked in item.questions
    )


def test_wordings_are_of_the_range_that_is_named() -> None:
    """Those that quote a label of the page may happen to be one of the others."""
    known = word_lists("wordings.fields") | word_lists("wordings.common")
    found = {
        (asked.text, known[asked.key].index(wording))
        for item in made(replace(KEYED, wordings=(12, 20)))
        for asked in item.questions
        if asked.key
        for wording in known[asked.key]
        if wording.format(document_type=item.document_type) == asked.text
    }
    assert len({place for _, place in found}) >= 8
    others = {text for text, place in found if place < 12}
    assert all(text.startswith("What is the ") for text in others)
    assert len(others) < len(found) / 10


def test_a_company_always_prints_the_same_of_itself() -> None:
    config = replace(KEYED, document_types=("invoice", "receipt"), misspelled=0.0, labels="docile")
    values: dict[str, set[str]] = {}
    for number in range(40):
        told = {line.field: line.text for line in imprints.lines(number)}
        for item in made(replace(config, providers=(number, number + 1)), 3):
            for span in item.spans:
                if span.label in ("vendor_email", "vendor_registration_id"):
                    words = item.document.pages[0].words[span.start : span.stop]
                    text = " ".join(word.text for word in words)
                    values.setdefault(f"{number} {span.label}", set()).add(text)
                    known = (told.get("registration_number"), providers.provider(number).email)
                    assert text in known
    assert len(values) > 30
    assert all(len(texts) == 1 for texts in values.values())


def test_pages_are_the_same_but_for_what_is_asked_of_them() -> None:
    """Settings of questions change nothing else: a stream without them stays as it is."""
    config = invented.InventedConfig(document_types=TYPES)
    plain = made(config, 30)
    assert plain == made(replace(config, wordings=(3, 9), unanswerable=0.5), 30)
    assert all(asked.key is None for item in plain for asked in item.questions)
    several = made(replace(config, pages=(2, 4)), 30)
    for one, bound in zip(plain, several, strict=True):
        assert one.document.pages[0] in bound.document.pages
        assert (len(bound.document.pages) > 1) == (one.document_type in ("form", "invoice"))
        assert one.questions == tuple(replace(asked, page=0) for asked in bound.questions)
    places = {item.questions[0].page for item in several if item.questions}
    assert places == {0, 1}


def test_keyed_documents_are_the_same_for_ever() -> None:
    digest = hashlib.sha256()
    for item in made(replace(KEYED, pages=(1, 3)), 40):
        digest.update(labelled_files.dumps(item).encode())
    assert digest.hexdigest() == "daff138136d0e9cb5f543def433c82db805189758db2315430e7febfd2070ec9"


def test_every_page_has_its_image(tmp_path: Path) -> None:
    config = replace(KEYED, document_types=("invoice",), pages=(2, 2))
    (path,) = invented.write(tmp_path / "docs", seed=5, count=1, config=config)
    found = labelled_files.read_one(path)
    names = [page.image.name for page in found.document.pages if isinstance(page.image, Path)]
    assert names == [f"{path.stem}-0.png", f"{path.stem}-1.png"]
    for number, page in enumerate(found.document.pages):
        image = invented.image(seed=5, index=0, config=config, page=number)
        assert image.size == (page.width, page.height)
    assert found.questions == invented.document(seed=5, index=0, config=config).questions


def test_lines_that_ocr_joins_give_no_answer_to_what_has_none() -> None:
    config = replace(KEYED, document_types=("till-receipt",), unanswerable=0.5)
    reading = line_ocr.LineReading(by_line=True, shared=True, glued=True, joined=0.9, leaning=0.0)
    item = next(item for item in made(config) if any(not asked.answers for asked in item.questions))
    again = line_ocr.as_read(item, reading, Draws(1))
    assert [asked.answers for asked in again.questions if not asked.word_ids] == [
        () for asked in item.questions if not asked.answers
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"questions": "many"},
        {"wordings": (5, 5)},
        {"wordings": (0, 21)},
        {"unanswerable": 1.0},
        {"pages": (0, 1)},
        {"pages": (3, 2)},
        {"pages": (1, 51)},
    ],
)
def test_settings_that_can_not_be_met_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        invented.InventedConfig(**wrong)  # type: ignore[arg-type]
