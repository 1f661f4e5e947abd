"""Draft: a form being written, with everything its parts need to know of one another."""

from __future__ import annotations

from dataclasses import dataclass, field

from hushdoc_training.invented import entries, look, prose
from hushdoc_training.invented.entries import Entry
from hushdoc_training.invented.providers import Provider
from hushdoc_training.invented.random_draws import Dice
from hushdoc_training.invented.sheet import Block, Face, Role, Sheet


@dataclass(kw_only=True, slots=True)
class Draft:
    """What the parts of one form share. Like its sheet, it lives inside one call.

    Attributes:
        blank: Share of questions that nobody answered.
        goal: How far down the page its parts go on.
        air: How far its parts stand from one another, in ordinary distances.
        labels: The labels this form has already; most forms ask for a thing once.
        boxes: How this form draws the boxes that are ticked.
    """

    sheet: Sheet
    dice: Dice
    look: look.Look
    trade: str
    provider: Provider
    blank: float
    goal: int
    air: float
    boxes: str
    labels: set[str] = field(default_factory=set)

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
        return round(self.look.body.size * self.dice.real(0.4, 1.6) * self.air)

    def more(self, y: int) -> bool:
        """Says whether the page goes on below y."""
        return y < self.goal

    def entry(self, kind: str | None = None) -> Entry:
        """Returns something to ask for that this form does not ask for yet."""
        found = entries.entry(self.dice, self.trade, kind)
        for _ in range(3):
            if found.label not in self.labels:
                break
            found = entries.entry(self.dice, self.trade, kind)
        self.labels.add(found.label)
        return found

    def answer(self, kind: str, *, blank: float | None = None) -> str:
        """Returns what was filled in, maybe nothing."""
        if self.dice.chance(self.blank if blank is None else blank):
            return ""
        text = entries.short_value(
            self.dice, self.trade, kind, self.look.date_style, self.look.money
        )
        return self.look.filled(text)

    def heading(self) -> str:
        """Returns the title of a section as this form writes it."""
        return look.cased(prose.heading(self.dice, self.trade), self.look.head_case)

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
            leading=self.look.leading,
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
            self.look.value,
            role="answer",
            lines=lines,
            beside=self.look.key,
            field=field,
        )

    def rule(self, x0: int, x1: int, y: int) -> None:
        """Draws the line that a value stands on, whose label begins at y."""
        under = y + round(self.look.key.size * 1.18)
        if self.look.rule == "line" and x1 > x0 + 12:
            self.sheet.line(x0, under, x1, under)
        elif self.look.rule == "dots" and x1 > x0 + 12:
            self.sheet.dots(x0, x1, under)
