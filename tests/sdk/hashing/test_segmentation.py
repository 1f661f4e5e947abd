"""Any text is cut into sentences and tokens, in linear time, as a reader would for most."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushdoc.hashing import segmentation, sentence_ends

PIECES = st.sampled_from(
    ["a", "B", "7", ".", "!", "…", " ", "\n", "\r\n", "\t", "\x00", "\ud800", "\u0301", "\u200d"]
    + ["。", "合", "ا", "؟", "क", "ि", "ก", "ั", "👩", "🏽", "🇩", "(", ")", '"', "-", ",", "'"]
    + ["Dr. ", "1. ", "(a) ", "Inc. The ", "No. 5", "\u2029", "\x1c", "_", "\u00a0", "e.g. "]
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=60).map("".join))


def cut(text: str) -> list[str]:
    return [text[start:stop] for start, stop in segmentation.sentences(text)]


def spelled(text: str) -> list[str]:
    return [text[start:stop] for start, stop in segmentation.tokens(text)]


def require_sound(text: str) -> None:
    """Raises unless sentences and tokens hold all that is not blank, in order, each once."""
    reached = 0
    for start, stop in segmentation.sentences(text):
        assert reached <= start < stop
        assert text[reached:start].strip() == ""
        assert not text[start].isspace()
        assert not text[stop - 1].isspace()
        assert stop - start <= segmentation.MAX_SENTENCE
        places = segmentation.tokens(text, start, stop)
        assert segmentation.words(text, start, stop) == [text[a:b] for a, b in places]
        within = start
        for a, b in places:
            assert within <= a < b <= stop
            assert text[within:a].strip() == ""
            assert not any(letter.isspace() for letter in text[a:b])
            within = b
        assert text[within:stop].strip() == ""
        reached = stop
    assert text[reached:].strip() == ""


@given(TEXTS)
@settings(deadline=None, max_examples=300)
def test_nothing_is_lost_and_nothing_comes_twice(text: str) -> None:
    require_sound(text)


# One bar is where a sentence ends.
SENTENCES = [
    "Dr. Smith agrees.|Mr. Jones v. Acme Inc. is settled.|It ended.",
    "Acme Inc. and Bolt Ltd. agree.|This binds Acme Inc.|The Seller pays.",
    "See Sec. 4.2 and No. 7 of Art. IV.|No.|He said no.|Then he left.",
    "It costs $1,250.50 p.a. from 3.5.2027!|Really?!|Yes...|Maybe.",
    "1. Definitions.|2. Term.|2.1 Grant.|Licensor grants (i) a license; and (ii) more.",
    'He said "Stop."|Then he left.',
    "the U.S. Government",
    "J. R. R. Tolkien wrote it.|You read it.",
    "Yahoo! shares rose. eBay fell.",
    "Die Fa. Müller GmbH haftet gem. § 5 Abs. 2 BGB, d.h. voll.|Am 3. Januar endet sie.",
    "z.B. Öl bzw. Gas.|Der Käufer zahlt.",
    "M. Dupont, p.ex. le vendeur, signe l'art. 5.|Il paie.",
    "El Sr. García firma la cláusula núm. 3.|La Sra. López paga.",
    "本合同受中国法律管辖。|双方同意!「好。」|下一条。",
    "契約は終了する。|甲は通知する。",
    "هل ينتهي العقد؟|نعم.|ينتهي اليوم.",
    "यह अनुबंध है।|दूसरा वाक्य॥|तीसरा",
    "Договор, т.е. соглашение, см. п. 5.|Он действует.",
]


@pytest.mark.parametrize("marked", SENTENCES)
def test_sentences_end_where_a_reader_ends_them(marked: str) -> None:
    blanked = "".join(
        mark if mark != "|" else ("" if marked[place - 1] in "。」॥।" else " ")
        for place, mark in enumerate(marked)
    )
    assert cut(blanked) == marked.split("|")


def test_lines_end_sentences_where_they_end_headings_items_and_paragraphs() -> None:
    text = (
        "MASTER SERVICES AGREEMENT\nThis Agreement is made between the party of the first part\n"
        "and the other party named below, who agree.\n\nArticle 1\nDefinitions\n"
        "(a) one thing;\n(b) another thing\n• a bullet\n2.1 Grant of License\n"
        "a wrapped line that is long enough to be wrapped at its end by whoever wrote it,\n"
        "Section 5 of which is cited\r\nhere, and goes on\r\n\r\nLast words"
    )
    assert cut(text) == [
        "MASTER SERVICES AGREEMENT",
        "This Agreement is made between the party of the first part\n"
        "and the other party named below, who agree.",
        "Article 1",
        "Definitions",
        "(a) one thing;",
        "(b) another thing",
        "• a bullet",
        "2.1 Grant of License\n"
        "a wrapped line that is long enough to be wrapped at its end by whoever wrote it,\n"
        "Section 5 of which is cited\r\nhere, and goes on",
        "Last words",
    ]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("It's non-exclusive.", ["It's", "non-exclusive", "."]),
        ("$1,250.00 (50%)", ["$", "1,250.00", "(", "50", "%", ")"]),
        ("______ ..... ---", ["______", ".....", "---"]),
        ("3.5.2027, e.g. A1", ["3.5.2027", ",", "e", ".", "g", ".", "A1"]),
        ("合同abc甲", ["合", "同", "abc", "甲"]),
        ("เก็บ", ["เ", "ก็", "บ"]),
        ("cafe\u0301 über", ["cafe\u0301", "über"]),
        ("अनुबंध।", ["अनुबंध", "।"]),
        ("العَقْد", ["العَقْد"]),
        ("👩‍👩‍👧👍🏽🇩🇪❤️", ["👩‍👩‍👧", "👍🏽", "🇩🇪", "❤️"]),
        ("a\x00b\ud800c", ["a", "\x00", "b", "\ud800", "c"]),
        ("", []),
        (" \n\t\u00a0", []),
    ],
)
def test_tokens_are_words_numbers_and_symbols(text: str, tokens: list[str]) -> None:
    assert spelled(text) == tokens
    require_sound(text)


def test_tokens_of_a_part_stand_where_they_stand_in_the_text() -> None:
    text = "one two, three"
    assert segmentation.tokens(text, 4, 8) == [(4, 7), (7, 8)]
    assert segmentation.words(text, 9) == ["three"]


ASCII = st.text(
    st.one_of(st.sampled_from("a1.,'-_=* \x1c\x1f\t"), st.characters(max_codepoint=127)),
    max_size=40,
)


@given(ASCII)
@settings(max_examples=500)
def test_tokens_do_not_depend_on_whether_other_letters_stand_beside_them(text: str) -> None:
    # A text of ASCII alone is cut by a faster rule; a letter of another script behind it is not.
    mixed = f"{text} 合"
    assert segmentation.words(mixed) == [*segmentation.words(text), "合"]
    assert segmentation.tokens(mixed)[:-1] == segmentation.tokens(text)


def test_long_sentences_are_cut_after_a_blank() -> None:
    text = "word " * 3000
    parts = cut(text)
    assert len(parts) == 4
    assert all(part.split() == ["word"] * len(part.split()) for part in parts)
    assert [len(part) for part in cut("x" * 10_000)] == [4096, 4096, 1808]


HOSTILE = {
    "letters": "a",
    "dots": ".",
    "dots and blanks": ". ",
    "blanks": " ",
    "line ends": "\n",
    "blanks and line ends": " " * 300 + "\n",
    "brackets": "(",
    "stop and brackets": "." + "(" * 50 + " ",
    "quotes": '"',
    "numbers": "1. ",
    "numbers with commas": "1,",
    "hyphens": "a-",
    "joiners": "\u200d",
    "marks": "\u0301",
    "NULs": "\x00",
    "surrogates": "\ud800",
    "Chinese": "合同。",
    "emoji": "👩‍👩‍👧",
    "right to left": "هذا العقد. ",
    "headings": "Abc Def\n",
    "abbreviations": "e.g. Foo ",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_linear_time(name: str) -> None:
    piece = HOSTILE[name]
    text = piece * (100_000 // len(piece))
    began = time.process_time()
    require_sound(text)
    # All of them take less than 1 s; whatever is quadratic takes minutes.
    assert time.process_time() - began < 20


@pytest.mark.parametrize("marks", ["!", "?", "。", ".!", "!'"])
def test_a_long_run_of_marks_takes_linear_time(marks: str) -> None:
    text = marks * (200_000 // len(marks))
    began = time.process_time()
    assert segmentation.sentences(text)[-1][1] == len(text)
    # Less than 1 s; where each mark is looked at from all before it, minutes.
    assert time.process_time() - began < 20


@pytest.mark.slow
def test_fifty_megabytes_on_one_line_are_read() -> None:
    line = "the party of the first part shall indemnify the other, "
    text = line * (50_000_000 // len(line))
    found = segmentation.sentences(text)
    assert found[-1][1] == len(text.rstrip())
    assert max(stop - start for start, stop in found) <= segmentation.MAX_SENTENCE
    assert sum(len(segmentation.words(text, *place)) for place in found) == text.count(
        " "
    ) + text.count(",")


def ends_one_by_one(text: str) -> list[int]:
    """Returns where sentences end by the rules alone, asked about each candidate in turn."""
    start = line_start = 0
    found = []
    for mark in segmentation._CANDIDATE.finditer(text):
        if segmentation._ends_at(text, mark, start, line_start):
            start = mark.end()
            found.append(start)
        if mark.lastgroup == "line":
            line_start = mark.end()
    return [*found, len(text)]


WORDS = ["word", "The", "agreement", "shall", "inc", "Inc", "no", "mr", "End", "x1", "12", "345"]
WORDS += ["iv", "a", "B", "e.g", "Januar", "März", "ARTICLE 1", "(a)", "“Party”", "•", "end)", "§"]
MARKS = ["", "", " ", " ", ". ", ".", ".\n", "\n", "\n", ", ", ",\n", "\n\n", ";\n", ":\n", ".) "]
MARKS += ["\r\n", " \n ", "\n \n", ".\u00a0", "\u2028", "! ", "?\n", "… ", "... ", "。", ".  "]
PROSE = st.lists(
    st.tuples(st.sampled_from(WORDS), st.sampled_from(MARKS)).map("".join), max_size=60
).map("".join)


@given(st.one_of(TEXTS, PROSE))
@settings(deadline=None, max_examples=400)
def test_what_is_decided_at_once_is_what_the_rules_decide(text: str) -> None:
    assert cut(text) == cut_at(text, ends_one_by_one(text))


def cut_at(text: str, ends: list[int]) -> list[str]:
    """Returns what stands between ends, where it is not whitespace, in parts that are not long."""
    parts = [text[start:stop].strip() for start, stop in pairwise([0, *ends])]
    cuts = [segmentation._cut(part, 0, len(part)) for part in parts if part]
    return [
        part[start:stop]
        for part, places in zip(filter(None, parts), cuts, strict=True)
        for start, stop in places
    ]


def test_no_word_that_the_rules_know_is_too_long_to_be_looked_for() -> None:
    assert max(map(len, segmentation._KNOWN_WORDS)) <= sentence_ends.LONGEST_WORD


@pytest.mark.parametrize("month", sorted(segmentation._MONTHS))
def test_a_day_before_a_month_ends_no_sentence(month: str) -> None:
    text = f"Am 3. {month.capitalize()} endet es."
    assert cut(text) == [text]
    assert cut(text.replace("3", "2003")) == ["Am 2003.", f"{month.capitalize()} endet es."]
