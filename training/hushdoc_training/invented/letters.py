"""Letters: memos, fax cover sheets and notices, which have a head of keys and a body of text."""

from __future__ import annotations

from hushdoc_training.invented import (
    checkboxes,
    entries,
    form_labels,
    logos,
    look,
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
    return "\n".join(people.name(draft.dice) for _ in range(count))


def _head(draft: Draft, wanted: list[tuple[str, str, str | None]], y: int) -> int:
    """Sets the keys of a letter's head, in one column or two."""
    dice, face = draft.dice, draft.look.key
    tab: int | None = None
    manner = dice.unit()
    longest = max(face.wide(draft.look.label(label)) for label, _, _ in wanted)
    indent = draft.left + dice.pick((0, 0, 0, 30, 60))
    if manner < 0.75:
        tab = indent + longest + dice.integer(10, 60)
    halves = [wanted]
    if dice.chance(0.22):
        halves = [wanted[::2], wanted[1::2]]
    middle, bottom = (draft.left + draft.right) // 2, y
    spread = dice.pick((0, 3, 6, 10, 14))
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
    if dice.chance(0.35):
        draft.sheet.line(draft.left, bottom + 4, draft.right, bottom + 4, thick=dice.integer(1, 2))
    return bottom + dice.integer(8, 24)


def memo(draft: Draft, y: int) -> int:
    """Lays out a memo."""
    dice = draft.dice
    if dice.chance(0.65):
        y = page_elements.letterhead(draft, y)
    if dice.chance(0.75):
        y = page_elements.title(draft, y, dice.word("letters.memo_titles"))
    date = values.spell_date(values.day(dice, 1965, 2005), draft.look.date_style)
    wanted: list[tuple[str, str, str | None]] = [
        (dice.word("letters.to"), _names(draft, dice.pick((1, 1, 1, 2, 3, 5))), None),
        (dice.word("letters.from"), people.name(dice), None),
        (dice.pick(("Date", "DATE", "Date", "Dated")), date, "date"),
        (dice.word("letters.subject"), _subject(draft), None),
    ]
    if dice.chance(0.35):
        wanted.append((dice.word("letters.copies"), _names(draft, dice.integer(1, 4)), None))
    for _ in range(dice.pick((0, 0, 0, 1, 2))):
        extra = draft.entry()
        wanted.append((extra.label, draft.answer(extra.kind, blank=0.1), None))
    if dice.chance(0.5):
        wanted = dice.shuffled(wanted)
    y = _head(draft, wanted, y)
    y = _body(draft, y, dice.integer(1, 9))
    if dice.chance(0.4) and y < draft.limit - 60:
        text = people.name(dice)
        x = dice.pick((draft.left, (draft.left + draft.right) // 2))
        logos.scrawl(draft.sheet, dice, x, x + 130, y + 30)
        y = draft.put(text, x, draft.right, y + 36, draft.look.body).y1
    if dice.chance(0.3) and y < draft.limit - 40:
        y = draft.put(
            f"{dice.letters(3)}/{dice.letters(3).lower()}",
            draft.left,
            draft.right,
            y + 8,
            draft.look.body,
        ).y1
    if dice.chance(0.4) and y < draft.limit - 60:
        copies = Entry(dice.word("letters.copies"), "person")
        names = _names(draft, dice.integer(1, 5))
        y = form_labels.beside(draft, copies, draft.left, draft.right, y + 8, lines=6, text=names)
    return y


def _subject(draft: Draft) -> str:
    text = phrases.headline(draft.dice, draft.trade)
    if draft.dice.chance(0.3):
        text += "\n" + phrases.thing(draft.dice, draft.trade)
    return look.cased(text, draft.dice.pick(("upper", "title", "sentence")))


def _body(draft: Draft, y: int, parts: int) -> int:
    dice = draft.dice
    inset = dice.pick((0, 0, 0, 40))
    x0, x1 = draft.left + inset, draft.right - dice.pick((0, 0, 20, 50))
    for _ in range(parts):
        if not draft.more(y):
            break
        manner = dice.unit()
        if manner < 0.7:
            y = page_elements.paragraph(draft, x0, x1, y)
        elif manner < 0.82:
            y = page_elements.listing(draft, x0, x1, y)
        elif manner < 0.92:
            y = form_labels.passage(draft, draft.entry("text"), x0, x1, y)
        else:
            y = form_labels.some(draft, x0, x1, y, most=5)
        y += dice.integer(2, 12)
    return y


def fax(draft: Draft, y: int) -> int:
    """Lays out the cover sheet of a fax."""
    dice = draft.dice
    if dice.chance(0.6):
        page_elements.fax_line(draft)
        y += 14
    if dice.chance(0.75):
        y = page_elements.letterhead(draft, y)
    text = dice.word("letters.fax_titles")
    if dice.chance(0.2):
        big = Face(
            family=dice.pick(("sans", "times", "plain")), size=dice.integer(32, 54), bold=True
        )
        y = draft.sheet.put("FAX", draft.left, y, big, role="header").y1 + 8
    else:
        y = page_elements.title(draft, y, text)
    wanted = _fax_keys(draft)
    if dice.chance(0.3):
        y = form_labels.ledger(
            draft, [Entry(label, kind) for label, kind in wanted], draft.left, draft.right, y
        )
    else:
        filled = [
            (label, draft.answer(kind, blank=draft.blank * 0.5).replace("\n", ", "), None)
            for label, kind in wanted
        ]
        y = _head(draft, [*filled], y)
    if dice.chance(0.35):
        found = ("Urgent", "For review", "Please comment", "Please reply", "Original to follow")
        y = (
            checkboxes.choice(draft, draft.left, draft.right, y, found=found[: dice.integer(2, 5)])
            + 6
        )
    if dice.chance(0.7):
        label = dice.pick(
            ("Comments", "Message", "Notes", "Remarks", "Special instructions", "Comments/Notes")
        )
        y = (
            form_labels.passage(
                draft,
                Entry(label, "text"),
                draft.left,
                draft.right,
                y,
                sentences=dice.integer(0, 3),
            )
            + 10
        )
    elif dice.chance(0.6):
        y = _body(draft, y, dice.integer(1, 3))
    if dice.chance(0.55) and y < draft.limit - 80:
        y = _notice(draft, y)
    if dice.chance(0.5) and y < draft.limit - 40:
        text = (
            f"If you do not receive all pages, please call {values.phone(dice)} "
            f"{dice.pick(('as soon as possible', 'immediately', 'at once'))}."
        )
        y = draft.put(text, draft.left, draft.right, y + 10, draft.look.body).y1
    return y


def _fax_keys(draft: Draft) -> list[tuple[str, str]]:
    dice = draft.dice
    wanted = [
        (dice.word("letters.to"), "person"),
        (
            dice.pick(("Fax", "Fax no.", "Fax number", "Facsimile no.", "Telecopier no.", "FAX #")),
            "phone",
        ),
        (dice.word("letters.from"), "person"),
        (dice.pick(("Date", "DATE", "Date sent", "Date/Time")), "date"),
        (
            dice.pick(
                (
                    "Pages",
                    "No. of pages",
                    "Total pages",
                    "Number of pages including cover",
                    "Total number of pages including this page",
                    "# of pages",
                    "PAGE(S)",
                )
            ),
            "pages",
        ),
    ]
    for label, kind in (
        ("Company", "company"),
        ("Firm", "company"),
        ("Phone", "phone"),
        ("Telephone", "phone"),
        ("Time", "time"),
        (dice.word("letters.subject"), "phrase"),
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
        if dice.chance(0.24):
            wanted.append((label, kind))
    head = wanted[:4]
    return [*head, *dice.shuffled(wanted[4:])] if dice.chance(0.6) else dice.shuffled(wanted)


def _notice(draft: Draft, y: int) -> int:
    dice = draft.dice
    text = dice.word("letters.disclaimers")
    if dice.chance(0.4):
        text = " ".join(prose.sentence(dice, "law") for _ in range(3))
    face = draft.look.body.sized(max(10, draft.look.body.size - dice.integer(0, 3)))
    x0, x1 = draft.left, draft.right
    if dice.chance(0.4):
        x0, x1 = x0 + 50, x1 - 50
    if dice.chance(0.3):
        head = dice.pick(("CONFIDENTIALITY NOTICE", "IMPORTANT", "NOTICE", "WARNING"))
        y = draft.sheet.put(
            head, (x0 + x1) // 2, y + 8, draft.look.head, align="center", role="header"
        ).y1
    block = draft.put(text.upper() if dice.chance(0.25) else text, x0, x1, y + 4, face)
    if dice.chance(0.3):
        draft.sheet.frame(x0 - 8, y - 2, x1 + 6, block.y1 + 4)
    return block.y1 + 8


def notice(draft: Draft, y: int) -> int:
    """Lays out a letter or notice with few keys and much text, maybe with a slip to return."""
    dice = draft.dice
    if dice.chance(0.8):
        y = page_elements.letterhead(draft, y)
    day = values.spell_date(values.day(dice, 1965, 2005), draft.look.date_style)
    where = dice.pick((draft.left, (draft.left + draft.right) // 2, draft.right - 200))
    y = draft.put(day, where, draft.right, y, draft.look.body, field="date").y1 + 10
    if dice.chance(0.6):
        text = entries.short_value(dice, draft.trade, "address", draft.look.date_style)
        name = f"{people.name(dice)}\n{dice.word('qualities.roles')}\n{text}"
        y = draft.put(name, draft.left, draft.right, y, draft.look.body).y1 + 10
    if dice.chance(0.6):
        what = Entry(dice.word("letters.subject"), "phrase")
        y = form_labels.beside(draft, what, draft.left, draft.right, y, text=_subject(draft)) + 10
    if dice.chance(0.6):
        y = (
            draft.put(f"Dear {people.name(dice)}:", draft.left, draft.right, y, draft.look.body).y1
            + 8
        )
    y = _body(draft, y, dice.integer(2, 8))
    if dice.chance(0.6) and y < draft.limit - 120:
        close = dice.pick(("Sincerely,", "Very truly yours,", "Yours truly,", "Regards,"))
        x = dice.pick((draft.left, (draft.left + draft.right) // 2))
        y = draft.put(close, x, draft.right, y, draft.look.body).y1
        logos.scrawl(draft.sheet, dice, x, x + 140, y + 32)
        y = draft.put(people.name(dice), x, draft.right, y + 38, draft.look.body).y1 + 6
    if dice.chance(0.55) and y < draft.limit - 140:
        draft.sheet.dots(draft.left, draft.right, y + 4)
        y = form_labels.some(draft, draft.left, draft.right, y + 12, most=5)
        y = signatures.line(draft, draft.left, draft.right, y)
    return y
