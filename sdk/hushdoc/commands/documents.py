"""Documents that a command line names: files, folders and lists, each with a name for its result.

Every file of a folder is a document, whatever it is called. Hidden files, links, and folders that
hold results of an earlier run are none: what a link inside a folder leads to is read where it is,
if it is in the folder, so that links neither escape from it nor run in circles.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath, PurePosixPath
from unicodedata import normalize

from hushdoc.arguments import as_text
from hushdoc.commands.results import JOURNAL
from hushdoc.document.limits import ReadingLimits
from hushdoc.errors import InputError, LimitExceededError, UnsupportedFormatError
from hushdoc.system import atomic_files

STANDARD_INPUT = "-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A document that was named, or what could not be listed; it is opened as a path is.

    Attributes:
        path: The file, as it was reached; "-" for a document on standard input.
        name: Where its result stands in the folder of results, without an ending.
        alone: Whether the command line names the file itself, and not a folder or list.
        single: Whether it is all that the command line names.
        content: The document on standard input.
        error: Why there is nothing to open.
    """

    path: str
    name: str
    alone: bool = True
    single: bool = False
    content: bytes | None = field(default=None, repr=False)
    error: InputError | None = None

    def __fspath__(self) -> str:
        """Returns the path."""
        return self.path

    @property
    def id(self) -> str:
        """The name of a single file without its ending; the path of several, to tell them apart."""
        return as_text(PurePath(self.path).stem if self.single else self.path)


def named(options: argparse.Namespace) -> list[Source]:
    """Returns the documents that the arguments name, in their order, folders sorted by name.

    Raises:
        InputError: There is none at all, or nothing on standard input is the name of a file.
    """
    if options.documents.count(STANDARD_INPUT) > 1:
        options.refuse_usage("standard input can be read once; give - once")
    found = [source for argument in options.documents for source in _named(argument, options)]
    if all(source.error is not None for source in found):
        raise found[0].error or InputError("No document was named. Name a file or folder.")
    return [replace(source, single=source.alone and len(found) == 1) for source in found]


def apart(sources: Sequence[Source], endings: Iterable[str]) -> list[Source]:
    """Returns each document once; InputError where two results would be one file.

    `endings` are those of the files of a result.
    """
    failed = [source for source in sources if source.error is not None]
    found: dict[str, Source] = {}
    for source in (source for source in sources if source.error is None):
        other = found.setdefault(source.name, source)
        if os.path.abspath(other.path) != os.path.abspath(source.path):
            raise _same_result(other, source)
    taken = {f"{name}{ending}": source for name, source in found.items() for ending in endings}
    for name, source in found.items():
        for folder in PurePosixPath(name).parents:
            if str(folder) in taken:
                raise _same_result(taken[str(folder)], source)
    return [*found.values(), *failed]


def require_apart_when_folded(sources: Iterable[Source]) -> None:
    """Raises InputError where two results would be one file on a disk that folds names."""
    found: dict[str, Source] = {}
    for source in (source for source in sources if source.error is None):
        folded = normalize("NFC", normalize("NFC", source.name).casefold())
        other = found.setdefault(folded, source)
        if other is not source:
            raise InputError(
                f"The results of '{other.path}' and '{source.path}' would be one file, as the disk "
                "of --out takes names for one that differ in capital letters or in how a letter is "
                "written. Give each a folder of its own."
            )


def _same_result(one: Source, other: Source) -> InputError:
    return InputError(
        f"The results of '{one.path}' and '{other.path}' would have the same name. Name the "
        "folder that holds both, pass a list of their paths as -, or give each a folder of its own."
    )


def _named(argument: str, options: argparse.Namespace) -> Iterator[Source]:
    if argument == STANDARD_INPUT:
        piped = atomic_files.read_start(sys.stdin.buffer, ReadingLimits().max_bytes + 1)
        yield from _piped(piped, options.stdin)
    elif os.path.isdir(argument):
        yield from _inside(argument, PurePath())
    else:
        yield Source(path=argument, name=os.path.basename(os.path.normpath(argument)))


