"""Parts of till receipts: who issues them, when and by whom, the sums, the payment and the foot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hushdoc_training.invented import logos, providers, receipt_parts, shops
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.sheet import Align, Block, Face, Role, Sheet
from hushdoc_training.invented.shops import Shop
from hushdoc_training.invented.till_sales import TillSale
from hushdoc_training.invented.word_lists import word_list

Cell = tuple[str, str | None]
"""A text and the field that it states."""


@dataclass(kw_only=True, slots=True)
class Till:
    """A till receipt being laid out: it grows downwards from y. Lives inside one call."""

    sheet: Sheet
    rng: Draws
    sale: TillSale
    face: Face
    y: int

    @property
    def shop(self) -> Shop:
        """Whose receipt it is."""
        return self.sale.shop

    def line(
        self,
        text: str,
        field: str | None = None,
        *,
        face: Face | None = None,
        align: Align = "center",
        header: bool = False,
    ) -> None:
        """Sets a text across the receipt, in as many lines as it needs."""
        self.y = self.sheet.put(
            text,
            self.sheet.left,
            self.y,
            face or self.face,
            width=self.sheet.right - self.sheet.left,
            align=align,
            role="header" if header else None,
            field=field,
        ).y1

    def put(self, text: str, x: int, field: str | None) -> Block:
        """Sets an answer on the line that is under way, which stays under way."""
        role: Role | None = None if field is None else "answer"
        wide = self.face.wide(text) + 4
        return self.sheet.put(
            text, x, self.y, self.face, width=wide, lines=1, role=role, field=field
        )

    def stated(self, key: str, values: Sequence[Cell], *, x: int | None = None) -> Block:
        """Sets a label and what belongs to it on one line, which stays under way."""
        sheet, face, shop = self.sheet, self.face, self.shop
        x, end = (
            sheet.left if x is None else x,
            shop.picked("label ends", (":", " :", "", ":", ".")),
        )
        text = key + end
        label = sheet.put(
            text, x, self.y, face, width=face.wide(text) + 4, lines=1, role="question"
        )
        place = label.x1 + max(2, face.size // shop.picked("label gap", (2, 3, 1)))
        if shop.does("tab stop", 0.25):
            place = max(place, x + face.size * 7)
        if shop.does("colon apart", 0.2):
            place = sheet.put(":", place, self.y, face, lines=1).x1 + max(2, face.size // 2)
        last = label
        for text, field in values:
            last = sheet.put(
                text, place, self.y, face, width=face.wide(text) + 4, lines=1, role="answer",
                field=field,
            )  # fmt: skip
            sheet.pair(label, last)
            place = last.x1 + face.size // 2
        return last

    def sum(
        self, key: str, text: str, field: str | None, *, face: Face | None = None, sign: bool = True
    ) -> None:
        """Sets a label and an amount at the right edge, and ends the line."""
        sheet, shop, face = self.sheet, self.shop, face or self.face
        end = shop.picked("sum ends", (":", "", " :", "", ":"))
        if not sign and shop.currency.sign and shop.does("sign in labels", 0.35):
            end = f" ({shop.currency.sign}){end}"
        manner = shop.habits["sum manner"]
        wide = face.wide(text)
        room = self.amounts(text, face) - sheet.left - 8
        if manner < 0.55:
            label = sheet.put(
                key + end, sheet.left, self.y, face, width=room, lines=1, role="question"
            )
        elif manner < 0.85:
            start = sheet.left + round((sheet.right - sheet.left) * shop.habits["sum stop"] * 0.3)
            label = sheet.put(
                key + end, start, self.y, face, width=max(60, room - start), lines=1,
                role="question", align="left",
            )  # fmt: skip
        else:
            label = sheet.put(
                key + end, sheet.left, self.y, face, width=room, lines=1, align="right",
                role="question",
            )  # fmt: skip
        if shop.does("dotted sums", 0.06):
            sign_width = max(1, face.wide("."))
            count = (room - label.x1 + sheet.left) // sign_width - 2
            if count > 2:
                sheet.put("." * count, label.x1 + 2, self.y, face, lines=1)
        value = sheet.put(
            text, self.amounts(text, face), self.y, face, width=wide + 4, lines=1, role="answer",
            field=field,
        )  # fmt: skip
        sheet.pair(label, value)
        self.y = value.y1

    def amounts(self, text: str, face: Face | None = None) -> int:
        """Returns where an amount begins that ends where all amounts of this till end."""
        edge = self.sheet.right
        if self.shop.does("tax codes", 0.6):
            edge -= round(self.face.size * 1.8)
        return max(self.sheet.left + 20, edge - (face or self.face).wide(text))

    def rule(self) -> None:
        """Sets a line across: drawn, dotted, of signs, or blank."""
        sheet, manner = self.sheet, self.shop.habits["rules"]
        self.y += 3
        if manner < 0.2:
            sheet.dots(sheet.left, sheet.right, self.y + 2)
        elif manner < 0.4:
            sheet.line(sheet.left, self.y + 2, sheet.right, self.y + 2)
        elif manner < 0.6:
            sign = self.shop.picked("rule sign", ("-", "=", "*", "_"))
            count = (sheet.right - sheet.left) // max(1, self.face.wide(sign)) - 1
            self.y = sheet.put(sign * count, sheet.left, self.y, self.face, lines=1).y1
            return
        self.y += 8


def head(till: Till) -> None:
    """Sets the shop's name, numbers, address and telephone."""
    shop, face, rng = till.shop, till.face, till.rng
    if shop.does("logo", 0.25):
        side = 46
        x = (till.sheet.width - side) // 2
        logos.logo(till.sheet, providers.provider(shop.number), x, till.y, side, (30, 30, 30))
        till.y += side + 8
    align: Align = "left" if shop.does("left head", 0.15) else "center"
    if shop.does("motto", 0.2):
        text = rng.pick((f"{rng.word('people.given_names')} {rng.word('people.surnames')}",
                         shop.name.split()[0], "Welcome to"))  # fmt: skip
        till.line(shop.cased(text), align=align)
    big = face
    if shop.does("big name", 0.6):
        big = replace(
            face, size=round(face.size * (1.1 + shop.habits["name size"] * 0.6)), bold=True
        )
    name = shop.name.upper() if shop.does("name capitals", 0.4) else shop.cased(shop.name)
    registered = shop.registration
    till.line(name, "provider_name", face=big, align=align, header=True)
    if shop.branch and shop.does("branch", 0.7):
        till.line(shop.cased(shop.branch), align=align)
    if registered and shop.does("registration", 0.75):
        till.line(shop.cased(registered), "registration_number", align=align)
    till.line(_address(till), "provider_address", align=align)
    _telephone(till, align)
    if shop.tax_id and shop.does("tax id", 0.7):
        _told(till, shop.tax_id, "tax_id", align)
    if shop.does("web", 0.2):
        till.line(shop.cased(shop.web), align=align)
    till.y += 6
    if shop.does("title", 0.55):
        till.line(shop.label("title"), align=align, header=True)
        till.y += 4


