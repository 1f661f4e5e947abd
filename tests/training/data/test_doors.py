"""Readers of corpora: whatever a damaged file has them meet is a typed error that names it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hushdoc.errors import AnnotationError, InputError
from hushdoc_training import labelled_texts
from hushdoc_training.data import funsd, xfund
from hushdoc_training.data.corpus import Problems

SECRET = "the patient's diagnosis"
DEEP = "[" * 100_000
LINE = json.dumps({"id": "a", "label": "x", "text": "y", "spans": []})


def _broken_gzip() -> bytes:
    content = bytearray(gzip.compress(LINE.encode() * 50))
    content[20] ^= 0xFF
    return bytes(content)


TEXTS: dict[str, tuple[str, bytes]] = {
    "deep": ("a.jsonl", DEEP.encode()),
    "many-digits": ("a.jsonl", b'{"id": ' + b"9" * 5000 + b"}"),
    "zlib": ("a.jsonl.gz", _broken_gzip()),
    "cut-gzip": ("a.jsonl.gz", gzip.compress(LINE.encode())[:-9]),
    "spans": ("a.jsonl", json.dumps({"id": 1, "text": SECRET, "spans": [[SECRET]]}).encode()),
    "spans-number": ("a.jsonl", b'{"id": 1, "text": "a", "label": 1, "spans": 7}'),
    "bytes": ("a.jsonl", b"\xff\xfe"),
}


@pytest.mark.parametrize("damage", TEXTS)
@pytest.mark.parametrize(
    "read",
    [labelled_texts.read_contracts, labelled_texts.read_messages, labelled_texts.read_conll],
)
def test_damaged_texts_are_told_without_a_word_of_them(
    damage: str, read: Callable[[Path], Any], tmp_path: Path
) -> None:
    name, content = TEXTS[damage]
    (tmp_path / name).write_bytes(content)
    told = _refusal(lambda: read(tmp_path / name))
    if told is None:  # another reader's matter
        assert read is not labelled_texts.read_contracts
        return
    assert name in str(told)
    assert SECRET not in str(told)
    assert len(str(told)) < 1000


def _refusal(read: Callable[[], Any]) -> AnnotationError | None:
    try:
        read()
    except AnnotationError as error:
        return error
    return None


FORMS: dict[str, str] = {
    "deep": DEEP,
    "infinite": '{"documents": [{"id": 1, "img": {"width": 1e999, "height": 1}, "document": []}]}',
    "box": '{"documents": [{"id": 1, "img": {"width": 9, "height": 9}, "document": [{"label": '
    '"other", "words": [{"text": "a", "box": ["SECRET", 1, 1, 1]}]}]}]}',
    "huge": '{"documents": [{"id": 1, "img": {"width": 9, "height": 9}, "document": [{"label": '
    '"other", "words": [{"text": "a", "box": [1' + "0" * 400 + ", 1, 1, 1]}]}]}]}",
    "links": '{"documents": [{"id": 1, "img": {"width": 9, "height": 9}, "document": [{"label": '
    '"other", "id": [], "linking": [["SECRET"]], "words": [{"text": "a", "box": [1,1,2,2]}]}]}]}',
}


@pytest.mark.parametrize("damage", FORMS)
def test_damaged_forms_are_told(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "de.train.json"
    path.write_text(FORMS[damage].replace("SECRET", SECRET))
    with pytest.raises(InputError, match=r"de\.train") as raised:
        list(xfund.read(path, Problems()))
    assert len(str(raised.value)) < 1000
    (tmp_path / "annotations").mkdir()
    path.rename(tmp_path / "annotations" / "form.json")
    with pytest.raises(InputError, match=r"form"):
        list(funsd.read(tmp_path, Problems()))
