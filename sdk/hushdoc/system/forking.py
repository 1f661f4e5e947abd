"""Forks: no lock stays locked in a forked process, and none is made in the middle of native code.

A forked process has the forking thread alone. A lock that another thread held is never released
there, and a library that another thread was inside of stays as it was. So locks are renewed, a fork
waits until other threads have left native code and imported what they import for us, and native
code for which it waited in vain is not used again.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from weakref import WeakSet

from hushdoc.errors import HushdocError

WAIT_SECONDS = 10.0
"""How long a fork waits for other threads to leave native code: pages and runs take less."""

_LOOK_SECONDS = 0.001

_locks: WeakSet[Lock] = WeakSet()
_kept: WeakSet[Any] = WeakSet()


class Lock:
    """A reentrant lock that is free in a forked process unless the forking thread holds it.

    With the name of a library it is held for that library's native code, as `native` says.
    """

    def __init__(self, library: str | None = None) -> None:
        """Begins free."""
        self._library = library
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        """Waits for the lock; HushdocError (FORKED_IN_USE) as `native`."""
        self._lock.acquire()
        try:
            if self._library is not None:
                _enter(self._library)
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        """Gives it back."""
        if self._library is not None:
            _leave()
        self._lock.release()

    def renew(self) -> None:
        """Frees it from threads that are not there any more."""
        # Owned by the thread that forked: it goes on, and gives it back.
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            self._lock = threading.RLock()


def keep(thing: object) -> None:
    """Has forked processes never destroy something: it would wait for threads that aren't there."""
    _kept.add(thing)


class _Gate:
    """Which threads are inside which native code, and whether one of them forks."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.inside: dict[int, list[str]] = {}
        self.alone: dict[str, int] = {}  # libraries that a thread has, or waits for, by itself
        self.forking = 0

    def is_free(self, library: str, thread: int) -> bool:
        """Returns whether a thread may enter a library now."""
        if self.forking and thread not in self.inside:
            return False
        if library not in self.alone:
            return True
        others = [names for other, names in self.inside.items() if other != thread]
        return self.alone[library] == thread and not any(library in names for names in others)


_gate = _Gate()
_torn: set[str] = set()


@contextmanager
def native(library: str, *, alone: bool = False) -> Iterator[None]:
    """Holds off forks by other threads while native code runs; `alone`, also other threads' runs.

    Raises:
        HushdocError: This process was forked while another thread was inside (FORKED_IN_USE).
    """
    _enter(library, alone=alone)
    try:
        yield
    finally:
        _leave()


def _enter(library: str, *, alone: bool = False) -> None:
    if library in _torn:
        raise HushdocError(
            f"This process was forked while another thread used {library}, whose state is unknown "
            "since. Fork before threads begin, start processes by spawn or forkserver, or load the "
            'model, and read with reader="process", in the new process.',
            code="FORKED_IN_USE",
        )
    thread = threading.get_ident()
    with _gate.condition:
        if alone:
            _gate.condition.wait_for(lambda: library not in _gate.alone)
            _gate.alone[library] = thread
        try:
            _gate.condition.wait_for(lambda: _gate.is_free(library, thread))
        except BaseException:
            _end_alone(library, thread)
            raise
        _gate.inside.setdefault(thread, []).append(library)


def _leave() -> None:
    thread = threading.get_ident()
    with _gate.condition:
        library = _gate.inside[thread].pop()
        if not _gate.inside[thread]:
            del _gate.inside[thread]
        _end_alone(library, thread)


def _end_alone(library: str, thread: int) -> None:
    if _gate.alone.get(library) == thread:
        del _gate.alone[library]
    _gate.condition.notify_all()


def _before() -> None:
    thread = threading.get_ident()
    until = time.monotonic() + WAIT_SECONDS
    with _gate.condition:
        _gate.forking += 1
        while _gate.inside.keys() - {thread} and time.monotonic() < until:
            _gate.condition.wait(until - time.monotonic())
    while _is_importing(thread) and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)


def _is_importing(forking: int) -> bool:
    """Returns whether another thread imports what our code asks for: Python renews no such lock."""
    locks = tuple(getattr(importlib._bootstrap, "_module_locks", {}).values())
    owners = {getattr(found(), "owner", None) for found in locks} - {None, forking}
    frames = sys._current_frames() if owners else {}
    return any(_is_ours(frame) for thread, frame in frames.items() if thread in owners)


def _is_ours(frame: FrameType | None) -> bool:
    """Returns whether a function of ours is among those that a thread is in."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("hushdoc"):
            return True
        frame = frame.f_back
    return False


def _in_parent() -> None:
    with _gate.condition:
        _gate.forking -= 1
        _gate.condition.notify_all()


def _in_child() -> None:
    global _gate
    thread, inside, alone = threading.get_ident(), _gate.inside, _gate.alone
    _torn.update(name for other, names in inside.items() if other != thread for name in names)
    _gate = _Gate()
    if thread in inside:
        _gate.inside[thread] = inside[thread]
        _gate.alone = {name: owner for name, owner in alone.items() if owner == thread}
    for lock in tuple(_locks):
        lock.renew()
    for thing in tuple(_kept):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
