"""Letterheads: what companies print about themselves at the head and the foot of a page."""

from __future__ import annotations

from hushdoc_training.invented.billing import Bill
from hushdoc_training.invented.sheet import Align, Face


def issuer(bill: Bill, x: int, y: int, face: Face, *, align: Align = "left", width: int) -> int:
    """Sets the issuer's address and what else its letterhead tells."""
    sheet, provider = bill.sheet, bill.provider
    address = (
        provider.address if provider.habits[13] < 0.6 else provider.address.replace("\n", ", ")
    )
    y = sheet.put(address, x, y, face, width=width, align=align, field="provider_address").y1
    if provider.habits[14] < 0.7:
        y = labelled(
            bill, bill.word("phone", 14), provider.phone, "phone", x, y, face, align, width
        )
    if provider.habits[15] < 0.5:
        y = sheet.put(provider.email, x, y, face, width=width, align=align, field="email").y1
    if provider.habits[1] < 0.5:
        y = sheet.put(provider.web, x, y, face, width=width, align=align).y1
    return y


def labelled(
    bill: Bill,
    label: str,
    text: str,
    field: str,
    x: int,
    y: int,
    face: Face,
    align: Align,
    width: int,
) -> int:
    """Sets a label and its value as one line of a letterhead, aligned as a whole."""
    gap = face.size // 2
    wide = face.wide(label) + gap + face.wide(text)
    if wide > width:
        return y
    x += {"left": 0, "right": width - wide, "center": (width - wide) // 2}[align]
    key = bill.sheet.put(label, x, y, face, width=wide, lines=1)
    return bill.sheet.put(text, key.x1 + gap, y, face, width=wide, lines=1, field=field).y1


def foot(bill: Bill) -> None:
    """Sets what many companies repeat at the foot of the page, in three columns."""
    provider, sheet = bill.provider, bill.sheet
    if provider.habits[0] < 0.5 or any(ink.box[3] > sheet.height - 100 for ink in sheet.inks):
        return
    face, y = bill.body.sized(10), sheet.height - 74
    width = (sheet.right - sheet.left) // 3
    sheet.line(sheet.left, y - 6, sheet.right, y - 6)
    sheet.put(provider.name, sheet.left, y, face, width=width, field="provider_name", lines=1)
    below = y + round(face.size * 1.3)
    sheet.put(provider.address, sheet.left, below, face, width=width, field="provider_address")
    x = sheet.left + width + 10
    top = labelled(bill, "Tel.", provider.phone, "phone", x, y, face, "left", width)
    sheet.put(f"Fax {provider.fax}", x, top, face, width=width, lines=1)
    sheet.put(provider.email, x, 2 * top - y, face, width=width, lines=1, field="email")
    x += width
    sheet.put(provider.bank, x, y, face, width=width, lines=1)
    sheet.put(provider.iban, x, below, face, width=width, lines=1, field="iban")
