"""Letters: memos, fax cover sheets and notices, with a head of labels and a body of text."""

from __future__ import annotations

from hushdoc_training.invented import (
    checkboxes,
    entries,
    form_labels,
    form_style,
    logos,
    page_elements,
    people,
    phrases,
    prose,
    signatures,
    values,
)
from hushdoc_training.invented.draft import Draft
from hushdoc_training.invented.entries import Entry
from hushdoc_training.invented.sheet import Face


def _names(draft: Draft, count: int) -> str:
    return "\n".join(people.name(draft.rng) for _ in range(count))


def _head(draft: Draft, wanted: list[tuple[str, str, str | None]], y: int) -> int:
    """Sets the keys of a letter's head, in one column or two."""
    rng, face = draft.rng, draft.style.key
    tab: int | None = None
    manner = rng.unit()
    longest = max(face.wide(draft.style.label(label)) for label, _, _ in wanted)
    indent = draft.left + rng.pick((0, 0, 0, 30, 60))
    if manner < 0.75:
        tab = indent + longest + rng.integer(10, 60)
    halves = [wanted]
    if rng.flip(0.22):
        halves = [wanted[::2], wanted[1::2]]
    middle, bottom = (draft.left + draft.right) // 2, y
    spread = rng.pick((0, 3, 6, 10, 14))
    for number, half in enumerate(halves):
        x0 = indent if number == 0 else middle + 8
        x1 = draft.right if len(halves) == 1 or number else middle - 8
        top = y
        for label, text, field in half:
            stop = None if tab is None else x0 + tab - indent
            what = Entry(label, "phrase")
            top = form_labels.beside(
                draft, what, x0, x1, top, tab=stop, lines=6, field=field, text=text
            )
            top += spread
        bottom = max(bottom, top)
    if rng.flip(0.35):
        draft.sheet.line(draft.left, bottom + 4, draft.right, bottom + 4, thick=rng.integer(1, 2))
    return bottom + rng.integer(8, 24)


