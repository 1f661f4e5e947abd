"""Secret randomness in numpy: normals and choices that nobody who sees a table can draw again.

AES-256 in counter mode, keyed by the operating system, gives uniform bits; the Box-Muller transform
(1958) makes them normal in double precision. Whoever could predict them could subtract the noise of
a filled table and tell made-up rows from genuine ones, so no setting fixes the key: tests pass one
through a door of their own.
"""

from __future__ import annotations

import math
import os

import numpy as np
import numpy.typing as npt

RNG = "AES-256-CTR keyed by the operating system; Box-Muller on 53-bit uniforms"

Floats = npt.NDArray[np.float64]

_BLOCK = 1 << 15
"""Pairs of normals made at once: their arrays stay in the cache of one core."""


class SecretStream:
    """An endless stream of uniforms, normals and choices."""

    def __init__(self, *, key: bytes | None = None) -> None:
        """Starts a stream.

        Args:
            key: 32 bytes, for tests alone; by default fresh from the operating system.
        """
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        cipher = Cipher(algorithms.AES(key or os.urandom(32)), modes.CTR(bytes(16)))
        self._encryptor = cipher.encryptor()

    def uniforms(self, count: int) -> Floats:
        """Returns numbers above 0 and up to 1, of 53 random bits each."""
        bits = np.frombuffer(self._encryptor.update(bytes(8 * count)), dtype=np.uint64)
        values = (bits >> np.uint64(11)).astype(np.float64)
        values += 1.0
        values *= 2.0**-53
        return values

    def choices(self, count: int, among: int) -> npt.NDArray[np.int64]:
        """Returns numbers from 0 to `among` - 1, each as likely as the others to within 2**-53."""
        return np.ceil(self.uniforms(count) * among).astype(np.int64) - 1

    def draws(self, count: int, chances: Floats) -> npt.NDArray[np.int64]:
        """Returns numbers of the given chances, which add up to 1, each to within 2**-52.

        Example:
            >>> SecretStream().draws(3, np.array([0.0, 1.0, 0.0])).tolist()
            [1, 1, 1]
        """
        ends = np.cumsum(chances)
        # A chance of 0 is never met: uniforms are above 0, and the last end is no less than any.
        return np.searchsorted(ends, self.uniforms(count) * ends[-1]).astype(np.int64)

    def normals(self, shape: tuple[int, ...]) -> Floats:
        """Returns independent standard normals.

        Example:
            >>> SecretStream(key=bytes(32)).normals((2, 3)).shape
            (2, 3)
        """
        total = math.prod(shape)
        made = np.empty(total)
        for start in range(0, total, 2 * _BLOCK):
            part = made[start : start + 2 * _BLOCK]
            pairs = (len(part) + 1) // 2
            radius = np.sqrt(-2.0 * np.log(self.uniforms(pairs)))
            angle = self.uniforms(pairs)
            angle *= 2.0 * math.pi
            np.multiply(radius, np.cos(angle), out=part[:pairs])
            part[pairs:] = (radius * np.sin(angle))[: len(part) - pairs]
        return made.reshape(shape)
