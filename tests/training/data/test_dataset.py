"""One door to labelled documents, with and without images of their pages."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from hushdoc.errors import AnnotationError
from hushdoc_training import invented
from hushdoc_training.data import dataset

SOURCE = dataset.Source(location="invented:receipt", documents=3, seed=4)


def test_images_of_invented_documents_are_there_as_long_as_they_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plain = dataset.read(SOURCE)
    with dataset.opened(SOURCE, images=True) as found:
        assert len(found) == 3
        for shown, item in zip(found, plain, strict=True):
            page = shown.document.pages[0]
            assert page.image is not None
            with Image.open(page.image) as image:
                assert image.size == (page.width, page.height)
            without = replace(shown.document, pages=(replace(page, image=None),))
            assert replace(shown, document=without) == item
    assert list(tmp_path.iterdir()) == []


def test_invoices_have_named_fields_and_forms_their_parts() -> None:
    for location, expected in (("invoice", "document_number"), ("form", "question")):
        (found,) = dataset.read(dataset.Source(location=f"invented:{location}", documents=1))
        assert expected in {span.label for span in found.spans}
    forced = replace(SOURCE, location="invented:invoice", documents=1, labels="form")
    assert {span.label for span in dataset.read(forced)[0].spans} <= set(invented.FORM_LABELS)


def test_nothing_is_drawn_for_models_that_read_words_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with dataset.opened(SOURCE, images=False) as found:
        assert found == dataset.read(SOURCE)


def test_other_corpora_bring_their_images(tmp_path: Path) -> None:
    config = invented.InventedConfig(document_types=("receipt",))
    invented.write(tmp_path / "pages", seed=4, count=2, config=config)
    with dataset.opened(dataset.Source(location=str(tmp_path / "pages")), images=True) as found:
        images = [item.document.pages[0].image for item in found]
    assert images == sorted((tmp_path / "pages").glob("*.png"))


def test_what_can_not_be_invented_is_refused_either_way() -> None:
    for images in (False, True):
        source = replace(SOURCE, location="invented:poem")
        with (
            pytest.raises(AnnotationError, match="invented:form"),
            dataset.opened(source, images=images),
        ):
            pass
