from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from hushdoc.errors import AnnotationError, LimitExceededError
from hushdoc_training import labelled_texts

LINE = {"id": 7, "group": "acme", "text": "One\u2028two. Three.", "spans": [["law", 0, 3]]}

WRONG_SPANS: list[object] = [
    *(["law", 0], ["law", 3, 3], ["law", 0, 99], ["law", "x", 2], ["law", 0.5, 2]),
    *({"label": "law", "start": 0, "stop": 3}, "law", 7),
    *(["law", 0, 1e400], ["", 0, 2], [" ", 0, 2], [None, 0, 2]),
]


def written(path: Path, *lines: object) -> Path:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["some.jsonl", "some.jsonl.gz"])
def test_contracts_are_read_plain_or_gzipped(tmp_path: Path, name: str) -> None:
    raw = json.dumps(LINE, ensure_ascii=False)
    (found, other) = labelled_texts.read_contracts(
        written(tmp_path / name, raw, "", {"id": "b", "text": "", "spans": []})
    )
    assert found.text == LINE["text"]
    assert (found.name, found.group, found.spans) == ("7", "acme", (("law", 0, 3),))
    assert (other.name, other.group) == ("b", "b")


def test_texts_as_windows_writes_them_are_read(tmp_path: Path) -> None:
    """A mark before the text is no part of its first token, which is where documents begin."""
    path = tmp_path / "some.conll"
    text = "-DOCSTART- O\r\n\r\nEU B-ORG\r\n\r\n-DOCSTART- O\r\n\r\nHe O\r\n"
    path.write_bytes(text.encode("utf-8-sig"))
    found = labelled_texts.read_conll(path)
    assert [(item.tokens, item.document) for item in found] == [(("EU",), 0), (("He",), 1)]
    path = tmp_path / "some.jsonl"
    path.write_bytes(json.dumps(LINE).encode("utf-8-sig"))
    assert len(labelled_texts.read_contracts(path)) == 1


@pytest.mark.parametrize("packed", [True, False])
def test_gzip_is_told_by_content_not_by_name(tmp_path: Path, packed: bool) -> None:
    content = json.dumps(LINE).encode()
    path = tmp_path / ("some.jsonl" if packed else "some.jsonl.gz")
    path.write_bytes(gzip.compress(content) if packed else content)
    assert len(labelled_texts.read_contracts(path)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        {"id": 1, "text": "abc"},
        {"id": 1, "text": 5, "spans": []},
        *({**LINE, "spans": [span]} for span in WRONG_SPANS),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: object) -> None:
    path = written(tmp_path / "some.jsonl", LINE, line)
    with pytest.raises(AnnotationError, match="Line 2 of"):
        labelled_texts.read_contracts(path)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jsonl.gz", b"plain", "Line 1 .* it is not JSON at column 1"),
        ("a.jsonl", b"id,text\n1,caf\xe9", "it is not UTF-8 at byte 13"),
        ("a.jsonl", b"\x1f\x8b" + b"x" * 50, "its gzipped content is damaged"),
        ("none", None, "can't be read"),
    ],
)
def test_an_unreadable_file_is_named(
    tmp_path: Path, name: str, content: bytes | None, says: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AnnotationError, match=says):
        labelled_texts.read_contracts(path)


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_is_unpacked_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """A small file unpacks to more than there is memory for."""
    path = tmp_path / "some.jsonl"
    content = json.dumps(LINE).encode()
    monkeypatch.setattr(labelled_texts, "MAX_BYTES", len(content))
    path.write_bytes(gzip.compress(content) if packed else content)
    assert len(labelled_texts.read_contracts(path)) == 1
    content += b"\n" * (2**26 if packed else 1)
    path.write_bytes(gzip.compress(content) if packed else content)
    del content
    tracemalloc.start()
    with pytest.raises(LimitExceededError, match="bytes, unpacked. Split it"):
        labelled_texts.read_contracts(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24


def test_messages(tmp_path: Path) -> None:
    path = written(tmp_path / "m.jsonl", {"id": "a", "label": "sea", "text": "tide"})
    assert labelled_texts.read_messages(path) == [
        labelled_texts.Message(name="a", label="sea", text="tide")
    ]
    with pytest.raises(AnnotationError, match="label"):
        labelled_texts.read_messages(written(tmp_path / "bad.jsonl", {"id": "a", "text": "tide"}))


def test_sentences_are_documents_only_where_somebody_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t.conll"
    path.write_text("Bo NNP O B-PER\nran VBD O O\n\n\nOslo NNP O B-LOC")
    with pytest.raises(AnnotationError, match="no line with -DOCSTART-"):
        labelled_texts.read_conll(path)
    first, second = labelled_texts.read_conll(path, sentences_are_documents=True)
    assert (first.tokens, first.tags, first.document) == (("Bo", "ran"), ("B-PER", "O"), 0)
    assert (second.tokens, second.document) == (("Oslo",), 1)


def test_columns_with_documents(tmp_path: Path) -> None:
    path = tmp_path / "t.conll"
    path.write_text("-DOCSTART- -X- O O\n\na O\n\nb O\n-DOCSTART- O\nc O\n")
    assert [sentence.document for sentence in labelled_texts.read_conll(path)] == [0, 0, 1]
    each = labelled_texts.read_conll(path, sentences_are_documents=True)
    assert [(sentence.tokens, sentence.document) for sentence in each] == [
        (("a",), 0),
        (("b",), 1),
        (("c",), 2),
    ]
    path.write_text("\n\n")
    assert labelled_texts.read_conll(path) == []


def test_a_document_stands_in_one_line(tmp_path: Path) -> None:
    path = written(tmp_path / "two.jsonl", LINE, {**LINE, "id": "other"}, LINE)
    with pytest.raises(AnnotationError, match=r"Line 3 of .*line 1 has the id '7' too"):
        labelled_texts.read_contracts(path)


def test_a_line_of_one_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.conll"
    path.write_text("-DOCSTART-\nb\n")
    with pytest.raises(AnnotationError, match="Line 2 of"):
        labelled_texts.read_conll(path)


def test_a_folder_stands_for_its_one_file(tmp_path: Path) -> None:
    for name in ("README.txt", "LICENSE.txt", "notes.md"):
        written(tmp_path / name, "text")
    with pytest.raises(AnnotationError, match="holds 0 files"):
        labelled_texts.find(tmp_path)
    one = written(tmp_path / "train.jsonl.gz", LINE)
    assert labelled_texts.find(tmp_path) == labelled_texts.find(one) == one
    written(tmp_path / "dev.conll", "a O")
    with pytest.raises(AnnotationError, match=r"2 files of texts: dev\.conll, train\.jsonl\.gz"):
        labelled_texts.find(tmp_path)
    with pytest.raises(AnnotationError, match="does not exist"):
        labelled_texts.find(tmp_path / "nowhere")
