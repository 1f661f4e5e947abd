"""OCR behind one small interface: an engine has a name, a version, and reads an image.

What was read is kept in memory by the digest of the image, so that a page is not read twice.
Nothing of it is written to disk unless the application names a folder: it is the text of documents.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from hushdoc import arguments
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import Box, Word
from hushdoc.document.provenance import ENGINES
from hushdoc.errors import HushdocError, MissingExtraError, OCRError
from hushdoc.reading import rapidocr, tesseract
from hushdoc.reading.drafting import Draft
from hushdoc.system import atomic_files, forking

if TYPE_CHECKING:
    from PIL import Image

MAX_CACHED_BYTES = 64 * 2**20
"""A page that was kept in a folder is never larger (bytes)."""


@runtime_checkable
class OCREngine(Protocol):
    """What reads the words of an image; an application may bring its own."""

    @property
    def name(self) -> str:
        """Such as "tesseract"."""

    @property
    def version(self) -> str:
        """What changes whenever it may read something else: its version, models and settings."""

    def read(self, image: Image.Image) -> Sequence[Word]:
        """Returns an RGB image's words in reading order with pixel boxes, or raises OCRError."""


class OCRCache:
    """What engines read, by the digest of engine and image; many threads may share one.

    Args:
        max_pages: Pages kept in memory; the one not asked for longest is forgotten first.
        folder: A folder that keeps pages for good, each in a file that only its owner can read.
            The application answers for it: it holds the text of documents.
    """

    def __init__(self, *, max_pages: int = 64, folder: Path | str | None = None) -> None:
        """Begins empty, or with what the folder holds."""
        self._max_pages = arguments.integer(max_pages, what="max_pages", least=0)
        self._folder = None if folder is None else arguments.path(folder, what="The folder")
        self._kept: OrderedDict[str, tuple[Word, ...]] = OrderedDict()
        self._lock = forking.Lock()

    def __len__(self) -> int:
        """Returns how many pages are in memory."""
        return len(self._kept)

    def clear(self) -> None:
        """Forgets all pages in memory; a folder keeps its own."""
        with self._lock:
            self._kept.clear()

    def read(self, engine: OCREngine, image: Image.Image) -> tuple[Word, ...]:
        """Returns the words of an RGB image, read once.

        Raises:
            OCRError: The engine failed, whatever it raised, or returned no words.
            InputError: What it read can't be used.
            OutputWriteError: The folder can't be made or written.
        """
        key = _digest(engine, image)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        if found is None:
            found = self._stored(key)
            if found is None:
                found = _checked(engine, image)
                self._store(key, found)
            self._keep(key, found)
        return found

    def _keep(self, key: str, words: tuple[Word, ...]) -> None:
        with self._lock:
            self._kept[key] = words
            while len(self._kept) > self._max_pages:
                self._kept.popitem(last=False)

    def _stored(self, key: str) -> tuple[Word, ...] | None:
        if self._folder is None:
            return None
        try:
            content = atomic_files.read_file(
                self._folder / f"{key}.json", max_bytes=MAX_CACHED_BYTES
            )
            return tuple(
                Word(
                    text=str(text),
                    box=Box(x0=float(x0), y0=float(y0), x1=float(x1), y1=float(y1)),
                    segment=None if segment is None else int(segment),
                )
                for text, (x0, y0, x1, y1), segment in json.loads(content)
            )
        except (OSError, ValueError, TypeError):
            return None  # not there or damaged: read the page again

    def _store(self, key: str, words: tuple[Word, ...]) -> None:
        if self._folder is None:
            return
        rows = [[word.text, word.box.to_list(), word.segment] for word in words]
        path = self._folder / f"{key}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            atomic_files.write_file(path, json.dumps(rows).encode("ascii"), mode=0o600)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the folder's name
            raise atomic_files.not_written(path, OSError(str(error))) from error


def _digest(engine: OCREngine, image: Image.Image) -> str:
    digest = hashlib.sha256()
    with _asked(engine):
        identity = json.dumps([engine.name, engine.version, image.mode, image.size])
    digest.update(identity.encode())
    digest.update(image.tobytes())
    return digest.hexdigest()


def _checked(engine: OCREngine, image: Image.Image) -> tuple[Word, ...]:
    """Returns what an engine reads, each word checked as those of a file are."""
    draft = Draft(id="page", reader=engine.name, limits=ReadingLimits())
    draft.page(image.width, image.height)
    with _asked(engine):
        draft.add(engine.read(image))
    return draft.words()


@contextmanager
def _asked(engine: OCREngine) -> Iterator[None]:
    """Turns whatever an engine raises, and any malformed answer, into one OCRError.

    One page on which an engine fails must not end a run over many documents.
    """
    try:
        yield
    except (HushdocError, MemoryError):
        raise
    except Exception as error:
        raise OCRError(
            f"The OCR engine {type(engine).__name__} failed: {arguments.failure_of(error)}. "
            "Expected a name, a version, and words with boxes from "
            "read(image); correct the engine, or take another."
        ) from error


def chosen(ocr: str) -> OCREngine:
    """Returns the engine of a name, or the one that "auto" takes."""
    taken = name_of(ocr)
    if taken == "rapidocr":
        return rapidocr.default_engine()
    if taken == "tesseract":
        return tesseract.TesseractEngine()
    raise MissingExtraError("rapidocr", "ocr")


def name_of(ocr: str) -> str:
    """Returns what is taken for a name: for "auto" RapidOCR if installed, or Tesseract, or none."""
    if ocr != "auto":
        return ocr
    if rapid_is_installed():
        return "rapidocr"
    return "none" if tesseract.program() is None else "tesseract"


def rapid_is_installed() -> bool:
    """Returns whether RapidOCR and what runs its models can be imported."""
    return all(find_spec(name) is not None for name in ("rapidocr", "onnxruntime"))


def label(engine: OCREngine) -> str:
    """Returns the engine's name and version as in a document's source."""
    return f"{engine.name} {engine.version}"


SHARED_CACHE = OCRCache()
"""What `open_document` reads and keeps unless it is given another cache."""


class Reader:
    """An engine with its cache, found when the first page needs it."""

    def __init__(self, ocr: str | OCREngine, cache: OCRCache | None) -> None:
        """Keeps the choice; a wrong name is refused at once."""
        if isinstance(ocr, str) and ocr not in ENGINES:
            raise ValueError(
                f"ocr is {arguments.short_repr(ocr)}; expected one of {ENGINES}, or an engine."
            )
        if not isinstance(ocr, str) and not callable(getattr(ocr, "read", None)):
            raise ValueError(f"ocr is {type(ocr).__name__}; expected a name or an engine.")
        self.forbidden = ocr == "none"
        self.every_page = ocr not in ("auto", "none")
        self._ocr = ocr
        advice = "Pass an OCRCache, or leave it out."
        given = arguments.optional(cache, OCRCache, what="The argument 'cache'", advice=advice)
        self._cache = SHARED_CACHE if given is None else given
        self._engine: OCREngine | None = None

    @property
    def label(self) -> str | None:
        """Name and version of the engine that was used, if any was."""
        return None if self._engine is None else label(self._engine)

    def read(self, image: Image.Image) -> tuple[Word, ...]:
        """Returns the words of an RGB image; MissingExtraError, OCRError or InputError."""
        if self._engine is None:
            self._engine = chosen(self._ocr) if isinstance(self._ocr, str) else self._ocr
        return self._cache.read(self._engine, image)
