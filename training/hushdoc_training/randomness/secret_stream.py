"""SecretStream: every secret draw, for numpy and torch alike: sampling, noise, filled tables.

Privacy noise must not be predictable: numpy's and torch's own generators are not, in the
cryptographic sense. Here AES-256 in counter mode, keyed by the operating system, gives uniform
bits, and the Box-Muller transform (1958) makes them normal in float64. Whoever could predict them
could subtract the noise, so no setting fixes the key: tests pass one through a door of their own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hushdoc.errors import PrivacyError
from hushdoc_training.receipt import Origin

if TYPE_CHECKING:
    import torch

RNG = "AES-256-CTR keyed by the operating system; Box-Muller on 53-bit uniforms"
FLOATING_POINT = (
    "noise drawn in float64, added in float32; rounding is not covered by the guarantee"
)

Floats = npt.NDArray[np.float64]

_BLOCK = 1 << 15
"""Pairs of normals computed at once: their arrays stay in the cache of one core."""


class SystemKey:
    """A key of 32 bytes that the operating system drew, for the processes that share a stream.

    No caller chooses it; only where it was drawn, it can be pickled to the other processes.
    """

    def __init__(self) -> None:
        """Draws the key."""
        self.content = os.urandom(32)


class SecretStream:
    """An endless stream of independent uniforms, choices and normals.

    A forked process would repeat its parent's stream, and noise that is added twice cancels. So a
    stream keyed by the operating system gets a new key in a forked process, and one whose key was
    given, which has to stay in step with others, refuses to go on there.
    """

    def __init__(self, *, key: bytes | SystemKey | None = None) -> None:
        """Starts a stream.

        Args:
            key: A SystemKey that other processes have too; 32 bytes, which somebody knows, are for
                tests alone, and nothing is certified of what is drawn.
        """
        given = isinstance(key, bytes)
        self._origin = Origin(source="given" if given else "operating-system", secret=not given)
        self._is_own = key is None
        if isinstance(key, SystemKey):
            key = key.content
        self._begin(os.urandom(32) if key is None else key)

    @property
    def origin(self) -> Origin:
        """Where the key came from, and whether nobody outside of this training knows it."""
        return self._origin

    def uniforms(self, count: int) -> Floats:
        """Returns numbers above 0 and up to 1, of 53 random bits each."""
        self._require_unforked()
        bits = np.frombuffer(self._encryptor.update(bytes(8 * count)), dtype=np.uint64)
        values = (bits >> np.uint64(11)).astype(np.float64)
        values += 1.0
        values *= 2.0**-53
        return values

    def choices(self, count: int, among: int) -> npt.NDArray[np.int64]:
        """Returns numbers from 0 to `among` - 1, each as likely as the others to within 2**-53."""
        return np.ceil(self.uniforms(count) * among).astype(np.int64) - 1

    def draws(self, count: int, probabilities: Floats) -> npt.NDArray[np.int64]:
        """Returns indices drawn with these probabilities, which sum to 1, each to within 2**-52."""
        ends = np.cumsum(probabilities)
        # A probability of 0 is never drawn: uniforms are above 0, and the last end is the largest.
        return np.searchsorted(ends, self.uniforms(count) * ends[-1]).astype(np.int64)

    def normals(self, shape: tuple[int, ...]) -> Floats:
        """Returns independent standard normals as a numpy array."""
        values = np.empty(math.prod(shape))
        self._fill(values, np, np.asarray)
        return values.reshape(shape)

    def normal_tensor(self, shape: tuple[int, ...], *, std: float) -> torch.Tensor:
        """Returns independent normals as a float32 tensor on the CPU."""
        import torch

        values = torch.empty(math.prod(shape), dtype=torch.float32)
        self._fill(values, torch, torch.from_numpy, std=std)
        return values.reshape(shape)

    def _fill(
        self, values: Any, library: Any, array: Callable[[Floats], Any], *, std: float = 1.0
    ) -> None:
        """Fills a numpy array or a tensor with normals, computed in float64 by its own library."""
        for start in range(0, len(values), 2 * _BLOCK):
            part = values[start : start + 2 * _BLOCK]
            pairs = (len(part) + 1) // 2
            radius, angle = array(self.uniforms(pairs)), array(self.uniforms(pairs))
            library.log(radius, out=radius)
            radius *= -2.0
            library.sqrt(radius, out=radius)
            radius *= std
            angle *= 2.0 * math.pi
            library.multiply(radius, library.cos(angle), out=part[:pairs])
            part[pairs:] = (radius * library.sin(angle))[: len(part) - pairs]

    def _require_unforked(self) -> None:
        if self._process == os.getpid():
            return
        if not self._is_own:
            raise PrivacyError(
                "This process was forked from one that draws from the same stream, and would "
                "draw the same records as it. Begin training in the process that trains."
            )
        self._begin(os.urandom(32))

    def _begin(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._process = os.getpid()
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()


def origin_of(stream: object) -> Origin:
    """Returns where a stream's numbers come from; of any but a SecretStream nothing is known."""
    if type(stream) is SecretStream:
        return stream.origin
    return Origin(source="unknown", secret=False)
