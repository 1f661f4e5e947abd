"""Receipts of tills: sums that add up, shops that differ, and the labels of published corpora."""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import replace

import pytest

from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc.labels import LabelledDocument, Question, Span
from hushdoc_training import invented
from hushdoc_training.invented import label_sets, line_ocr, planning, shops, till_sales
from hushdoc_training.invented.line_ocr import LineReading
from hushdoc_training.invented.random_draws import Draws

_CONFIG = invented.InventedConfig(document_types=("till-receipt",), providers=(0, 20_000))
_DIGEST = "b2986a449e68d9717a0ec35af5971ecf39281c8794b78b2bd1971a272ff54ee2"


def _text(item: LabelledDocument, span: Span) -> str:
    return " ".join(word.text for word in item.document.pages[0].words[span.start : span.stop])


def _sample(count: int, labels: str = "fields", **others: object) -> list[LabelledDocument]:
    config = replace(_CONFIG, labels=labels, **others)  # type: ignore[arg-type]
    return list(invented.documents(seed=3, count=count, config=config))


def test_till_receipts_draw_the_words_that_they_drew_before() -> None:
    digest = hashlib.sha256()
    for item in _sample(40):
        words = " ".join(word.text for word in item.document.pages[0].words)
        digest.update(f"{item.document.id} {item.provider} {words}\n".encode())
    assert digest.hexdigest() == _DIGEST


def test_sums_add_up() -> None:
    for number in range(300):
        shop = shops.shop(number)
        sale = till_sales.draw_till_sale(shop, Draws(1, number))
        digits = shop.currency.decimals
        listed = sum(item.amount + sum(cost for _, cost in item.modifiers) for item in sale.items)
        added = sale.tax if shop.tax_manner == "added" else 0.0
        summed = sale.subtotal - sale.discount + sale.service + added
        assert sale.subtotal == pytest.approx(listed, abs=10**-digits)
        assert sale.unrounded == pytest.approx(summed, abs=10**-digits)
        assert sale.total == pytest.approx(sale.unrounded + sale.rounding, abs=1e-6)
        assert abs(sale.rounding) <= shop.rounds_to
        assert sale.given >= sale.total
        assert sale.total > 0


def test_shops_are_many_and_never_share_a_name() -> None:
    made = [shops.shop.__wrapped__(number) for number in [*range(900), *range(31_500, 32_000)]]
    names = [re.sub(r"\W", "", shop.name).lower() for shop in made]
    assert len(set(names)) == len(names)
    assert len({shop.country for shop in made}) > 18
    assert len({shop.date_style for shop in made}) > 20
    assert len({shop.currency.pattern for shop in made}) > 25


def test_receipts_say_what_their_fields_are() -> None:
    items = _sample(120, misspelled=0.0)
    found = {span.label for item in items for span in item.spans}
    assert found >= {"provider_name", "provider_address", "date", "time", "total", "tax", "cash"}
    assert found >= {"item_description", "item_amount", "item_quantity", "rounding", "change"}
    for item in items:
        labels = [span.label for span in item.spans]
        assert labels.count("provider_name") == labels.count("provider_address") == 1
        assert "total" in labels
        assert "date" in labels
        for span in item.spans:
            if span.label in ("total", "cash", "item_amount", "date"):
                assert re.search(r"\d", _text(item, span)), _text(item, span)


def test_totals_and_addresses_are_worded_in_many_ways() -> None:
    keys, lines = set(), []
    for item in _sample(150, labels="wildreceipt", misspelled=0.0):
        keys |= {_text(item, span).lower() for span in item.spans if span.label == "total.key"}
        lines.append(sum(span.label == "store_addr.value" for span in item.spans))
    assert len(keys) > 40
    assert set(lines) >= {1, 2, 3, 4}


@pytest.mark.parametrize("labels", label_sets.LABEL_SETS)
def test_label_sets_change_the_labels_alone(labels: str) -> None:
    documents = list(itertools.islice(invented.documents(seed=3, config=_CONFIG), 12))
    relabelled = _sample(12, labels=labels)
    assert [item.document for item in relabelled] == [item.document for item in documents]
    found = {span.label for item in relabelled for span in item.spans}
    if labels in label_sets.CORPORA:
        assert found <= set(label_sets.CORPORA[labels].values())
        assert len(found) > 3


def test_label_sets_name_fields_that_there_are() -> None:
    named = {name for labels in label_sets.CORPORA.values() for name in labels}
    assert {name.removesuffix(".key") for name in named} <= (
        set(invented.FIELD_LABELS) | label_sets.OF_CORPORA
    )
    assert label_sets.OF_CORPORA.isdisjoint(invented.FIELD_LABELS)


