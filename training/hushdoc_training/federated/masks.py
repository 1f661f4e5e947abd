"""Masks: numbers that two parties alone can compute, and that cancel in a sum.

Two clients agree on a secret by X25519 (RFC 7748), HKDF-SHA256 (RFC 5869) makes a key of it for one
round, and AES-256 in counter mode makes numbers of the key, which one of them adds and the other
subtracts (Bonawitz and others: Practical Secure Aggregation for Privacy-Preserving Machine
Learning, 2017). Every key is derived for one purpose, run, roster, round, attempt and pair of names
in their order, all of which `context` spells out, and is used once; so the counter starts at 0.

What Python can't do: secrets are held in arrays that `erase` overwrites, X25519 keys in OpenSSL,
which overwrites them when they go. What the library returns are immutable bytes, and integers
of secret sharing are too; they stay in memory until that is used again, and a system may swap it.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hushdoc.errors import FrameError, PrivacyError
from hushdoc.serialization import strict_json
from hushdoc_training.federated.secret_sharing import PRIME

KEY_BYTES = 32

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.unsignedinteger[Any]]
"""Numbers of a ring, shape [d]: unsigned integers of 32 or 64 bits, little-endian."""

RINGS: dict[int, np.dtype[Any]] = {32: np.dtype("<u4"), 64: np.dtype("<u8")}
"""Types of numbers by the bits of their ring."""

_BLOCK = 1 << 17  # bytes that stay in a core's cache between cipher and sum
_ZEROS = memoryview(bytes(_BLOCK))
_SPARE = 16  # bytes that the cipher wants behind what it writes


def context(purpose: str, *parts: str | int) -> bytes:
    """Returns what a key is for, as HKDF's info: no two lists of parts have the same."""
    return strict_json.dumps(["hushdoc federated v1", purpose, *parts])


def derived(secret: bytes | bytearray, info: bytes) -> bytearray:
    """Returns the key of 32 bytes that HKDF-SHA256 makes of a secret for one purpose."""
    return bytearray(HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(secret))


def erase(*held: bytearray) -> None:
    """Overwrites secrets."""
    for secret in held:
        secret[:] = bytes(len(secret))


class KeyPair:
    """An X25519 key of this party."""

    def __init__(self, private: bytes | None = None) -> None:
        """Draws a key, or takes the 32 bytes of one."""
        if private is None:
            self._private = X25519PrivateKey.generate()
        else:
            self._private = X25519PrivateKey.from_private_bytes(private)
        self.public = self._private.public_key().public_bytes_raw()

    def shared(self, public: bytes, owner: str) -> bytearray:
        """Returns the secret that this party and the owner of a public key have in common.

        Raises:
            FrameError: BAD_KEY_AGREEMENT, where the other's key is one that leaves no secret.
        """
        return bytearray(_exchanged(self._private, public, owner))


def require_agreeable(public: bytes, owner: str) -> None:
    """Raises FrameError BAD_KEY_AGREEMENT where a public key leaves nobody a secret."""
    _exchanged(X25519PrivateKey.generate(), public, owner)


def _exchanged(private: X25519PrivateKey, public: bytes, owner: str) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise FrameError(
            f"The key that {owner} sent leaves no secret to agree on. Leave {owner} out, or "
            "ask them for another key.",
            code="BAD_KEY_AGREEMENT",
        ) from error


def sharable_seed() -> bytearray:
    """Returns a random seed that secret sharing can take: 32 bytes, little-endian, below PRIME."""
    return bytearray(secrets.randbelow(PRIME).to_bytes(KEY_BYTES, "little"))


def sharable_key_pair() -> tuple[bytearray, KeyPair]:
    """Returns an X25519 key that secret sharing can take, and the same as a key of this party.

    The key is clamped already (RFC 7748, section 5), so that it is below 2^255; one of the two that
    are not below PRIME is drawn again.
    """
    while True:
        private = bytearray(secrets.token_bytes(KEY_BYTES))
        private[0] &= 248
        private[31] = private[31] & 127 | 64
        if int.from_bytes(private, "little") < PRIME:
            return private, KeyPair(bytes(private))


class Chain:
    """A secret of two parties that gives one key for each round, and can't go back.

    With each key the secret is replaced by what HKDF makes of it and the old one is overwritten, so
    whoever takes this party's memory later learns no mask of rounds before.
    """

    def __init__(self, shared: bytearray, info: bytes, *, round: int) -> None:
        """Starts a chain with the shared secret, which is overwritten; `info` names the pair."""
        self._secret, self._next = derived(shared, info), round
        erase(shared)

    def key(self, round: int, info: bytes) -> bytearray:
        """Returns the key of a round, and moves beyond it.

        Raises:
            PrivacyError: MASK_SPENT, where the chain is beyond this round.
        """
        if round < self._next:
            raise PrivacyError(
                f"The masks of round {round} are spent, and their secrets erased. A new attempt "
                "is a new round, with new noise and a new charge.",
                code="MASK_SPENT",
            )
        while self._next < round:
            self._advance()
        key = derived(self._secret, info)
        self._advance()
        return key

    def erase(self) -> None:
        """Overwrites the secret."""
        erase(self._secret)

    def _advance(self) -> None:
        later = derived(self._secret, context("next"))
        erase(self._secret)
        self._secret, self._next = later, self._next + 1


def to_ring(values: Integers, bits: int) -> Words:
    """Returns a copy of integers, each modulo 2^bits."""
    return values.astype(RINGS[bits])


def centred(words: Words, bits: int) -> Integers:
    """Returns the integers from -2^(bits-1) to 2^(bits-1) - 1 that numbers of a ring stand for."""
    return words.astype(RINGS[bits]).view(f"<i{bits // 8}").astype(np.int64)


def add_mask(words: Words, key: bytes | bytearray, *, subtract: bool = False) -> None:
    """Adds the mask of a key to numbers of a ring, in place; or subtracts it."""
    encryptor = Cipher(algorithms.AES(bytes(key)), modes.CTR(bytes(16))).encryptor()
    buffer = np.empty(_BLOCK + _SPARE, dtype=np.uint8)
    mask = buffer[:_BLOCK].view(words.dtype)
    combine = np.subtract if subtract else np.add
    for start in range(0, len(words), len(mask)):
        part = words[start : start + len(mask)]
        encryptor.update_into(_ZEROS[: part.nbytes], buffer.data)
        combine(part, mask[: len(part)], out=part)
