"""What becomes of documents that a subcommand reads: an answer, or an error that stops no other."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hushdoc.arguments import as_text
from hushdoc.commands import notices
from hushdoc.commands.answering import Serializable
from hushdoc.commands.documents import Source
from hushdoc.errors import HushdocError

if TYPE_CHECKING:
    from hushdoc.document.document import Document
    from hushdoc.runtime.extraction import Failure
    from hushdoc.runtime.model import Model

PARTIAL = 7
"""Exit code when some documents failed and others did not."""

FAILURES_SHOWN = 5
"""How many failures are printed where all of them are in a report."""

Answer = TypeVar("Answer", bound=Serializable)


def exhausted(answers: Iterator[Any]) -> None:
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
        settings: The options that results depend on.
        write: Prints answers, with failures in their place.
    """

    model: Model
    read: Callable[[Source], Document]
    ask: Callable[[Document], Answer]
    store: Callable[[Path, Document, Answer], Iterable[Path]]
    settings: Mapping[str, Any]
    write: Callable[[Iterator[Answer | Failure]], None] = exhausted


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of a document: its answer, or why there is none."""

    source: Source
    document: Document | None = None
    answer: Any = None
    error: HushdocError | None = None

    def shown(self) -> Any:
        """Returns the answer, or a failure in its place."""
        from hushdoc.runtime.extraction import Failure

        if self.error is None:
            return self.answer
        return Failure(document_id=as_text(self.source.path), error=self.error)


@dataclass(kw_only=True)
class Tally:
    """How many documents there are, and what became of them."""

    total: int
    done: int = 0
    earlier: int = 0
    unread: int = 0
    failures: list[Outcome] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)

    def count(self, outcome: Outcome) -> None:
        """Counts a document; the first failures are kept."""
        if outcome.error is None:
            self.done += 1
            source = outcome.answer.source
            self.unread += source is not None and bool(source.unread_pages)
            return
        self.codes[outcome.error.code] += 1
        if len(self.failures) < FAILURES_SHOWN:
            self.failures.append(outcome)

    def exit_code(self) -> int:
        """Returns 0, PARTIAL, or that of the first failure where nothing else is."""
        first = next((outcome.error for outcome in self.failures), None)
        if first is None:
            return 0
        return PARTIAL if self.done or self.earlier else first.exit_code

    def __str__(self) -> str:
        """Returns one line for people."""
        counts = [f"{self.done} of {self.total} document{'s' * (self.total != 1)} done"]
        if self.earlier:
            counts.append(f"{self.earlier} done before")
        if self.unread:
            counts.append(f"{self.unread} with images that were not read")
        if self.codes:
            codes = ", ".join(f"{count} {code}" for code, count in sorted(self.codes.items()))
            counts.append(f"{self.codes.total()} failed ({codes})")
        return ", ".join(counts)


def outcomes(sources: Iterable[Source], task: Task[Any], workers: int) -> Generator[Outcome]:
    """Yields what becomes of each document, in their order."""
    from hushdoc.runtime.extraction import Failure
    from hushdoc.runtime.streaming import answers

    waiting: deque[Source] = deque()

    def taken() -> Iterator[Source]:
        for source in sources:
            waiting.append(source)
            yield source

    def asked(document: Document) -> tuple[Document, Any]:
        with _within_memory(document.id):
            return document, task.ask(document)

    found: Any = answers(
        taken(), asked, workers=workers, on_error="collect", opened=partial(_opened, task)
    )
    with closing(found):
        for answer in found:
            source = waiting.popleft()
            if isinstance(answer, Failure):
                yield Outcome(source=source, error=answer.error)
            else:
                yield Outcome(source=source, document=answer[0], answer=answer[1])


@contextmanager
def _within_memory(name: str) -> Iterator[None]:
    """Lets a document for which memory is too small stop no other."""
    try:
        yield
    except MemoryError as error:
        raise notices.out_of_memory(f"'{name}'") from error


def _opened(task: Task[Any], source: Any) -> Document:
    """Returns a document; its id is the source's, unless the file itself holds one."""
    if source.error is not None:
        raise source.error
    with _within_memory(source.path):
        document = task.read(source)
    named = document.id == as_text(Path(source.path).stem)
    return replace(document, id=source.id) if named else document
