"""Labelled files: what is written is read back, and nothing else is read."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hushdoc_damage import at
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hushdoc import labelled_files
from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc.errors import (
    AnnotationError,
    BoxError,
    EmptyDocumentError,
    InputError,
    LimitExceededError,
    OutputExistsError,
    OutputWriteError,
    WordError,
)
from hushdoc.labels import LabelledDocument, LabelSet, Question, Span
from hushdoc.reading.opening import open_document

Edit = Callable[[dict[str, Any]], Any]


def made(name: str = "a", *, folder: Path | None = None) -> LabelledDocument:
    """Returns a document of two pages, the second without words."""
    words = ["Total:", "12.50", "EUR", "\u20ac\u2028\u00fc"]
    page = Page(
        width=200,
        height=100,
        words=tuple(
            Word(text=text, box=Box(x0=10.5 + 40 * n, y0=10, x1=45 + 40 * n, y1=20), segment=n // 2)
            for n, text in enumerate(words)
        ),
        image=None if folder is None else folder / "pages" / f"{name}.png",
    )
    blank = Page(width=200, height=100, words=(), frame=1)
    return LabelledDocument(
        document=Document(id=name, pages=(page, blank)),
        spans=(
            Span(page=0, start=1, stop=3, label="total"),
            Span(page=0, start=0, stop=1, label="key"),
        ),
        questions=(
            Question(text="What is due?", answers=("12.50 EUR",), word_ids=(1, 2)),
            Question(text="What is the IBAN?", answers=(), key="iban", question_id="a-2"),
        ),
        provider="Ocean & Son",
        document_type="receipt",
    )


def bare(name: str) -> LabelledDocument:
    return replace(made(name), questions=(), provider=None, document_type=None, spans=())


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json"])
def test_what_is_written_is_read_back(name: str, tmp_path: Path) -> None:
    documents = [made("a", folder=tmp_path), bare("b")]
    assert labelled_files.write(tmp_path / name, iter(documents)) == 2
    assert list(labelled_files.read(tmp_path / name)) == documents
    assert labelled_files.recognises(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    first = (tmp_path / name).read_bytes()
    labelled_files.write(tmp_path / name, documents, overwrite=True)
    assert (tmp_path / name).read_bytes() == first


@st.composite
def documents(draw: st.DrawFn) -> LabelledDocument:
    text = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8)
    pages, spans = [], []
    for number in range(draw(st.integers(1, 3))):
        texts = draw(st.lists(text, min_size=number == 0, max_size=6))
        edges = draw(st.tuples(*[st.floats(1, 100)] * 4))
        (x0, x1), (y0, y1) = sorted(edges[:2]), sorted(edges[2:])
        box = Box(x0=x0, y0=y0, x1=x1, y1=y1)
        segment = draw(st.none() | st.integers(0, 3))
        words = tuple(Word(text=item, box=box, segment=segment) for item in texts)
        pages.append(Page(width=100, height=100, words=words))
        cuts = sorted(draw(st.sets(st.integers(0, len(texts)), max_size=4)))
        spans += [
            Span(page=number, start=start, stop=stop, label=draw(text))
            for start, stop in zip(cuts[::2], cuts[1::2], strict=False)
        ]
    document = Document(id=draw(text), pages=tuple(pages))
    provider = draw(st.none() | text)
    return LabelledDocument(document=document, spans=tuple(spans), provider=provider)


@given(documents())
def test_every_document_survives_its_line(labelled: LabelledDocument) -> None:
    line = labelled_files.dumps(labelled)
    assert line.count("\n") == 1
    assert line.endswith("\n")
    assert labelled_files.from_dict(json.loads(line)) == labelled


def test_a_line_is_a_document_too(tmp_path: Path) -> None:
    """What is labelled can be extracted from: `open_document` reads the same file."""
    labelled_files.write(tmp_path / "a.json", [bare("a")])
    assert open_document(tmp_path / "a.json") == bare("a").document


def test_images_elsewhere_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    labelled_files.write(tmp_path / "out" / "a.jsonl", [made(folder=tmp_path)])
    (found,) = labelled_files.read(tmp_path / "out" / "a.jsonl")
    assert found == made()


def test_one_document_is_read_of_a_file_of_one(tmp_path: Path) -> None:
    labelled_files.write(tmp_path / "one.jsonl", [made()])
    labelled_files.write(tmp_path / "two.jsonl", [made("a"), made("b")])
    assert labelled_files.read_one(tmp_path / "one.jsonl") == made()
    with pytest.raises(AnnotationError, match=r"two\.jsonl.*several"):
        labelled_files.read_one(tmp_path / "two.jsonl")


def test_a_text_as_windows_writes_it_is_read(tmp_path: Path) -> None:
    lines = [labelled_files.dumps(item) for item in (bare("a"), bare("b"))]
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8-sig", newline="\r\n")
    assert labelled_files.recognises(path)
    assert list(labelled_files.read(path)) == [bare("a"), bare("b")]


def test_boxes_as_fractions_of_their_page_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    data = labelled_files.to_dict(bare("a"))
    for word in data["pages"][0]["words"]:
        word["box"] = [edge / size for edge, size in zip(word["box"], (200, 100) * 2, strict=True)]
    path.write_text(json.dumps(data))
    with pytest.raises(BoxError, match=r"line 1: All boxes on page 0 lie between 0 and 1"):
        list(labelled_files.read(path))
    data["pages"][0] |= {"width": 1, "height": 1}  # a page that is given as the unit square
    path.write_text(json.dumps(data))
    assert len(list(labelled_files.read(path))) == 1


def edit(*path: Any, to: Any) -> Edit:
    def apply(data: dict[str, Any]) -> Any:
        at(data, path[:-1])[path[-1]] = to
        return data

    return apply


def without(*path: Any) -> Edit:
    def apply(data: dict[str, Any]) -> Any:
        del at(data, path[:-1])[path[-1]]
        return data

    return apply


WORD = ("pages", 0, "words", 1)
SPAN = ("spans", 0)
ASK = ("questions", 0)
HOSTILE: dict[str, tuple[Edit, type[InputError], str]] = {
    "list": (lambda _: [1], AnnotationError, "it is list, not an object"),
    "other format": (edit("format", to="coco-1"), AnnotationError, "its format is 'coco-1'"),
    "later format": (edit("format", to="hushdoc-labelled-2"), AnnotationError, "labelled-2"),
    "no format": (without("format"), AnnotationError, r"no format; its keys are \['document_type"),
    "unknown key": (edit("note", to=1), AnnotationError, r"unknown keys \['note'\]"),
    "key of a page": (edit("pages", 0, "dpi", to=1), AnnotationError, r"page 0 .*\['dpi'\]"),
    "key of a word": (edit(*WORD, "bbox", to=1), AnnotationError, r"word 1 on page 0.*\['bbox'\]"),
    "key of a span": (edit(*SPAN, "text", to="x"), AnnotationError, r"a span .*\['text'\]"),
    "key of a question": (edit(*ASK, "answer", to=1), AnnotationError, "a question .*answer"),
    "no id": (without("id"), AnnotationError, r"lacks \['id'\]"),
    "empty id": (edit("id", to=" "), AnnotationError, "its id is ' '"),
    "id a number": (edit("id", to=7), AnnotationError, "its id is 7"),
    "provider a list": (edit("provider", to=["a"]), AnnotationError, "its provider"),
    "type with a control": (edit("document_type", to="a\x1b[0m"), AnnotationError, "its document"),
    "no spans": (without("spans"), AnnotationError, r"lacks \['spans'\]"),
    "spans an object": (edit("spans", to={}), AnnotationError, "spans are dict"),
    "no pages": (edit("pages", to=[]), EmptyDocumentError, "0 pages"),
    "no word": (edit("pages", 0, "words", to=[]), EmptyDocumentError, "no word"),
    "page a number": (edit("pages", 0, to=1), AnnotationError, "page 0 is int"),
    "width a text": (edit("pages", 0, "width", to="200"), AnnotationError, "width of page 0"),
    "width 0": (edit("pages", 0, "width", to=0), InputError, "positive"),
    "frame below 0": (edit("pages", 0, "frame", to=-1), AnnotationError, "negative"),
    "image a number": (edit("pages", 0, "image", to=1), InputError, "image"),
    "image outside": (edit("pages", 0, "image", to="../a.png"), InputError, "not in the folder"),
    "absolute image": (edit("pages", 0, "image", to="/etc/passwd"), InputError, "not in the"),
    "word a text": (edit(*WORD, to="Total"), AnnotationError, "word 1 on page 0 is str"),
    "text a number": (edit(*WORD, "text", to=7), InputError, "int, not a string"),
    "text empty": (edit(*WORD, "text", to=" "), WordError, "empty"),
    "text of 10,001": (edit(*WORD, "text", to="x" * 10_001), LimitExceededError, "10001"),
    "half a character": (edit(*WORD, "text", to="\ud800"), WordError, "U\\+D800"),
    "three numbers": (edit(*WORD, "box", to=[1, 2, 3]), BoxError, "four numbers"),
    "numbers as text": (edit(*WORD, "box", to=["1", 2, 3, 4]), BoxError, "four numbers"),
    "off the page": (edit(*WORD, "box", to=[1, 2, 300, 4]), BoxError, "outside its page of 200"),
    "swapped": (edit(*WORD, "box", to=[9, 2, 3, 4]), BoxError, "swapped"),
    "huge": (edit(*WORD, "box", to=[1, 2, 10**400, 4]), BoxError, "four numbers"),
    "segment": (edit(*WORD, "segment", to=1.5), AnnotationError, "segment of word 1"),
    "overlap": (edit("spans", 1, "stop", to=2), AnnotationError, "On page 0: .*overlaps"),
    "span off the page": (edit(*SPAN, "stop", to=9), AnnotationError, "On page 0: .*4 words"),
    "empty span": (edit(*SPAN, "start", to=3), AnnotationError, "On page 0: .*3 to 3"),
    "page of a span": (edit(*SPAN, "page", to=2), AnnotationError, "on page 2 .* 2 pages"),
    "page below 0": (edit(*SPAN, "page", to=-1), AnnotationError, "on page -1"),
    "start a flag": (edit(*SPAN, "start", to=True), AnnotationError, "start of a span"),
    "label empty": (edit(*SPAN, "label", to=""), AnnotationError, "label of a span is ''"),
    "label with a bell": (edit(*SPAN, "label", to="a\a"), AnnotationError, "printable"),
    "answer a number": (edit(*ASK, "answers", to=[1]), AnnotationError, "answer is not text"),
    "word_ids": (edit(*ASK, "word_ids", to=[4]), AnnotationError, "4 words"),
    "word_ids flags": (edit(*ASK, "word_ids", to=[True]), AnnotationError, "no integers"),
    "words without an answer": (edit(*ASK, "answers", to=[]), AnnotationError, "2 words"),
    "key named nothing": (edit(*ASK, "key", to=""), AnnotationError, "key of a question is ''"),
    "question_id": (edit(*ASK, "question_id", to=7), AnnotationError, "a question_id is 7"),
    "question_id twice": (
        edit("questions", to=[{"text": "?", "answers": [], "question_id": "q"}] * 2),
        AnnotationError,
        "Two of its questions have the id 'q'",
    ),
    "page asked": (edit(*ASK, "page", to=5), AnnotationError, "on page 5"),
    "source": (edit("source", to={"reader": "pdf"}), AnnotationError, "its source lacks"),
}


@pytest.mark.parametrize(("change", "expected", "says"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_of_the_format_is_named(
    tmp_path: Path, change: Edit, expected: type[InputError], says: str
) -> None:
    path = tmp_path / "own.jsonl"
    sound = labelled_files.dumps(made("first"))
    path.write_text(f"{sound}\n{json.dumps(change(labelled_files.to_dict(made())))}\n")
    found = labelled_files.read(path)
    assert next(found) == made("first")
    with pytest.raises(expected, match=says) as raised:
        next(found)
    assert type(raised.value) is expected
    assert str(raised.value).startswith(f"'{path}', line 3")
    assert len(str(raised.value)) < 1000


CONTENTS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "holds no document"),
    "blank": (b"\n \n", "holds no document"),
    "text": (b"Total: 12.50\n", "line 1 .*not JSON at column 1"),
    "printed over lines": (b'{"format":\n "hushdoc-labelled-1"}', "line 1 .*not JSON"),
    "latin-1": (b'{"id": "\xe9"}', "not UTF-8 at byte 8"),
    "funsd": (b'{"form": []}', r"its keys are \['form'\]"),
    "twice a key": (b'{"id": "a", "id": "b"}', "a key twice"),
    "NaN": (b'{"pages": [NaN]}', "NaN is no number"),
    "deep": (b"[" * 200_000, "too deep|not JSON"),
    "many digits": (b'{"id": 9' + b"9" * 5000 + b"}", "no labelled document"),
    "an image": (b"\x89PNG\r\n\x1a\n\0\0", "not UTF-8"),
    "cut gzip": (gzip.compress(b"{}" * 500)[:-9], "damaged or cut off"),
    "broken gzip": (b"\x1f\x8b" + b"x" * 50, "damaged or cut off"),
}


@pytest.mark.parametrize(("content", "says"), CONTENTS.values(), ids=CONTENTS)
def test_files_of_other_formats_are_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_bytes(content)
    with pytest.raises(AnnotationError, match=says) as raised:
        list(labelled_files.read(path))
    assert str(path) in str(raised.value)
    assert labelled_files.recognises(path) == (b"hushdoc-labelled" in content)


def test_only_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, says in (("pipe", "no file"), (".", "It is a folder"), ("missing", "no file")):
        with pytest.raises(AnnotationError, match=rf"{says}.*data convert"):
            next(labelled_files.read(tmp_path / name))
        assert not labelled_files.recognises(tmp_path / name)


def test_an_id_that_stands_twice_is_refused_either_way(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(labelled_files.dumps(made()) * 2)
    with pytest.raises(AnnotationError, match="line 2: Line 1 has the id 'a' too"):
        list(labelled_files.read(path))
    with pytest.raises(AnnotationError, match="'a': Another one has its id"):
        labelled_files.write(tmp_path / "new.jsonl", [made(), made()])
    assert [found.name for found in tmp_path.iterdir()] == ["own.jsonl"]


def test_labels_outside_the_schema_are_refused(tmp_path: Path) -> None:
    labelled_files.write(tmp_path / "a.jsonl", [made()])
    found = labelled_files.read(tmp_path / "a.jsonl", schema=LabelSet(fields=("total", "key")))
    assert len(list(found)) == 1
    with pytest.raises(AnnotationError, match=r"line 1: .*\['key'\].*\['date', 'total'\]"):
        list(labelled_files.read(tmp_path / "a.jsonl", schema=LabelSet(fields=("total", "date"))))


def test_what_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl.gz"
    line = labelled_files.dumps(made("a"))
    path.write_bytes(gzip.compress(line.encode() + b" " * 10_000_000 + b"\n"))
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(labelled_files, "MAX_LINE_BYTES", 1_000_000)
    found = labelled_files.read(path)
    assert next(found) == made("a")
    with pytest.raises(LimitExceededError, match="line 2"):
        next(found)
    monkeypatch.setattr(labelled_files, "MAX_BYTES", len(line) - 1)
    with pytest.raises(LimitExceededError, match="line 1"):
        next(labelled_files.read(path))


def test_what_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    sound = made()
    overlapping = replace(sound, spans=(*sound.spans, Span(page=0, start=0, stop=2, label="x")))
    unnamed = replace(sound, provider="a\nb")
    empty = replace(sound, document=Document.from_text("Total"))
    half = replace(sound, questions=(Question(text="\ud800", answers=()),))
    for wrong in (overlapping, unnamed, empty, half):
        with pytest.raises(InputError, match="^Document '"):
            labelled_files.write(tmp_path / "a.jsonl", [made("b"), wrong])
    with pytest.raises(AnnotationError, match="no document to write"):
        labelled_files.write(tmp_path / "a.jsonl", [])
    assert list(tmp_path.iterdir()) == []


def test_files_are_never_replaced_unasked(tmp_path: Path) -> None:
    labelled_files.write(tmp_path / "a.jsonl", [made()])
    with pytest.raises(OutputExistsError):
        labelled_files.write(tmp_path / "a.jsonl", [made("b")])
    with pytest.raises(OutputWriteError):
        labelled_files.write(tmp_path / "missing" / "a.jsonl", [made("b")])
    assert labelled_files.read_one(tmp_path / "a.jsonl") == made()


def test_1_and_50000_words(tmp_path: Path) -> None:
    word = Word(text="word", box=Box(x0=1, y0=1, x1=2, y1=2))
    counts = (1, 50_000)
    labelled_files.write(
        tmp_path / "a.jsonl",
        (
            LabelledDocument(
                document=Document(
                    id=str(count), pages=(Page(width=9, height=9, words=(word,) * count),)
                ),
                spans=(),
            )
            for count in counts
        ),
    )
    found = [item.document.num_words for item in labelled_files.read(tmp_path / "a.jsonl")]
    assert tuple(found) == counts


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0), st.integers(0, 255))
def test_damaged_files_are_typed_errors_or_documents(tmp_path: Path, at: int, byte: int) -> None:
    content = bytearray(labelled_files.dumps(made()).encode())
    content[at % len(content)] = byte
    (tmp_path / "a.jsonl").write_bytes(content)
    found = None
    with contextlib.suppress(InputError):
        found = list(labelled_files.read(tmp_path / "a.jsonl"))
    assert found is None or [len(item.document.pages) for item in found] == [2]


def test_words_of_a_document_are_not_taken_for_keys_of_this_format(tmp_path: Path) -> None:
    """An annotation of FUNSD has "words" beside a text, which may be "pages"."""
    path = tmp_path / "form.json"
    path.write_text(json.dumps({"form": [{"text": "pages", "words": []}]}), "utf-8")
    assert not labelled_files.recognises(path)
    path.write_text(json.dumps({"pages": [{"words": []}]}), "utf-8")
    assert labelled_files.recognises(path)
