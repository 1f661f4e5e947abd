"""What other programs read in a PDF file, and how much of it two of them share.

A word is what a program calls one: an item of PyMuPDF's `get_text("words")`, a `<word>` of
Poppler's `pdftotext -bbox`, a `Word` of ours, and in PDFium's text what whitespace divides. Each
goes through the same normalisation: NFKC (which takes ligatures apart), hyphens of every kind as
"-", without characters that are not seen (control and format characters, private use, U+FFFD),
split once more where that made whitespace.
"""

from __future__ import annotations

import html
import importlib.util
import json
import re
import select
import shutil
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

Words = Counter[str]

_PDFIUM = """
import json, sys, pypdfium2
for line in sys.stdin:
    words = None
    try:
        with pypdfium2.PdfDocument(json.loads(line)) as file:
            pages = [page.get_textpage().get_text_bounded() for page in file]
            words = [word for text in pages for word in text.split()]
    except Exception:
        pass
    print(json.dumps(words), flush=True)
"""
_PYMUPDF = """
import json, sys, pymupdf
pymupdf.TOOLS.mupdf_display_errors(False)
for line in sys.stdin:
    words = None
    try:
        with pymupdf.open(json.loads(line), filetype="pdf") as file:
            if not file.needs_pass:
                words = [word[4] for page in file for word in page.get_text("words")]
    except Exception:
        pass
    print(json.dumps(words), flush=True)
"""
_POPPLER_WORD = re.compile(r"<word [^>]*>(.*?)</word>", re.DOTALL)
_HYPHENS = dict.fromkeys((0xAD, 0x2010, 0x2011), "-")


def normalised(words: Iterable[str]) -> Words:
    """Returns the multiset of words, written alike whoever read them."""
    found: Words = Counter()
    for word in words:
        text = unicodedata.normalize("NFKC", word.translate(_HYPHENS))
        seen = "".join(
            one
            for one in text
            if one.isspace() or (one != "\ufffd" and not unicodedata.category(one).startswith("C"))
        )
        found.update(seen.split())
    return found


def jaccard(one: Words, other: Words) -> float:
    """Returns the shared part of two multisets; 1 where both are empty."""
    either = (one | other).total()
    return (one & other).total() / either if either else 1.0


def lost(words: Words, ours: Words) -> int:
    """Returns how many characters of the words ours lack, however either is divided into words."""
    return (Counter("".join(words.elements())) - Counter("".join(ours.elements()))).total()


def raw_pdfium() -> Program:
    """Returns PDFium by pypdfium2, asked for the text on each page of a file as it stands."""
    return Program(sys.executable, _PDFIUM)


def readers(pymupdf: str | None) -> Mapping[str, Callable[[Path, float], Words | None]]:
    """Returns the programs that are installed; `pymupdf` is a Python interpreter that has it.

    Each takes a path and seconds, and returns None where it refuses the file or takes longer.
    """
    python = pymupdf or (sys.executable if importlib.util.find_spec("pymupdf") else None)
    found: dict[str, Callable[[Path, float], Words | None]] = {}
    if python is not None:
        found["pymupdf"] = Program(python, _PYMUPDF)
    program = shutil.which("pdftotext")
    if program is not None:
        poppler = [program, "-q", "-enc", "UTF-8", "-bbox"]
        found["poppler"] = lambda path, seconds: _poppler([*poppler, str(path), "-"], seconds)
    return found


def versions(pymupdf: str | None) -> dict[str, str]:
    """Returns the versions of the programs that `readers` finds."""
    found = {}
    for name in readers(pymupdf):
        if name == "pymupdf":
            code = "import pymupdf; print(pymupdf.VersionBind)"
            command = [pymupdf or sys.executable, "-c", code]
        else:
            command = ["pdftotext", "-v"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found[name] = (done.stdout or done.stderr).split("\n")[0].split()[-1]
    return found


class Program:
    """A process of Python that reads one file after the other; one that hangs is replaced."""

    def __init__(self, python: str, code: str) -> None:
        """Takes the interpreter, and what answers each line, a path in JSON, with its words."""
        self._command = [python, "-c", code]
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, path: Path, seconds: float) -> Words | None:
        """Returns the words of a file; None where it is refused or takes longer."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(str(path)) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        answer = process.stdout.readline() if ready else ""
        if not answer:
            self.close()
            return None
        words = json.loads(answer)
        return None if words is None else normalised(words)

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _poppler(command: list[str], seconds: float) -> Words | None:
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return None
    text = done.stdout.decode("utf-8", errors="replace")
    words = (html.unescape(word) for word in _POPPLER_WORD.findall(text))
    return None if done.returncode else normalised(words)
