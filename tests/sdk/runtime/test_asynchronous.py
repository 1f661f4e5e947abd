"""Awaited answers: the loop goes on, few calls run at once, and a cancelled one is never begun."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import hushdoc_tiny as tiny
import pytest

import hushdoc
from hushdoc.document.document import Document
from hushdoc.errors import EmptyDocumentError, ModelClosedError
from hushdoc.runtime import asynchronous

PAGE = Document.from_words(["Total", "12.50"], [(1, 2, 30, 9), (40, 2, 80, 9)], width=90, height=40)


def loaded(name: str) -> Any:
    return hushdoc.load(tiny.artifact_of(name), policy=tiny.policy())


@pytest.mark.parametrize(
    ("name", "method", "asked"),
    [
        ("fields", "extract", PAGE),
        ("clauses", "extract", PAGE),
        ("table of classes", "classify", PAGE),
        ("vectors", "embed", PAGE),
        ("vectors", "embed", "two words"),
        ("vectors", "embed_texts", ["one", "two"]),
    ],
)
def test_an_awaited_answer_is_the_answer(name: str, method: str, asked: Any) -> None:
    model = loaded(name)

    async def together() -> list[Any]:
        return await asyncio.gather(*(getattr(model, f"a{method}")(asked) for _ in range(5)))

    assert asyncio.run(together()) == [getattr(model, method)(asked)] * 5
    assert asyncio.run(together())  # in another loop


def test_errors_are_those_of_the_call_and_others_go_on() -> None:
    model = loaded("clauses")
    empty = Document(id="e", pages=(), text=" ")

    async def together() -> list[Any]:
        asked = (model.aextract(item) for item in (PAGE, empty, "gone.pdf", PAGE))
        return await asyncio.gather(*asked, return_exceptions=True)

    first, failed, gone, last = asyncio.run(together())
    assert first == last == model.extract(PAGE)
    assert isinstance(failed, EmptyDocumentError)
    assert isinstance(gone, hushdoc.InputError)
    model.close()
    with pytest.raises(ModelClosedError):
        asyncio.run(model.aextract(PAGE))


def test_the_loop_goes_on_and_only_so_many_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asynchronous, "usable_cores", lambda: 3)
    running, most, threads = 0, 0, set()
    lock, ticks = threading.Lock(), 0

    def call() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            threads.add(threading.current_thread().name)
        time.sleep(0.05)
        with lock:
            running -= 1

    async def count() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.005)

    async def together() -> None:
        clock = asyncio.ensure_future(count())
        await asyncio.gather(*(asynchronous.in_thread(call) for _ in range(9)))
        clock.cancel()

    with_own_threads(lambda: asyncio.run(together()))
    assert most == 3
    assert ticks > 3
    assert threading.current_thread().name not in threads


def test_a_call_that_is_cancelled_while_it_waits_is_never_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asynchronous, "usable_cores", lambda: 1)
    begun: list[int] = []
    free = threading.Event()

    def call(number: int) -> int:
        begun.append(number)
        assert free.wait(60)
        return number

    async def together() -> list[Any]:
        calls = [
            asyncio.ensure_future(asynchronous.in_thread(lambda number=number: call(number)))
            for number in range(4)
        ]
        while len(begun) < 2:
            await asyncio.sleep(0.001)
        calls[1].cancel()  # runs, and ends
        calls[3].cancel()  # waits, and never begins
        await asyncio.sleep(0)
        free.set()
        return await asyncio.gather(*calls, return_exceptions=True)

    found = with_own_threads(lambda: asyncio.run(together()))
    assert [type(item) for item in found] == [int, asyncio.CancelledError] * 2
    assert sorted(begun) == [0, 1, 2]


def with_own_threads(run: Callable[[], Any]) -> Any:
    """Returns what a function returns that gets threads of its own."""
    asynchronous._threads.cache_clear()
    try:
        return run()
    finally:
        asynchronous._threads().shutdown()
        asynchronous._threads.cache_clear()


def test_a_source_that_is_exhausted_keeps_nobody_waiting() -> None:
    documents: Iterator[Document] = iter(())
    asked = asynchronous.in_thread(lambda: next(documents))
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        asyncio.run(asyncio.wait_for(asked, 20))


def test_context_variables_are_those_of_the_caller() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")

    async def ask() -> str:
        name.set("mine")
        return await asynchronous.in_thread(name.get)

    assert asyncio.run(ask()) == "mine"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_answers_with_threads_of_its_own() -> None:
    model = loaded("clauses")
    asyncio.run(model.aextract(PAGE))
    child = os.fork()
    if child == 0:
        os._exit(0 if asyncio.run(asyncio.wait_for(model.aextract(PAGE), 60)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
