"""Schemas: names of labels from TOML, JSON or a corpus; anything else is one typed error."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushdoc.errors import InputError
from hushdoc_training.data import dataset, schema


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", '["total", "date"]'),
        ("a.json", '[{"name": "total", "description": "with tax"}, "date"]'),
        ("a.json", '{"fields": ["total", "date"], "taken_from_documents": false}'),
        ("a.toml", 'fields = ["total", "date"]'),
        ("a.toml", '[[fields]]\nname = "total"\ndescription = "with tax"\n[[fields]]\nname="date"'),
    ],
)
def test_names_are_read(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert schema.read(tmp_path / name) == ["total", "date"]
    assert schema.named(str(tmp_path / name)).fields == ("date", "total")


@pytest.mark.parametrize(("name", "content"), [("a.json", '["a"]'), ("a.toml", "fields = ['a']")])
def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8-sig")
    assert schema.read(tmp_path / name) == ["a"]


def test_a_corpus_names_its_own() -> None:
    assert schema.named("funsd").fields == ("answer", "header", "question")
    for corpus in dataset.CORPORA:
        if corpus.labels.fields:
            assert schema.named(corpus.name) == corpus.labels


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", "", "not JSON at line 1"),
        ("a.json", '["a", "a"]', "twice"),
        ("a.json", '["a\\u0007"]', "name of a label"),
        ("a.json", '[{"label": "a"}]', "description"),
        ("a.json", '[{"name": "a", "description": 1}]', "description"),
        ("a.json", '{"fields": {}}', "no list"),
        ("a.json", "[" * 100_000, "can't be read"),
        ("a.toml", "fields =", "not TOML"),
        ("a.toml", "names = ['a']", "no list"),
        ("a.json", "\x00", "not JSON"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=says) as raised:
        schema.named(str(tmp_path / name))
    assert str(tmp_path / name) in str(raised.value)
    assert "funsd" in str(raised.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'["\xe9"]')
    (tmp_path / "large.json").write_bytes(b" " * (schema.MAX_BYTES + 1))
    for path in (tmp_path, tmp_path / "none", tmp_path / "latin.json", tmp_path / "large.json"):
        with pytest.raises(InputError, match="can't be read"):
            schema.named(str(path))
    with pytest.raises(InputError, match="labelled"):
        schema.named("labelled")  # has none of its own
