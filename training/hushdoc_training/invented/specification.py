"""Specification: a document before it is laid out, as choices among public, finite values.

Contract: a document is a pure function of its specification, as it is of seed and index in the
stream; `content` keys everything that no factor says. Whoever changes a table here changes what
specifications that were written before mean, and has to raise VERSION.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hushdoc.arguments import short_repr
from hushdoc.errors import AnnotationError
from hushdoc_training.invented import noise, planning, providers, shops
from hushdoc_training.invented.planning import IMAGE, PAGE, Plan
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.settings import (
    KNOWN_TYPES,
    LAYOUTS,
    NUM_PROVIDERS,
    TILL_RECEIPT,
    InventedConfig,
)
from hushdoc_training.invented.word_lists import word_lists

VERSION = 1

_LONGEST = 24
"""Letters of a word that goods may be called by."""

_KEY = 0x0D0C5BEC
"""Seeds the documents of specifications; the stream of a seed is another one."""

LEVELS = 8
"""Values of a habit: parts of equal size of its range from 0 to 1."""

_OWN = "own"
"""What a locale is used to, instead of one value for all."""

_DATES = {
    "dd/mm/yyyy": "%d/%m/%Y", "dd/mm/yy": "%d/%m/%y", "dd-mm-yyyy": "%d-%m-%Y",
    "dd.mm.yyyy": "%d.%m.%Y", "mm/dd/yyyy": "%m/%d/%Y", "mm/dd/yy": "%m/%d/%y",
    "yyyy-mm-dd": "%Y-%m-%d", "d Mon yyyy": "%-d %b %Y", "dd-MON-yy": "%d-%b-%y",
    "Month d, yyyy": "%B %-d, %Y", "d Month yyyy": "%-d %B %Y",
}  # fmt: skip
_ITEMS = {"few": 2, "some": 5, "many": 10, "long": 20}
MOST_WORDS = 24
"""Words at most that a document's goods are called by."""

_WEAR = {"clean": (0.0, 0.0, 0.0), "usual": (0.02, 1.5, 0.7), "rough": (0.06, 4.0, 1.5)}
"""Share of misread words, how far boxes are off in pixels, and how far pages are turned."""

_TILL_FACES = ("mono", "typewriter", "grotesque", "plain", "sans")
_TILL_HABITS = (
    "label total", "label date", "label subtotal", "label number", "label cash", "capitals",
    "label change", "label time", "label rounding", "label tax", "inclusive", "rounding",
    "facts below", "heads", "sum manner", "label ends", "label num_quantity", "label quantity",
    "label amount", "summary", "name above", "big total", "signs of totals", "sum ends",
)  # fmt: skip
"""What the habits decide on receipts of tills; on other documents the first 16 are a provider's."""

LOCALES = tuple(sorted(word_lists("shops.streets")))

FACTORS: Mapping[str, tuple[str, ...]] = {
    "document_type": KNOWN_TYPES,
    "layout": tuple(name for kind in KNOWN_TYPES for name in LAYOUTS[kind]),
    "locale": LOCALES,
    "date_style": (_OWN, *_DATES),
    "amounts": (_OWN, "bare", "signed"),
    "typeface": (_OWN, "mono", "typewriter", "grotesque", "plain", "sans", "serif", "times"),
    "items": (_OWN, *_ITEMS),
    "wear": tuple(_WEAR),
    **{f"habit-{place:02d}": tuple(map(str, range(LEVELS))) for place in range(len(_TILL_HABITS))},
}
"""Every factor with its values, in the order in which votes count them."""

_NAMES = tuple(FACTORS)
_HABIT = _NAMES.index("habit-00")

Weights = Mapping[str, Sequence[float]]
"""How probable each value of a factor is; a factor that is not named has equal ones."""


