"""Batches: many documents answered one after the other, printed or written into a folder."""

from __future__ import annotations

import argparse
import errno
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.commands import answering, documents, results
from hushdoc.commands.answering import Serializable, shown
from hushdoc.commands.documents import Source
from hushdoc.commands.outcomes import Outcome, Tally, Task, exhausted, outcomes
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.provenance import ReadingWarning
from hushdoc.errors import HushdocError, OutputWriteError
from hushdoc.system import atomic_files
from hushdoc.system.progress import Progress, reported
from hushdoc.version import __version__

if TYPE_CHECKING:
    from hushdoc.document.document import Document

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a disk that takes no result of any document."""


def prepared(options: argparse.Namespace, endings: Iterable[str]) -> list[Source]:
    """Returns the documents named, each of which can have a result in --out.

    `endings` are those of the files of a result.
    """
    sources = documents.named(options)
    if options.out is None:
        return sources
    results.require_usable(options.out, options.subcommand)
    return documents.apart(sources, endings)


def is_single(sources: Sequence[Source]) -> bool:
    """Returns whether the command line names one document, not a folder or list of such."""
    return len(sources) == 1 and sources[0].alone


def settings(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Returns the options that results depend on: how documents are read, and those named."""
    return {name: getattr(options, name) for name in ("format", "ocr", *names)}


def answer_each(options: argparse.Namespace, sources: list[Source], task: Task[Any]) -> int:
    """Prints or stores all answers, reports the documents that failed; returns the exit code."""
    tally = Tally(total=len(sources))
    if options.out is not None:
        _store_each(options, sources, task, tally)
        return tally.exit_code()
    task.write(outcome.shown() for outcome in _printed(options, sources, task, tally))
    if not all(source.alone for source in sources):
        answering.report(options, f"{tally}.")
    return tally.exit_code()


def _printed(
    options: argparse.Namespace, sources: list[Source], task: Task[Any], tally: Tally
) -> Iterator[Outcome]:
    """Yields what becomes of each document, and reports failures and progress meanwhile."""
    with ExitStack() as stack:
        progress = None
        if not is_single(sources) and not sys.stdout.isatty():
            progress = stack.enter_context(reported(len(sources), sys.stderr))
        for outcome in stack.enter_context(closing(outcomes(sources, task, options.workers))):
            tally.count(outcome)
            if progress is not None:
                progress.count(failed=outcome.error is not None)
            if outcome.error is not None:
                _report(options, outcome)
            yield outcome


def _store_each(
    options: argparse.Namespace, sources: list[Source], task: Task[Any], tally: Tally
) -> None:
    """Writes the results that are not there yet, and reports on all."""
    from hushdoc.reading import ocr

    write = task.write if getattr(options, "jsonl", False) else exhausted
    certificate = task.model.certificate.certificate_id
    engine = ocr.name_of(options.ocr)  # which "auto" takes
    made_by = {
        "version": __version__,
        "certificate": certificate,
        "engine": engine,
        **task.settings,
    }
    with ExitStack() as stack:
        stack.enter_context(_quiet_reading())
        folder = stack.enter_context(results.opened(options.out, options.subcommand, made_by))
        if folder.folds_names:
            documents.require_apart_when_folded(sources)
        progress = stack.enter_context(reported(len(sources), sys.stderr))
        storing = _Storing(folder=folder, task=task, tally=tally, progress=progress)
        found = closing(outcomes(storing.pending(sources), task, options.workers))
        write(map(storing.stored, stack.enter_context(found)))
    for outcome in tally.failures:
        _report(options, outcome)
    listed = f"; all failures are in '{options.out / results.FAILURES}'" if tally.codes else ""
    answering.report(options, f"{tally}; results are in '{options.out}'{listed}.")


@contextmanager
def _quiet_reading() -> Iterator[None]:
    """Leaves out warnings that results repeat, unless the user's filters ask for them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning, append=True)
        yield


@dataclass(frozen=True, kw_only=True)
class _Storing:
    """A run that writes results into a folder."""

    folder: results.Results
    task: Task[Any]
    tally: Tally
    progress: Progress
    made_from: deque[str | None] = field(default_factory=deque)

    def pending(self, sources: Iterable[Source]) -> Iterator[Source]:
        """Yields the documents that are not done."""
        for source in sources:
            digest = _digest(self.folder, source)
            if digest is not None and self.folder.is_done(source.name, digest):
                self.tally.earlier += 1
                self.progress.count(earlier=True)
            else:
                self.made_from.append(digest)
                yield source

    def stored(self, outcome: Outcome) -> Any:
        """Writes a result, or a line of the report on failures; returns what was answered."""
        digest = self.made_from.popleft()
        if outcome.error is None:
            outcome = replace(outcome, error=self._store(outcome, digest))
        if outcome.error is not None:
            self.folder.fail(outcome.source.path, outcome.source.name, outcome.error)
        self.tally.count(outcome)
        self.progress.count(failed=outcome.error is not None)
        return outcome.shown()

    def _store(self, outcome: Outcome, made_from: str | None) -> HushdocError | None:
        """Writes a result, or returns why it can't be; a disk that is full ends the run."""
        name, document = outcome.source.name, outcome.document
        assert document is not None
        self.folder.clear(name)
        try:
            files = list(self.task.store(self.folder.path / name, document, outcome.answer))
            images = {page.image for page in document.pages if isinstance(page.image, Path)}
            self.folder.record(name, made_from, files, images - {Path(outcome.source.path)})
        except OutputWriteError as error:
            if getattr(error.__cause__, "errno", None) in _FULL:
                raise
            return error
        except HushdocError as error:
            return error
        return None


def _digest(folder: results.Results, source: Source) -> str | None:
    """Returns what the result of a document is made from; None where it can't be read."""
    if source.content is not None:
        return folder.made_from(source.content)
    try:
        limit = ReadingLimits().max_bytes
        return folder.made_from(atomic_files.read_file(Path(source.path), max_bytes=limit))
    except OSError:
        return None


def _report(options: argparse.Namespace, outcome: Outcome) -> None:
    assert outcome.error is not None
    message = shown(str(outcome.error), limit=2000)
    answering.report(options, f"{outcome.error.code}: {shown(outcome.source.path)}: {message}")


def store_json(target: Path, document: Document, answer: Serializable) -> list[Path]:
    """Writes an answer as JSON."""
    return write_files(target, {".json": f"{answering.as_json(answer)}\n".encode()})


def write_files(target: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Writes files whose names are a path with an ending each, all or none, and returns them."""
    paths = [target.with_name(target.name + ending) for ending in contents]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for path, content in zip(paths, contents.values(), strict=True):
            atomic_files.write_file(path, content)
    except BaseException as error:
        for path in paths:
            with suppress(OSError):
                path.unlink()
        if isinstance(error, OSError):
            raise atomic_files.not_written(target, error) from error
        raise
    return paths
