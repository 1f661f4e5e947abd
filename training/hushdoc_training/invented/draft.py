"""Draft: a form while it is laid out, with everything that its parts share."""

from __future__ import annotations

from dataclasses import dataclass, field

from hushdoc_training.invented import entries, form_style, prose
from hushdoc_training.invented.entries import Entry
from hushdoc_training.invented.providers import Provider
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.sheet import Block, Face, Role, Sheet


@dataclass(kw_only=True, slots=True)
class Draft:
    """What the parts of one form share; used within one call, like its sheet."""

    sheet: Sheet
    rng: Draws
    style: form_style.FormStyle
    trade: str
    provider: Provider
    blank: float  # share of questions that nobody answered
    goal: int  # the y below which no further part begins
    air: float  # distance between parts, as a multiple of the usual one
    boxes: str  # how this form draws the boxes that are ticked
    labels: set[str] = field(default_factory=set)  # of this form so far; most ask for a thing once

    @property
    def left(self) -> int:
        """Where the form begins."""
        return self.sheet.left

    @property
    def right(self) -> int:
        """Where the form ends."""
        return self.sheet.right

    @property
    def limit(self) -> int:
        """Where the last part must have begun."""
        return self.sheet.bottom - 50

    @property
    def gap(self) -> int:
        """Distance of two parts."""
        return round(self.style.body.size * self.rng.real(0.4, 1.6) * self.air)

    def more(self, y: int) -> bool:
        """Returns whether another part may begin at y."""
        return y < self.goal

    def entry(self, value_type: str | None = None) -> Entry:
        """Returns something to ask for that this form does not ask for yet."""
        found = entries.entry(self.rng, self.trade, value_type)
        for _ in range(3):
            if found.label not in self.labels:
                break
            found = entries.entry(self.rng, self.trade, value_type)
        self.labels.add(found.label)
        return found

    def answer(self, value_type: str, *, blank: float | None = None) -> str:
        """Returns what was filled in, maybe nothing."""
        if self.rng.flip(self.blank if blank is None else blank):
            return ""
        text = entries.short_value(
            self.rng, self.trade, value_type, self.style.date_style, self.style.money
        )
        return self.style.filled(text)

    def heading(self) -> str:
        """Returns the title of a section as this form writes it."""
        return form_style.cased(prose.heading(self.rng, self.trade), self.style.head_case)

    def put(
        self,
        text: str,
        x0: int,
        x1: int,
        y: int,
        face: Face,
        *,
        role: Role | None = None,
        lines: int = 99,
        beside: Face | None = None,
        indent: int = 0,
        field: str | None = None,
    ) -> Block:
        """Sets a text between x0 and x1; beside another face it shares that one's baseline."""
        if beside is not None:
            y += round(0.95 * (beside.size - face.size))
        return self.sheet.put(
            text,
            x0,
            y,
            face,
            width=max(1, x1 - x0),
            lines=lines,
            indent=indent,
            leading=self.style.leading,
            role=role,
            field=field,
        )

    def value(
        self, text: str, x0: int, x1: int, y: int, *, lines: int = 2, field: str | None = None
    ) -> Block:
        """Sets what was filled in on the line of a label that begins at y."""
        return self.put(
            text,
            x0,
            x1,
            y,
            self.style.value,
            role="answer",
            lines=lines,
            beside=self.style.key,
            field=field,
        )

    def rule(self, x0: int, x1: int, y: int) -> None:
        """Draws the line that a value stands on, whose label begins at y."""
        under = y + round(self.style.key.size * 1.18)
        if self.style.rule == "line" and x1 > x0 + 12:
            self.sheet.line(x0, under, x1, under)
        elif self.style.rule == "dots" and x1 > x0 + 12:
            self.sheet.dots(x0, x1, under)