def _address(till: Till) -> str:
    """Returns the address, its lines as this till breaks them."""
    shop = till.shop
    mark = "," if shop.does("commas", 0.6) else ""
    parts = [f"{part}{mark}" for part in shop.address[:-1]]
    parts.append(shop.address[-1] + ("." if shop.does("full stop", 0.2) else ""))
    if shop.does("address in one", 0.25):
        text = " ".join(parts)
    elif shop.does("address in pairs", 0.35):
        text = "\n".join(" ".join(parts[at : at + 2]) for at in range(0, len(parts), 2))
    else:
        text = "\n".join(parts)
    return text.upper() if shop.does("address capitals", 0.2) else shop.cased(text)


def _telephone(till: Till, align: Align) -> None:
    shop = till.shop
    if not shop.does("telephone", 0.75):
        return
    if shop.does("bare telephone", 0.25):
        till.line(shop.phone, "phone", align=align)
        return
    texts: list[tuple[str, str, str | None]] = [(shop.label("phone"), shop.phone, "phone")]
    if shop.does("fax", 0.25):
        texts.append((shop.label("fax"), shop.fax, None))
    if shop.does("fax below", 0.4):
        for text in texts:
            _beside(till, [text], align)
    else:
        _beside(till, texts, align)


def _told(till: Till, text: str, field: str, align: Align) -> None:
    """Sets a label with its number, such as 'VAT No: 1', as a question and its answer."""
    match = next((at for at, sign in enumerate(text) if sign.isdigit()), 0)
    before = text[:match].rsplit(" ", 1)
    key = before[0].strip()
    value = text[len(before[0]) :].strip()
    if key and value:
        _beside(till, [(till.shop.cased(key), value, field)], align, end="")
    else:
        till.line(text, field, align=align)


