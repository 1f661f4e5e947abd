"""Classified images: invented files in the published layouts, what is odd in them, their parts."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hushdoc.document.page import Box
from hushdoc.errors import AnnotationError, EmptyDocumentError, InputError
from hushdoc_training.data import image_documents, image_sets
from hushdoc_training.data.dataset import Source
from hushdoc_training.data.image_documents import ImageDocument

SIZE = (40, 60)


def content(
    shade: int, *, mode: str = "L", size: tuple[int, int] = SIZE, form: str = "PNG"
) -> bytes:
    stream = io.BytesIO()
    Image.new(mode, size, shade).save(stream, format=form)
    return stream.getvalue()


def line(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "file": f"{name}.webp",
        "class": name.split("/")[0],
        "source": "a" if name.startswith("form") else "b",
        "size": list(SIZE),
        "boxes_1000": [[100, 100, 500, 200]],
        **changes,
    }


NAMES = [f"{label}/{number}" for label in ("form", "letter") for number in range(12)]


def docmix(folder: Path, lines: list[dict[str, Any]], **others: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    packed = gzip.compress("".join(json.dumps(one) + "\n" for one in lines).encode())
    (folder / "train.jsonl.gz").write_bytes(packed)
    (folder / "README.md").write_text("about it")
    with zipfile.ZipFile(folder / "train_images.zip", "w") as archive:
        for number, name in enumerate(NAMES):
            archive.writestr(f"{name}.webp", content(number, form="WEBP"))
        for name, damaged in others.items():
            archive.writestr(name, damaged)
    return folder


def rvl(folder: Path, lists: dict[str, str]) -> Path:
    place = folder / "images" / "imagesa" / "a" / "a"
    place.mkdir(parents=True)
    for number in range(3):
        (place / f"{number}.tif").write_bytes(content(number, form="TIFF"))
    (place / "damaged.tif").write_bytes(b"no image")
    (folder / "labels").mkdir()
    for part, text in lists.items():
        (folder / "labels" / f"{part}.txt").write_text(text)
    return folder


def tobacco(folder: Path) -> Path:
    for label in ("ADVE", "Email", "Note"):
        (folder / "Tobacco3482-jpg" / label).mkdir(parents=True)
    root = folder / "Tobacco3482-jpg"
    (root / "ADVE" / "1.jpg").write_bytes(content(9, mode="CMYK", form="JPEG"))
    (root / "ADVE" / "2.jpg").write_bytes(content(9, form="JPEG"))
    (root / "ADVE" / "cut.jpg").write_bytes(content(9, form="JPEG")[:-200])
    (root / "ADVE" / "dot.png").write_bytes(content(9, size=(1, 1)))
    (root / "ADVE" / "Thumbs.db").write_bytes(b"x")
    (root / "Email" / "1.png").write_bytes(content(9, mode="I;16"))
    (folder / "Tobacco3482-jpg" / ".hidden").mkdir()
    return folder


def read(path: Path | str) -> tuple[tuple[ImageDocument, ...], list[str]]:
    lines: list[str] = []
    with image_sets.opened(Source(location=str(path), documents=1), report=lines.append) as found:
        return found, lines


def test_docmix(tmp_path: Path) -> None:
    found, lines = read(docmix(tmp_path, [line(name) for name in NAMES[1:]]))
    assert [one.id for one in found] == sorted(NAMES[1:])
    first = found[0]
    assert (first.label, first.source, first.part) == ("form", "a", "train")
    assert first.lines == ((Box(x0=4, y0=6, x1=20, y1=12),),)
    assert (first.pages[0].width, first.pages[0].height) == SIZE
    assert lines == [
        "Documents read: 23 (docmix, pages of nine classes)",
        "1 x image that no line names, left out: form/0.webp",
    ]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"class": "letter"}, "its folder names another"),
        ({"file": "form/none.webp"}, "not in the archive"),
        ({"size": [41, 60]}, "it has others"),
        ({"boxes_1000": [[0, 0, 1001, 5]]}, "outside its page"),
        ({"boxes_1000": [[0, 0, 5]]}, "page of docmix"),
        ({"source": None}, "source in"),
    ],
)
def test_docmix_refuses(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(docmix(tmp_path, [line("form/1", **changes)]))


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    (docmix(tmp_path, [line("form/1")]) / "train_images.zip").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(AnnotationError, match="archive of images"):
        read(tmp_path)


def test_rvl_cdip(tmp_path: Path) -> None:
    lists = {
        "train": "\ufeffimagesa/a/a/0.tif 0\nimagesa/a/a/1.tif 15\nimagesa/a/a/damaged.tif 15\n",
        "test": "imagesa/a/a/2.tif 5\n\nimagesa/b/none.tif 1\n",
    }
    found, lines = read(rvl(tmp_path, lists))
    assert [(one.id[-5:], one.label, one.part) for one in found] == [
        ("0.tif", "letter", "train"),
        ("1.tif", "memo", "train"),
        ("2.tif", "scientific report", "test"),
    ]
    assert {line.split(":")[0] for line in lines[1:]} == {
        f"1 x {image_documents.UNREADABLE}",
        "1 x image that a list names and the folder lacks, left out",
        "3 x class of one document",
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("imagesa/a/a/0.tif 16\n", "from 0 to 15"),
        ("imagesa/a/a/0.tif -1\n", "from 0 to 15"),
        ("imagesa/a/a/0.tif\n", "expected a path"),
        ("../0.tif 1\n", "expected a path"),
        ("imagesa/a/a/0.tif 1\nimagesa/a/a/0.tif 2\n", "and so does"),
    ],
)
def test_rvl_cdip_refuses(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(AnnotationError, match=says):
        read(rvl(tmp_path, {"val": text}))


def test_tobacco3482(tmp_path: Path) -> None:
    found, lines = read(tobacco(tmp_path))
    assert [(one.id, one.label) for one in found] == [
        ("ADVE/1.jpg", "ADVE"),
        ("ADVE/2.jpg", "ADVE"),
        ("Email/1.png", "Email"),
    ]
    assert set(lines[1:]) == {
        f"1 x {image_documents.UNREADABLE}: ADVE/cut.jpg",
        f"1 x {image_documents.TINY}: ADVE/dot.png",
        "1 x file of another format, not read: ADVE/Thumbs.db",
        "1 x class folder without an image: Note",
        "1 x class of one document: Email",
    }


def test_documents_with_images_have_their_type_as_class() -> None:
    found, _ = read("invented:invoice")
    assert {one.label for one in found} == {"invoice"}
    assert all(one.lines[0] and not one.pages[0].words for one in found)


def test_what_has_no_image_or_no_class_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "1.png").write_bytes(b"no image")
    with pytest.raises(EmptyDocumentError, match="a folder of images for each class"):
        read(tmp_path)
    with pytest.raises(InputError):
        read(tmp_path / "nowhere")


def test_parts_follow_from_the_images_alone(tmp_path: Path) -> None:
    found, _ = read(docmix(tmp_path, [line(name) for name in NAMES]))
    made = image_sets.parts(found, public=["form"], held_out=0.5)
    assert [one.label for one in made.public] == ["form"] * 12
    assert min(len(made.test), len(made.private)) > 0
    assert len(made.test) + len(made.private) == 12
    assert made == image_sets.parts(found, public=["a"], held_out=0.5)
    fewer = image_sets.parts(found[:-1], public=["form"], held_out=0.5)
    assert {one.id for one in made.test} - {found[-1].id} == {one.id for one in fewer.test}
    with pytest.raises(AnnotationError, match="memo"):
        image_sets.parts(found, public=["memo"], held_out=0.5)


def test_copies_of_an_image_are_on_one_side(tmp_path: Path) -> None:
    found, _ = read(docmix(tmp_path, [line(name) for name in NAMES]))
    twins = [ImageDocument(id=f"{one.id}-again", label="letter", pages=one.pages) for one in found]
    made = image_sets.parts([*found, *twins], public=[], held_out=0.5)
    for side in (made.private, made.test):
        names = {one.id for one in side}
        assert {name.removesuffix("-again") for name in names} <= names
        assert len(names) % 2 == 0


@pytest.mark.parametrize("name", ["hushdoc.json", "checkpoint.json", "run.json"])
def test_pages_that_a_run_drew_are_no_data_of_nobody(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "drawn"
    for number in range(2):
        path = folder / "images" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(number))
    with image_sets.opened(Source(location=str(folder))) as documents:
        assert len(documents) == 2
    (folder / name).write_text("{}")
    with (
        pytest.raises(AnnotationError, match="--synthetic POLICY"),
        image_sets.opened(Source(location=str(folder))),
    ):
        pass
