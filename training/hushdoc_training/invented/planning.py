"""Plan: a page with everything that is true of it, and the labelled document it becomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hushdoc.document.document import Document
from hushdoc.document.page import Page, Word
from hushdoc.labels import LabelledDocument, Span
from hushdoc_training.invented import (
    attachments,
    forms,
    imprints,
    invoices,
    label_sets,
    line_ocr,
    noise,
    providers,
    questions,
    receipts,
    shops,
    till_receipts,
)
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.settings import TILL_RECEIPT, InventedConfig
from hushdoc_training.invented.sheet import NOTHING, Ink, Sheet

PAGE, _NOISE, _QUESTIONS, IMAGE, _LINES, _IMPRINT, _ATTACHED = range(7)
"""What the draws of a document are for; the last part of their key."""
_ORDERS = (("rows", 5.5), ("as placed", 3.0), ("columns", 1.0), ("mixed", 0.5))
_TILL_ORDERS = (("rows", 9.0), ("as placed", 1.0))
_WITH_IMPRINT = ("invoice", "receipt")
_WITH_ATTACHMENTS = ("form", "invoice")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A document's own page as it was laid out, before anything is drawn or labelled."""

    id: str
    key: tuple[int, ...]  # of its draws; the image's specks go on from there
    document_type: str
    layout: str
    provider: providers.Provider
    sheet: Sheet
    scan: noise.Scan
    order: tuple[int, ...]  # in which segments are read
    config: InventedConfig
    before: tuple[Plan, ...] = ()  # the document's other pages
    after: tuple[Plan, ...] = ()

    @property
    def pages(self) -> tuple[Plan, ...]:
        """All pages of the document, in their order."""
        return *self.before, self, *self.after


def plan(*, seed: int, index: int, config: InventedConfig) -> Plan:
    """Returns the page with this number."""
    if seed < 0 or index < 0:
        raise ValueError(f"seed is {seed} and index {index}; both must be 0 or more.")
    rng = Draws(seed, index, PAGE)
    document_type = rng.pick(sorted(set(config.document_types)))
    first, stop = config.providers
    provider = providers.provider(rng.integer(first, stop - 1))
    families = config.families(document_type)
    own = int(provider.habits[0] * len(families))
    layout = families[own] if document_type != "form" and rng.flip(0.8) else rng.pick(families)
    shop = shops.shop(provider.number) if document_type == TILL_RECEIPT else None
    sheet = sheet_of(document_type, layout, provider, shop, rng)
    if config.questions == "keyed" and document_type in _WITH_IMPRINT:
        own_draws, grows = Draws(seed, index, _IMPRINT), document_type == "receipt"
        imprints.put(sheet, provider, own_draws, grows=grows)
    made = Plan(
        id=f"{document_type}-{seed}-{index:08d}",
        key=(seed, index, IMAGE),
        document_type=document_type,
        layout=layout,
        provider=provider,
        sheet=sheet,
        scan=noise.scan(rng, config, document_type),
        order=reading_order(sheet, rng, document_type),
        config=config,
    )
    if config.pages == (1, 1) or document_type not in _WITH_ATTACHMENTS:
        return made
    return _with_attachments(made, (seed, index, _ATTACHED))


def sheet_of(
    document_type: str,
    layout: str,
    provider: providers.Provider,
    shop: shops.Shop | None,
    rng: Draws,
) -> Sheet:
    """Returns a page as its type and family of layouts set it; a shop prints till receipts."""
    if shop is not None:
        return till_receipts.till_receipt(layout, shop, rng)
    if document_type == "form":
        return forms.form(layout, provider, rng)
    if document_type == "invoice":
        return invoices.invoice(layout, provider, rng)
    return receipts.receipt(layout, provider, rng)


def _with_attachments(plan: Plan, key: tuple[int, ...]) -> Plan:
    """Returns the page with a covering letter before it, or not, and terms behind it."""
    rng = Draws(*key)
    count = rng.integer(*plan.config.pages) - 1
    covers = int(count > 0 and rng.flip(0.4))
    others = []
    for number in range(count):
        own = Draws(*key, number, PAGE)
        sheet = attachments.attachment(
            plan.provider, plan.sheet.width, plan.sheet.height, own, cover=number < covers
        )
        others.append(
            replace(
                plan,
                key=(*key, number, IMAGE),
                sheet=sheet,
                scan=noise.scan(own, plan.config, plan.document_type),
                order=_order(sheet, own, _ORDERS[:1]),
            )
        )
    return replace(plan, before=tuple(others[:covers]), after=tuple(others[covers:]))


