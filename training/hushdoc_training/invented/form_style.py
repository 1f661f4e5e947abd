"""Form style: how one form is set, from its typefaces to the case of its labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hushdoc_training.invented import phrases, values
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.sheet import Colour, Face

Case = Literal["upper", "title", "sentence"]
_PRINT = (
    ("sans", 3.0),
    ("times", 4.0),
    ("serif", 1.5),
    ("roman", 1.5),
    ("grotesque", 2.0),
    ("plain", 3.0),
    ("typewriter", 7.0),
    ("mono", 1.0),
)
_HAND: tuple[Colour, ...] = ((20, 20, 20), (30, 40, 110), (50, 50, 60), (20, 60, 120))
_MONEY = (
    (values.Money(), 12.0),
    (values.Money(sign=""), 2.0),
    (values.Money(sign="$", spaced=True), 1.0),
    (values.Money(sign="£"), 1.0),
    (values.Money(sign="USD", spaced=True, after=True), 0.6),
    (values.Money(sign="DM", spaced=True, thousands=".", point=","), 0.5),
    (values.Money(sign="Fr.", spaced=True, thousands="'"), 0.5),
    (values.Money(sign="€", spaced=True, after=True, thousands=".", point=","), 0.5),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FormStyle:
    """The typography of one form."""

    body: Face
    key: Face
    value: Face  # what is filled in
    head: Face
    title: Face
    case: Case
    title_case: Case
    head_case: Case
    colon: str  # what ends a label, maybe nothing
    rule: Literal["none", "line", "dots"]  # what a value stands on
    leading: float  # distance of lines, in sizes
    date_style: str  # of most dates
    money: values.Money
    upper_values: bool  # whether what is filled in is all capitals
    upper_text: bool

    @property
    def step(self) -> int:
        """Distance of two lines of labels, in pixels."""
        return round(self.key.size * self.leading * 1.15)

    def label(self, text: str, rng: Draws | None = None) -> str:
        """Returns the text as this form writes its labels."""
        colon = self.colon
        if text.endswith("?") or (rng is not None and rng.flip(0.08)):
            colon = ""
        return cased(text, self.case) + colon

    def filled(self, text: str) -> str:
        """Returns the text as it is filled in."""
        return text.upper() if self.upper_values else text


def cased(text: str, case: Case) -> str:
    """Returns the text in capitals, with capital initials or as a sentence."""
    if case == "upper":
        return text.upper()
    if case == "title":
        return phrases.title_case(text)
    return text[:1].upper() + text[1:]


def form_style(rng: Draws) -> FormStyle:
    """Returns the style of a form."""
    printed = rng.weighted(_PRINT)
    size = rng.weighted(
        ((11, 1.5), (12, 3.5), (13, 4.0), (14, 4.0), (15, 2.5), (16, 1.5), (18, 0.4))
    )
    body = Face(family=printed, size=size)
    key = body.strong() if rng.flip(0.25) else body
    if rng.flip(0.25):
        key = key.sized(size - rng.integer(1, 2))
    head = _headed(rng, body, 1.0, 1.25)
    case: Case = rng.weighted((("upper", 5.0), ("title", 3.5), ("sentence", 2.5)))
    return FormStyle(
        body=body,
        key=key,
        value=_hand(rng, body),
        head=head,
        title=_headed(rng, body, 1.1, 1.8),
        case=case,
        title_case=rng.weighted((("upper", 7.0), ("title", 3.0))),
        head_case=rng.weighted((("upper", 5.0), ("title", 3.0), ("sentence", 1.0))),
        colon=rng.weighted(((":", 7.5), ("", 2.0), (" :", 0.4), ("-", 0.15), (".", 0.15))),
        rule=rng.weighted((("none", 5.0), ("line", 4.0), ("dots", 0.7))),
        leading=rng.real(1.12, 1.7),
        date_style=rng.pick(values.DATE_STYLES),
        money=rng.weighted(_MONEY),
        upper_values=rng.flip(0.25),
        upper_text=rng.flip(0.1),
    )


def _headed(rng: Draws, body: Face, least: float, most: float) -> Face:
    family = body.family
    if rng.flip(0.2):
        family = rng.pick(("sans", "times", "plain", "serif"))
    return Face(
        family=family,
        size=round(body.size * rng.real(least, most)),
        bold=rng.flip(0.7),
        italic=rng.flip(0.05),
    )


def _hand(rng: Draws, body: Face) -> Face:
    """Returns the face of what is filled in: the form's own, typed in, or by hand."""
    manner = rng.unit()
    if manner < 0.5:
        return body
    if manner < 0.78:
        family = rng.pick(("typewriter", "typewriter", "mono"))
        return Face(family=family, size=max(12, min(16, body.size + rng.integer(-1, 2))))
    if manner < 0.9:
        family, size = "script", body.size + rng.integer(1, 4)
        return Face(family=family, size=size, colour=rng.pick(_HAND))
    family = rng.pick(("sans", "roman", "times"))
    return Face(
        family=family,
        size=body.size + rng.integer(0, 2),
        italic=True,
        colour=rng.pick(_HAND),
    )
