"""The arithmetic of MurmurHash3 (x86, 32 bits) on arrays.

Steps work in place and are given the memory for what lies between, which would otherwise be asked
of the system again for each of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint32]
Places = npt.NDArray[np.intp]
Windows = npt.NDArray[np.uint64]

MAX_BYTES = 24
"""Longer tokens are not hashed here; they are rare enough to be hashed one by one."""

_U32 = np.uint32
_BLOCK_FIRST, _BLOCK_SECOND = _U32(0xCC9E2D51), _U32(0x1B873593)
_STATE_FACTOR, _STATE_TERM = _U32(5), _U32(0xE6546B64)
_FINAL_FIRST, _FINAL_SECOND = _U32(0x85EBCA6B), _U32(0xC2B2AE35)
_U64_3 = np.uint64(3)
_1, _3, _13, _15, _16, _17, _19 = map(_U32, (1, 3, 13, 15, 16, 17, 19))


def hash_spans(content: bytes, starts: Places, stops: Places, seed: int) -> tuple[Hashes, Places]:
    """Returns the hash of each span, and those that are too long, whose hashes mean nothing.

    At least 16 bytes follow the last span.
    """
    lengths = stops - starts
    windows = _windows(content)
    places = starts >> 2
    shifts = (starts & 3).view(np.uint64)
    shifts <<= _U64_3
    between = np.empty(len(stops), dtype=_U32)
    # The first block of all tokens, though some have none; then further ones of those that have.
    hashes = _blocks(windows, places, shifts)
    _scramble(hashes, between)
    hashes ^= _U32(seed)
    _stir(hashes, between)
    _keep_where(hashes, lengths >= 4, _U32(seed))
    tokens = np.flatnonzero(lengths >= 8)
    further, own_shifts, left = places.take(tokens), shifts.take(tokens), lengths.take(tokens)
    for done in range(8, MAX_BYTES, 4):
        further += 1
        block = _blocks(windows, further, own_shifts)
        _scramble(block, between[: len(tokens)])
        block ^= hashes.take(tokens)
        _stir(block, between[: len(tokens)])
        hashes[tokens] = block
        more = np.flatnonzero(left >= done + 4)
        if not len(more):
            break
        tokens, left = tokens.take(more), left.take(more)
        further, own_shifts = further.take(more), own_shifts.take(more)
    num_bytes = lengths.astype(_U32)
    places += lengths >> 2
    last = _blocks(windows, places, shifts)
    lengths &= 3
    bits = lengths.astype(_U32)
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


def _windows(content: bytes) -> Windows:
    """Returns the eight bytes that begin at every fourth byte, as one number."""
    windows = np.empty(len(content) // 4 - 3, dtype=np.uint64)
    for number in range(2):
        part = windows[number::2]
        part[:] = np.frombuffer(content, dtype="<u8", count=len(part), offset=4 * number)
    return windows


def _blocks(windows: Windows, places: Places, shifts: Windows) -> Hashes:
    """Returns the four bytes of each token that begin at a place, which lie in one window."""
    found = windows.take(places)
    found >>= shifts
    return found.astype(_U32)


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
