"""Tesseract as an OCR engine: the installed program, fed through pipes.

No page is ever written to disk: the image goes in through standard input and the words come out
through standard output.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from hushdoc import arguments
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import Word
from hushdoc.errors import OCRError
from hushdoc.reading.adapters.tesseract_tsv import add_rows
from hushdoc.reading.drafting import Draft
from hushdoc.reading.images import MIN_SIDE, no_longer

if TYPE_CHECKING:
    from PIL import Image

PROGRAM = "tesseract"
LONGEST = 32767
"""The program refuses images with a longer side (pixels)."""

_LANGUAGES = re.compile(r"[A-Za-z_]+(\+[A-Za-z_]+)*")

_BLANK = b"P5 8 8 255\n" + b"\xff" * 64
"""A white image in the format PGM."""


class TesseractEngine:
    """Reads images with the program `tesseract`; holds no state between calls."""

    name = "tesseract"

    def __init__(self, *, languages: str = "eng", timeout_seconds: float = 120) -> None:
        """Keeps the settings.

        Args:
            languages: Names of installed languages, such as "eng+deu".
            timeout_seconds: How long one page may take.

        Raises:
            OCRError: The program is not installed, does not run, or lacks a language.
            ValueError: The languages are no names joined by "+", or the time is no positive number.
        """
        if not isinstance(languages, str) or re.fullmatch(_LANGUAGES, languages) is None:
            raise ValueError(
                f'languages is {arguments.short_repr(languages)}; expected names such as "eng+deu".'
            )
        timeout = arguments.seconds(timeout_seconds, what="timeout_seconds")
        found = program()
        if found is None:
            raise OCRError(
                f"The program '{PROGRAM}' is not installed, and ocr is \"tesseract\". Install it "
                "(on Debian and Ubuntu: apt-get install tesseract-ocr), or use RapidOCR: pip "
                "install 'hushdoc[ocr]'."
            )
        self._program = found
        self._languages = languages
        self._timeout = timeout
        self.version = f"{_version(found, languages)} ({languages})"

    def read(self, image: Image.Image) -> list[Word]:
        """Returns the words of an image, or raises OCRError; words of one line share a segment."""
        drawn = no_longer(image, LONGEST)
        if min(drawn.size) < MIN_SIDE:
            return []
        # Uncompressed and without metadata: nothing to spend time on, nothing to pass along.
        stream = io.BytesIO()
        drawn.save(stream, format="PPM")
        answer = self._run(["stdin", "stdout", "-l", self._languages, "tsv"], stream.getvalue())
        draft = Draft(id="page", reader=self.name, limits=ReadingLimits())
        add_rows(draft, answer.decode("utf-8", errors="replace"))
        words = draft.words()
        return list(words) if drawn.size == image.size else _grown(words, drawn.size, image.size)

    def _run(self, arguments: list[str], content: bytes) -> bytes:
        # One page, one core: pages are what is read side by side.
        environment = dict(os.environ, OMP_THREAD_LIMIT="1")
        try:
            done = subprocess.run(
                [self._program, *arguments],
                input=content,
                capture_output=True,
                check=False,
                timeout=self._timeout,
                env=environment,
            )
        except subprocess.TimeoutExpired as error:
            raise OCRError(
                f"{PROGRAM} took more than {self._timeout:g} seconds for a page. Pass a smaller "
                "image, or an engine with a longer timeout_seconds."
            ) from error
        except OSError as error:
            raise OCRError(f"{PROGRAM} can't be run: {error}. Repair its installation.") from error
        if done.returncode != 0:
            raise _failed(done, self._languages)
        return done.stdout


def _grown(words: Sequence[Word], size: tuple[int, int], grown: tuple[int, int]) -> list[Word]:
    """Returns the words of an image, scaled to one of another size."""
    draft = Draft(id="page", reader=PROGRAM, limits=ReadingLimits())
    draft.page(*size, pixels=grown)
    draft.add(words)
    return list(draft.words())


def program() -> str | None:
    """Returns the path of the installed program, if there is one."""
    return shutil.which(PROGRAM)


@lru_cache(maxsize=4)
def _version(path: str, languages: str) -> str:
    """Returns the version that the program writes into its answer for a blank image.

    Never asked with --version: there it has libcurl name its parts, and one of them (OpenLDAP)
    looks up the machine's own name, which is a DNS query where no file of hosts has it.
    """
    try:
        done = subprocess.run(
            [path, "stdin", "stdout", "-l", languages, "hocr"],
            input=_BLANK,
            capture_output=True,
            check=False,
            timeout=60,
            env=dict(os.environ, OMP_THREAD_LIMIT="1"),
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise OCRError(f"{PROGRAM} can't be run: {error}. Repair its installation.") from error
    if done.returncode != 0:
        raise _failed(done, languages)
    found = re.search(
        rb"name='ocr-system' content='" + PROGRAM.encode() + rb" ([^']+)'", done.stdout
    )
    return found[1].decode("utf-8", errors="replace") if found else "unknown"


def _failed(done: subprocess.CompletedProcess[bytes], languages: str) -> OCRError:
    said = done.stderr.decode("utf-8", errors="replace").strip().splitlines()[-1:]
    return OCRError(
        f"{PROGRAM} failed with code {done.returncode}: "
        f"{arguments.short_repr(''.join(said), 200)}. Check with {PROGRAM} --list-langs that "
        f"'{languages}' is installed."
    )
