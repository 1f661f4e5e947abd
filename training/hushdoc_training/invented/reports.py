"""Reports: what laboratories, salesmen and researchers fill in, in tables and in sections."""

from __future__ import annotations

from hushdoc_training.invented import (
    checkboxes,
    form_labels,
    form_style,
    page_elements,
    phrases,
    prose,
    requests,
    signatures,
    tables,
)
from hushdoc_training.invented.draft import Draft
from hushdoc_training.invented.entries import Entry
from hushdoc_training.invented.word_lists import word_lists


def _top(draft: Draft, y: int, family: str) -> int:
    if draft.rng.flip(0.5):
        y = page_elements.letterhead(draft, y)
    if draft.rng.flip(0.92):
        titles = word_lists("form_titles.reports")[family]
        y = page_elements.title(draft, y, requests.title(draft, titles))
    return y


def laboratory(draft: Draft, y: int) -> int:
    """Lays out a test report."""
    rng = draft.rng
    x0, x1 = draft.left, draft.right
    y = _top(draft, y, "laboratory")
    y = form_labels.some(draft, x0, x1, y, most=8) + draft.gap
    for _ in range(4):
        if not draft.more(y + 120):
            break
        if rng.flip(0.45):
            y = page_elements.heading(draft, x0, x1, y)
        if rng.flip(0.65):
            y = tables.table(draft, x0, x1 - rng.pick((0, 0, 80, 200)), y)
        else:
            wanted = [_measured(draft) for _ in range(rng.integer(3, 10))]
            y = form_labels.columns(draft, wanted, x0, x1, y)
        y += draft.gap
    for _ in range(rng.integer(0, 3)):
        if y < draft.limit - 80:
            sentences = rng.integer(0, 2)
            y = form_labels.passage(draft, draft.entry("text"), x0, x1, y, sentences=sentences)
            y += draft.gap
    if rng.flip(0.65) and y < draft.limit:
        y = signatures.lines(draft, x0, x1, y)
    return y


def _measured(draft: Draft) -> Entry:
    if draft.rng.flip(0.3):
        return Entry(phrases.chemical(draft.rng), "measure")
    return draft.entry(draft.rng.pick(("measure", "measure", "percent", "count")))


def report(draft: Draft, y: int) -> int:
    """Lays out a report: keys at the head, then topics with answers of several lines."""
    rng = draft.rng
    x0, x1 = draft.left, draft.right
    y = _top(draft, y, "report")
    y = form_labels.some(draft, x0, x1, y, most=6) + draft.gap
    numbered = rng.flip(0.3)
    for number in range(12):
        if not draft.more(y + 30):
            break
        if rng.flip(0.15):
            y = page_elements.heading(draft, x0, x1, y)
        what = draft.entry("text")
        if numbered:
            what = Entry(f"{number + 1}. {what.label}", "text")
        manner = rng.unit()
        if manner < 0.75:
            y = form_labels.passage(draft, what, x0, x1, y, sentences=rng.integer(0, 3))
        elif manner < 0.88:
            y = tables.table(draft, x0, x1, y, rows=rng.integer(2, 6))
        else:
            y = form_labels.some(draft, x0, x1, y, most=4)
        y += draft.gap
    if rng.flip(0.3) and y < draft.limit:
        y = signatures.lines(draft, x0, x1, y)
    return y


def proposal(draft: Draft, y: int) -> int:
    """Lays out a proposal in numbered or lettered sections."""
    rng = draft.rng
    x0, x1 = draft.left, draft.right
    y = _top(draft, y, "proposal")
    if rng.flip(0.75):
        y = form_labels.some(draft, x0, x1, y, most=5) + draft.gap
    style = rng.pick(("{n}. ", "{n}. ", "{r}. ", "{a}. ", "({n}) ", "", ""))
    for number in range(8):
        if not draft.more(y + 30):
            break
        mark = style.format(n=number + 1, r=_ROMAN[number], a="ABCDEFGH"[number])
        label = f"{mark}{draft.entry('text').label}"
        y = form_labels.passage(draft, Entry(label, "text"), x0, x1, y, sentences=rng.integer(1, 3))
        y += draft.gap
    if rng.flip(0.35) and y < draft.limit - 120:
        y = tables.table(draft, x0, x1, y, rows=rng.integer(2, 4))
    if rng.flip(0.4) and y < draft.limit:
        y = signatures.lines(draft, x0, x1, y)
    return y


_ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII")


