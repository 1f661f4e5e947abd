"""Lines that are written from right to left: where their words stand."""

from __future__ import annotations

import pytest

from hushdoc.reading import from_rapidocr
from hushdoc.reading.directions import from_left


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Total due 12.50 EUR", "Total due 12.50 EUR"),
        ("סך הכל לתשלום", "לתשלום הכל סך"),
        ("فاتورة رقم 4711", "4711 رقم فاتورة"),
        ("טלפון 03 1234567", "1234567 03 טלפון"),
        ("חשבונית ACME Ltd No 77 מקור", "מקור ACME Ltd No 77 חשבונית"),
        ("Invoice חשבונית מס 77 paid", "Invoice 77 מס חשבונית paid"),
        ("סך - הכל", "הכל - סך"),
        ("שם ACME - Ltd : כתובת", "כתובת : ACME - Ltd שם"),
        ("חשבונית INVOICE NUMBER 77", "INVOICE NUMBER 77 חשבונית"),
        ('ACME בע"מ רחוב הרצל', 'הרצל רחוב בע"מ ACME'),
        ("12 34 - 56", "12 34 - 56"),
    ],
)
def test_words_stand_as_a_browser_shows_them(line: str, shown: str) -> None:
    words = line.split()
    assert [words[place] for place in from_left(words)] == shown.split()


def test_the_first_word_of_hebrew_has_the_right_end_of_its_lines_box() -> None:
    line = {"txt": "סכום  450 שקל", "box": [[100, 10], [232, 10], [232, 30], [100, 30]]}
    document = from_rapidocr([line], width=400, height=100)
    found = {word.text: (word.box.x0, word.box.x1) for word in document.pages[0].words}
    assert [*found] == ["סכום", "450", "שקל"]
    assert found["סכום"] == pytest.approx((192, 232), abs=6)
    assert found["450"] == pytest.approx((144, 180), abs=6)
    assert found["שקל"] == pytest.approx((100, 132), abs=6)
