"""Batches: many documents answered one after the other, printed or written into a folder."""

from __future__ import annotations

import argparse
import errno
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from hushdoc.commands import answering, documents
from hushdoc.commands.answering import Serializable, shown
from hushdoc.commands.documents import Source
from hushdoc.commands.results import FAILURES, Results
from hushdoc.document.limits import ReadingLimits
from hushdoc.errors import HushdocError, OutputWriteError
from hushdoc.system import atomic_files
from hushdoc.system.progress import Progress
from hushdoc.version import __version__

if TYPE_CHECKING:
    from collections.abc import Generator

    from hushdoc.document.document import Document
    from hushdoc.runtime.extraction import Failure
    from hushdoc.runtime.model import Model

PARTIAL = 7
"""Exit code when some documents failed and others did not."""

_FAILURES_SHOWN = 5
"""How many failures are printed where all of them are in a report."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a disk that takes no result of any document."""

Answer = TypeVar("Answer", bound=Serializable)


def _exhausted(answers: Iterator[Any]) -> None:
    """Takes all answers and prints none."""
    for _ in answers:
        pass


@dataclass(frozen=True, kw_only=True)
class Task(Generic[Answer]):
    """What a subcommand does with each document.

    Attributes:
        model: What answers.
        read: Opens a document.
        ask: Returns the answer about a document.
        store: Writes the result of a document to files whose names begin with a path, and returns
            them.
        endings: The endings of those names.
        settings: The options that results depend on.
        write: Prints answers, with failures in their place.
    """

    model: Model
    read: Callable[[Source], Document]
    ask: Callable[[Document], Answer]
    store: Callable[[Path, Document, Answer], Iterable[Path]]
    endings: Sequence[str]
    settings: Mapping[str, Any]
    write: Callable[[Iterator[Answer | Failure]], None] = _exhausted


@dataclass(kw_only=True)
class Tally:
    """How many documents there are, and what became of them."""

    total: int
    done: int = 0
    earlier: int = 0
    failures: list[tuple[str, HushdocError]] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)

    def fail(self, path: str, error: HushdocError) -> None:
        """Counts a failure; the first ones are kept."""
        self.codes[error.code] += 1
        if len(self.failures) < _FAILURES_SHOWN:
            self.failures.append((path, error))

    def exit_code(self) -> int:
        """Returns 0, PARTIAL, or that of the first failure where nothing else is."""
        if not self.codes:
            return 0
        return PARTIAL if self.done or self.earlier else self.failures[0][1].exit_code

    def __str__(self) -> str:
        """Returns one line for people."""
        counts = [f"{self.done} of {self.total} document{'s' * (self.total != 1)} done"]
        if self.earlier:
            counts.append(f"{self.earlier} done before")
        if self.codes:
            codes = ", ".join(f"{count} {code}" for code, count in sorted(self.codes.items()))
            counts.append(f"{self.codes.total()} failed ({codes})")
        return ", ".join(counts)


def is_single(sources: Sequence[Source]) -> bool:
    """Returns whether the command line names one document, not a folder or list of such."""
    return len(sources) == 1 and sources[0].alone


