"""Work: what runs in threads, how much of it waits, and when a client is asked to come again."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

from hushdoc.server.limits import Limits
from hushdoc.server.problems import RequestRefusedError

Answer = TypeVar("Answer")


class ClientGoneError(Exception):
    """Says that nobody waits for an answer any more."""


def timed_out(limits: Limits) -> RequestRefusedError:
    """Returns the error of an answer that takes too long (ANSWER_TIMEOUT)."""
    return RequestRefusedError(
        f"Answering took more than {limits.answer_seconds:g} seconds. Send fewer pages at once.",
        code="ANSWER_TIMEOUT",
        status=HTTPStatus.GATEWAY_TIMEOUT,
    )


class Work:
    """The threads that read and answer documents, and the queue before them.

    Attributes:
        running: Calls that run.
        waiting: Calls that wait for a thread.
        held_bytes: Bytes of bodies in memory.
    """

    def __init__(self, limits: Limits) -> None:
        """Starts no thread yet; to be called in the event loop that asks."""
        self.running = self.waiting = self.held_bytes = 0
        self._limits = limits
        self._free = asyncio.Semaphore(limits.concurrency)
        self._threads = ThreadPoolExecutor(limits.concurrency, thread_name_prefix="hushdoc-serve")
        self._mean_seconds = 1.0

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Yields what counts the bytes of a body, which are given back at the end of the block."""
        held = 0

        def count(number: int) -> None:
            nonlocal held
            if self.held_bytes + number > self._limits.max_held_bytes:
                raise self._busy("holds as many documents as its memory allows")
            held += number
            self.held_bytes += number

        try:
            yield count
        finally:
            self.held_bytes -= held

    async def run(
        self,
        call: Callable[[], Answer],
        *,
        is_gone: Callable[[], Awaitable[bool]],
        patient: bool = False,
    ) -> Answer:
        """Returns what a call returns, once it had its turn; a `patient` one waits in any queue.

        A thread can't be stopped: a call that takes too long goes on, keeps its place until it
        ends, and its answer is dropped.
        """
        if self._free.locked() and self.waiting >= self._limits.queue and not patient:
            raise self._busy(f"has {self.waiting} requests waiting")
        self.waiting += 1
        try:
            await asyncio.wait_for(self._free.acquire(), self._limits.answer_seconds)
        except TimeoutError as error:
            raise self._busy("had no time for this request") from error
        finally:
            self.waiting -= 1
        loop = asyncio.get_running_loop()
        try:
            if await is_gone():
                raise ClientGoneError
            began = time.monotonic()
            future = self._threads.submit(call)
        except BaseException:
            self._free.release()
            raise
        self.running += 1
        answer: asyncio.Future[Answer] = loop.create_future()
        future.add_done_callback(partial(self._note_end, loop, answer, began))
        try:
            return await asyncio.wait_for(answer, self._limits.answer_seconds)
        except TimeoutError as error:
            if not answer.cancelled():  # the call itself raised it
                raise
            raise timed_out(self._limits) from error

    def close(self) -> None:
        """Ends the threads once what they run has ended."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _note_end(
        self,
        loop: asyncio.AbstractEventLoop,
        answer: asyncio.Future[Any],
        began: float,
        done: Future[Any],
    ) -> None:
        with suppress(RuntimeError):  # the server ended meanwhile
            loop.call_soon_threadsafe(self._ended, answer, began, done)

    def _ended(self, answer: asyncio.Future[Any], began: float, done: Future[Any]) -> None:
        # The place is free before anybody hears the answer, and so before they ask again.
        self.running -= 1
        self._free.release()
        self._mean_seconds += 0.1 * (time.monotonic() - began - self._mean_seconds)
        if done.cancelled():
            answer.cancel()
        elif not answer.done():  # somebody still waits
            error = done.exception()
            if error is None:
                answer.set_result(done.result())
            else:
                answer.set_exception(error)

    def _busy(self, why: str) -> RequestRefusedError:
        ahead = (self.waiting + self.running) / self._limits.concurrency
        seconds = max(1, math.ceil(ahead * self._mean_seconds))
        return RequestRefusedError(
            f"The server {why}. Come again in {seconds} seconds.",
            code="BUSY",
            status=HTTPStatus.TOO_MANY_REQUESTS,
            headers={"Retry-After": str(seconds)},
        )
