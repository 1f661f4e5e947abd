"""The arithmetic of MurmurHash3 (x86, 32 bits) on arrays.

Steps work in place and are given the memory for what lies between, which would otherwise be asked
of the system again for each of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint32]
Places = npt.NDArray[np.intp]

MAX_BYTES = 24
"""Longer tokens are not hashed here; they are rare enough to be hashed one by one."""

_U32 = np.uint32
_BLOCK_FIRST, _BLOCK_SECOND = _U32(0xCC9E2D51), _U32(0x1B873593)
_STATE_FACTOR, _STATE_TERM = _U32(5), _U32(0xE6546B64)
_FINAL_FIRST, _FINAL_SECOND = _U32(0x85EBCA6B), _U32(0xC2B2AE35)
_1, _3, _13, _15, _16, _17, _19 = map(_U32, (1, 3, 13, 15, 16, 17, 19))


def hash_spans(content: bytes, starts: Places, stops: Places, seed: int) -> tuple[Hashes, Places]:
    """Returns the hash of each span, and those that are too long, whose hashes mean nothing.

    At least 16 bytes follow the last span.
    """
    lengths = stops - starts
    blocks = _blocks(content)
    between = np.empty(len(stops), dtype=_U32)
    # The first block of all tokens, though some have none; then further ones of those that have.
    hashes = blocks.take(starts)
    _scramble(hashes, between)
    hashes ^= _U32(seed)
    _stir(hashes, between)
    _keep_where(hashes, lengths >= 4, _U32(seed))
    tokens = np.flatnonzero(lengths >= 8)
    for done in range(4, MAX_BYTES - 4, 4):
        block = blocks.take(starts.take(tokens) + done)
        _scramble(block, between[: len(tokens)])
        block ^= hashes.take(tokens)
        _stir(block, between[: len(tokens)])
        hashes[tokens] = block
        tokens = tokens[lengths.take(tokens) >= done + 8]
        if not len(tokens):
            break
    num_bytes = lengths.astype(_U32)
    lengths &= ~3
    lengths += starts
    last = blocks.take(lengths)
    bits = num_bytes & _3
    bits <<= _3
    last &= (_1 << bits) - _1
    _scramble(last, between)
    hashes ^= last
    hashes ^= num_bytes
    finalize(hashes, between)
    return hashes, np.flatnonzero(num_bytes >= MAX_BYTES)


def finalize(hashes: Hashes, between: Hashes) -> None:
    """Applies MurmurHash3's finalizer in place; `between` is scratch memory of the same shape."""
    np.right_shift(hashes, _16, out=between)
    hashes ^= between
    hashes *= _FINAL_FIRST
    np.right_shift(hashes, _13, out=between)
    hashes ^= between
    hashes *= _FINAL_SECOND
    np.right_shift(hashes, _16, out=between)
    hashes ^= between


def _blocks(content: bytes) -> Hashes:
    """Returns the four bytes that begin at every byte, as one number."""
    blocks = np.empty(len(content) - 7, dtype=_U32)
    for number in range(4):
        part = blocks[number::4]
        part[:] = np.frombuffer(content, dtype="<u4", count=len(part), offset=number)
    return blocks


def _keep_where(hashes: Hashes, kept: npt.NDArray[np.bool_], other: np.uint32) -> None:
    """Writes another number where one is not kept, without a branch for each."""
    mask = kept.astype(_U32)
    np.negative(mask, out=mask)
    hashes ^= other
    hashes &= mask
    hashes ^= other


def _scramble(block: Hashes, between: Hashes) -> None:
    block *= _BLOCK_FIRST
    np.right_shift(block, _17, out=between)
    block <<= _15
    block |= between
    block *= _BLOCK_SECOND


def _stir(state: Hashes, between: Hashes) -> None:
    np.right_shift(state, _19, out=between)
    state <<= _13
    state |= between
    state *= _STATE_FACTOR
    state += _STATE_TERM