def test_a_corpus_labels_what_asks_for_a_field_where_it_does() -> None:
    plain, keyed = (
        _sample(60, labels=labels, misspelled=0.0) for labels in ("sroie", "wildreceipt")
    )
    words = {
        _text(item, span).rstrip(" :.").lower()
        for item in keyed
        for span in item.spans
        if span.label == "date.key"
    }
    assert "date" in words
    times = {
        _text(item, span).rstrip(" :.").lower()
        for item in keyed
        for span in item.spans
        if span.label == "time.key"
    }
    assert "time" in times
    assert "date" not in times  # a date and a time may stand behind one label
    dates = [_text(item, span) for item in plain for span in item.spans if span.label == "date"]
    assert all(re.search(r"\d", text) for text in dates)


def test_other_types_take_the_labels_of_corpora_too() -> None:
    config = invented.InventedConfig(document_types=("invoice",), labels="docile")
    found = {span.label for item in invented.documents(seed=1, count=20, config=config)
             for span in item.spans}  # fmt: skip
    # All that the set names stands on invoices, but what till receipts alone have.
    assert found == {*label_sets.CORPORA["docile"].values()} - {"vendor_registration_id"}
    config = invented.InventedConfig(document_types=("till-receipt",), labels="cord")
    found = {span.label for item in invented.documents(seed=1, count=60, config=config)
             for span in item.spans}  # fmt: skip
    assert found == {*label_sets.CORPORA["cord"].values()}


def _page(*words: tuple[str, float, float, int]) -> LabelledDocument:
    made = tuple(
        Word(text=text, box=Box(x0=x, y0=y, x1=x + 10.0 * len(text), y1=y + 12), segment=segment)
        for text, x, y, segment in words
    )
    page = Page(width=600, height=400, words=made)
    return LabelledDocument(
        document=Document(id="x", pages=(page,)),
        spans=(Span(page=0, start=1, stop=2, label="date"),),
        questions=(Question(text="When?", answers=("1/2/99",), word_ids=(1,)),),
    )


_LINE = (("Date:", 0, 0, 0), ("1/2/99", 55, 0, 1), ("Total", 0, 30, 2), ("9.00", 400, 30, 3))


def test_a_reader_of_lines_joins_what_stands_close_and_shares_its_box() -> None:
    reading = LineReading(by_line=True, shared=True, glued=False, joined=0.0, leaning=0.0)
    read = line_ocr.as_read(_page(*_LINE), reading, Draws(1))
    words = read.document.pages[0].words
    assert [word.segment for word in words] == [0, 0, 1, 2]
    assert words[0].box.to_list() == [0, 0, pytest.approx(115 * 5 / 12), 12]
    assert words[1].box.x1 == pytest.approx(115)
    assert read.spans == _page(*_LINE).spans


def test_a_lost_blank_keeps_the_value_s_label() -> None:
    reading = LineReading(by_line=True, shared=False, glued=False, joined=1.0, leaning=0.0)
    read = line_ocr.as_read(_page(*_LINE), reading, Draws(1))
    words = read.document.pages[0].words
    assert [word.text for word in words] == ["Date:1/2/99", "Total", "9.00"]
    assert read.spans == (Span(page=0, start=0, stop=1, label="date"),)
    assert read.questions[0].word_ids == (0,)
    assert read.questions[0].answers == ("Date:1/2/99", "1/2/99")


def test_a_label_that_loses_its_blank_gives_way_to_its_value() -> None:
    page = _page(*_LINE)
    both = (Span(page=0, start=0, stop=1, label="key"), *page.spans)
    reading = LineReading(by_line=True, shared=False, glued=False, joined=1.0, leaning=0.0)
    read = line_ocr.as_read(replace(page, spans=both), reading, Draws(1))
    assert read.spans == (Span(page=0, start=0, stop=1, label="date"),)


def test_pages_have_no_two_texts_in_one_place() -> None:
    config = replace(_CONFIG, misspelled=0.0, jitter_pixels=0.0, skew_degrees=0.0)
    for index in range(40):
        inks = planning.plan(seed=8, index=index, config=config).sheet.inks
        for a, b in itertools.pairwise(sorted(inks, key=lambda ink: (ink.y, ink.x))):
            if a.y == b.y:
                assert b.box[0] >= a.box[2] - 3, (index, a.text, b.text)
