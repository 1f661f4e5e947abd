"""SecretStream: every secret draw, for numpy and torch alike: sampling, noise, filled tables.

Privacy noise must not be predictable: numpy's and torch's own generators are not, in the
cryptographic sense. Here AES-256 in counter mode, keyed by the operating system, gives uniform
bits, which exact comparisons turn into integer noise and the Box-Muller transform (1958) into
normals. Whoever could predict them could subtract the noise, so no setting fixes the key: tests
pass one through a door of their own.
"""

from __future__ import annotations

import math
import os

import numpy as np
import numpy.typing as npt

from hushdoc.errors import PrivacyError
from hushdoc_training.randomness.integer_noise import integer_noise
from hushdoc_training.receipt import Origin

RNG = "AES-256-CTR keyed by the operating system"

Floats = npt.NDArray[np.float64]

_SPARE = 16
"""Bytes that the cipher wants behind what it writes."""

_BLOCK = 1 << 14
"""Pairs of normals computed at once: their arrays stay in the cache of one core."""

_ZEROS = memoryview(bytes(16 * _BLOCK))
"""What is encrypted: a block's share, to be had without being cleared each time."""


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

    def bits(self, count: int) -> npt.NDArray[np.uint64]:
        """Returns words of 64 random bits."""
        self._require_unforked()
        words = np.empty(8 * count + _SPARE, dtype=np.uint8)
        zeros = _ZEROS[: 8 * count] if 8 * count <= len(_ZEROS) else bytes(8 * count)
        self._encryptor.update_into(zeros, words.data)
        return words[: 8 * count].view(np.uint64)

    def uniforms(self, count: int) -> Floats:
        """Returns numbers above 0 and up to 1, of 53 random bits each."""
        values = (self.bits(count) >> np.uint64(11)).astype(np.float64)
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
        for start in range(0, len(values), 2 * _BLOCK):
            part = values[start : start + 2 * _BLOCK]
            pairs = (len(part) + 1) // 2
            radius = np.sqrt(-2.0 * np.log(self.uniforms(pairs)))
            angle = 2.0 * math.pi * self.uniforms(pairs)
            part[:pairs] = radius * np.cos(angle)
            part[pairs:] = (radius * np.sin(angle))[: len(part) - pairs]
        return values.reshape(shape)

    def lattice_noise(self, shape: tuple[int, ...], *, width: float, distribution: str) -> Floats:
        """Returns independent whole numbers as floats: all privacy noise there is.

        They are a discrete Gaussian of this width, or a Gaussian of this deviation, rounded.
        """
        if distribution == "discrete-gaussian":
            return integer_noise(self, shape, width).astype(np.float64)
        values = np.empty(math.prod(shape))
        for start in range(0, len(values), 2 * _BLOCK):
            self._fill_rounded(values[start : start + 2 * _BLOCK], width)
        return values.reshape(shape)

    def _fill_rounded(self, values: Floats, width: float) -> None:
        """Fills an array with normals rounded to integers; torch computes them fastest."""
        import torch

        made, pairs = torch.from_numpy(values), (len(values) + 1) // 2
        bits = torch.from_numpy(self.bits(2 * pairs).view(np.int64))
        angle = bits[pairs:].double().mul_(math.pi * 2.0**-63)
        radius = bits[:pairs].bitwise_right_shift_(11).double()  # from -2**52 to 2**52 - 1
        radius.mul_(2.0**-53).add_(0.5 + 2.0**-53).log_().mul_(-2.0 * width**2).sqrt_()
        torch.mul(radius, torch.cos(angle), out=made[:pairs])
        made[pairs:] = radius.mul_(angle.sin_())[: len(values) - pairs]
        made.round_().add_(0.0)  # minus zero would show the sign of what it is added to

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