def survey(draft: Draft, y: int) -> int:
    """Lays out a questionnaire."""
    rng = draft.rng
    x0, x1 = draft.left, draft.right
    y = _top(draft, y, "survey")
    if rng.flip(0.5):
        y = form_labels.some(draft, x0, x1, y, most=4) + draft.gap
    if rng.flip(0.4):
        y = page_elements.paragraph(draft, x0, x1, y, sentences=rng.integer(1, 2))
    numbered = rng.flip(0.6)
    for number in range(1, 15):
        if not draft.more(y + 20):
            break
        manner = rng.unit()
        text = prose.question(rng, draft.trade)
        asked = Entry(f"{number}. {text}" if numbered else text, "text")
        if manner < 0.3:
            key = draft.put(
                form_style.cased(asked.label, "sentence"),
                x0,
                x1,
                y,
                draft.style.key,
                role="question",
                lines=3,
            )
            y = checkboxes.choice(draft, x0 + 24, x1, key.y1)
        elif manner < 0.6:
            y = form_labels.passage(draft, asked, x0, x1, y, sentences=rng.integer(0, 1))
        elif manner < 0.75:
            value_type = rng.pick(("count", "percent", "phrase", "date", "amount", "person"))
            y = form_labels.beside(draft, Entry(asked.label, value_type), x0, x1, y)
        elif manner < 0.88:
            y = checkboxes.rating(draft, x0, x1, y)
        else:
            y = checkboxes.yes_no(draft, x0, x1, y)
        y += draft.gap
    return y


def data_sheet(draft: Draft, y: int) -> int:
    """Lays out a sheet of tables."""
    rng = draft.rng
    x0, x1 = draft.left, draft.right
    y = _top(draft, y, "data_sheet")
    if rng.flip(0.6):
        y = form_labels.some(draft, x0, x1, y, most=4) + draft.gap
    for _ in range(6):
        if not draft.more(y + 60):
            break
        if rng.flip(0.5):
            y = page_elements.heading(draft, x0, x1, y)
        y = tables.table(draft, x0, x1 - rng.pick((0, 0, 0, 120)), y) + draft.gap
    if rng.flip(0.4) and y < draft.limit - 40:
        text = rng.pick(("Note: ", "* ", "Source: ", "")) + prose.sentence(rng, draft.trade)
        y = draft.put(text, x0, x1, y, draft.style.body).y1
    return y


def tick_boxes(draft: Draft, y: int) -> int:
    """Lays out a checklist or a routing slip."""
    rng = draft.rng
    x0, x1 = draft.left, draft.right
    y = _top(draft, y, "tick_boxes")
    if rng.flip(0.8):
        y = form_labels.some(draft, x0, x1, y, most=5) + draft.gap
    for _ in range(9):
        if not draft.more(y + 60):
            break
        if rng.flip(0.35):
            y = page_elements.heading(draft, x0, x1, y)
        manner = rng.unit()
        if manner < 0.6:
            y = checkboxes.choice(draft, x0, x1, y)
        elif manner < 0.8:
            y = checkboxes.yes_no(draft, x0, x1, y)
        else:
            y = form_labels.some(draft, x0, x1, y, most=4)
        y += draft.gap
    if rng.flip(0.5) and y < draft.limit - 60:
        y = form_labels.passage(draft, draft.entry("text"), x0, x1, y, sentences=rng.integer(0, 2))
    if rng.flip(0.5) and y < draft.limit:
        y = signatures.lines(draft, x0, x1, y)
    return y


_PARTS = (
    ("keys", 9.0),
    ("passage", 3.0),
    ("table", 3.0),
    ("ticks", 2.0),
    ("yes_no", 0.7),
    ("rating", 0.4),
    ("paragraph", 2.5),
    ("listing", 1.0),
    ("heading", 2.5),
    ("signatures", 1.0),
    ("approvals", 0.4),
)


def patchwork(draft: Draft, y: int) -> int:
    """Lays out parts in any order, here and there in two columns."""
    rng = draft.rng
    x0, x1 = draft.left, draft.right
    if rng.flip(0.8):
        y = _top(draft, y, rng.pick(tuple(word_lists("form_titles.reports"))))
    for _ in range(20):
        if not draft.more(y):
            break
        if rng.flip(0.2):
            middle = x0 + round((x1 - x0) * rng.real(0.4, 0.6))
            left = part(draft, x0, middle - 12, y)
            y = max(left, part(draft, middle + 12, x1, y))
        else:
            y = part(draft, x0, x1, y)
        y += draft.gap
    return y


def part(draft: Draft, x0: int, x1: int, y: int) -> int:
    """Sets any part of a form."""
    rng = draft.rng
    match rng.weighted(_PARTS):
        case "passage":
            return form_labels.passage(
                draft, draft.entry("text"), x0, x1, y, sentences=rng.integer(0, 2)
            )
        case "table":
            return tables.table(draft, x0, x1, y, rows=rng.integer(2, 8))
        case "ticks":
            return checkboxes.choice(draft, x0, x1, y)
        case "yes_no" if x1 - x0 > 380:
            return checkboxes.yes_no(draft, x0, x1, y)
        case "rating":
            return checkboxes.rating(draft, x0, x1, y)
        case "paragraph":
            return page_elements.paragraph(draft, x0, x1, y)
        case "listing":
            return page_elements.listing(draft, x0, x1, y)
        case "heading":
            return page_elements.heading(draft, x0, x1, y)
        case "signatures":
            return signatures.lines(draft, x0, x1, y)
        case "approvals" if x1 - x0 > 480:
            return signatures.approvals(draft, x0, x1, y)
    return form_labels.some(draft, x0, x1, y)
