"""RapidOCR: an OCR engine whose models come in its wheel, and a reader of its output."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc import arguments
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import Box, Word
from hushdoc.errors import MissingExtraError, OCRError, needs_extra
from hushdoc.reading.drafting import Corners, Draft, around, number
from hushdoc.reading.image_pieces import pieces
from hushdoc.reading.images import MIN_SIDE, PAPER, no_longer
from hushdoc.system import forking, telemetry
from hushdoc.system.cores import usable_cores

if TYPE_CHECKING:
    from PIL import Image

READER = "rapidocr"
STEPS = ("det", "cls", "rec")

LONGEST = 2000
"""It shrinks images to this longer side (pixels) before it looks for lines."""

TALL, WIDE = 8, 64
"""An image so many times as tall as wide is made a hundred times its size before it is looked at,
and of one so many times as wide as tall nothing is left once it is shrunk: then the engine fails.
Both are laid on paper that is TALL times as long as wide."""


class RapidOCREngine:
    """Reads images with RapidOCR; many threads may share one, and read one after the other."""

    name = READER

    def __init__(self, *, threads: int | None = None, timeout_seconds: float = 120) -> None:
        """Finds the models that came with the package; it never downloads any.

        Args:
            threads: Threads of one model; by default the cores this process may use, which a
                container's quota may leave it few of.
            timeout_seconds: How long one page may take, in processor time of the thread that reads
                it: neither another thread's page nor a busy machine counts. Looked at before each
                run of a model, of which none can be interrupted.

        Raises:
            MissingExtraError: rapidocr or onnxruntime is not installed.
            OCRError: Its models are not where its wheel puts them.
            TelemetryActiveError: The host imported onnxruntime with telemetry on.
            ValueError: The number of threads is not an integer >= 1, or the time is no positive
                number.
        """
        if threads is not None:
            arguments.integer(threads, what="threads")
        self._timeout = arguments.seconds(timeout_seconds, what="timeout_seconds")
        self._end = math.inf
        telemetry.keep_off()
        from importlib import metadata
        from importlib.util import find_spec

        with needs_extra("rapidocr", "ocr"):
            import rapidocr
        # Not brought by the extra `ocr`, as its two builds overwrite each other.
        if find_spec("onnxruntime") is None:
            raise MissingExtraError("onnxruntime", "cpu")
        models = _models(Path(rapidocr.__file__).parent / "models")
        settings: dict[str, Any] = {
            f"{step.capitalize()}.model_path": str(path) for step, path in models.items()
        }
        settings |= {"Global.log_level": "critical", "Global.return_word_box": True}
        settings["EngineConfig.onnxruntime.intra_op_num_threads"] = threads or usable_cores()
        try:
            self._engine = rapidocr.RapidOCR(params=settings)
            self._watch_models()
        except Exception as error:  # its exceptions share no base but Exception
            raise OCRError(f"RapidOCR can't start: {error}. Install it again.") from error
        self._lock = forking.Lock("RapidOCR")
        forking.keep(self)
        self.version = f"{metadata.version('rapidocr')} ({models['rec'].stem})"

    def read(self, image: Image.Image) -> list[Word]:
        """Returns the words of an image, or raises OCRError; words of one line share a segment."""
        if min(image.size) < MIN_SIDE:
            return []
        words: list[Word] = []
        seconds = self._timeout
        for (left, top), piece in pieces(image.convert("RGB"), LONGEST):
            found, seconds = self._read_piece(piece, seconds)
            first = max((word.segment or 0 for word in words), default=-1) + 1
            for word in found:
                box = word.box
                moved = Box(x0=box.x0 + left, y0=box.y0 + top, x1=box.x1 + left, y1=box.y1 + top)
                words.append(replace(word, box=moved, segment=first + (word.segment or 0)))
        return words

    def _read_piece(self, image: Image.Image, seconds: float) -> tuple[Sequence[Word], float]:
        """Returns the words of an image whose lines are not lost when it is shrunk; the time left.

        The time is that of this thread's processor, under the lock.
        """
        import numpy as np

        drawn, size = _fitting(image)
        # It takes the order of OpenCV: blue, green, red.
        pixels = np.ascontiguousarray(np.asarray(drawn)[:, :, ::-1])
        try:
            with self._lock:
                self._end = time.thread_time() + seconds
                self._require_time()
                answer = self._engine(pixels)
                seconds = self._end - time.thread_time()
        except OCRError:
            raise
        except Exception as error:  # its exceptions share no base but Exception
            raise OCRError(
                f"RapidOCR failed on an image of {image.width} x {image.height} pixels: "
                f"{type(error).__name__}: {str(error)[:200]}. Use Tesseract for this document."
            ) from error
        draft = Draft(id="page", reader=READER, limits=ReadingLimits())
        draft.page(*size, pixels=image.size)
        _add_answer(draft, answer, size=size)
        return draft.words(), seconds

    def _watch_models(self) -> None:
        """Has the time looked at before each run of a model: a piece takes up to hundreds."""
        for step in STEPS:
            # Loaded when they are first needed, from 3.10 on.
            load = getattr(self._engine, f"_load_{step}_model", None)
            model = load() if load is not None else getattr(self._engine, f"text_{step}")
            model.session = self._timed(model.session)

    def _timed(self, session: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(content: Any) -> Any:
            self._require_time()
            return session(content)

        return run

    def _require_time(self) -> None:
        if time.thread_time() >= self._end:
            raise OCRError(
                f"RapidOCR took more than {self._timeout:g} seconds of processor time for a page. "
                "Pass a smaller image, or an engine with a longer timeout_seconds."
            )


@lru_cache(maxsize=1)
def default_engine() -> RapidOCREngine:
    """Returns one engine for the whole process: its models take long to load."""
    return RapidOCREngine()


def _fitting(image: Image.Image) -> tuple[Image.Image, tuple[int, int]]:
    """Returns an image as the engine can take it, and the size of the part that is the image."""
    tall = image.height > TALL * image.width
    wide = image.width > max(LONGEST, WIDE * image.height)
    if not tall and not wide:
        return image, image.size
    from PIL import Image

    small = no_longer(image, LONGEST)
    least = -(-max(small.size) // TALL)
    paper = Image.new("RGB", (max(least, small.width), max(least, small.height)), PAPER)
    paper.paste(small, (0, 0))
    return paper, small.size


def _models(folder: Path) -> dict[str, Path]:
    found = {step: sorted(folder.glob(f"*_{step}_*.onnx")) for step in STEPS}
    lacking = [step for step, paths in found.items() if len(paths) != 1]
    if lacking:
        raise OCRError(
            f"The folder of RapidOCR's models holds not exactly one for {', '.join(lacking)}. Its "
            "wheel brings them and nothing is downloaded; install rapidocr again."
        )
    return {step: paths[0] for step, paths in found.items()}


def from_rapidocr(
    data: Any,
    *,
    width: int | None = None,
    height: int | None = None,
    id: str = "document",
    limits: ReadingLimits | None = None,
) -> Document:
    """Returns the one-page document of RapidOCR's answer; words of one line share a segment.

    `data` is its output object, or what `to_json` of it returns. That has lines alone, so a word's
    box is its share of the line's by characters. The page's size in pixels is by default that of
    the output's image, or reaches to where the last box ends.
    """
    draft = Draft(id=id, reader=READER, limits=limits)
    with arguments.reading_as("RapidOCR's answer", id):
        if isinstance(data, Sequence) and not isinstance(data, str):
            lines = [(line.get("txt"), _corners(line.get("box"))) for line in data]
            draft.page(*_size(lines, width, height, None))
            for segment, (text, corners) in enumerate(lines):
                draft.line(text, corners, segment=segment)
        else:
            boxes = () if data.boxes is None else data.boxes
            lines = [("", _corners(box)) for box in boxes]
            draft.page(*_size(lines, width, height, getattr(data, "img", None)))
            _add_answer(draft, data)
    return draft.document()


def _size(
    lines: Sequence[tuple[object, Corners | None]],
    width: int | None,
    height: int | None,
    image: Any,
) -> tuple[object, object]:
    """Returns the page's size: as declared, else the image's, else where the last box ends."""
    if image is not None:
        return width or int(image.shape[1]), height or int(image.shape[0])
    ends = [corners for _, corners in lines if corners is not None]
    across = max((float(str(corners[2])) for corners in ends), default=1.0)
    down = max((float(str(corners[3])) for corners in ends), default=1.0)
    return width or max(1.0, across), height or max(1.0, down)


def _corners(box: Any) -> Corners | None:
    """Returns the upright box around four points, given as lists or as an array."""
    if box is None:
        return None
    return around([(_plain(x), _plain(y)) for x, y in box])


def _plain(value: Any) -> object:
    """Returns a number of numpy as one of Python."""
    return value.item() if hasattr(value, "item") else value


def _add_answer(draft: Draft, answer: Any, *, size: tuple[int, int] | None = None) -> None:
    """Adds the words of an output object, by their own boxes where it has them.

    Boxes are cut at the edges of a page of the given size; turned lines reach over them.
    """
    if answer is None or getattr(answer, "txts", None) is None:
        return
    pieces = tuple(answer.word_results or ())
    # It leaves lines without pieces out: then which pieces belong to which line is not known.
    known = len(pieces) == len(answer.txts) and all(pieces)
    for segment, (text, box) in enumerate(zip(answer.txts, answer.boxes, strict=True)):
        words = list(_words(text, pieces[segment])) if known else []
        if words:
            for word, corners in words:
                draft.word(word, _cut(corners, size), segment=segment)
        else:
            draft.line(text, _cut(_corners(box), size), segment=segment)


def _cut(corners: Corners | None, size: tuple[int, int] | None) -> Corners | None:
    if corners is None or size is None:
        return corners
    x0, y0, x1, y1 = map(number, corners)
    return (
        min(max(x0, 0.0), size[0]),
        min(max(y0, 0.0), size[1]),
        min(max(x1, 0.0), size[0]),
        min(max(y1, 0.0), size[1]),
    )


def _words(text: str, pieces: Sequence[Any]) -> Iterator[tuple[str, Corners]]:
    """Yields the words of a line with the boxes of their pieces; none where they don't match it.

    A piece is a word, a part of one, or a Chinese character; whitespace ends a word.
    """
    word: list[tuple[str, Corners]] = []
    place = 0
    found: list[tuple[str, Corners]] = []
    for piece in pieces:
        said, box = str(piece[0]), _corners(piece[2])
        start = text.find(said, place)
        if box is None or start < 0:
            return
        if word and start > place:
            found.append(_joined(word))
            word = []
        word.append((said, box))
        place = start + len(said)
    if word:
        found.append(_joined(word))
    if "".join("".join(word for word, _ in found).split()) == "".join(text.split()):
        yield from found


def _joined(pieces: Sequence[tuple[str, Corners]]) -> tuple[str, Corners]:
    points = [point for _, box in pieces for point in ((box[0], box[1]), (box[2], box[3]))]
    return "".join(said for said, _ in pieces), around(points)
