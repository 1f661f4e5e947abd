"""Labelled documents from one address: files of a known corpus, or invented ones.

invented:form                our generator's forms (invoice, receipt, till-receipt, several: a+b)
invented:invoice,questions=keyed,providers=0:400     with settings of `invented.InventedConfig`
path/to/documents.jsonl      the labelled format, also a folder of it
path/to/sroie                a published corpus, by its files
"""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from hushdoc import labelled_files
from hushdoc.arguments import printable, short_repr
from hushdoc.artifact.manifest import MANIFEST_FILE
from hushdoc.errors import AnnotationError, InputError
from hushdoc.labels import LabelledDocument, LabelSet, require_known
from hushdoc.system import atomic_files
from hushdoc_training import invented
from hushdoc_training.data import (
    ad_buys,
    cord,
    docile,
    funsd,
    labelled,
    pfl_docvqa,
    sp_docvqa,
    sroie,
    wildreceipt,
    xfund,
)
from hushdoc_training.data.corpus import COPY, Corpus, Problems

CORPORA: tuple[Corpus, ...] = tuple(
    module.CORPUS
    for module in (
        labelled,
        funsd,
        xfund,
        sroie,
        wildreceipt,
        cord,
        docile,
        ad_buys,
        sp_docvqa,
        pfl_docvqa,
    )
)
"""The readers; the files of a path tell which of them reads it."""

INVENTED = "invented:"

Seen = Callable[[int, int], None]
"""Is told after each document how many were invented, of how many."""

Report = Callable[[str], None]
"""Takes a line about what was read: it counts documents, and the first problems in it name some."""

NUM_INVENTED = 1000
"""How many documents are invented by default."""

