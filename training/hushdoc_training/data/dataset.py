"""Labelled documents from one address: a folder or file of a known corpus, or invented ones.

invented:form                our generator's forms (invoice, receipt, till-receipt, several: a+b)
path/to/funsd                the original FUNSD folder
path/to/de.train.json        an XFUND file
path/to/folder               documents that our generator wrote
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hushdoc import labelled_files
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument
from hushdoc_training import invented
from hushdoc_training.data import funsd, xfund
from hushdoc_training.data.corpus import Problems

INVENTED = "invented:"

Seen = Callable[[int, int], None]
"""Is told after each document how many were read or invented, of how many."""

NUM_INVENTED = 1000
"""How many documents are invented by default."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where documents come from."""

    location: str  # a path, or "invented:" with document types joined by "+"
    documents: int | None = None  # how many to invent, or the most to read; None for all
    seed: int = 0  # of invented documents
    labels: str | None = None  # of invented documents, one of `invented.LABEL_SETS`

    @property
    def is_invented(self) -> bool:
        """Whether the documents come from our generator, and so are public."""
        return self.location.startswith(INVENTED)


def _unseen(done: int, total: int) -> None:
    pass


def read(source: Source, *, seen: Seen = _unseen) -> Sequence[LabelledDocument]:
    """Returns the source's documents."""
    if source.is_invented:
        count = source.documents or NUM_INVENTED
        stream = invented.documents(seed=source.seed, count=count, config=_config(source))
        return _counted(stream, count, seen)
    path = Path(source.location)
    if not path.exists():
        raise AnnotationError(
            f"'{path}' does not exist. Give a FUNSD folder, an XFUND file, a folder of invented "
            "documents, or invented:form."
        )
    found = (
        list((xfund if path.is_file() else funsd).read(path, Problems()))
        if path.is_file() or any(path.glob("**/annotations"))
        else _written(path, seen)
    )
    return found[: source.documents]


@contextlib.contextmanager
def opened(
    source: Source, *, images: bool, seen: Seen = _unseen
) -> Iterator[Sequence[LabelledDocument]]:
    """Yields what `read` returns; images of invented pages are files until the context closes.

    Other corpora have images of their own.
    """
    if not (images and source.is_invented):
        yield read(source, seen=seen)
        return
    config = _config(source)
    count = source.documents or NUM_INVENTED
    with tempfile.TemporaryDirectory(prefix="hushdoc-train-") as scratch:
        folder = Path(scratch) / "pages"
        written = invented.write(folder, seed=source.seed, count=count, config=config, seen=seen)
        yield [labelled_files.read_one(path) for path in written]


def _config(source: Source) -> invented.InventedConfig:
    types = tuple(source.location.removeprefix(INVENTED).split("+"))
    try:
        labels = source.labels or ("form" if "form" in types else "fields")
        return invented.InventedConfig(document_types=types, labels=labels)
    except ValueError as error:
        raise AnnotationError(
            f"'{source.location}' can't be invented: {error} Give invented:form, "
            "invented:invoice, invented:till-receipt, or several as invented:form+invoice."
        ) from error


def _counted(
    documents: Iterable[LabelledDocument], total: int, seen: Seen
) -> list[LabelledDocument]:
    found = []
    for done, labelled in enumerate(documents, start=1):
        found.append(labelled)
        seen(done, total)
    return found


def _written(folder: Path, seen: Seen) -> list[LabelledDocument]:
    names = sorted(folder.glob("*.json"))
    if not names:
        raise AnnotationError(
            f"'{folder}' holds neither a folder 'annotations' nor any .json document. Give a FUNSD "
            "folder, an XFUND file, or a folder that invented.write filled."
        )
    return _counted(map(labelled_files.read_one, names), len(names), seen)
