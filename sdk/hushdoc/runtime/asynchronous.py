"""Calls that asyncio waits for: each runs in one of a few threads, not in the event loop's."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from hushdoc.system.cores import usable_cores

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Answer = TypeVar("Answer")

LEAST_THREADS = 2
"""So that one long document does not keep all others waiting on a machine of one core."""


async def in_thread(call: Callable[[], Answer]) -> Answer:
    """Returns what a call returns; the calls beyond the threads wait, first come, first served.

    A call that is cancelled while it waits is never begun. One that runs goes on to its end, as a
    thread can't be stopped; its answer is dropped.
    """
    import asyncio

    def called() -> Answer:
        try:
            return call()
        except StopIteration as error:  # as of `next`; no future takes it, so none would end
            raise RuntimeError("the call raised StopIteration") from error

    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_threads(), context.run, called)


@cache
def _threads() -> ThreadPoolExecutor:
    # Loading this takes longer than loading a table of hashed features.
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(
        max(LEAST_THREADS, usable_cores()), thread_name_prefix="hushdoc-asyncio"
    )


if hasattr(os, "register_at_fork"):
    # A child process has none of its parent's threads, and would wait for them forever.
    os.register_at_fork(after_in_child=_threads.cache_clear)
