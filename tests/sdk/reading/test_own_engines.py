"""Engines and caches that an application brings: what goes wrong in them has one kind of error."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hushdoc.document.document import Document
from hushdoc.document.page import Box, Word
from hushdoc.errors import OCRError, OutputWriteError
from hushdoc.reading import OCRCache, open_document
from hushdoc.runtime.extraction import Failure
from hushdoc.runtime.streaming import answers

WORD = Word(text="hi", box=Box(x0=1, y0=1, x1=2, y1=2))


class Engine:
    """An engine of which every part can be made to fail."""

    def __init__(
        self,
        read: Callable[[Image.Image], Any] = lambda image: [WORD],
        name: Any = "mine",
        version: Any = "1",
    ) -> None:
        self._read, self._name, self._version = read, name, version

    @property
    def name(self) -> Any:
        return self._name

    @property
    def version(self) -> Any:
        if isinstance(self._version, Exception):
            raise self._version
        return self._version

    def read(self, image: Image.Image) -> Any:
        return self._read(image)


def boom(image: Image.Image) -> Any:
    raise RuntimeError("boom")


def broken_off(image: Image.Image) -> Any:
    yield WORD
    raise KeyError("second word")


BROKEN = {
    "raises": Engine(boom),
    "breaks off": Engine(broken_off),
    "returns None": Engine(lambda image: None),
    "returns a number": Engine(lambda image: 7),
    "returns texts": Engine(lambda image: ["hi"]),
    "returns rows": Engine(lambda image: [("hi", (1, 1, 2, 2))]),
    "has no version": Engine(version=RuntimeError("no version")),
    "has a name that is none": Engine(name=object()),
}


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "a.png"
    Image.new("RGB", (30, 30), (7, 7, 7)).save(path)
    return path


@pytest.mark.parametrize("way", BROKEN)
def test_whatever_an_engine_does_is_an_ocr_error(image: Path, way: str) -> None:
    with pytest.raises(OCRError, match="The OCR engine Engine failed") as raised:
        open_document(image, ocr=BROKEN[way], cache=OCRCache())
    assert raised.value.code == "OCR_FAILED"
    assert raised.value.__cause__ is not None


def test_a_broken_engine_does_not_end_a_run(image: Path) -> None:
    def opened(path: Any) -> Document:
        engine = Engine(boom) if str(path) == "0" else Engine()
        return open_document(image, ocr=engine, cache=OCRCache())

    found = list(answers(["0", "1"], lambda asked: "read", on_error="collect", opened=opened))
    assert isinstance(found[0], Failure)
    assert (found[0].error.code, found[1]) == ("OCR_FAILED", "read")


@pytest.mark.parametrize("ocr", [5, None, object(), Image])
def test_what_is_no_engine_is_the_callers_mistake(image: Path, ocr: Any) -> None:
    with pytest.raises(ValueError, match="expected a name or an engine"):
        open_document(image, ocr=ocr)


@pytest.mark.parametrize("place", ["file", "below a file", "nul", "/proc/nope/x"])
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, image: Path, place: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    folder = {
        "file": tmp_path / "file",
        "below a file": tmp_path / "file/cache",
        "nul": tmp_path / "a\0b",
    }.get(place, Path(place))
    with pytest.raises(OutputWriteError, match="Could not write") as raised:
        open_document(image, ocr=Engine(), cache=OCRCache(folder=folder))
    assert (raised.value.code, raised.value.exit_code) == ("OUTPUT_NOT_WRITTEN", 6)


def test_a_folder_may_be_named_by_text(tmp_path: Path, image: Path) -> None:
    cache = OCRCache(folder=str(tmp_path / "kept"))
    assert open_document(image, ocr=Engine(), cache=cache).num_words == 1
    assert len(os.listdir(tmp_path / "kept")) == 1