def settings(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Returns the options that results depend on: how documents are read, and those named."""
    return {name: getattr(options, name) for name in ("format", "ocr", *names)}


def store_json(target: Path, document: Document, answer: Serializable) -> list[Path]:
    """Writes an answer as JSON."""
    return write_files(target, {".json": f"{answering.as_json(answer)}\n".encode()})


def answer_each(options: argparse.Namespace, sources: list[Source], task: Task[Any]) -> int:
    """Prints or stores all answers, reports the documents that failed; returns the exit code."""
    if options.out is None:
        return _print_each(options, sources, task)
    return _store_each(options, documents.apart(sources, task.endings), task)


def _print_each(options: argparse.Namespace, sources: list[Source], task: Task[Any]) -> int:
    tally = Tally(total=len(sources))
    several = not all(source.alone for source in sources)
    progress = Progress(len(sources), sys.stderr) if several and not sys.stdout.isatty() else None

    def answers() -> Iterator[Any]:
        with closing(_answered(iter(sources), task, options.workers)) as found:
            for source, outcome in found:
                if progress is not None:
                    progress.count(failed=isinstance(outcome, HushdocError))
                if isinstance(outcome, HushdocError):
                    tally.fail(source.path, outcome)
                    _report(options, source.path, outcome)
                    yield _failure(source, outcome)
                else:
                    tally.done += 1
                    yield outcome[1]

    try:
        task.write(answers())
    finally:
        if progress is not None:
            progress.close(whole=False)
    if several:
        answering.report(options, f"{tally}.")
    return tally.exit_code()


def _store_each(options: argparse.Namespace, sources: list[Source], task: Task[Any]) -> int:
    made_by = {
        "version": __version__,
        "certificate": task.model.certificate.certificate_id,
        **task.settings,
    }
    results = Results(options.out, options.subcommand, made_by)
    tally, progress = Tally(total=len(sources)), Progress(len(sources), sys.stderr)
    made_from: dict[str, str | None] = {}

    def pending() -> Iterator[Source]:
        for source in sources:
            digest = _digest(results, source)
            if digest is not None and results.is_done(source.name, digest):
                tally.earlier += 1
                progress.count(earlier=True)
            else:
                made_from[source.name] = digest
                yield source

    def answers() -> Iterator[Any]:
        with closing(_answered(pending(), task, options.workers)) as found:
            for source, outcome in found:
                digest = made_from.pop(source.name)
                error = outcome if isinstance(outcome, HushdocError) else None
                if not isinstance(outcome, HushdocError):
                    error = _store(results, source, digest, outcome, task)
                progress.count(failed=error is not None)
                if error is not None:
                    results.fail(source.path, source.name, error)
                    tally.fail(source.path, error)
                    yield _failure(source, error)
                elif not isinstance(outcome, HushdocError):
                    tally.done += 1
                    yield outcome[1]

    try:
        (task.write if getattr(options, "jsonl", False) else _exhausted)(answers())
    finally:
        progress.close(whole=False)
    for path, error in tally.failures:
        _report(options, path, error)
    listed = f"; all failures are in '{results.folder / FAILURES}'" if tally.codes else ""
    answering.report(options, f"{tally}; results are in '{results.folder}'{listed}.")
    return tally.exit_code()


def _answered(
    sources: Iterator[Source], task: Task[Any], workers: int
) -> Generator[tuple[Source, tuple[Document, Any] | HushdocError]]:
    """Yields each document with its answer, or why there is none, in their order."""
    from hushdoc.runtime.extraction import Failure
    from hushdoc.runtime.streaming import answers

    waiting: deque[Source] = deque()

    def taken() -> Iterator[Source]:
        for source in sources:
            waiting.append(source)
            yield source

    def asked(document: Document) -> tuple[Document, Any]:
        return document, task.ask(document)

    def opened(path: Any) -> Document:
        return _opened(path, task)

    found = answers(taken(), asked, workers=workers, on_error="collect", opened=opened)
    with closing(cast("Generator[tuple[Document, Any] | Failure]", found)) as found:
        for outcome in found:
            source = waiting.popleft()
            yield source, outcome.error if isinstance(outcome, Failure) else outcome


def _opened(source: Source, task: Task[Any]) -> Document:
    """Returns a document; its id is the source's, unless the file itself holds one."""
    if source.error is not None:
        raise source.error
    document = task.read(source)
    named = document.id == Path(source.path).stem
    return replace(document, id=source.id) if named else document


def _store(
    results: Results,
    source: Source,
    made_from: str | None,
    outcome: tuple[Document, Any],
    task: Task[Any],
) -> HushdocError | None:
    """Writes the result of a document, or returns why there is none."""
    results.clear(source.name)
    try:
        files = list(task.store(results.folder / source.name, *outcome))
        results.record(source.name, made_from, files)
    except OutputWriteError as error:
        if getattr(error.__cause__, "errno", None) in _FULL:
            raise
        return error
    except HushdocError as error:
        return error
    return None


def _digest(results: Results, source: Source) -> str | None:
    """Returns what the result of a document is made from; None where it can't be read."""
    if source.content is not None:
        return results.made_from(source.content)
    try:
        limit = ReadingLimits().max_bytes
        return results.made_from(atomic_files.read_file(Path(source.path), max_bytes=limit))
    except OSError:
        return None


def _failure(source: Source, error: HushdocError) -> Failure:
    from hushdoc.runtime.extraction import Failure

    return Failure(document_id=documents.as_text(source.path), error=error)


def _report(options: argparse.Namespace, path: str, error: HushdocError) -> None:
    message = f"{error.code}: {shown(path)}: {shown(str(error), limit=2000)}"
    answering.report(options, message)


def write_files(target: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Writes files whose names are a path with an ending each, and returns them."""
    paths = []
    for ending, content in contents.items():
        path = target.with_name(target.name + ending)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise atomic_files.not_written(path, error) from error
        atomic_files.write_file(path, content)
        paths.append(path)
    return paths