def labelled(plan: Plan, labels: str) -> LabelledDocument:
    """Returns the document's words, boxes, labels of a label set, and questions."""
    seed, index, _ = plan.key
    sheet = plan.sheet
    words: list[Word] = []
    spans: list[Span] = []
    placed: list[questions.PlacedSegment | None] = [None] * len(sheet.segments)
    keys = label_sets.keys(sheet.segments, sheet.pairs)
    for number, inks, read in _read(plan, Draws(seed, index, _NOISE)):
        start = len(words)
        words += read
        segment = sheet.segments[number]
        placed[number] = questions.PlacedSegment(
            tuple(range(start, len(words))),
            " ".join(word.text for word in words[start:]),
            " ".join(ink.text for ink in inks),
            None if segment.role == "question" else segment.field,
        )
        label = label_sets.label_of(labels, segment, keys.get(number))
        if label is not None:
            spans.append(Span(page=0, start=start, stop=len(words), label=label))
    page = Page(width=sheet.width, height=sheet.height, words=tuple(words))
    others = (*plan.before, *plan.after)
    made = LabelledDocument(
        document=Document(id=plan.id, pages=(page,)),
        spans=tuple(spans),
        questions=questions.questions(
            placed,
            sheet.pairs,
            sheet.rows,
            sheet.cells,
            plan.document_type,
            Draws(seed, index, _QUESTIONS),
            plan.config,
            elsewhere=" ".join(ink.text for page in others for ink in page.sheet.inks),
        ),
        provider=plan.provider.id,
        document_type=plan.document_type,
    )
    if plan.document_type == TILL_RECEIPT:
        lines = Draws(seed, index, _LINES)
        made = line_ocr.as_read(made, line_ocr.line_reading(lines), lines)
    if labels in label_sets.BY_LINE:
        made = replace(made, spans=label_sets.by_line(made.spans, made.document.pages[0].words))
    return _bound(plan, made) if others else made


def _bound(plan: Plan, made: LabelledDocument) -> LabelledDocument:
    """Returns a document of one page with the plan's other pages before and behind it."""
    before, after = (
        tuple(_page_of(other, Draws(*other.key, _NOISE)) for other in others)
        for others in (plan.before, plan.after)
    )
    place = len(before)
    pages = (*before, *made.document.pages, *after)
    return replace(
        made,
        document=replace(made.document, pages=pages),
        spans=tuple(replace(span, page=place) for span in made.spans),
        questions=tuple(
            replace(asked, page=place) if asked.answers else asked for asked in made.questions
        ),
    )


def _page_of(plan: Plan, rng: Draws) -> Page:
    words = tuple(word for _, _, read in _read(plan, rng) for word in read)
    return Page(width=plan.sheet.width, height=plan.sheet.height, words=words)


def _read(plan: Plan, rng: Draws) -> Iterator[tuple[int, list[Ink], list[Word]]]:
    """Yields the number, the ink and the words of each segment in the order of reading."""
    members: dict[int, list[Ink]] = {number: [] for number in plan.order}
    for ink in plan.sheet.inks:
        if ink.segment in members:
            members[ink.segment].append(ink)
    for place, number in enumerate(plan.order):
        inks = members[number]
        yield number, inks, [_word(ink, place, plan.sheet, plan.scan, rng) for ink in inks]


def _word(ink: Ink, segment: int, sheet: Sheet, scan: noise.Scan, rng: Draws) -> Word:
    x0, y0, x1, y1 = ink.box
    loose, jitter, text = scan.loose, scan.jitter, ink.text
    if scan.level and not ink.turned:
        y0, y1 = min(y0, ink.y - ink.size * 18 // 25), max(y1, ink.y)
    edges: tuple[float, float, float, float] = (x0 - loose, y0 - loose, x1 + loose, y1 + loose)
    if jitter:
        edges = (
            edges[0] + jitter * (2 * rng.unit() - 1),
            edges[1] + jitter * (2 * rng.unit() - 1),
            edges[2] + jitter * (2 * rng.unit() - 1),
            edges[3] + jitter * (2 * rng.unit() - 1),
        )
    if scan.misspelled and rng.flip(scan.misspelled):
        text = noise.misread(text, rng)
    box = noise.boxed(edges, scan, sheet.width, sheet.height)
    return Word(text=text, box=box, segment=segment)


def reading_order(sheet: Sheet, rng: Draws, document_type: str) -> tuple[int, ...]:
    """Returns the segments of a page of this type in the order they are read in."""
    return _order(sheet, rng, _TILL_ORDERS if document_type == TILL_RECEIPT else _ORDERS)


def _order(sheet: Sheet, rng: Draws, orders: Sequence[tuple[str, float]]) -> tuple[int, ...]:
    """Returns the segments that stand on the page, in the order they are read in."""
    boxes: dict[int, tuple[int, int, int]] = {}
    outside: set[int] = set()
    for ink in sheet.inks:
        x0, y0, x1, y1 = ink.box
        boxes.setdefault(ink.segment, (x0, y0, y1))
        if x0 < 1 or y0 < 1 or x1 > sheet.width - 1 or y1 > sheet.height - 1:
            outside.add(ink.segment)
    found = [number for number in boxes if number not in outside and number != NOTHING]
    manner = rng.weighted(orders)
    if manner == "rows":
        found = _by_rows(found, boxes)
    elif manner == "columns":
        middle = sheet.width // 2
        found = _by_rows([number for number in found if boxes[number][0] < middle], boxes) + (
            _by_rows([number for number in found if boxes[number][0] >= middle], boxes)
        )
    elif manner == "mixed":
        found = rng.shuffled(found)
    return tuple(found)


def _by_rows(numbers: list[int], boxes: dict[int, tuple[int, int, int]]) -> list[int]:
    """Returns segments line by line: those whose middles lie within one another's height."""
    rows: list[tuple[float, list[int]]] = []
    for number in sorted(numbers, key=lambda number: boxes[number][1] + boxes[number][2]):
        _, top, bottom = boxes[number]
        middle = (top + bottom) / 2
        if rows and abs(middle - rows[-1][0]) < (bottom - top) * 0.55:
            rows[-1][1].append(number)
        else:
            rows.append((middle, [number]))
    return [
        number for _, row in rows for number in sorted(row, key=lambda number: boxes[number][0])
    ]
