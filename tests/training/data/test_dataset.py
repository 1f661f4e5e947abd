"""One door to labelled documents, with and without images of their pages."""

from __future__ import annotations

import gzip
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from hushdoc import labelled_files
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelSet
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


def lines_of(path: Path, count: int = 2, *, seed: int = 4) -> Path:
    """Writes invented receipts as one labelled file."""
    config = invented.InventedConfig(document_types=("receipt",))
    labelled_files.write(path, invented.documents(seed=seed, count=count, config=config))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(AnnotationError) as raised:
        dataset.read(dataset.Source(location=str(path)))
    return str(raised.value)


def test_a_labelled_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.jsonl.gz", "a.txt"):
        source = dataset.Source(location=str(lines_of(tmp_path / name)), documents=1)
        told: list[str] = []
        (found,) = dataset.read(source, report=told.append)
        assert found == invented.document(
            seed=4, index=0, config=invented.InventedConfig(document_types=("receipt",))
        )
        assert told == ["Documents read: 1 (the labelled format)"]


@pytest.mark.parametrize(
    ("beside", "says"),
    [
        ("hushdoc.json", "sealed artifact"),
        ("checkpoint.json", "made of other documents by a run"),
        ("run.json", "made of other documents by a run"),
    ],
)
def test_files_of_what_was_made_of_other_documents_are_refused(
    tmp_path: Path, beside: str, says: str
) -> None:
    """Such as the pages that votes chose: what their choice tells has to be in the claim."""
    file = lines_of(tmp_path / "documents.jsonl")
    assert dataset.read(dataset.Source(location=str(file)))
    (tmp_path / beside).write_text("{}")
    assert says in refusal(file)
    assert says in refusal(tmp_path)


def test_a_folder_has_one_file_of_lines_or_many_of_one(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    lines_of(folder / "train.jsonl")
    (folder / "schema.json").write_text('["total"]')
    told: list[str] = []
    source = dataset.Source(location=str(folder))
    assert len(dataset.read(source, report=told.append)) == 2
    assert told[1] == "1 x file of another format, not read: schema.json"
    lines_of(folder / "test.jsonl", seed=5)
    assert "several labelled files: test.jsonl, train.jsonl" in refusal(folder)


def test_an_id_in_two_files_of_a_folder_is_refused(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        lines_of(tmp_path / name, count=1)
    assert "b.json' has a document of the id" in refusal(tmp_path)


def test_labels_outside_the_schema_are_refused(tmp_path: Path) -> None:
    source = dataset.Source(location=str(lines_of(tmp_path / "a.jsonl")))
    assert dataset.read(source, schema=LabelSet(fields=tuple(invented.FIELD_LABELS)))
    with pytest.raises(AnnotationError, match="not in the schema"):
        dataset.read(source, schema=LabelSet(fields=("total",)))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"%PDF-1.7", "is a PDF file"),
        (b"\x89PNG\r\n", "is a PNG image"),
        (b"PK\x03\x04", "is a ZIP archive"),
        (b'{"annotations": [], "images": []}', "JSON with the keys ['annotations', 'images']"),
        (b'{"id": "a", "text": "b"}\n', "JSON with the keys ['id', 'text']"),
        (gzip.compress(b"date,total\n", mtime=0), "is a gzipped file, which"),
        (
            gzip.compress(b"date,total\n" * 99, mtime=0)[:-9],
            "a gzipped file that is damaged or cut off",
        ),
        (b"date,total\n", "a file without a known beginning"),
        (b"", "a file without content"),
        (b"\n \n", "a file without content"),
        ('{"format": "hushdoc-labelled-1"}'.encode("utf-16"), "text in UTF-16, not UTF-8"),
    ],
)
def test_what_no_reader_knows_is_described_beside_what_is_expected(
    tmp_path: Path, content: bytes, says: str
) -> None:
    (tmp_path / "found").write_bytes(content)
    message = refusal(tmp_path / "found")
    assert says in message
    for corpus in dataset.CORPORA:
        assert f"{corpus.name}: {corpus.expected}" in message
    assert "a folder with found, which no reader" in refusal(tmp_path)
    assert "does not exist" in refusal(tmp_path / "none")


def test_a_folder_of_two_formats_is_refused(tmp_path: Path) -> None:
    lines_of(tmp_path / "own.jsonl")
    (tmp_path / "annotations").mkdir()
    (tmp_path / "images").mkdir()
    (tmp_path / "annotations" / "a.json").write_text(json.dumps({"form": []}))
    assert "holds several formats: labelled, funsd" in refusal(tmp_path)


def test_readers_tell_their_own_files_from_all_others(tmp_path: Path) -> None:
    """No recogniser may raise, whatever a path is."""
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for corpus in dataset.CORPORA:
        for path in (*tmp_path.iterdir(), tmp_path / "none", tmp_path / "empty" / "below"):
            assert corpus.recognises(path) is False
    assert len({corpus.name for corpus in dataset.CORPORA}) == len(dataset.CORPORA)


def test_settings_of_invented_documents_stand_in_their_address() -> None:
    location = (
        "invented:invoice+receipt,questions=keyed,providers=5:9,wordings=0:12,unanswerable=.5,"
        "pages=1-2,layouts=slip+banner,misspelled=0"
    )
    config = invented.InventedConfig(
        document_types=("invoice", "receipt"),
        questions="keyed",
        providers=(5, 9),
        wordings=(0, 12),
        unanswerable=0.5,
        pages=(1, 2),
        layouts=("slip", "banner"),
        misspelled=0.0,
    )
    found = dataset.read(dataset.Source(location=location, documents=6, seed=4))
    assert found == list(invented.documents(seed=4, count=6, config=config))
    assert {item.provider for item in found} <= {f"provider-0000{number}" for number in range(5, 9)}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("page=2", "'page' is none of its settings, providers"),
        ("pages=2,pages=3", "'pages' stands twice"),
        ("pages", "pages is ''; expected a number or least-most"),
        ("pages=3-2", "pages is .* expected 1 <= least"),
        ("providers=9", "providers is '9'; expected first:stop"),
        ("providers=4:4", "providers is .* expected 0 <= first < stop"),
        ("unanswerable=nan", "unanswerable is nan; expected a share"),
        ("questions=all", "questions is 'all'; expected one of mixed, keyed"),
        ("labels=form", "'labels' is none of its settings"),
    ],
)
def test_settings_that_are_none_are_refused(settings: str, says: str) -> None:
    with pytest.raises(AnnotationError, match=says):
        dataset.read(dataset.Source(location=f"invented:invoice,{settings}"))
