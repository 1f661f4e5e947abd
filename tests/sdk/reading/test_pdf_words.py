"""Words of PDF files: letters that stand apart, turned, raised, and printed twice."""

from __future__ import annotations

import math

import hushdoc_pdf_files as pdfs
import pytest

from hushdoc.reading import open_document


def words(content: str, **options: object) -> list[str]:
    """Returns the words of a page of these operators."""
    file: bytes = pdfs.file([content.encode("latin-1")], **options)
    (page,) = open_document(file, ocr="none").pages
    return [word.text for word in page.words]


def letters(text: str, angle: float, *, step: float = 8.67) -> str:
    """Returns operators that write each letter by itself along a baseline with this angle."""
    a, b = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    return "".join(
        f"BT /F1 12 Tf {a:f} {b:f} {-b:f} {a:f} {300 + n * step * a:f} {300 + n * step * b:f} Tm "
        f"({letter}) Tj ET\n"
        for n, letter in enumerate(text)
    )


@pytest.mark.parametrize("angle", [0, 30, 45, 90, 135, 180, 270, 300])
def test_letters_along_a_turned_baseline_are_one_word(angle: float) -> None:
    assert words(letters("HNUDNH", angle)) == ["HNUDNH"]


@pytest.mark.parametrize("angle", [0, 30, 45, 90, 180, 270])
def test_turned_words_end_at_gaps(angle: float) -> None:
    a, b = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    turned = f"BT /F1 12 Tf {a:f} {b:f} {-b:f} {a:f} 300 300 Tm"
    assert words(f"{turned} [(Total) -150 (due)] TJ ET") == ["Total", "due"]


@pytest.mark.parametrize("gap", [0.12, 0.15, 0.25, 0.5])
def test_a_narrow_space_is_a_space(gap: float) -> None:
    # Helvetica: "new" is 1.834 font sizes wide.
    line = f"BT /F1 10 Tf 72 500 Td (new) Tj {18.34 + 10 * gap:f} 0 Td (empty) Tj ET"
    assert words(line) == ["new", "empty"]
    assert words(f"BT /F1 10 Tf 72 500 Td [(new) {-1000 * gap:f} (empty)] TJ ET") == [
        "new",
        "empty",
    ]


@pytest.mark.parametrize("gap", [-0.05, 0.0, 0.05, 0.08])
def test_letters_set_close_or_apart_by_a_little_are_one_word(gap: float) -> None:
    line = "".join(f"({letter}) {-1000 * gap:f} " for letter in "PRACTICE")
    assert words(f"BT /F1 10 Tf 72 500 Td [{line}] TJ ET") == ["PRACTICE"]


def test_letters_set_wide_are_one_word_until_a_wider_gap() -> None:
    apart = " -200 ".join(f"({letter})" for letter in "PRACTICE")
    further = " -200 ".join(f"({letter})" for letter in "THEORY")
    assert words(f"BT /F1 10 Tf 72 500 Td [{apart} -600 {further}] TJ ET") == ["PRACTICE", "THEORY"]


def test_numbers_apart_are_no_wide_word() -> None:
    assert words("BT /F1 10 Tf 72 500 Td [(1) -400 (2) -400 (3) -400 (4) -400 (5)] TJ ET") == [
        *"12345"
    ]


def test_subscripts_and_superscripts_stay_in_their_word() -> None:
    formula = (
        "BT /F1 12 Tf 72 500 Td (CO) Tj 18 -5 Td /F1 7 Tf (2) Tj ET "
        "BT /F1 12 Tf 94 500 Td (e) Tj ET "
        "BT /F1 12 Tf 72 450 Td (Total) Tj /F1 6 Tf 27.4 7 Td (1) Tj ET"
    )
    assert words(formula) == ["CO2e", "Total1"]


def test_lines_set_close_stay_apart() -> None:
    assert words("BT /F1 12 Tf 72 500 Td (ABC) Tj 20 -9 Td (abc) Tj ET") == ["ABC", "abc"]


