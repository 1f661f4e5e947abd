"""Answers to many documents: in order, as soon as they are known, by several workers.

Workers are threads: what takes time happens inside ONNX Runtime, the tokenizer and numpy, which let
other threads run meanwhile. Documents are taken from their source only a few ahead of the answer
that is waited for, so a source of any length needs little memory.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Literal, TextIO, TypeVar

from hushdoc import arguments
from hushdoc.document.document import Document, required
from hushdoc.document.provenance import READERS
from hushdoc.errors import HushdocError, InputError
from hushdoc.runtime.extraction import Failure
from hushdoc.system.progress import Progress

Answer = TypeVar("Answer")
Item = Document | str | os.PathLike[str] | Callable[[], Document]
"""A document, the path of a file that `hushdoc.open_document` reads, or a function that returns a
document, such as `partial(open_document, path, password=...)`; the worker that answers calls it."""

_ITEMS = "documents, paths of files, or functions that return a document"

LOOK_AHEAD = 2
"""Documents that are held for each worker: the one it reads and the one it reads next."""


def open_path(path: str | os.PathLike[str], *, reader: str = "here") -> Document:
    """Returns the document in a file."""
    # Readers take longer to load than a table of hashed features.
    from hushdoc.reading.opening import open_document

    return open_document(path, reader=reader)


def opener(
    reader: str, opened: Callable[..., Document] = open_path
) -> Callable[[str | os.PathLike[str]], Document]:
    """Returns what opens paths by this reader; ValueError where there is none of its name."""
    return partial(opened, reader=arguments.choice(reader, READERS, what="reader"))


def answers(
    documents: Iterable[Item],
    answer: Callable[[Document], Answer],
    *,
    workers: int = 1,
    on_error: Literal["raise", "collect"] = "raise",
    progress: bool = False,
    opened: Callable[[str | os.PathLike[str]], Document] = open_path,
) -> Iterator[Answer | Failure]:
    """Yields one answer for each document, in their order, as soon as it is known.

    Closing the iterator, or an interrupt, drops what no worker has begun and waits for the rest.

    The arguments are those of `extract_many`; wrong ones raise before any document is taken.
    `documents` is iterated over in the caller's thread, which with one worker reads them too;
    `answer` is called by as many threads at once as there are workers, and `opened` opens paths.
    """
    arguments.choice(on_error, ("raise", "collect"), what="on_error")
    arguments.integer(workers, what="workers")
    attempt = partial(_attempt, answer=answer, opened=opened, collect=on_error == "collect")
    numbered = enumerate(arguments.each(documents, what="What should be documents", of=_ITEMS))
    found = (
        (attempt(item) for item in numbered)
        if workers == 1
        else _side_by_side(numbered, attempt, workers=workers)
    )
    if not progress:
        return found
    total = len(documents) if isinstance(documents, Sized) else None
    return _reported(found, total, sys.stderr)


def _attempt(
    numbered: tuple[int, Item],
    *,
    answer: Callable[[Document], Answer],
    opened: Callable[[str | os.PathLike[str]], Document],
    collect: bool,
) -> Answer | Failure:
    number, item = numbered
    try:
        return answer(_document(item, number, opened))
    except HushdocError as error:
        if not collect:
            raise
        return Failure(document_id=_name(item, number), error=error)


def document_of(
    item: object, opened: Callable[[str | os.PathLike[str]], Document] = open_path
) -> Document:
    """Returns the document that an Item is, names or makes; InputError for anything else."""
    return required(_resolved(item, opened))


def _resolved(item: object, opened: Callable[[str | os.PathLike[str]], Document]) -> object:
    if isinstance(item, str | os.PathLike):
        return opened(item)
    return item() if callable(item) and not isinstance(item, type) else item


def _document(
    item: object, number: int, opened: Callable[[str | os.PathLike[str]], Document]
) -> Document:
    found = _resolved(item, opened)
    if isinstance(found, Document):
        return found
    raise InputError(
        f"Item {number} of the documents is {arguments.described(found)}; expected a Document, the "
        "path of a file, or a function that returns a Document. Leave it out, or open it with "
        "hushdoc.open_document."
    )


def _name(item: object, number: int) -> str:
    if isinstance(item, Document):
        return item.id
    if isinstance(item, str | os.PathLike):
        return arguments.as_text(os.fsdecode(item))
    return f"item {number}"


@dataclass(frozen=True)
class _Raised:
    """What a worker raised instead of an answer."""

    error: BaseException


def _side_by_side(
    documents: Iterable[tuple[int, Item]],
    attempt: Callable[[tuple[int, Item]], Answer | Failure],
    *,
    workers: int,
) -> Generator[Answer | Failure]:
    # Executors, futures and `threading.Thread` hold locks between lines of Python: where Ctrl-C
    # comes just then, nobody gives them back, and all wait for ever. What is used here has none.
    source = iter(documents)
    broken: BaseException | None = None
    given: SimpleQueue[tuple[tuple[int, Item], SimpleQueue[Answer | Failure | _Raised]] | None]
    given = SimpleQueue()
    pending: deque[SimpleQueue[Answer | Failure | _Raised]] = deque()
    working: list[_thread.LockType] = []  # a lock for each thread, which has it until its end
    process = os.getpid()

    def work(ending: _thread.LockType) -> None:
        while (task := given.get()) is not None:
            item, told = task
            try:
                told.put(attempt(item))
            except BaseException as error:
                told.put(_Raised(error))
            del task, item, told
        given.put(None)  # for the next one
        ending.release()

    def end() -> None:
        if os.getpid() != process:
            return  # a fork has none of the threads
        with suppress(Empty):
            while True:
                given.get_nowait()
        given.put(None)
        for ending in working:
            with ending:
                pass

    atexit.register(end)  # of an iterator that nobody closes
    try:
        more = True
        while more or pending:
            while more and len(pending) < LOOK_AHEAD * workers:
                try:
                    item = next(source)
                except StopIteration:
                    more = False
                except Exception as error:  # raised in its place, after the answers before it
                    broken, more = error, False
                else:
                    pending.append(SimpleQueue())
                    given.put((item, pending[-1]))
                    if len(working) < workers:
                        ending = _thread.allocate_lock()
                        ending.acquire()
                        _thread.start_new_thread(work, (ending,))
                        working.append(ending)
            if pending:
                found = pending.popleft().get()
                if isinstance(found, _Raised):
                    raise found.error
                yield found
    finally:
        end()
        atexit.unregister(end)
    if broken is not None:
        raise broken


def _reported(
    found: Generator[Answer | Failure], total: int | None, stream: TextIO
) -> Generator[Answer | Failure]:
    """Passes answers on and reports how many there were."""
    progress = Progress(total, stream)
    try:
        for answer in found:
            progress.count(failed=isinstance(answer, Failure))
            yield answer
    finally:
        found.close()
        progress.close()
