"""What a run needs to be killed at any moment and go on: states, a lock, Ctrl-C that waits.

A state is a folder that appears whole or not at all: written beside, synced, renamed. It holds
weights, buffers, the optimizer's state and numbers; sampling and noise have no state to keep,
because a resumed run draws fresh coins and fresh noise and pays for them again.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from hushdoc.errors import CheckpointError, OutputWriteError, PrivacyError
from hushdoc.system import atomic_files, locks, terminals

if TYPE_CHECKING:  # folders of runs are looked into where torch is not installed
    import torch
    from torch import nn

    from hushdoc_training.privacy.process_group import Group
    from hushdoc_training.runs import gathering

STATE = "state.safetensors"
_STATES = 8  # times a model: weights and two moments of each, of two states, and the checkpoint
_GROUPS, _RECEIPT = "optimizer", "receipt"
_PARTIAL = re.compile(r"\..+\.[0-9a-f]{8}\.partial")


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Yields a question: has Ctrl-C been pressed? A second press stops at once.

    SIGTERM counts as that: it is what machines send that are about to be taken away.
    """
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        terminals.show_briefly("Finishing this step, then saving; Ctrl-C again stops at once ...")

    try:
        previous = {one: signal.signal(one, note) for one in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: the embedding program keeps its own handling
        yield lambda: False
        return
    try:
        yield lambda: pressed
    finally:
        for one, handler in previous.items():
            signal.signal(one, handler)


def require_room(folder: Path, model: nn.Module) -> None:
    """Raises OutputWriteError where the disk has no room for a state beside another, and the end.

    A run that learns of it by its first state has spent its budget for nothing.
    """
    tensors = (*model.parameters(), *model.buffers())
    needed = _STATES * sum(value.numel() * value.element_size() for value in tensors)
    require_bytes(folder, needed, advice="go on with --resume; this process charged nothing")


def require_bytes(folder: Path, needed: int, *, advice: str) -> None:
    """Raises OutputWriteError where the disk that a folder stands or will stand on has less."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    free = shutil.disk_usage(there).free
    if free < needed:
        raise OutputWriteError(
            f"'{folder}' stands on a disk with {free / 1e6:.0f} MB left, and this training writes "
            f"up to {needed / 1e6:.0f} MB there. Free some space and {advice}."
        )


def save(
    folder: Path,
    step: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    group: Group | None = None,
    *,
    receipt: str = "",
) -> None:
    """Writes the state after a step and removes older ones; on a full disk the last one stays.

    With it goes the receipt of the steps that led there, of a private training.
    """
    from hushdoc_training.runs import gathering

    group = group or _alone()
    target = folder / f"state-{step:08d}"
    if not gathering.first_finds(group, target.exists):
        whole = gathering.gather(model, optimizer, group)
        group.first_does(lambda: _write(target, whole, receipt))
    # Also where a kill came after this state was written and before the older ones were removed.
    group.first_does(lambda: _remove(sorted(folder.glob("state-*"))[:-1]))


def restore(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    group: Group | None = None,
) -> tuple[int, str]:
    """Loads the newest state and returns its last step, 0 where there is none, and its receipt.

    A state that can't be read, or is another model's, loads nothing.
    """
    from hushdoc_training.runs import gathering

    group = group or _alone()
    found: list[gathering.Whole] = []

    def read() -> tuple[int, str]:
        states = sorted(folder.glob("state-*"))
        if not states:
            return 0, ""
        whole, receipt = _read(states[-1], model, optimizer)
        found.append(whole)
        return int(states[-1].name.removeprefix("state-")), receipt

    step, receipt = gathering.first_finds(group, read)
    if step:
        gathering.give_out(found[0] if found else None, model, optimizer, group)
    return step, receipt


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes out of the block, where the file system knows locks; a kill lets go.

    Two that went on with one run would take the same charged steps twice. The path is a file of the
    run that is never replaced.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError as error:
        raise atomic_files.not_written(path, error) from error
    try:
        if not _lock(descriptor):
            raise PrivacyError(
                f"The run in '{path.parent}' is being trained by another process, and two would "
                "take steps twice that are charged once. Wait for it, or end it; then resume."
            )
        with locks.released(descriptor):
            yield
    finally:
        os.close(descriptor)


def clear_partial(folder: Path, *, only: str = ".") -> None:
    """Removes what a killed process was about to write and never named."""
    if not folder.is_dir():
        return
    for found in folder.iterdir():
        if found.name.startswith(only) and _PARTIAL.fullmatch(found.name):
            remove: Callable[[Path], None] = shutil.rmtree if found.is_dir() else Path.unlink
            remove(found)


def discard_states(folder: Path) -> None:
    """Removes what only a resumed run would need."""
    _remove(folder.glob("state-*"))


def _remove(states: Iterable[Path]) -> None:
    for state in states:
        shutil.rmtree(state, ignore_errors=True)


def _lock(descriptor: int) -> bool:
    """Returns whether the lock is taken; True as well where locks are unknown."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # not POSIX
        return True
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True


def _alone() -> Group:
    from hushdoc_training.privacy.process_group import Group

    return Group(rank=0, size=1)


def _write(target: Path, whole: gathering.Whole, receipt: str) -> None:
    from safetensors.torch import save_file

    words = {_GROUPS: json.dumps(whole.numbers), _RECEIPT: receipt}
    with atomic_files.new_folder(target) as partial:
        save_file(dict(whole.tensors), partial / STATE, metadata=words)


def _read(
    state: Path, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[gathering.Whole, str]:
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file

    from hushdoc_training.runs import gathering

    try:
        tensors = load_file(state / STATE)
        with safe_open(state / STATE, framework="pt") as opened:
            words = opened.metadata() or {}
        whole = gathering.Whole(tensors=tensors, numbers=json.loads(words.get(_GROUPS, "[]")))
        gathering.require_fit(whole, model, optimizer)
        return whole, words.get(_RECEIPT, "")
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"The saved state '{state}' can't be read: {error}. Start a new run in another "
            "folder; what this one spent stays spent."
        ) from error