def memo(draft: Draft, y: int) -> int:
    """Lays out a memo."""
    rng = draft.rng
    x0, x1 = draft.left, draft.right
    if rng.flip(0.65):
        y = page_elements.letterhead(draft, y)
    if rng.flip(0.75):
        y = page_elements.title(draft, y, rng.word("letters.memo_titles"))
    date = values.format_date(values.day(rng, 1965, 2005), draft.style.date_style)
    wanted: list[tuple[str, str, str | None]] = [
        (rng.word("letters.to"), _names(draft, rng.pick((1, 1, 1, 2, 3, 5))), None),
        (rng.word("letters.from"), people.name(rng), None),
        (rng.pick(("Date", "DATE", "Date", "Dated")), date, "date"),
        (rng.word("letters.subject"), _subject(draft), None),
    ]
    if rng.flip(0.35):
        wanted.append((rng.word("letters.copies"), _names(draft, rng.integer(1, 4)), None))
    for _ in range(rng.pick((0, 0, 0, 1, 2))):
        extra = draft.entry()
        wanted.append((extra.label, draft.answer(extra.value_type, blank=0.1), None))
    if rng.flip(0.5):
        wanted = rng.shuffled(wanted)
    y = _head(draft, wanted, y)
    y = _body(draft, y, rng.integer(1, 9))
    if rng.flip(0.4) and y < draft.limit - 60:
        text = people.name(rng)
        x = rng.pick((x0, (x0 + x1) // 2))
        logos.scrawl(draft.sheet, rng, x, x + 130, y + 30)
        y = draft.put(text, x, x1, y + 36, draft.style.body).y1
    if rng.flip(0.3) and y < draft.limit - 40:
        y = draft.put(
            f"{rng.letters(3)}/{rng.letters(3).lower()}", x0, x1, y + 8, draft.style.body
        ).y1
    if rng.flip(0.4) and y < draft.limit - 60:
        copies = Entry(rng.word("letters.copies"), "person")
        names = _names(draft, rng.integer(1, 5))
        y = form_labels.beside(draft, copies, x0, x1, y + 8, lines=6, text=names)
    return y


def _subject(draft: Draft) -> str:
    text = phrases.headline(draft.rng, draft.trade)
    if draft.rng.flip(0.3):
        text += "\n" + phrases.thing(draft.rng, draft.trade)
    return form_style.cased(text, draft.rng.pick(("upper", "title", "sentence")))


def _body(draft: Draft, y: int, parts: int) -> int:
    rng = draft.rng
    inset = rng.pick((0, 0, 0, 40))
    x0, x1 = draft.left + inset, draft.right - rng.pick((0, 0, 20, 50))
    for _ in range(parts):
        if not draft.more(y):
            break
        manner = rng.unit()
        if manner < 0.7:
            y = page_elements.paragraph(draft, x0, x1, y)
        elif manner < 0.82:
            y = page_elements.listing(draft, x0, x1, y)
        elif manner < 0.92:
            y = form_labels.passage(draft, draft.entry("text"), x0, x1, y)
        else:
            y = form_labels.some(draft, x0, x1, y, most=5)
        y += rng.integer(2, 12)
    return y


def fax(draft: Draft, y: int) -> int:
    """Lays out the cover sheet of a fax."""
    rng = draft.rng
    x0, x1 = draft.left, draft.right
    if rng.flip(0.6):
        page_elements.fax_line(draft)
        y += 14
    if rng.flip(0.75):
        y = page_elements.letterhead(draft, y)
    text = rng.word("letters.fax_titles")
    if rng.flip(0.2):
        big = Face(family=rng.pick(("sans", "times", "plain")), size=rng.integer(32, 54), bold=True)
        y = draft.sheet.put("FAX", x0, y, big, role="header").y1 + 8
    else:
        y = page_elements.title(draft, y, text)
    wanted = _fax_keys(draft)
    if rng.flip(0.3):
        y = form_labels.ledger(
            draft, [Entry(label, value_type) for label, value_type in wanted], x0, x1, y
        )
    else:
        filled = [
            (label, draft.answer(value_type, blank=draft.blank * 0.5).replace("\n", ", "), None)
            for label, value_type in wanted
        ]
        y = _head(draft, [*filled], y)
    if rng.flip(0.35):
        found = ("Urgent", "For review", "Please comment", "Please reply", "Original to follow")
        y = checkboxes.choice(draft, x0, x1, y, found=found[: rng.integer(2, 5)]) + 6
    if rng.flip(0.7):
        label = rng.pick(
            ("Comments", "Message", "Notes", "Remarks", "Special instructions", "Comments/Notes")
        )
        y = (
            form_labels.passage(draft, Entry(label, "text"), x0, x1, y, sentences=rng.integer(0, 3))
            + 10
        )
    elif rng.flip(0.6):
        y = _body(draft, y, rng.integer(1, 3))
    if rng.flip(0.55) and y < draft.limit - 80:
        y = _notice(draft, y)
    if rng.flip(0.5) and y < draft.limit - 40:
        text = (
            f"If you do not receive all pages, please call {values.phone(rng)} "
            f"{rng.pick(('as soon as possible', 'immediately', 'at once'))}."
        )
        y = draft.put(text, x0, x1, y + 10, draft.style.body).y1
    return y


def _fax_keys(draft: Draft) -> list[tuple[str, str]]:
    rng = draft.rng
    wanted = [
        (rng.word("letters.to"), "person"),
        (
            rng.pick(("Fax", "Fax no.", "Fax number", "Facsimile no.", "Telecopier no.", "FAX #")),
            "phone",
        ),
        (rng.word("letters.from"), "person"),
        (rng.pick(("Date", "DATE", "Date sent", "Date/Time")), "date"),
        (rng.word("letters.page_counts"), "pages"),
    ]
    for label, value_type in (
        ("Company", "company"),
        ("Firm", "company"),
        ("Phone", "phone"),
        ("Telephone", "phone"),
        ("Time", "time"),
        (rng.word("letters.subject"), "phrase"),
        ("Department", "department"),
        ("cc", "person"),
        ("Your reference", "code"),
        ("Client/Matter no.", "code"),
        ("Room", "count"),
        ("Location", "place"),
        ("Voice", "phone"),
        ("Charge to", "code"),
        ("Operator", "initials"),
    ):
        if rng.flip(0.24):
            wanted.append((label, value_type))
    head = wanted[:4]
    return [*head, *rng.shuffled(wanted[4:])] if rng.flip(0.6) else rng.shuffled(wanted)


def _notice(draft: Draft, y: int) -> int:
    rng = draft.rng
    text = rng.word("letters.disclaimers")
    if rng.flip(0.4):
        text = " ".join(prose.sentence(rng, "law") for _ in range(3))
    face = draft.style.body.sized(max(10, draft.style.body.size - rng.integer(0, 3)))
    x0, x1 = draft.left, draft.right
    if rng.flip(0.4):
        x0, x1 = x0 + 50, x1 - 50
    if rng.flip(0.3):
        head = rng.pick(("CONFIDENTIALITY NOTICE", "IMPORTANT", "NOTICE", "WARNING"))
        y = draft.sheet.put(
            head, (x0 + x1) // 2, y + 8, draft.style.head, align="center", role="header"
        ).y1
    block = draft.put(text.upper() if rng.flip(0.25) else text, x0, x1, y + 4, face)
    if rng.flip(0.3):
        draft.sheet.frame(x0 - 8, y - 2, x1 + 6, block.y1 + 4)
    return block.y1 + 8


def notice(draft: Draft, y: int) -> int:
    """Lays out a letter or notice with few keys and much text, maybe with a slip to return."""
    rng = draft.rng
    x0, x1 = draft.left, draft.right
    if rng.flip(0.8):
        y = page_elements.letterhead(draft, y)
    day = values.format_date(values.day(rng, 1965, 2005), draft.style.date_style)
    where = rng.pick((x0, (x0 + x1) // 2, x1 - 200))
    y = draft.put(day, where, x1, y, draft.style.body, field="date").y1 + 10
    if rng.flip(0.6):
        text = entries.short_value(rng, draft.trade, "address", draft.style.date_style)
        name = f"{people.name(rng)}\n{rng.word('qualities.roles')}\n{text}"
        y = draft.put(name, x0, x1, y, draft.style.body).y1 + 10
    if rng.flip(0.6):
        what = Entry(rng.word("letters.subject"), "phrase")
        y = form_labels.beside(draft, what, x0, x1, y, text=_subject(draft)) + 10
    if rng.flip(0.6):
        y = draft.put(f"Dear {people.name(rng)}:", x0, x1, y, draft.style.body).y1 + 8
    y = _body(draft, y, rng.integer(2, 8))
    if rng.flip(0.6) and y < draft.limit - 120:
        close = rng.pick(("Sincerely,", "Very truly yours,", "Yours truly,", "Regards,"))
        x = rng.pick((x0, (x0 + x1) // 2))
        y = draft.put(close, x, x1, y, draft.style.body).y1
        logos.scrawl(draft.sheet, rng, x, x + 140, y + 32)
        y = draft.put(people.name(rng), x, x1, y + 38, draft.style.body).y1 + 6
    if rng.flip(0.55) and y < draft.limit - 140:
        draft.sheet.dots(x0, x1, y + 4)
        y = form_labels.some(draft, x0, x1, y + 12, most=5)
        y = signatures.line(draft, x0, x1, y)
    return y
