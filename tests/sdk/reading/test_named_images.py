"""Images that a document's JSON names: only those beside it are opened, whoever wrote it."""

from __future__ import annotations

import base64
import io
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hushdoc_documents import nothing_found
from PIL import Image

import hushdoc
from hushdoc.document.document import Document
from hushdoc.errors import InputError, LimitExceededError
from hushdoc.reading import page_image
from hushdoc.reading.opening import open_document

SECRET = (200, 10, 30)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of uploads beside a secret scan."""
    (tmp_path / "uploads").mkdir()
    Image.new("RGB", (100, 30), SECRET).save(tmp_path / "secret.png")
    return tmp_path


def naming(image: Any, **page: Any) -> dict[str, Any]:
    words = [{"text": "hi", "box": [1, 1, 20, 20], "segment": None}]
    told = {"width": 100, "height": 30, "image": image, "words": words, **page}
    return {"id": "x", "pages": [told]}


def shown(document: Document) -> tuple[int, ...]:
    """Returns the colour of the last pixel that the web page of a document shows."""
    embedded = re.search(r'base64,([^"]+)', hushdoc.to_html(document, nothing_found()))
    with Image.open(io.BytesIO(base64.b64decode(embedded[1]))) as image:
        return image.getpixel((image.width - 10, image.height - 10))


OUTSIDE: dict[str, Callable[[Path], str]] = {
    "in full": lambda home: str(home / "secret.png"),
    "above": lambda home: "../secret.png",
    "above and in again": lambda home: "../uploads/../secret.png",
    "through a link": lambda home: "link.png",
    "through a link to a folder": lambda home: "folder/secret.png",
    "nul": lambda home: "a\0b",
}


@pytest.mark.parametrize("way", OUTSIDE)
@pytest.mark.parametrize("name", ["upload.json", "upload.pdf"])
def test_a_file_names_no_image_outside_its_folder(home: Path, way: str, name: str) -> None:
    (home / "uploads/link.png").symlink_to(home / "secret.png")
    (home / "uploads/folder").symlink_to(home)
    data = naming(OUTSIDE[way](home))
    path = home / "uploads" / name
    for content in (data, {"document": data, "spans": []}):
        path.write_text(json.dumps(content))
        with pytest.raises(InputError, match="not in the folder") as raised:
            open_document(path)
        assert raised.value.code == "IMAGE_OUTSIDE"
        assert "\0" not in str(raised.value)


def test_links_in_a_circle_open_nothing(home: Path) -> None:
    (home / "uploads/circle").symlink_to("circle")
    (home / "uploads/a.json").write_text(json.dumps(naming("circle/secret.png")))
    # Versions of Python differ in which of the two tells it.
    with pytest.raises(InputError):
        page_image(open_document(home / "uploads/a.json").pages[0])


def test_a_name_longer_than_any_path_is_refused_at_once(home: Path) -> None:
    path = home / "uploads/a.json"
    path.write_text(json.dumps(naming("a/" * 2**20 + "x.png")))
    began = time.process_time()
    with pytest.raises(InputError, match="has 2097157 characters, more than 4096"):
        open_document(path)
    assert time.process_time() - began < 5  # a minute, where it is resolved


def test_pages_are_counted_before_their_images_are_looked_for(home: Path) -> None:
    told = naming("a/" * 2000 + "x.png")
    path = home / "uploads/a.json"
    path.write_text(json.dumps({**told, "pages": told["pages"] * 2000}))
    began = time.process_time()
    with pytest.raises(LimitExceededError, match="'x' has 2000 pages; at most 1000"):
        open_document(path)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("way", OUTSIDE)
def test_bytes_and_requests_name_no_image_at_all(home: Path, way: str) -> None:
    data = naming(OUTSIDE[way](home), frame=1)
    sent = open_document(json.dumps(data).encode())
    for document in (sent, Document.from_dict(data)):
        assert document.pages[0].image is None
        assert page_image(document.pages[0]) is None
        assert shown(document)[:3] != SECRET


@pytest.mark.parametrize("way", ["beside", "below", "in full", "through a link", "back again"])
def test_images_beside_the_file_are_opened(
    home: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "uploads/scans").mkdir()
    target = home / "uploads/scans/a.png" if way == "below" else home / "uploads/a.png"
    Image.new("RGB", (100, 30), (1, 200, 3)).save(target)
    (home / "uploads/link.png").symlink_to("a.png")
    name = {
        "beside": "a.png",
        "below": "scans/a.png",
        "in full": str(target),
        "through a link": "link.png",
        "back again": "../uploads/a.png",
    }[way]
    (home / "uploads/upload.json").write_text(json.dumps(naming(name)))
    monkeypatch.chdir(home / "uploads")
    for path in (home / "uploads/upload.json", "upload.json", "../uploads/upload.json"):
        image = page_image(open_document(path).pages[0])
        assert image.getpixel((50, 20)) == (1, 200, 3)


@pytest.mark.parametrize("name", [7, ["a.png"], {"a": 1}, True])
def test_the_name_of_an_image_is_a_string(home: Path, name: Any) -> None:
    (home / "a.json").write_text(json.dumps(naming(name)))
    with pytest.raises(InputError, match="the name of an image is"):
        open_document(home / "a.json")


def test_documents_are_written_for_the_folder_they_will_stand_in(home: Path) -> None:
    Image.new("RGB", (100, 30)).save(home / "uploads/a.png")
    inside = Document.from_words(
        ["hi"], [(1, 1, 9, 9)], width=100, height=30, image=home / "uploads/a.png"
    )
    told = inside.to_dict(folder=home / "uploads")
    assert told["pages"][0]["image"] == "a.png"
    assert Document.from_dict(told, folder=home / "uploads") == inside
    assert inside.to_dict(folder=home)["pages"][0]["image"] == "uploads/a.png"
    assert inside.to_dict()["pages"][0]["image"] == str(home / "uploads/a.png")
    (home / "elsewhere").mkdir()
    told = inside.to_dict(folder=home / "elsewhere")
    assert told["pages"][0]["image"] is None
    assert Document.from_dict(told, folder=home / "elsewhere").num_words == 1


def test_what_redaction_writes_can_be_opened(home: Path) -> None:
    document = Document.from_words(
        ["hi"], [(1, 1, 9, 9)], width=100, height=30, image=home / "secret.png"
    )
    made = hushdoc.redact(document, [], out=home / "left")
    (page,) = open_document(home / "left/document.json").pages
    assert page.image == made.document.pages[0].image == home / "left/page-0.png"
    image = page_image(page)
    assert image.getpixel((50, 20)) == SECRET