@dataclass(frozen=True, slots=True)
class Specification:
    """A document as the places of its values in FACTORS, and the key of all else.

    Attributes:
        levels: The place of the value of every factor, in the order of FACTORS.
        provider: Whose document it is, from 0 to NUM_PROVIDERS - 1.
        content: Keys its amounts, dates, goods and noise, from 0 to below 2**63.
        words: What goods are called by, three a line; forms and letters have none.
    """

    levels: tuple[int, ...]
    provider: int
    content: int
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for what no document has."""
        sizes = [len(choices) for choices in FACTORS.values()]
        if len(self.levels) != len(sizes) or not all(
            type(level) is int and 0 <= level < size
            for level, size in zip(self.levels, sizes, strict=False)
        ):
            raise ValueError(
                f"levels are {short_repr(self.levels)}; expected {len(sizes)} places in FACTORS."
            )
        if self["layout"] not in LAYOUTS[self["document_type"]]:
            raise ValueError(
                f"the layout is '{self['layout']}', which no {self['document_type']} has."
            )
        for name, value, stop in (
            ("provider", self.provider, NUM_PROVIDERS),
            ("content", self.content, 2**63),
        ):
            if type(value) is not int or not 0 <= value < stop:
                raise ValueError(f"{name} is {short_repr(value)}; expected 0 to {stop - 1}.")

        if len(self.words) > MOST_WORDS or not all(map(is_word, self.words)):
            raise ValueError(
                f"words are {short_repr(self.words)}; expected at most {MOST_WORDS} of up to "
                f"{_LONGEST} letters."
            )

    def __getitem__(self, factor: str) -> str:
        """Returns the value of a factor."""
        return FACTORS[factor][self.levels[_NAMES.index(factor)]]

    @property
    def id(self) -> str:
        """How a set of documents names it."""
        return f"{self['document_type']}-{self.content:016x}"

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        values = {name: self[name] for name in _NAMES[:_HABIT]}
        habits = list(self.levels[_HABIT:])
        return {
            "version": VERSION,
            **values,
            "habits": habits,
            "provider": self.provider,
            "content": f"{self.content:016x}",
            **({"words": list(self.words)} if self.words else {}),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Specification:
        """Returns what `to_dict` wrote; an AnnotationError for anything else."""
        try:
            return _parsed(data)
        except (KeyError, TypeError, ValueError) as error:
            raise AnnotationError(
                f"A document's specification is out of range: {error!s:.300}. Expected version "
                f"{VERSION}, the values of invented.FACTORS, habits, a provider and a content key; "
                "take the file from where it was written."
            ) from error


def _parsed(data: Any) -> Specification:
    expected = {"version", *_NAMES[:_HABIT], "habits", "provider", "content"}
    if type(data) is not dict or data.keys() - {"words"} != expected or data["version"] != VERSION:
        raise ValueError(f"it is {short_repr(data)}")
    habits, content = data["habits"], data["content"]
    if type(habits) is not list or re.fullmatch(r"[0-7][0-9a-f]{15}", content) is None:
        raise ValueError(f"habits are {short_repr(habits)} and content {short_repr(content)}")
    levels = []
    for name in _NAMES[:_HABIT]:
        if data[name] not in FACTORS[name]:
            raise ValueError(f"{name} is {short_repr(data[name])}")
        levels.append(FACTORS[name].index(data[name]))
    words = data.get("words", [])
    if type(words) is not list:
        raise ValueError(f"words are {short_repr(words)}")
    return Specification((*levels, *habits), data["provider"], int(content, 16), tuple(words))


def is_word(text: object) -> bool:
    """Returns whether something is a word that goods may be called by: letters, not too many."""
    return type(text) is str and len(text) <= _LONGEST and text.isalpha()


def draw(rng: Draws, weights: Weights | None = None) -> Specification:
    """Returns a specification with every factor drawn anew, by the weights of their values."""
    return vary(None, rng, share=1.0, weights=weights)


def vary(
    parent: Specification | None,
    rng: Draws,
    *,
    share: float,
    weights: Weights | None = None,
    words: Mapping[str, float] | None = None,
) -> Specification:
    """Returns one like its parent, each factor drawn anew with a probability; content always.

    Layouts are drawn among those of the document type, so another type brings another layout. Each
    of the words stands on the document with its own probability.
    """
    weights = weights or {}
    levels: list[int] = []
    for place, (name, choices) in enumerate(FACTORS.items()):
        allowed = range(len(choices))
        if name == "layout":
            own = LAYOUTS[KNOWN_TYPES[levels[0]]]
            allowed = range(choices.index(own[0]), choices.index(own[-1]) + 1)
        kept = None if parent is None or rng.flip(share) else parent.levels[place]
        if kept is None or kept not in allowed:
            odds = weights.get(name)
            pairs = [(level, 1.0 if odds is None else odds[level]) for level in allowed]
            if not sum(odd for _, odd in pairs) > 0:
                pairs = [(level, 1.0) for level in allowed]
            kept = rng.weighted(pairs)
        levels.append(kept)
    content = sum(rng.integer(0, 2**21 - 1) << (21 * part) for part in range(3))
    provider = rng.integer(0, NUM_PROVIDERS - 1)
    said = [word for word, odds in (words or {}).items() if rng.flip(odds)][:MOST_WORDS]
    return Specification(tuple(levels), provider, content, tuple(said))


def plan_of(specification: Specification, *, labels: str = "fields") -> Plan:
    """Returns the page of a specification; `planning.labelled` and `drawing.draw` make the rest.

    Args:
        specification: What the page is.
        labels: One of `label_sets.LABEL_SETS`; the page is the same under all.

    Example:
        >>> one = draw(Draws(7))
        >>> plan_of(one).id == one.id and plan_of(one).sheet == plan_of(one).sheet
        True
    """
    kind, number = specification["document_type"], specification.provider
    misspelled, jitter, skew = _WEAR[specification["wear"]]
    config = InventedConfig(
        document_types=(kind,),
        providers=(number, number + 1),
        labels=labels,
        misspelled=misspelled,
        jitter_pixels=jitter,
        skew_degrees=skew,
    )
    key = (_KEY, specification.content)
    habits = _habits(specification, Draws(*key, PAGE, 1))
    shop = _shop(specification, habits) if kind == TILL_RECEIPT else None
    provider = _provider(specification, habits)
    rng = Draws(*key, PAGE)
    sheet = planning.sheet_of(kind, specification["layout"], provider, shop, rng)
    return Plan(
        id=specification.id,
        key=(*key, IMAGE),
        document_type=kind,
        layout=specification["layout"],
        provider=provider,
        sheet=sheet,
        scan=noise.scan(rng, config, kind),
        order=planning.reading_order(sheet, rng, kind),
        config=config,
    )


def _habits(specification: Specification, rng: Draws) -> tuple[float, ...]:
    """Returns the habits from 0 to 1, each somewhere in its part."""
    return tuple((level + rng.unit()) / LEVELS for level in specification.levels[_HABIT:])


def _shop(specification: Specification, habits: Sequence[float]) -> shops.Shop:
    own = shops.shop(specification.provider, specification["locale"])
    named = dict(zip(_TILL_HABITS, habits, strict=True))
    if specification["typeface"] in _TILL_FACES:
        faces = shops.FACES
        named["face"] = (faces.index(specification["typeface"]) + 0.5) / len(faces)
    pattern = own.currency.pattern
    if specification["amounts"] != _OWN:
        patterns = word_lists("shops.money")[own.country]
        signed = [one for one in patterns if one != "{}"]
        pattern = signed[0] if specification["amounts"] == "signed" else "{}"
    return replace(
        own,
        habits=shops.Habits(own.number, named),
        currency=replace(own.currency, pattern=pattern),
        date_style=_DATES.get(specification["date_style"], own.date_style),
        most_items=_ITEMS.get(specification["items"]),
        words=specification.words,
    )


def _provider(specification: Specification, habits: Sequence[float]) -> providers.Provider:
    own = providers.in_country(specification.provider, specification["locale"])
    family, money = specification["typeface"], own.money
    if specification["amounts"] == "bare":
        money = replace(money, sign="")
    return replace(
        own,
        habits=tuple(habits[: len(own.habits)]),
        family=own.family if family == _OWN else family,
        money=money,
        date_style=own.date_style
        if specification["date_style"] == _OWN
        else specification["date_style"],
        most_items=_ITEMS.get(specification["items"]),
        words=specification.words,
    )
