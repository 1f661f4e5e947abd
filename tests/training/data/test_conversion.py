"""Conversion: what was read is written, with its images or without, whole or not at all."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from hushdoc import labelled_files
from hushdoc.document.page import Page
from hushdoc.errors import AnnotationError, HushdocError, OutputExistsError, OutputWriteError
from hushdoc.labels import LabelledDocument
from hushdoc_training import invented
from hushdoc_training.data import dataset
from hushdoc_training.data.conversion import convert, images_folder
from hushdoc_training.data.corpus import Problems


def receipts(folder: Path, count: int = 3) -> list[LabelledDocument]:
    """Returns invented receipts whose images are files of a folder."""
    config = invented.InventedConfig(document_types=("receipt",))
    paths = invented.write(folder, seed=7, count=count, config=config)
    return [labelled_files.read_one(path) for path in paths]


def page_of(labelled: LabelledDocument, page: Page) -> LabelledDocument:
    return replace(labelled, document=replace(labelled.document, pages=(page,)))


def test_images_below_the_file_are_named_and_others_counted(tmp_path: Path) -> None:
    documents, problems = receipts(tmp_path / "pages"), Problems()
    summary = convert(iter(documents), tmp_path / "out.jsonl", problems, images=False)
    assert list(labelled_files.read(tmp_path / "out.jsonl")) == documents
    assert (summary.documents, summary.images, problems.lines()) == (3, 3, [])

    (tmp_path / "elsewhere").mkdir()
    out = tmp_path / "elsewhere" / "out.jsonl.gz"
    assert convert(iter(documents), out, problems, images=False).images == 0
    assert "3 x page whose image is not in" in problems.lines()[0]
    for found in labelled_files.read(tmp_path / "elsewhere" / "out.jsonl.gz"):
        assert found.document.pages[0].image is None


def test_images_are_copied_beside_the_file(tmp_path: Path) -> None:
    documents, problems = receipts(tmp_path / "pages"), Problems()
    shown = documents[0].document.pages[0]
    assert isinstance(shown.image, Path)
    # In memory, as a reader of parquet has it; two pages of one file; and a file that is gone.
    documents[0] = page_of(documents[0], replace(shown, image=shown.image.read_bytes()))
    two = replace(documents[1].document.pages[0], frame=1)
    document = replace(documents[1].document, pages=(*documents[1].document.pages, two))
    documents[1] = replace(documents[1], document=document)
    (tmp_path / "pages" / f"{documents[2].document.id}.png").unlink()

    out = tmp_path / "new" / "out.jsonl"
    out.parent.mkdir()
    convert(iter(documents), out, problems, images=True)
    found = [item.document for item in labelled_files.read(out)]
    images = [[page.image and page.image.name for page in item.pages] for item in found]  # type: ignore[union-attr]
    assert images == [["000000.png"], ["000001.png", "000001.png"], [None]]
    assert sorted(path.name for path in images_folder(out).iterdir()) == [
        "000000.png",
        "000001.png",
    ]
    with Image.open(images_folder(out) / "000000.png") as image:
        assert image.size == (shown.width, shown.height)
    assert problems.counts == {"page whose image is missing": 1}
    assert sorted(path.name for path in out.parent.iterdir()) == ["out-images", "out.jsonl"]


@pytest.mark.parametrize("images", [False, True])
def test_nothing_half_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: bool
) -> None:
    documents = receipts(tmp_path / "pages")
    out = tmp_path / "out" / "out.jsonl"
    out.parent.mkdir()

    def refused(items: list[LabelledDocument], error: type[HushdocError]) -> None:
        with pytest.raises(error):
            convert(iter(items), out, Problems(), images=images)
        assert list(out.parent.iterdir()) == []

    refused([*documents, documents[0]], AnnotationError)
    refused([], AnnotationError)

    def full(old: Path, new: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", full)
        refused(documents, OutputWriteError)
    out.write_text("mine")
    with pytest.raises(OutputExistsError):
        convert(iter(documents), out, Problems(), images=images)
    assert out.read_text() == "mine"
    assert [path.name for path in out.parent.iterdir()] == ["out.jsonl"]


def test_a_folder_of_images_is_never_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    images_folder(out).mkdir()
    (images_folder(out) / "mine.png").write_bytes(b"")
    with pytest.raises(OutputExistsError):
        convert(receipts(tmp_path / "pages"), out, Problems(), images=True)
    assert [path.name for path in images_folder(out).iterdir()] == ["mine.png"]
    assert not out.exists()


def test_converting_again_changes_nothing(tmp_path: Path) -> None:
    convert(receipts(tmp_path / "pages"), tmp_path / "a.jsonl", Problems(), images=True)
    source = dataset.Source(location=str(tmp_path / "a.jsonl"))
    again = dataset.stream(source, Problems())
    convert(again, tmp_path / "b.jsonl", Problems(), images=False)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
