"""What the drivers that kill private training share: processes, and witnesses of their noise."""

from __future__ import annotations

import hashlib
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hushdoc_training.randomness.secret_stream import Floats, SecretStream


def fork(action: Callable[[], object]) -> int:
    """Runs an action in a child, which ends with status 1 where the action raises."""
    process = os.fork()
    if process:
        return process
    try:
        action()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def alive(process: int) -> bool:
    """Asks without taking the process's status from who waits for it later."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


class WitnessedNoise(SecretStream):
    """Noise that is witnessed before and after it is drawn.

    One line before every draw and a digest of what was drawn after it, by os.write to a file in
    append mode, which a kill can't take back.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def lattice_noise(self, shape: tuple[int, ...], **law: Any) -> Floats:
        os.write(self._descriptor, b"draw\n")
        noise = super().lattice_noise(shape, **law)
        # A shard may be one number, and among hundreds of integers two are alike one day. With four
        # more words of the stream, only a stream that is drawn again repeats itself.
        digest = hashlib.sha256(noise.tobytes() + self.bits(4).tobytes()).hexdigest()
        os.write(self._descriptor, f"{digest}\n".encode())
        return noise


def draws(witness: Path) -> int:
    """Returns how often noise was drawn, none of it twice."""
    lines = witness.read_text().splitlines() if witness.exists() else []
    values = [line for line in lines if line != "draw"]
    assert len(set(values)) == len(values), "noise was drawn twice"
    return lines.count("draw")
