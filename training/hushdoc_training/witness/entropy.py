"""Entropy in a witness's hands: what the operating system gives, replaced, and what follows of it.

A run whose draws follow the operating system and nothing else draws the same from equal entropy.
The derivation of coins is written down here once more, on purpose: AES-256 in counter mode, keyed
by 32 bytes; each record's coin is the next 64-bit word, of which the first 53 bits count, above 0
and up to 1.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from hushdoc.errors import PrivacyError

KEY_BYTES = 32
CLOSE = 1e-3
"""How far from the sampling rate a coin may fall, relative to it, to test where the draw ends."""

_MOST_KEYS = 3_000_000

Coins = npt.NDArray[np.float64]


class Entropy:
    """Stands for `os.urandom`: a known stream; `keys` are the n-th answers of KEY_BYTES bytes."""

    def __init__(self, seed: int, keys: Mapping[int, bytes] | None = None) -> None:
        """Begins a stream that the seed names."""
        self._seed, self._keys = seed, dict(keys or {})
        self._asked = self._keys_asked = 0

    def __call__(self, count: int) -> bytes:
        """Returns the next bytes."""
        self._asked += 1
        if count == KEY_BYTES:
            self._keys_asked += 1
            if (key := self._keys.get(self._keys_asked - 1)) is not None:
                return key
        return hashlib.shake_256(f"witness {self._seed} {self._asked}".encode()).digest(count)


@contextmanager
def replaced(entropy: Callable[[int], bytes]) -> Iterator[None]:
    """Answers `os.urandom` from `entropy` inside the block."""
    real = os.urandom
    os.urandom = entropy
    try:
        yield
    finally:
        os.urandom = real


def coins(key: bytes, count: int) -> Coins:
    """Returns the first coins that a key gives."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(8 * count))
    words = np.frombuffer(stream, dtype="<u8") >> np.uint64(11)
    return (words.astype(np.float64) + 1.0) * 2.0**-53


def key_with(
    count: int, wanted: Callable[[Coins], bool], *, what: str, most: int = _MOST_KEYS
) -> bytes:
    """Returns a key whose first coins are as wanted."""
    for number in range(most):
        key = hashlib.blake2b(number.to_bytes(8), digest_size=KEY_BYTES).digest()
        if wanted(coins(key, count)):
            return key
    raise PrivacyError(
        f"Among {most} keys none has {what}. Witness the command at a larger sampling rate."
    )


def just_below(rate: float, coin: float) -> bool:
    """Whether a coin draws its record, and hardly."""
    return rate * (1 - CLOSE) <= coin <= rate


def just_above(rate: float, coin: float) -> bool:
    """Whether a coin leaves its record out, and hardly."""
    return rate < coin <= rate * (1 + CLOSE)