def _piped(content: bytes, meaning: str) -> Iterator[Source]:
    """Yields the documents of a list on standard input, or the document that is there itself."""
    if meaning == "document" or (meaning == "auto" and not _is_list(content)):
        yield Source(path=STANDARD_INPUT, name="document", content=content)
        return
    if len(content) > ReadingLimits().max_bytes:
        raise LimitExceededError(
            f"The list on standard input is longer than {ReadingLimits().max_bytes} bytes. Pass it "
            "in parts."
        )
    paths = _listed(content)
    there = sum(map(os.path.lexists, paths))
    if there == 0:
        raise InputError(
            "Standard input is no list of paths: it names no file or folder that exists. Give one "
            "path a line, or separate them by NUL; a text that is a document itself is read with "
            "--stdin document."
        )
    if meaning == "auto" and 2 * there < len(paths):  # a text may have a line "." or "/"
        raise InputError(
            f"Standard input is hardly a list of paths: {there} of its {len(paths)} lines name a "
            "file or folder that exists. Say --stdin list if it is one, --stdin document if it is "
            "a text."
        )
    for path in paths:
        if os.path.isdir(path):
            yield from _inside(path, PurePath(_below(path)))
        else:
            yield Source(path=path, name=_below(path), alone=False)


def _listed(content: bytes) -> list[str]:
    """Returns the paths of a list, whose bytes are those of names unless it has a mark."""
    from hushdoc.reading.text import encoding_of

    encoding, mark = encoding_of(content)
    content = content[mark:]
    if encoding != "utf-8":
        try:
            content = os.fsencode(content.decode(encoding))
        except UnicodeError as problem:
            raise InputError(
                f"The list on standard input begins with the byte order mark of "
                f"{encoding.upper()}, and holds what is none or no name here. Give it in UTF-8."
            ) from problem
    lines = content.split(b"\0" if b"\0" in content else b"\n")
    if b"\0" in content and _is_wide(lines):
        raise InputError(
            "Standard input is no list of paths separated by NUL: it looks like UTF-16 or UTF-32 "
            "without a byte order mark. Convert it: iconv -f UTF-16LE -t UTF-8. Of files whose "
            "names have one letter, give ./x for x."
        )
    return [os.fsdecode(line) for line in (line.removesuffix(b"\r") for line in lines) if line]


def _is_wide(lines: list[bytes]) -> bool:
    """Returns whether the NULs of a list stand in its characters: UTF-16 or UTF-32."""
    ended = lines[:-1] if lines[-1] == b"" else lines
    short = sum(len(line) == 1 for line in ended)
    return len(ended) > 1 and (
        b"" in ended
        or b"/" in ended
        or 2 * short > len(ended)
        or any(line.startswith(b"\n") or line.endswith(b"\n") for line in ended)
    )


def _is_list(content: bytes) -> bool:
    """Returns whether this is a plain text, or nothing that is read: names in any encoding."""
    from hushdoc.reading import formats

    try:
        return formats.recognised(content, format="auto", id="standard input").format == "text"
    except UnsupportedFormatError:
        return True


def _below(path: str) -> str:
    """Returns a relative path as it is, and any that leads elsewhere from its root on."""
    normal = os.path.normpath(path)
    if os.path.isabs(normal) or PurePath(normal).parts[:1] == ("..",):
        normal = os.path.abspath(normal)
    inner = PurePath(normal)
    return inner.relative_to(inner.anchor).as_posix()


def _inside(folder: str, name: PurePath) -> Iterator[Source]:
    """Yields the documents of a folder and all below it, in the order of their names."""
    empty = True
    for source in _walked(folder, name):
        empty = False
        yield source
    if empty:
        error = InputError(
            f"The folder '{folder}' holds no document: no file in it or below, apart from hidden "
            "ones, links, and results of an earlier run. Name a folder that holds some."
        )
        yield Source(path=folder, name=name.as_posix(), alone=False, error=error)


def _walked(folder: str, name: PurePath) -> Iterator[Source]:
    pending = [(folder, name)]
    while pending:
        path, below = pending.pop()
        if not os.path.isdir(path):
            yield Source(path=path, name=below.as_posix(), alone=False)
            continue
        try:
            with os.scandir(path) as entries:
                found = {entry.name: _counts(entry) for entry in entries}
        except OSError as problem:
            error = InputError(
                f"The folder '{path}' can't be listed: {problem.strerror or problem}. Check who "
                "may read it."
            )
            yield Source(path=path, name=below.as_posix(), alone=False, error=error)
            continue
        if JOURNAL not in found:
            inner = sorted((entry for entry, counts in found.items() if counts), reverse=True)
            pending += [(os.path.join(path, entry), below / entry) for entry in inner]


def _counts(entry: os.DirEntry[str]) -> bool:
    """Returns whether an entry is a file or folder, and neither hidden nor a link."""
    return not entry.name.startswith(".") and (
        entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
    )
