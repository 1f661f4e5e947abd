"""Files from anywhere: what becomes of each when it is opened, and what other programs read in it.

Every file of a folder is opened in a process of its own, with a limit of processor time and memory.
Images are decoded and scans are drawn, for an engine that reads nothing: OCR takes long, and is
not what is measured. An outcome is `ok` (a document), `typed` (an error of hushdoc's, with a code),
`untyped` (any other error, or a process that ended), or `hung` (past the time limit).

Where PyMuPDF or Poppler is installed, the words of PDF files are compared: the Jaccard index of the
multisets of words of each two readers (wild_peers.py says what a word is), in the mean over the
files that all of them read and in which one of them found a word. A file is `against` us where the
two agree with each other by more than MARGIN more than either does with us. `--html` shows those
first, with the words in question.

`lose_words` counts the files of `compared_with_pdfium` whose words lack characters that PDFium
alone finds on the pages: the same pypdfium2, asked for the text before anything is done to a page.
How characters are divided into words doesn't count, nor do files with a page that needs OCR.

    python benchmarks/wild_files.py DIR [--quick] [--pymupdf PYTHON] [--html page.html]

The last line is one JSON object. `--quick` reads a sample, for at most 45 seconds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import combinations
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean
from typing import Any

import machine
import wild_report
from wild_peers import Words, jaccard, lost, normalised, raw_pdfium, readers, versions

from hushdoc.document.page import Box, Word
from hushdoc.errors import EmptyDocumentError, HushdocError, OCRRequiredError
from hushdoc.reading import open_document, pdf

OURS = "hushdoc"
MARGIN = 0.1
QUICK_SECONDS, QUICK_FILES = 45.0, 80
QUICK_FILE_SECONDS = 3
MAX_BYTES = 4 * 2**30
"""Memory that the process of one file may ask for."""

_fork = multiprocessing.get_context("fork")


@dataclass(kw_only=True)
class Outcome:
    """What became of a file; `words` by reader, None where that one refused it.

    `raw` is what PDFium alone finds; `is_text`: no page needs OCR.
    """

    path: Path
    kind: str
    detail: str = ""
    seconds: float = 0.0
    peak_mb: float = 0.0
    words: dict[str, Words | None] = field(default_factory=dict)
    raw: Words | None = None
    is_text: bool = False

    @property
    def is_compared(self) -> bool:
        """Whether several programs read it, and one of them found a word."""
        read = list(self.words.values())
        return len(read) > 1 and None not in read and any(read)

    @property
    def loses(self) -> int | None:
        """How many characters that PDFium finds are in no word of ours; None: not compared."""
        ours = self.words.get(OURS)
        if self.raw is None or ours is None or not self.is_text:
            return None
        return lost(self.raw, ours)

    def pairs(self) -> dict[str, float]:
        """Returns the Jaccard index of each two readers."""
        return {
            f"{one}_{other}": jaccard(self.words[one] or Counter(), self.words[other] or Counter())
            for one, other in combinations(self.words, 2)
        }

    @property
    def against(self) -> float:
        """How much more two others agree with each other than either with us, refusing it or not.

        Nothing where a program refused it, or neither found a word.
        """
        others = [words for reader, words in self.words.items() if reader != OURS]
        if len(others) < 2 or None in others or not any(others):
            return 0.0
        pairs = self.pairs()
        ours = [value for name, value in pairs.items() if OURS in name]
        return min(value for name, value in pairs.items() if OURS not in name) - max(ours)


class NoEngine:
    """Reads one word in every image, which `_words` drops: a document has to have one."""

    name, version = "none", "1"

    def read(self, image: Any) -> Sequence[Word]:
        """Returns that word."""
        return [Word(text="image", box=Box(x0=0, y0=0, x1=image.width, y1=image.height))]


def main() -> int:
    """Runs the benchmark and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="whose files are opened, and those below it")
    parser.add_argument("--quick", action="store_true", help="a sample, less than a minute")
    parser.add_argument("--seconds", type=int, default=30, help="processor time for a file")
    parser.add_argument("--pymupdf", metavar="PYTHON", help="an interpreter that has PyMuPDF")
    parser.add_argument("--html", type=Path, metavar="FILE", help="writes a report for people")
    options = parser.parse_args()
    paths = sorted(path for path in options.folder.rglob("*") if path.is_file())
    if options.quick:
        options.seconds = min(options.seconds, QUICK_FILE_SECONDS)
        paths = paths[:: -(-len(paths) // QUICK_FILES) or 1]
    found = list(_watched(paths, options))
    wild_report.print_report(found)
    if options.html:
        options.html.write_text(wild_report.page(found), encoding="utf-8")
    print(json.dumps(figures(found, options)))
    return 0


def _watched(paths: Sequence[Path], options: argparse.Namespace) -> Iterator[Outcome]:
    """Yields the outcome of each file, with progress on standard error."""
    began = time.monotonic()
    others, pdfium = readers(options.pymupdf), raw_pdfium()
    import pypdfium2  # noqa: F401 - once, for the processes of all files

    for number, path in enumerate(paths, start=1):
        outcome = opened(path, seconds=options.seconds)
        if _is_pdf(path) and outcome.kind in ("ok", "typed"):
            for name, read in others.items():
                outcome.words[name] = read(path, 4.0 * options.seconds)
            outcome.raw = pdfium(path, 4.0 * options.seconds)
        yield outcome
        took = time.monotonic() - began
        if options.quick and took > QUICK_SECONDS:
            break
        if number % max(1, len(paths) // 50) == 0:
            left = took / number * (len(paths) - number) / 60
            print(f"{number} of {len(paths)} files, {left:.0f} min left", file=sys.stderr)


def _is_pdf(path: Path) -> bool:
    with path.open("rb") as file:
        return pdf.is_pdf(file.read(1024))


def opened(path: Path, *, seconds: int) -> Outcome:
    """Opens a file in a process of its own."""
    receiver, sender = _fork.Pipe(duplex=False)
    process = _fork.Process(target=_open, args=(path, seconds, sender))
    process.start()
    sender.close()
    # A process that waits for something uses no processor time.
    told = receiver.poll(20.0 * seconds)
    try:
        if not told:
            raise EOFError
        return Outcome(path=path, **receiver.recv())
    except EOFError:
        process.kill()
        process.join()
        hung = not told or process.exitcode == -signal.SIGXCPU
        detail = "" if hung else f"its process ended with {process.exitcode}"
        return Outcome(path=path, kind="hung" if hung else "untyped", detail=detail)
    finally:
        receiver.close()
        process.join()


def _open(path: Path, seconds: int, sender: Connection) -> None:
    """Opens a file and sends what an Outcome holds."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    warnings.simplefilter("ignore")
    told: dict[str, Any] = {"kind": "ok"}
    words: Words | None = None
    is_text = True
    try:
        words, is_text = _words(path)
    except HushdocError as error:
        words = Counter() if isinstance(error, EmptyDocumentError) else None
        kind = "untyped" if error.code == "INTERNAL_ERROR" else "typed"
        told = {"kind": kind, "detail": f"{error.code}: {error}"}
    except Exception as error:
        told = {"kind": "untyped", "detail": f"{type(error).__name__}: {error!s:.300}"}
    told |= {
        "seconds": time.process_time(),
        "peak_mb": machine.peak_bytes() / 1e6,
        "words": {OURS: words},
        "is_text": is_text,
    }
    sender.send(told)


def _words(path: Path) -> tuple[Words, bool]:
    """Returns the words of a file, and whether no page needs OCR."""
    try:
        document = open_document(path, ocr="none")
    except OCRRequiredError:
        open_document(path, ocr=NoEngine())
        return Counter(), False
    words = normalised(word.text for page in document.pages for word in page.words)
    return words, document.source is not None and not document.source.unread_pages


def figures(found: Sequence[Outcome], options: argparse.Namespace) -> Mapping[str, object]:
    """Returns what the last line says."""
    kinds = Counter(one.kind for one in found)
    compared = [one for one in found if one.is_compared]
    pairs = [one.pairs() for one in compared]
    losses = [one.loses for one in found if one.loses is not None]
    means = {name: round(fmean(one[name] for one in pairs), 4) for name in (pairs or [{}])[0]}
    return {
        "files": len(found),
        **{kind: kinds[kind] for kind in ("ok", "typed", "untyped", "hung")},
        "peak_mb": round(max((one.peak_mb for one in found), default=0.0), 1),
        "slowest_seconds": round(max((one.seconds for one in found), default=0.0), 2),
        "compared": len(compared),
        "jaccard_mean": means,
        "against": sum(one.against > MARGIN for one in compared),
        "compared_with_pdfium": len(losses),
        "lose_words": sum(loss > 0 for loss in losses),
        "quick": options.quick,
        "versions": {"pypdfium2": version("pypdfium2"), **versions(options.pymupdf)},
        **machine.dated(python=True),
    }


if __name__ == "__main__":
    sys.exit(main())
