"""What a run needs to be killed at any moment and go on: charges, states, Ctrl-C that waits.

A state is a folder that appears whole or not at all: written beside, synced, renamed. It holds
weights, buffers, the optimizer's state and numbers; sampling and noise have no state to keep,
because a resumed run draws fresh coins and fresh noise and pays for them again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from hushdoc import files
from hushdoc.errors import CheckpointError

if TYPE_CHECKING:  # folders of runs are looked into where torch is not installed
    import torch
    from torch import nn

STATE = "state.safetensors"
_GROUPS = "optimizer"
_PARTIAL = re.compile(r"\..+\.[0-9a-f]{8}\.partial")


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Yields a question: has Ctrl-C been pressed? A second press stops at once."""
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    try:
        previous = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread: whoever runs it keeps its own handling
        yield lambda: False
        return
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, previous)


def save(
    folder: Path,
    step: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    """Writes the state after a step and removes older ones.

    Args:
        folder: Of the run; states stand in it side by side until one is whole.
        step: The last step that is in it.
        model: Its parameters and buffers.
        optimizer: Its state and its groups' numbers.

    Raises:
        OutputWriteError: The disk is full; the last saved state stays.
    """
    from safetensors.torch import save_file

    target = folder / f"state-{step:08d}"
    if target.exists():
        return
    words = {_GROUPS: json.dumps(_numbers(optimizer))}
    try:
        with files.new_folder(target) as partial:
            save_file(_tensors(model, optimizer), partial / STATE, metadata=words)
    except Exception as error:
        if isinstance(error, OSError) or "No space left" in str(error):
            cause = error if isinstance(error, OSError) else OSError(28, str(error))
            raise files.not_written(target, cause) from error
        raise
    for old in sorted(folder.glob("state-*"))[:-1]:
        shutil.rmtree(old, ignore_errors=True)


def restore(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> bool:
    """Loads the newest state and returns whether there was one.

    Args:
        folder: Of the run.
        model: As it was when the run began.
        optimizer: Over the same parameters.

    Raises:
        CheckpointError: The state can't be read, or is another model's.
    """
    import torch
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file

    states = sorted(folder.glob("state-*"))
    if not states:
        return False
    path = states[-1] / STATE
    try:
        tensors = load_file(path)
        with safe_open(path, framework="pt") as opened:
            words = opened.metadata() or {}
        with torch.no_grad():
            for name, value in model.named_parameters():
                value.copy_(tensors[f"model.{name}"])
            for name, buffer in model.named_buffers():
                buffer.copy_(tensors.get(f"model.{name}", buffer))
        _restore_optimizer(optimizer, tensors, json.loads(words.get(_GROUPS, "[]")))
        return True
    except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"The saved state '{states[-1]}' can't be read: {error}. Start a new run in another "
            "folder; what this one spent stays spent."
        ) from error


def clear_partial(folder: Path, *, only: str = ".") -> None:
    """Removes what a killed process was about to write and never named.

    Args:
        folder: Of the run.
        only: How the names begin that are removed.
    """
    if not folder.is_dir():
        return
    for found in folder.iterdir():
        if found.name.startswith(only) and _PARTIAL.fullmatch(found.name):
            remove: Callable[[Path], None] = shutil.rmtree if found.is_dir() else Path.unlink
            remove(found)


def discard_states(folder: Path) -> None:
    """Removes what only a resumed run would need."""
    for state in folder.glob("state-*"):
        shutil.rmtree(state, ignore_errors=True)


class Charges:
    """A file with a line for every step, on the disk before that step's records are drawn."""

    def __init__(self, path: Path) -> None:
        """Opens the file, new or old.

        Raises:
            CheckpointError: A line is no number; a last one that a crash cut is.
            OutputWriteError: It can't be written.
        """
        self._path = path
        content = path.read_bytes() if path.exists() else b"0"
        if not content.endswith(b"\n"):  # new, or cut by a crash: a cut charge counts
            whole = content[: content.rfind(b"\n") + 1]
            content = whole + b"%d\n" % (_last(whole, path) + 1 if whole else 0)
            files.write_file(path, content)
        self.charged = _last(content, path)

    def charge(self, step: int) -> None:
        """Charges a step for good.

        Raises:
            OutputWriteError: The disk is full or not writable.
        """
        try:
            with self._path.open("ab") as stream:
                stream.write(b"%d\n" % step)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise files.not_written(self._path, error) from error
        self.charged = step


def _last(content: bytes, path: Path) -> int:
    try:
        return max((int(line) for line in content.split()), default=0)
    except ValueError as error:
        raise CheckpointError(
            f"'{path}' holds a line that is no step ({error}). Restore the file, or start a new "
            "run in another folder; what this one spent stays spent."
        ) from error


def _tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    import torch

    # Cloned, because buffers may share memory, which the format refuses.
    tensors = {
        f"model.{name}": value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in (*model.named_parameters(), *model.named_buffers())
    }
    for index, state in optimizer.state_dict()["state"].items():
        for name, value in state.items():
            if value is not None:
                tensors[f"optimizer.{index}.{name}"] = torch.as_tensor(value).cpu().contiguous()
    return tensors


def _numbers(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    plain = (int, float, bool, str, type(None))
    return [
        {name: value for name, value in group.items() if isinstance(value, plain)}
        for group in optimizer.param_groups
    ]


def _restore_optimizer(
    optimizer: torch.optim.Optimizer,
    tensors: Mapping[str, torch.Tensor],
    numbers: list[dict[str, Any]],
) -> None:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        kind, _, rest = key.partition(".")
        if kind == "optimizer":
            index, _, name = rest.partition(".")
            state.setdefault(int(index), {})[name] = value
    stored = optimizer.state_dict()
    groups = [dict(group) for group in stored["param_groups"]]
    for group, known in zip(groups, numbers, strict=False):
        group.update(known)
    optimizer.load_state_dict({"state": state, "param_groups": groups})
