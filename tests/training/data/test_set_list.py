"""Lists of public data sets: what they name, what is left out, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushdoc.errors import AnnotationError
from hushdoc_training.data import set_list

LIST = """
[[set]]
name = "receipts"
data = "invented:till-receipt"
licence = "Apache-2.0"
documents = 4
labels = "sroie"
seed = 3

[[set]]
name = "forms"
data = "somewhere/forms"
licence = "MIT"
unlabelled = true
passes = 3
"""


def _write(folder: Path, text: str) -> Path:
    path = folder / "sets.toml"
    path.write_text(text)
    return path


def test_a_list_names_its_sets(tmp_path: Path) -> None:
    receipts, forms = set_list.read(_write(tmp_path, LIST))
    assert (receipts.name, receipts.source.labels, receipts.source.documents) == (
        "receipts", "sroie", 4,
    )  # fmt: skip
    assert receipts.source.location == "invented:till-receipt"
    assert forms.source.location == str(tmp_path / "somewhere" / "forms")
    assert (forms.unlabelled, receipts.unlabelled, forms.licence) == (True, False, "MIT")
    assert (forms.passes, receipts.passes) == (3, 1)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = _write(tmp_path, LIST)
    path.write_text(LIST, encoding="utf-8-sig")
    assert [item.name for item in set_list.read(path)] == ["receipts", "forms"]


def test_sets_are_left_out_by_name(tmp_path: Path) -> None:
    path = _write(tmp_path, LIST)
    assert [item.name for item in set_list.read(path, without=["forms"])] == ["receipts"]
    with pytest.raises(AnnotationError, match="no set 'form'"):
        set_list.read(path, without=["form"])
    with pytest.raises(AnnotationError, match="is left"):
        set_list.read(path, without=["forms", "receipts"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[set", "can't be read"),
        ("", "expected"),
        ("[other]\nx = 1", "other"),
        ("set = 3", "expected"),
        ("set = [1]", "expected"),
        (LIST.replace('licence = "MIT"', ""), "no 'licence'"),
        (LIST.replace("unlabelled", "unlabeled"), "unlabeled"),
        (LIST.replace('"forms"', '"receipts"'), "one name"),
        (LIST.replace("documents = 4", 'documents = "4"'), "'documents'"),
        (LIST.replace("documents = 4", "documents = -4"), "'documents'"),
        (LIST.replace("documents = 4", "documents = true"), "'documents'"),
        (LIST.replace('"MIT"', '""'), "'licence'"),
    ],
)
def test_a_malformed_list_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(AnnotationError, match=says.replace("[", r"\[")):
        set_list.read(_write(tmp_path, text))


def test_a_missing_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="can't be read"):
        set_list.read(tmp_path / "nowhere.toml")
