"""Questions that people ask about documents, with the words that answer them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hushdoc.labels import Question
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.settings import InventedConfig
from hushdoc_training.invented.word_lists import word_list, word_lists

_NO_NOUNS = frozenset(
    {"from", "sold to", "ship to", "bill to", "deliver to", "regarding", "dated", "received"}
)
_MOST = 8


class PlacedSegment(NamedTuple):
    """A segment of the finished page: its words' indices, its text as read and as intended."""

    word_ids: tuple[int, ...]
    text: str
    intended: str
    field: str | None


def questions(
    placed: Sequence[PlacedSegment | None],  # by number; None without a word on the page
    pairs: Iterable[tuple[int, int]],  # segments of a label and its value (-1 where blank)
    rows: Iterable[tuple[int, ...]],  # segments of one item, its description first
    cells: Iterable[tuple[int, int, int]],  # segments of a row's head, a column's head, a cell
    document_type: str,
    rng: Draws,
    config: InventedConfig,
    elsewhere: str,  # the text of the document's other pages
) -> tuple[Question, ...]:
    """Returns questions about fields, about labelled values and about items of a table."""
    found = [*_about_fields(placed, document_type, rng, config), *_about_items(placed, rows, rng)]
    found += _about_keys(placed, pairs, document_type, rng, config)
    found += _about_cells(placed, cells, rng)
    chosen: dict[str, Question] = {}
    for asked in rng.shuffled(found):
        chosen.setdefault(asked.text, asked)
    kept = tuple(chosen.values())[:_MOST]
    if config.questions == "mixed":
        return kept
    return _with_unanswerable(kept, placed, document_type, rng, config, elsewhere)


def _with_unanswerable(
    found: Sequence[Question],
    placed: Sequence[PlacedSegment | None],
    document_type: str,
    rng: Draws,
    config: InventedConfig,
    elsewhere: str,
) -> tuple[Question, ...]:
    """Returns questions together with some that have no answer.

    These ask only for what no text of the document is a cue of, so that none has one after all.
    """
    segments = [segment for segment in placed if segment is not None]
    texts = " ".join(f"{segment.text} {segment.intended}" for segment in segments)
    texts = f"{texts} {elsewhere}".casefold()
    known = {segment.field for segment in segments}
    cues = word_lists("wordings.cues")
    absent = [
        key for key in cues if key not in known and not any(cue in texts for cue in cues[key])
    ]
    odds = config.unanswerable / (1 - config.unanswerable)
    wanted = sum(rng.flip(min(1.0, odds)) for _ in range(max(1, len(found))))
    wordings = _wordings("wordings.fields", config)
    asked = [
        Question(
            text=rng.pick(wordings[key]).format(document_type=document_type), answers=(), key=key
        )
        for key in rng.sample(absent, wanted)
    ]
    return tuple(rng.shuffled([*found, *asked]))


def _wordings(table: str, config: InventedConfig) -> dict[str, tuple[str, ...]]:
    """Returns those wordings of each key that the config names."""
    return {key: options[slice(*config.wordings)] for key, options in word_lists(table).items()}


def _about_fields(
    placed: Sequence[PlacedSegment | None], document_type: str, rng: Draws, config: InventedConfig
) -> list[Question]:
    once: dict[str, list[PlacedSegment]] = {}
    keyed = config.questions == "keyed"
    phrasings = _wordings("wordings.fields", config) if keyed else word_lists("questions.fields")
    for segment in placed:
        if segment is not None and segment.field in phrasings:
            once.setdefault(segment.field, []).append(segment)
    return [
        _asked(
            rng.pick(phrasings[name]).format(document_type=document_type),
            segments[0],
            key=name if keyed else None,
        )
        for name, segments in once.items()
        if len({segment.text for segment in segments}) == 1
    ]


def _about_keys(
    placed: Sequence[PlacedSegment | None],
    pairs: Iterable[tuple[int, int]],
    document_type: str,
    rng: Draws,
    config: InventedConfig,
) -> list[Question]:
    values: dict[str, list[PlacedSegment]] = {}
    for question, answer in pairs:
        label, value = placed[question], placed[answer] if answer >= 0 else None
        if label is not None and value is not None and len(label.text) < 60:
            values.setdefault(label.text.rstrip(" :.-?"), []).append(value)
    asked: list[Question] = []
    for key, found in values.items():
        if not key or len(found) > 1:
            continue
        topic, field = _topic(key.lower()), found[0].field
        known = () if topic is None else _common_phrasings(topic, config)
        common = bool(known) and rng.flip(0.6)
        phrasing = rng.pick(known if common else _quoting(key))
        text = phrasing.format(key=key, lower=_lowered(key), document_type=document_type)
        meant = field if field in word_lists("wordings.fields") else topic
        named = meant if config.questions == "keyed" else None
        asked.append(_asked(text, found[0], key=named))
    return asked


def _topic(label: str) -> str | None:
    """Returns what a label asks for, if nearly every letter has it."""
    topics = word_lists("questions.common_labels").items()
    return next((topic for topic, labels in topics if label in labels), None)


def _common_phrasings(topic: str, config: InventedConfig) -> tuple[str, ...]:
    if config.questions == "mixed":
        return word_lists("questions.common")[topic]
    wordings = _wordings("wordings.common", config) | _wordings("wordings.fields", config)
    return wordings[topic]


def _quoting(key: str) -> tuple[str, ...]:
    """Returns the phrasings that suit a label; only nouns can stand without quotes."""
    phrasings = word_list("questions.labels")
    if len(key) > 3 and key.lower() not in _NO_NOUNS:
        return phrasings
    return tuple(phrasing for phrasing in phrasings if "{key}" in phrasing)


def _about_items(
    placed: Sequence[PlacedSegment | None], rows: Iterable[tuple[int, ...]], rng: Draws
) -> list[Question]:
    asked: list[Question] = []
    items: dict[str, tuple[int, ...] | None] = {}
    phrasings = word_lists("questions.items")
    for row in rows:
        item = placed[row[0]]
        if item is not None:
            items[item.text] = None if item.text in items else row
    for text, found in items.items():
        for number in (found or ())[1:]:
            value = placed[number]
            if value is not None and value.field in phrasings and rng.flip(0.4):
                phrasing = rng.pick(phrasings[value.field])
                asked.append(_asked(phrasing.format(item=text), value))
    return asked


def _about_cells(
    placed: Sequence[PlacedSegment | None], cells: Iterable[tuple[int, int, int]], rng: Draws
) -> list[Question]:
    where: dict[tuple[str, str], list[PlacedSegment]] = {}
    for row, column, cell in cells:
        head, top, value = placed[row], placed[column], placed[cell]
        if head is not None and top is not None and value is not None:
            names = (head.text.rstrip(" :?"), top.text.rstrip(" :?"))
            where.setdefault(names, []).append(value)
    asked = [
        _asked(rng.word("questions.cells").format(row=row, column=column), found[0])
        for (row, column), found in where.items()
        if row and column and len(found) == 1
    ]
    return rng.sample(asked, 4)


def _lowered(key: str) -> str:
    """Returns a label as it stands in a sentence."""
    words = key.split()
    return " ".join(word.lower() if len(word) > 3 or not word.isupper() else word for word in words)


def _asked(text: str, value: PlacedSegment, *, key: str | None = None) -> Question:
    answers = (value.text,) if value.text == value.intended else (value.text, value.intended)
    return Question(text=text, answers=answers, word_ids=value.word_ids, key=key)
