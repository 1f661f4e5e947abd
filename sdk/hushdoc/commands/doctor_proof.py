"""The proof of `hushdoc doctor --prove-offline`: runs models and OCR while sockets are watched.

Contract: nothing that is watched is imported before the watch begins, so this module imports
nothing heavy, and the functions that do so run in the watched child.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import printable
from hushdoc.commands.sockets import UNKNOWN, Watched, watch
from hushdoc.errors import HushdocError

if TYPE_CHECKING:
    from hushdoc.document.document import Document
    from hushdoc.policy.policy import Policy

_NEGATION = bytes.fromhex(
    "08083a320a0b0a017812017922034e65671201675a0f0a0178120a0a08080112040a0208"
    "01620f0a0179120a0a08080112040a02080142040a00100d"
)
"""An ONNX file of one operator, so that onnxruntime has something to run."""

_WORDS = ("Total", "12.50", "Invoice", "2026-11-21")
_WIDTH, _HEIGHT = 640, 240


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The result of a watched run: the sockets that it asked for, and what it ran, for people."""

    watched: Watched
    ran: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """Whether it ended well and asked for nothing that could send."""
        attempts = self.watched.attempts
        return self.watched.exit_code == 0 and all(one.is_local_test for one in attempts)


def prove(artifact: Path | None, policy: Policy | None, seconds: float) -> Proof:
    """Returns which sockets a model (a graph of one operator by default) and OCR ask for.

    Every one is refused. The process lives `seconds` at least: telemetry may wait before it sends.
    PROOF_UNAVAILABLE: this system can't watch a process.
    """
    reading, writing = os.pipe()

    def use() -> int:
        began = time.monotonic()
        model = (
            _run_negation
            if artifact is None or policy is None
            else lambda: _run_model(artifact, policy)
        )
        try:
            for run in (model, *_engines()):
                os.write(writing, json.dumps(run()).encode("ascii") + b"\n")
        except HushdocError as error:
            print(f"hushdoc doctor: {error.code}: {printable(error, limit=1000)}", file=sys.stderr)
            return error.exit_code
        time.sleep(max(0.0, seconds - (time.monotonic() - began)))
        return 0

    try:
        watched = watch(use)
    finally:
        os.close(writing)
        with os.fdopen(reading, encoding="ascii") as lines:
            ran = tuple(json.loads(line) for line in lines)
    return Proof(watched=watched, ran=ran)


def summary(proof: Proof) -> str:
    """Returns in one line what a proof found."""
    attempts = proof.watched.attempts
    dns = sum(attempt.for_dns for attempt in attempts)
    line = (
        f"{len(attempts)} sockets and {dns} DNS queries asked for in {proof.watched.seconds:.0f} "
        f"s; ran {', '.join(proof.ran) or 'nothing'}"
    )
    tests = sum(attempt.is_local_test for attempt in attempts)
    if tests:
        line += (
            f"; {tests} of the sockets by urllib3, which tests when it is imported whether the "
            "machine has IPv6 and sends nothing"
        )
    return line


def advice(proof: Proof) -> str:
    """Returns what to do about it; empty where nothing is to be done."""
    if proof.watched.exit_code != 0:
        return "The run itself failed. Correct what it printed, and try again."
    for attempt in proof.watched.attempts:
        if not attempt.is_local_test:
            who = attempt.asked_by
            return (
                f"The first was {attempt.family} {attempt.kind} after {attempt.seconds:.1f} s, "
                f"asked for by {who}. All were refused. hushdoc itself never asks; "
                + ("find out which package does." if who == UNKNOWN else "see who calls that.")
            )
    return ""


def _run_negation() -> str:
    import numpy as np

    from hushdoc.runtime.session import Session

    Session(_NEGATION).run({"x": np.ones(1, np.float32)})
    return "a graph of one operator"


def _run_model(artifact: Path, policy: Policy) -> str:
    """Loads an artifact of any task and runs its model once."""
    import hushdoc

    model = hushdoc.load(artifact, policy=policy)
    if isinstance(model, hushdoc.HashedCRFModel):
        model.extract(hushdoc.Document.from_text("The total is due within 30 days."))
    elif isinstance(model, hushdoc.KIEModel):
        model.extract(_page())
    elif isinstance(model, hushdoc.ClassificationModel):
        model.classify(_page())
    elif isinstance(model, hushdoc.DocVQAModel):
        model.ask(_page(), "What is the total?")
    else:
        model.embed(_page())
    return f"a document through {type(model).__name__}"


def _page() -> Document:
    from hushdoc.document.document import Document

    boxes = [(20, 20 + 50 * row, 300, 60 + 50 * row) for row in range(len(_WORDS))]
    image = _image() if importlib.util.find_spec("PIL") else None
    return Document.from_words(_WORDS, boxes, width=_WIDTH, height=_HEIGHT, image=image)


def _image() -> bytes:
    """Returns a PNG file of the page's words."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (_WIDTH, _HEIGHT), "white")
    pen = ImageDraw.Draw(image)
    for row, word in enumerate(_WORDS):
        pen.text((22, 22 + 50 * row), word, fill="black", font_size=34)
    stream = BytesIO()
    image.save(stream, format="PNG")
    return stream.getvalue()


def _engines() -> Iterator[Callable[[], str]]:
    """Yields a function for each installed OCR engine that reads a page with it."""
    from hushdoc.reading import ocr, tesseract

    if importlib.util.find_spec("PIL") is None:
        return
    if ocr.rapid_is_installed():
        yield lambda: _read("rapidocr")
    if tesseract.program() is not None:
        yield lambda: _read("tesseract")


def _read(engine: Any) -> str:
    from hushdoc.errors import EmptyDocumentError
    from hushdoc.reading.opening import open_document

    try:
        count = open_document(_image(), ocr=engine).num_words
    except EmptyDocumentError:
        count = 0
    return f"a page through {engine} ({count} words)"
