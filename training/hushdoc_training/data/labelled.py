"""Files of the labelled format (`hushdoc.labelled_files`), alone or in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hushdoc import labelled_files
from hushdoc.arguments import printable, short_repr
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc_training.data.corpus import Corpus, Problems, recognising

ENDINGS = (".jsonl", ".jsonl.gz", ".json")
"""How labelled files in a folder are called; a single file may have any name."""

_SCALE = 1000
_FILLED = 0.8  # how far down and across the words of a page reach at least, as a rule


THOUSANDTHS = "document whose boxes all end by 1000 on larger pages; are they pixels?"


@recognising
def recognises(path: Path) -> bool:
    """Returns whether a path is a labelled file, or a folder that holds one."""
    return any(map(labelled_files.recognises, _files(path)))


def read(path: Path, problems: Problems) -> Iterator[LabelledDocument]:
    """Yields the documents of a file, or of all labelled files of a folder by their names.

    Several files of JSON lines in a folder may be several splits, and are refused.
    """
    files = []
    for file in _files(path):
        if path.is_file() or labelled_files.recognises(file):
            files.append(file)
        else:
            problems.add("file of another format, not read", printable(file.name))
    lines = [file.name for file in files if file.suffix != ".json"]
    if len(lines) > 1 or (lines and len(files) > 1):
        raise AnnotationError(
            f"The folder '{path}' holds several labelled files: "
            f"{', '.join(printable(file.name) for file in files[:8])}. Name the one that is meant."
        )
    seen: dict[str, Path] = {}
    for file in files:
        for labelled in labelled_files.read(file):
            name = labelled.document.id
            if seen.setdefault(name, file) != file:
                raise AnnotationError(
                    f"'{printable(file)}' has a document of the id {short_repr(name)}, and so has "
                    f"'{printable(seen[name])}'; a document that stands twice counts twice. "
                    "Remove one of them, or give it another id."
                )
            if _in_thousandths(labelled):
                problems.add(THOUSANDTHS, name)
            yield labelled


def _in_thousandths(labelled: LabelledDocument) -> bool:
    """Returns whether boxes look as if they were scaled to 0..1000, as layout models read them."""
    pages = [page for page in labelled.document.pages if page.words]
    right = max(word.box.x1 for page in pages for word in page.words)
    low = max(word.box.y1 for page in pages for word in page.words)
    large = all(min(page.width, page.height) > _SCALE for page in pages)
    return large and all(_FILLED * _SCALE <= end <= _SCALE for end in (right, low))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.name.endswith(ENDINGS))


CORPUS = Corpus(
    name="labelled",
    title="the labelled format",
    labels=LabelSet(fields=()),
    documents={},
    expected='lines of JSON with the "format" hushdoc-labelled-1, or a folder of it',
    recognises=recognises,
    read=read,
)