_HEAD = 4096
_GZIP = b"\x1f\x8b"
_MAGIC = (
    (b"%PDF", "a PDF file"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"PAR1", "a parquet file"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\xff\xfe", "text in UTF-16, not UTF-8"),
    (b"\xfe\xff", "text in UTF-16, not UTF-8"),
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where documents come from."""

    location: str  # a path, or "invented:" with document types joined by "+", and settings
    documents: int | None = None  # how many to invent, or the most to read; None for all
    seed: int = 0  # of invented documents
    labels: str | None = None  # of invented documents, one of `invented.LABEL_SETS`

    def __post_init__(self) -> None:
        """Refuses a number of documents that is none: it would stand for all, or for 1,000."""
        if self.documents is not None and self.documents < 1:
            raise InputError(
                f"The number of documents is {self.documents}; expected at least 1. Leave it out "
                "for all."
            )

    @property
    def is_invented(self) -> bool:
        """Whether the documents come from our generator, and so are public."""
        return self.location.startswith(INVENTED)


def _unseen(done: int, total: int) -> None:
    pass


def _unreported(line: str) -> None:
    pass


def read(
    source: Source,
    *,
    schema: LabelSet | None = None,
    seen: Seen = _unseen,
    report: Report = _unreported,
    windows: bool = False,
) -> Sequence[LabelledDocument]:
    """Returns the source's documents, and reports which reader took them and what was odd.

    Where windows of them are protected none may be left out as a copy of another: of either with a
    window less it would not be one, and all its windows would come.

    Raises:
        AnnotationError: No reader knows the files, a label is outside the schema, or a copy would
            be left out where windows are protected.
        InputError: A file is damaged; its subclasses say what was found.
    """
    problems = Problems()
    if source.is_invented:
        count = source.documents or NUM_INVENTED
        return _counted(stream(source, problems), count, seen)
    title = corpus_of(Path(source.location)).title
    found = list(known(stream(source, problems), schema))
    if windows and problems.counts[COPY]:
        raise AnnotationError(
            f"'{printable(source.location)}' has documents that are copies of others under another "
            f"name, such as {problems.examples[COPY][0]}. Reading leaves them out, and whether one "
            "is left out depends on another, which a guarantee for each window does not cover. "
            "Take them out of the data, protect documents instead (--privacy-unit document), or "
            "train on what `hushdoc data convert` writes of them."
        )
    report(f"Documents read: {len(found)} ({title})")
    for line in problems.lines():
        report(line)
    return found


def stream(source: Source, problems: Problems) -> Iterator[LabelledDocument]:
    """Yields the source's documents as they are read, and counts what is odd in them."""
    if source.is_invented:
        count = source.documents or NUM_INVENTED
        return invented.documents(seed=source.seed, count=count, config=_config(source))
    path = Path(source.location)
    most = None if source.documents is None else min(source.documents, sys.maxsize)
    return islice(corpus_of(path).read(path, problems), most)


def known(
    documents: Iterable[LabelledDocument], schema: LabelSet | None
) -> Iterator[LabelledDocument]:
    """Yields documents whose labels are all in the schema; the first other one is refused."""
    for item in documents:
        if schema is not None:
            require_known(item, schema)
        yield item


def refuse_releases(path: Path) -> None:
    """Raises AnnotationError where a path is, or is in, what was made of other documents."""
    folder = path if path.is_dir() else path.parent
    if (folder / MANIFEST_FILE).is_file():
        raise AnnotationError(
            f"'{printable(path)}' is a sealed artifact, whose documents are read only once it is "
            "verified. Name the policy that a set of synthetic documents has to satisfy: with "
            "`--synthetic POLICY` to train on it (kie, docvqa, clauses, images), with "
            "`--layouts-policy POLICY` for its layouts."
        )
    if any((folder / name).is_file() for name in ("checkpoint.json", "run.json")):
        raise AnnotationError(
            f"'{printable(path)}' was made of other documents by a run, and what it tells of them "
            "is not in any claim here. Export it, and train on the set with `--synthetic POLICY`."
        )


def corpus_of(path: Path) -> Corpus:
    """Returns the one reader that knows the files of a path."""
    if not path.exists():
        raise AnnotationError(
            f"'{printable(path)}' does not exist. Name a file or folder of documents, or "
            "invented:form."
        )
    refuse_releases(path)
    found = [corpus for corpus in CORPORA if corpus.recognises(path)]
    if len(found) == 1:
        return found[0]
    if found:
        raise AnnotationError(
            f"'{printable(path)}' holds several formats: "
            f"{', '.join(corpus.name for corpus in found)}. Name a folder or file of one."
        )
    expected = "; ".join(f"{corpus.name}: {corpus.expected}" for corpus in CORPORA)
    raise AnnotationError(
        f"'{printable(path)}' is {_described(path)}, which no reader of documents knows. Expected "
        f"one of {expected}. Bring other data into the labelled format: docs/data-formats.md."
    )


@contextlib.contextmanager
def opened(
    source: Source,
    *,
    images: bool,
    schema: LabelSet | None = None,
    seen: Seen = _unseen,
    report: Report = _unreported,
    windows: bool = False,
) -> Iterator[Sequence[LabelledDocument]]:
    """Yields what `read` returns; images of invented pages are files until the context closes.

    Other corpora have images of their own.
    """
    if not (images and source.is_invented):
        yield read(source, schema=schema, seen=seen, report=report, windows=windows)
        return
    config = _config(source)
    count = source.documents or NUM_INVENTED
    with tempfile.TemporaryDirectory(prefix="hushdoc-train-") as scratch:
        folder = Path(scratch) / "pages"
        written = invented.write(folder, seed=source.seed, count=count, config=config, seen=seen)
        yield [labelled_files.read_one(path) for path in written]


def _range(text: str) -> tuple[int, int]:
    first, _, stop = text.partition(":")
    return int(first), int(stop)


def _pages(text: str) -> tuple[int, int]:
    least, _, most = text.partition("-")
    return int(least), int(most or least)


def _layouts(text: str) -> tuple[str, ...]:
    return tuple(text.split("+"))


SETTINGS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "providers": (_range, "first:stop, such as 0:400"),
    "questions": (str, " or ".join(invented.QUESTIONS)),
    "wordings": (_range, "first:stop, such as 0:15"),
    "unanswerable": (float, "a share, such as .2"),
    "pages": (_pages, "a number or least-most, such as 1-3"),
    "layouts": (_layouts, "names joined by +"),
    "misspelled": (float, "a share, such as .02"),
}
"""Settings of invented documents that an address may have: how each is read, and how written."""


def _config(source: Source) -> invented.InventedConfig:
    named, *settings = source.location.removeprefix(INVENTED).split(",")
    types = tuple(named.split("+"))
    try:
        labels = source.labels or ("form" if "form" in types else "fields")
        return invented.InventedConfig(document_types=types, labels=labels, **_settings(settings))
    except ValueError as error:
        raise AnnotationError(
            f"'{printable(source.location)}' can't be invented: {error} Give invented:form, "
            "invented:invoice, invented:till-receipt, or several as invented:form+invoice, and "
            "settings as invented:form,questions=keyed."
        ) from error


def _settings(parts: Sequence[str]) -> dict[str, Any]:
    """Returns the settings in the parts of an address, such as "pages=1-3"."""
    found: dict[str, Any] = {}
    for part in parts:
        name, _, text = part.partition("=")
        if name not in SETTINGS or name in found:
            known = ", ".join(SETTINGS)
            why = "stands twice" if name in found else f"is none of its settings, {known}"
            raise ValueError(f"{short_repr(name)} {why}.")
        parsed, written = SETTINGS[name]
        try:
            found[name] = parsed(text)
        except ValueError:
            raise ValueError(f"{name} is {short_repr(text)}; expected {written}.") from None
    return found


def _counted(
    documents: Iterable[LabelledDocument], total: int, seen: Seen
) -> list[LabelledDocument]:
    found = []
    for done, item in enumerate(documents, start=1):
        found.append(item)
        seen(done, total)
    return found


def _described(path: Path) -> str:
    """Returns what is at a path, for a message."""
    try:
        if path.is_dir():
            return f"a folder with {_listed(path)}"
        with atomic_files.open_file(path) as file:
            head = file.read(_HEAD)
    except OSError as error:
        return f"not readable ({error.strerror or 'no file'})"
    if not head.strip():
        return "a file without content"
    if head.startswith(_GZIP):
        return _unpacked(path)
    for magic, what in _MAGIC:
        if head.startswith(magic):
            return what
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(head.partition(b"\n")[0])
        if isinstance(found, dict):
            return f"JSON with the keys {short_repr(sorted(map(str, found)), 200)}"
    return "JSON" if head.lstrip()[:1] in (b"{", b"[") else "a file without a known beginning"


def _unpacked(path: Path) -> str:
    """Returns what a gzipped file is, by its first bytes."""
    try:
        with gzip.open(path) as file:
            file.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return "a gzipped file that is damaged or cut off"
    return "a gzipped file"


def _listed(folder: Path) -> str:
    names = sorted(f"{item.name}{'/' if item.is_dir() else ''}" for item in folder.iterdir())
    shown = ", ".join(printable(name, 60) for name in names[:6])
    return f"{shown}{', ...' if len(names) > 6 else ''}" if names else "nothing in it"
