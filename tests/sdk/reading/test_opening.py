"""One door: formats are told by their content, and what can't be read is told by name."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import hushdoc_pdf_files as pdfs
import pytest
from hushdoc_processes import in_python

from hushdoc.document.document import Document
from hushdoc.errors import (
    EmptyDocumentError,
    HushdocError,
    InputError,
    LimitExceededError,
    UnsupportedFormatError,
)
from hushdoc.reading import FORMATS, ReadingLimits, Source, open_document

HEAVY = ("PIL", "cryptography", "numpy", "onnxruntime", "pypdfium2", "rapidocr")


@pytest.fixture
def samples(fixtures: Path) -> dict[str, bytes]:
    """Returns content of every format, and the name of what it is."""
    own = Document.from_words(["a"], [(0, 0, 9, 9)], width=10, height=10, id="own")
    return {
        "pdf": pdfs.file([pdfs.shown("Total due")]),
        "image": (fixtures / "page.png").read_bytes(),
        "text": b"Total due 12.50\n",
        "document": json.dumps(own.to_dict()).encode(),
        "hocr": (fixtures / "tesseract.hocr").read_bytes(),
        "tesseract-tsv": (fixtures / "tesseract.tsv").read_bytes(),
        **{
            name: (fixtures / f"{name.replace('-', '_')}.json").read_bytes()
            for name in ("azure-read", "docling", "doctr", "document-ai", "rapidocr")
        },
        "textract": (fixtures / "captured" / "textract.json").read_bytes(),
    }


def test_there_is_a_sample_of_every_format(samples: dict[str, bytes]) -> None:
    assert {*samples, "auto"} == set(FORMATS)
    assert list(FORMATS) == sorted(FORMATS)


@pytest.mark.tesseract
@pytest.mark.parametrize("form", [form for form in FORMATS if form != "auto"])
@pytest.mark.parametrize("suffix", [".pdf", ".png", ".txt", ".hocr", ".json", ""])
def test_the_content_tells_the_format_whatever_the_name(
    samples: dict[str, bytes], tmp_path: Path, form: str, suffix: str
) -> None:
    path = tmp_path / f"file{suffix}"
    path.write_bytes(samples[form])
    if (form, suffix) == ("text", ".json"):
        with pytest.raises(UnsupportedFormatError, match="not JSON"):
            open_document(path)
        return
    document = open_document(path, ocr="tesseract" if form == "image" else "auto")
    if form == "document":
        assert (document.id, document.source) == ("own", None)
    else:
        assert document.id == "file"
        assert document.source.reader == form
    inside = open_document(samples[form], ocr="tesseract" if form == "image" else "auto")
    assert inside.num_words == document.num_words


@pytest.mark.parametrize(
    ("form", "other"),
    [
        (form, other)
        for form in FORMATS
        for other in ("pdf", "hocr", "textract")
        if form not in ("auto", "text", other)
    ],
)
def test_a_wrong_format_is_told(samples: dict[str, bytes], form: str, other: str) -> None:
    with pytest.raises(InputError) as raised:
        open_document(samples[other], format=form)
    assert raised.value.code in ("UNSUPPORTED_FORMAT", "EMPTY_DOCUMENT", "BAD_INPUT")


@pytest.mark.tesseract
def test_documents_round_trip_with_how_they_were_read(samples: dict[str, bytes]) -> None:
    for form, content in samples.items():
        document = open_document(content, ocr="tesseract" if form == "image" else "auto")
        again = Document.from_dict(json.loads(json.dumps(document.to_dict())))
        bare = tuple(replace(page, image=None) for page in document.pages)
        assert again == replace(document, pages=bare)
        assert again.source == document.source


def test_pages_name_their_file_and_bytes_are_kept(
    samples: dict[str, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(samples["pdf"])
    assert open_document(path).pages[0].image == path
    assert open_document(str(path)).pages[0].image == path
    assert open_document(path, id="mine").id == "mine"
    bare = open_document(samples["pdf"])
    assert bare.pages[0].image is samples["pdf"]
    assert "image" not in repr(bare)
    assert bare.to_dict()["pages"][0]["image"] is None
    assert bare.id == "document"


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_at_all_is_empty(tmp_path: Path, form: str) -> None:
    (tmp_path / "a").write_bytes(b"")
    for source in (tmp_path / "a", b""):
        with pytest.raises(EmptyDocumentError, match="0 bytes") as raised:
            open_document(source, format=form)
        assert raised.value.code == "EMPTY_DOCUMENT"


@pytest.mark.parametrize("content", [b" \n\t ", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_blanks_are_empty(content: bytes) -> None:
    with pytest.raises(EmptyDocumentError):
        open_document(content)


def test_files_that_are_none_are_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "missing", tmp_path, tmp_path / "pipe", "nul\x00"):
        with pytest.raises(InputError, match="It can't be read") as raised:
            open_document(path)
        assert raised.value.code == "BAD_INPUT"


def test_files_larger_than_the_limit_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    with path.open("wb") as stream:
        stream.truncate(2**40)  # a terabyte of nothing
    with pytest.raises(LimitExceededError, match="larger than"):
        open_document(path)
    limits = ReadingLimits(max_bytes=3)
    with pytest.raises(LimitExceededError):
        open_document(b"four", limits=limits)
    assert open_document(b"two", limits=limits).text == "two"


@pytest.mark.parametrize(
    "change", [{"max_pages": 0}, {"max_bytes": True}, {"max_word_characters": 10**6}]
)
def test_limits_that_are_none_are_the_callers_mistake(change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        ReadingLimits(**change)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("caf\u00e9".encode(), "caf\u00e9"),
        (b"\xef\xbb\xbfcaf\xc3\xa9", "caf\u00e9"),
        ("caf\u00e9".encode("utf-16"), "caf\u00e9"),
        (b"\xfe\xff" + "caf\u00e9".encode("utf-16-be"), "caf\u00e9"),
        ("caf\u00e9".encode("utf-32"), "caf\u00e9"),
        (b"[Letterhead]\nDear Ada", "[Letterhead]\nDear Ada"),
        (b"BM is two letters", "BM is two letters"),
        (b"<none> no hOCR", "<none> no hOCR"),
        (b"tab\tand\r\nform feed\x0c", "tab\tand\r\nform feed\x0c"),
    ],
)
def test_text_is_decoded_by_its_mark(content: bytes, text: str) -> None:
    document = open_document(content)
    assert document.text == text
    assert document.source == Source(reader="text")
    assert document.pages == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("caf\u00e9".encode("latin-1"), "not UTF-8 at byte 3"),
        ("caf\u00e9".encode("utf-16-le"), "is no text|not UTF-8"),
        (b"\xff\xfea", "not UTF-16-LE at byte 2"),
        (b"a\xed\xa0\x80", "not UTF-8 at byte 1"),
        (b"PK\x03\x04" + bytes(40), "is no text"),
        (b"\x7fELF\x02\x01\x01", "is no text"),
        (bytes(100), "is no text"),
    ],
)
def test_other_encodings_are_never_guessed(content: bytes, said: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=said) as raised:
        open_document(content)
    assert raised.value.code == "UNSUPPORTED_FORMAT"


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": 1}',
        b'{"pages": 3, "b": 4}',
        b'{"document": {"x": {"document": {}}}}',
        b'{"id": 1e400, "pages": [{"width": 1e400, "height": 3, "words": []}]}',
        b'{"id": "x", "pages": [{"width": 9, "height": 9, "words": [{"text": "a", "box": [0,0,1,'
        + b"9" * 400
        + b"]}]}]}",
        b"[NaN]",
        b'"text"',
    ],
)
def test_json_of_no_known_form_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError) as raised:
        open_document(tmp_path / "a.json")
    assert raised.value.code in ("UNSUPPORTED_FORMAT", "BAD_INPUT", "BAD_BOX")
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"\x89PNG", "UNSUPPORTED_FORMAT", "not UTF-8 at byte 0"),
        (b"{]", "UNSUPPORTED_FORMAT", "not JSON"),
        (b"[" * 100_000, "UNSUPPORTED_FORMAT", "not JSON"),
        (b"[]", "BAD_INPUT", "holds list"),
        (b'{"id": "x"}', "BAD_INPUT", "not a document"),
        (b'{"id": "x", "pages": []}', "EMPTY_DOCUMENT", "no word"),
    ],
)
def test_a_file_that_is_no_document_is_told(
    tmp_path: Path, content: bytes, code: str, said: str
) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(InputError, match=said) as raised:
        open_document(tmp_path / "x.json")
    assert raised.value.code == code


def test_images_that_a_document_names_stand_beside_it(tmp_path: Path) -> None:
    own = Document.from_words(["a"], [(0, 0, 9, 9)], width=10, height=10, image=Path("p.png"))
    (tmp_path / "a.json").write_text(json.dumps({"document": own.to_dict(), "spans": []}))
    assert open_document(tmp_path / "a.json").pages[0].image == tmp_path / "p.png"


def test_text_that_could_steer_a_terminal_is_not_in_the_message() -> None:
    content = json.dumps(
        {"Blocks": [{"BlockType": "WORD", "Id": "a", "Text": "\x1b[2J", "Geometry": None}]}
    )
    with pytest.raises(HushdocError) as raised:
        open_document(content.encode())
    assert "\x1b" not in str(raised.value)


def test_readers_load_nothing_heavy_before_they_need_it() -> None:
    code = (
        "import sys\nfrom hushdoc.reading.opening import open_document\n"
        "open_document(b'plain text')\n"
        'open_document(b\'{"pages": [{"page_idx": 0, "dimensions": [9, 9], "blocks": [{"lines": '
        '[{"words": [{"value": "a", "geometry": [[0, 0], [1, 1]]}]}]}]}]}\')\n'
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert in_python(code).stdout == "[]\n"


@pytest.mark.parametrize(
    ("start", "name"),
    [
        ("<!DOCTYPE html>\n<title>Invoice</title>", "HTML"),
        ("\n <HTML lang=de>\n<p>Invoice", "HTML"),
        ("<div class=a><p>Invoice 12</p></div>", "HTML"),
        ("\ufeff<?xml version='1.0'?><invoice>12</invoice>", "XML"),
        ("<cac:Invoice xmlns:cac='urn:x'>12</cac:Invoice>", "XML"),
        ("<!-- made by hand --><p>12</p>", "HTML or XML"),
        ("%!PS-Adobe-3.0 EPSF-3.0\n(Invoice) show", "PostScript"),
        ("%!\n(Invoice) show", "PostScript"),
        (5000 * "\n" + "%!PS-Adobe-3.0", "PostScript"),
        (5000 * " " + "<!DOCTYPE html>", "HTML"),
        ('<!ENTITY name "Hollis Supply">', "XML"),
        ("<!ELEMENT invoice (total)>", "XML"),
        ("<![CDATA[Total 12]]>", "XML"),
        ("{\\rtf1\\ansi Invoice}", "RTF"),
        ("<meta charset=utf-8><title>Invoice</title><p>Pay 12</p>", "HTML"),
        ("<link rel=stylesheet href=a.css><p>Hi</p>", "HTML"),
        ("<img src=a.png><h1>Hi</h1>", "HTML"),
        ("<img src='data:image/png;base64," + 5000 * "A" + "'>Hi", "HTML"),
        ("<input disabled value=3>", "HTML"),
        ("<br><b>Total</b> 12", "HTML"),
        ("<br/>Total 12", "HTML"),
        ("<hr />\nTotal 12", "HTML"),
        ("<B>Total</b> 12", "HTML"),
        ("<title>Invoice</title>12", "HTML"),
        ("<p>Hello\n<p>World", "HTML"),
        ("<BODY BGCOLOR=white>hello", "HTML"),
        ("<h1>Hi", "HTML"),
        ('<Invoice total="12"/>', "XML"),
        ("<Invoice/>\n", "XML"),
        ("<Mark/>\n", "HTML"),
        ('<Line total="12" />\n<Line total="13" />', "XML"),
        ("\x1b%-12345X@PJL JOB\r\n@PJL ENTER LANGUAGE=POSTSCRIPT\r\n%!PS-Adobe-3.0", "PostScript"),
        ("\x1b%-12345X%!PS-Adobe-3.0", "PostScript"),
        ("\x1b%-12345X" + 300 * "@PJL COMMENT Hollis Supply\n" + "%!PS-Adobe-3.0", "PostScript"),
    ],
)
def test_markup_is_no_text_unless_it_is_called_so(start: str, name: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=f"is {name}, whose marks"):
        open_document(start.encode())
    assert open_document(start.encode(), format="text").text == start.removeprefix("\ufeff")


@pytest.mark.parametrize(
    "text",
    [
        "<john@example.org> wrote:\n> Please pay.",
        "<Letterhead>\nInvoice 12",
        "% of the total due: 12",
        "%! Important: pay now",
        "< 12 EUR: no tax",
        "<jane@example.com> wrote:",
        "<p.smith@example.com> wrote:",
        "<3 you",
        "<John> hi",
        "<John/> hi",
        "<Mark> hi",
        "<a> the first, <b> the second",
        "<title> <name>\n<address>",
        "<b 5 and a>c",
        "<p 5 and a=3>c",
        "<p is less than 3",
        "<https://example.com/p>",
        "\x1b%-12345X@PJL JOB\nTotal due 12",
        "@PJL is a language. Its files hold\n%!PS too.",
    ],
)
def test_texts_that_begin_like_markup_are_texts(text: str) -> None:
    assert open_document(text.encode()).text == text


def test_postscript_with_a_preview_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match="PostScript with a preview"):
        open_document(b"\xc5\xd0\xd3\xc6" + bytes(26) + b"%!PS-Adobe-3.0 EPSF-3.0")


def test_a_file_of_several_documents_is_told_apart_from_a_damaged_one() -> None:
    line = b'{"id": "a", "text": "Total"}\n'
    with pytest.raises(UnsupportedFormatError, match="several values of JSON"):
        open_document(line * 2)
    with pytest.raises(UnsupportedFormatError, match="is not JSON"):
        open_document(line[:-3])