def test_characters_on_one_another_are_no_word() -> None:
    boxes = "BT /F1 20 Tf 72 500 Td (H) Tj ET BT /F1 20 Tf 72 500 Td (<) Tj ET"
    assert words(boxes) == ["H", "<"]


def test_letters_printed_twice_to_look_bold_are_read_once() -> None:
    once = letters("HNUDNH", 0)
    twice = "".join(
        f"{line}\n{line.replace(' 300.0', ' 300.4')}\n" for line in once.splitlines() if line
    )
    assert words(twice) == ["HNUDNH"]


def test_narrow_letters_are_not_taken_for_one_printed_twice() -> None:
    assert words("BT /F1 12 Tf 15 Tz 72 500 Td (will) Tj ET") == ["will"]


def test_one_column_of_wide_characters_is_one_word() -> None:
    to_unicode = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def "
        b"1 begincodespacerange <00> <FF> endcodespacerange "
        b"1 beginbfrange <41> <5A> <65E5> endbfrange endcmap end end"
    )
    column = "".join(f"1 0 0 1 100 {500 - 12 * n} Tm ({'ABCD'[n]}) Tj " for n in range(4))
    file = pdfs.file(
        [f"BT /F1 12 Tf {column} 1 0 0 1 300 300 Tm (E) Tj ET".encode()],
        objects=[b"<< /Length %d >>\nstream\n" % len(to_unicode) + to_unicode + b"\nendstream"],
    ).replace(b"/BaseFont /Helvetica", b"/BaseFont /Helvetica /ToUnicode 12 0 R")
    (page,) = open_document(file, ocr="none").pages
    assert [word.text for word in page.words] == ["日旦旧旨", "早"]


def test_the_box_of_a_turned_word_is_around_its_letters() -> None:
    file = pdfs.file([letters("HNUDNH", 90).encode()])
    (page,) = open_document(file, ocr="none").pages
    (word,) = page.words
    assert word.box.y1 - word.box.y0 == pytest.approx(6 * 8.67 * 200 / 72, rel=0.02)
    assert word.box.x1 - word.box.x0 < 20 * 200 / 72


def test_a_bare_code_of_a_font_is_no_hyphen() -> None:
    """PDFium has the same character for the hyphen at the end of a line."""
    file = pdfs.file([b"BT /F1 10 Tf 14 TL 72 500 Td (one \\002 two) Tj (half-) ' (way) ' ET"])
    (page,) = open_document(file, ocr="none").pages
    assert [word.text for word in page.words] == ["one", "two", "half-", "way"]


def in_another_font(line: str, *, name: str = "ArialNarrow", width: int = 456) -> list[str]:
    """Returns the words of a line in a font that the file lacks, whose characters are narrow."""
    widths = f"/FirstChar 32 /LastChar 126 /Widths [{f'{width} ' * 95}]"
    file = pdfs.file([f"BT /F1 10 Tf 72 500 Td {line} TJ ET".encode()]).replace(
        b"/Subtype /Type1 /BaseFont /Helvetica",
        f"/Subtype /TrueType /BaseFont /{name} /Encoding /WinAnsiEncoding {widths}".encode(),
    )
    assert name.encode() in file
    (page,) = open_document(file, ocr="none").pages
    return [word.text for word in page.words]


@pytest.mark.parametrize("width", [400, 456, 500])
def test_a_narrow_character_among_wider_ones_of_another_font_ends_no_word(width: int) -> None:
    """The ink of a "5" goes on where the next character begins, that of a "1" or "." does not."""
    assert in_another_font("[(53000.00KGS)]", width=width) == ["53000.00KGS"]
    assert in_another_font("[(126762)]", width=width) == ["126762"]


def test_a_space_after_a_slanted_character_is_a_space() -> None:
    """The ink of an "f" goes on above the gap of 0.19."""
    file = pdfs.file([b"BT /F1 10 Tf 72 500 Td (of) Tj 10.24 0 Td (Data) Tj ET"]).replace(
        b"/BaseFont /Helvetica", b"/BaseFont /Helvetica-Oblique"
    )
    (page,) = open_document(file, ocr="none").pages
    assert [word.text for word in page.words] == ["of", "Data"]
