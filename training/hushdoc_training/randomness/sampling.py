"""Poisson sampling of records: every record joins every step on its own coin.

This is what the accountant assumes. A shuffled pass over the data is not: for the setting that
holds epsilon 7 under Poisson sampling, shuffled batches hold 23.5.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hushdoc.errors import PrivacyError

Uniforms = Callable[[int], npt.NDArray[np.float64]]


def system_uniforms(count: int) -> npt.NDArray[np.float64]:
    """Returns uniforms in [0, 1) with 53 random bits from the operating system."""
    return _uniforms(os.urandom(8 * count))


class SharedCoins:
    """Uniforms that every process with the secret draws alike, and nobody else can foretell.

    Processes that train one model together need the same draw without sending it around: AES-256
    in counter mode, keyed by a secret that one of them took from the operating system.

    Example:
        >>> SharedCoins(bytes(32))(2).tolist() == SharedCoins(bytes(32))(2).tolist()
        True
    """

    def __init__(self, secret: bytes) -> None:
        """Starts the stream.

        Args:
            secret: 32 bytes.
        """
        self._process = os.getpid()
        self._encryptor = Cipher(algorithms.AES(secret), modes.CTR(bytes(16))).encryptor()

    def __call__(self, count: int) -> npt.NDArray[np.float64]:
        """Returns the next uniforms in [0, 1).

        Raises:
            PrivacyError: The process was forked, so that its parent draws the same.
        """
        if self._process != os.getpid():
            raise PrivacyError(
                "This process was forked from one that trains with others, and would draw the same "
                "records as it. Begin training in the process that trains."
            )
        return _uniforms(self._encryptor.update(bytes(8 * count)))


def poisson_sample(
    num_records: int, sampling_rate: float, *, uniforms: Uniforms = system_uniforms
) -> list[int]:
    """Returns the records of one step; often more or fewer than expected, sometimes none.

    Args:
        num_records: How many records there are.
        sampling_rate: Probability of each to be drawn, from 0 to 1.
        uniforms: Source of uniforms in [0, 1); tests pass their own.
    """
    return [int(index) for index in np.flatnonzero(uniforms(num_records) < sampling_rate)]


def _uniforms(content: bytes) -> npt.NDArray[np.float64]:
    bits = np.frombuffer(content, dtype=np.uint64)
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53, dtype=np.float64)