def _beside(
    till: Till, texts: Sequence[tuple[str, str, str | None]], align: Align, end: str | None = None
) -> None:
    """Sets labels and their values on one line, which ends."""
    sheet, face, shop = till.sheet, till.face, till.shop
    end = shop.picked("head ends", (":", " :", "", ".", ":")) if end is None else end
    gap, small = face.size, max(2, face.size // 3)
    wide = sum(face.wide(key + end) + small + face.wide(text) + gap for key, text, _ in texts) - gap
    if wide > sheet.right - sheet.left and len(texts) > 1:
        texts = texts[:1]
        wide = face.wide(texts[0][0] + end) + small + face.wide(texts[0][1])
    x = sheet.left if align == "left" else max(sheet.left, (sheet.width - wide) // 2)
    bottom = till.y
    for key, text, field in texts:
        label = sheet.put(key + end, x, till.y, face, lines=1, role="question")
        value = sheet.put(text, label.x1 + small, till.y, face, lines=1, role="answer", field=field)
        sheet.pair(label, value)
        x, bottom = value.x1 + gap, value.y1
    till.y = bottom


def facts(till: Till) -> None:
    """Sets date, time, number, and who sold it where: one or two to a line."""
    shop, sale, rng = till.shop, till.sale, till.rng
    day = (shop.day(sale.when), "date")
    clock = (shop.clock(sale.when), "time")
    found: list[tuple[str, list[Cell]]] = []
    manner = shop.habits["date manner"]
    if manner < 0.35:
        found.append((shop.label("date"), [day, clock]))
    elif manner < 0.65:
        found.append((shop.label("date"), [day]))
        if shop.does("time", 0.8):
            found.append((shop.label("time"), [clock]))
    else:
        found.append(("", [day, clock] if shop.does("time", 0.8) else [day]))
    if shop.does("numbered", 0.85):
        found.append((shop.label("number"), [(sale.number, "document_number")]))
    if shop.does("cashier", 0.6):
        cells: list[Cell] = [(shop.cased(sale.staff), None)]
        found.append((shop.label("cashier"), cells + [day, clock] * shop.does("dated twice", 0.1)))
    if shop.does("till number", 0.35):
        found.append((shop.label("till"), [(f"{rng.integer(1, 40):02d}", None)]))
    if shop.dishes and shop.does("table", 0.6):
        found.append((shop.label("table"), [(str(rng.integer(1, 60)), None)]))
    if shop.dishes and shop.does("guests", 0.35):
        found.append((shop.label("guests"), [(str(rng.integer(1, 9)), None)]))
    if shop.does("customer", 0.12):
        name = shop.cased(rng.word("people.given_names"))
        found.append((shop.label("customer"), [(name, "customer_name")]))
    if shop.does("facts turned", 0.4):
        found = found[::-1]
    paired = shop.does("facts in pairs", 0.35)
    while found:
        beside = found[1:2] if paired and _fit(till, found[:2]) else []
        placed = _fact(till, *found[0], till.sheet.left)
        for key, values in beside:
            placed = _fact(till, key, values, (till.sheet.left + till.sheet.right) // 2 + 6)
        till.y, found = placed.y1, found[1 + len(beside) :]
    till.y += 4


def _fit(till: Till, facts: Sequence[tuple[str, list[Cell]]]) -> bool:
    """Returns whether facts have room in half a line each."""
    half = (till.sheet.right - till.sheet.left) // 2 - 12
    texts = [" ".join((f"{key} : ", *(text for text, _ in values))) for key, values in facts]
    if till.shop.does("tab stop", 0.25):
        texts = [text + "0" * 8 for text in texts]
    return all(till.face.wide(text) < half for text in texts)


def _fact(till: Till, key: str, values: Sequence[Cell], x: int) -> Block:
    if key:
        return till.stated(key, values, x=x)
    placed = till.put(values[0][0], x, values[0][1])
    for text, field in values[1:]:
        placed = till.put(text, placed.x1 + till.face.size // 2, field)
    return placed


def customer(till: Till) -> None:
    """Sets whom the receipt is for, with an address that is not the shop's."""
    shop, rng = till.shop, till.rng
    if not shop.does("billed", 0.07):
        return
    other = shops.shop(rng.integer(0, 31_999))
    till.line(f"{shop.label('customer')}:", align="left")
    till.line(shop.cased(other.name), "customer_name", align="left")
    till.line(shop.cased("\n".join(other.address)), "customer_address", align="left")


def barcode(till: Till) -> None:
    """Sets a bar code and its number."""
    till.y = receipt_parts.barcode(till.sheet, till.y, till.rng)
    till.line(till.rng.digits(12))


def foot(till: Till) -> None:
    """Sets thanks, rules of the house, and now and then the date once more."""
    shop, rng = till.shop, till.rng
    till.y += 6
    texts = list(rng.sample(word_list("tills.policies"), rng.pick((0, 1, 2, 3, 5, 8))))
    texts.insert(rng.integer(0, len(texts)), rng.word("tills.closings"))
    if shop.does("web below", 0.2):
        texts.append(shop.web)
    for text in texts:
        till.line(shop.cased(text))
    if shop.does("date below", 0.12):
        placed = till.put(shop.day(till.sale.when), till.sheet.left, "date")
        till.y = till.put(shop.clock(till.sale.when), placed.x1 + till.face.size, "time").y1
    if shop.does("bar code", 0.25):
        barcode(till)
    if shop.does("last number", 0.2):
        till.line(shops.pattern(shop.number_style, rng))
