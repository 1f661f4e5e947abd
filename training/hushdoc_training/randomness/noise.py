"""Gaussian noise from a cryptographic generator.

Privacy noise must not be predictable: torch's and numpy's generators are not, in the cryptographic
sense. Here AES-256 in counter mode, keyed by the operating system, gives uniform bits, and the
Box-Muller transform (1958) makes them normal in float64. Tests pass a key of their own through
another door (`NoiseStream(key=...)`); no configuration can.
"""

from __future__ import annotations

import math
import os

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

RNG = "AES-256-CTR keyed by the operating system; Box-Muller on 53-bit uniforms"
FLOATING_POINT = (
    "noise drawn in float64, added in float32; rounding is not covered by the guarantee"
)
_BLOCK = 1 << 20  # pairs of normals made at a time, to bound memory


class NoiseStream:
    """An endless stream of independent standard normals, another one in every process.

    A process that was forked would go on with its parent's stream, and noise that is added twice
    cancels: it begins a stream of its own.

    Attributes:
        secret: Whether nobody knows the key.
    """

    def __init__(self, *, key: bytes | None = None) -> None:
        """Starts a stream.

        Args:
            key: 32 bytes, for tests alone; by default fresh from the operating system.
        """
        self.secret = key is None
        self._begin(key or os.urandom(32))

    def normal(self, shape: torch.Size | tuple[int, ...], *, std: float) -> torch.Tensor:
        """Returns float32 noise on the CPU.

        Args:
            shape: Any shape.
            std: Standard deviation, >= 0.
        """
        if self.secret and self._process != os.getpid():
            self._begin(os.urandom(32))
        total = math.prod(shape)
        noise = torch.empty(total, dtype=torch.float32)
        for start in range(0, total, 2 * _BLOCK):
            stop = min(total, start + 2 * _BLOCK)
            noise[start:stop] = self._block((stop - start + 1) // 2).mul_(std)[: stop - start]
        return noise.reshape(shape)

    def _begin(self, key: bytes) -> None:
        self._process = os.getpid()
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def _block(self, pairs: int) -> torch.Tensor:
        bits = np.frombuffer(self._encryptor.update(bytes(16 * pairs)), dtype=np.uint64)
        # (0, 1]: 53 random bits, never zero, so the logarithm is finite.
        uniform = torch.from_numpy(((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-53)
        radius = uniform[:pairs].log_().mul_(-2.0).sqrt_()
        angle = uniform[pairs:].mul_(2.0 * math.pi)
        return torch.cat([radius * angle.cos(), radius * angle.sin()])
