"""Ed25519 signatures whose first half is a point of small order, by whoever has the private key.

The equation of RFC 8032 holds for them: a public key may have a part of small order besides its
large one, and then R can cancel it. Points are (x, y) with -x^2 + y^2 = 1 + d x^2 y^2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, PRIME) % PRIME
_SECRET = 0x1234567890ABCDEF

Point = tuple[int, int]


def _add(one: Point, other: Point) -> Point:
    (a, b), (c, d) = one, other
    both = _D * a * b * c * d % PRIME
    x = (a * d + b * c) * pow(1 + both, -1, PRIME)
    y = (b * d + a * c) * pow(1 - both, -1, PRIME)
    return x % PRIME, y % PRIME


def _times(count: int, point: Point) -> Point:
    found: Point = (0, 1)
    while count:
        if count & 1:
            found = _add(found, point)
        point, count = _add(point, point), count >> 1
    return found


def _with_y(y: int) -> Point:
    square = (y * y - 1) * pow(_D * y * y + 1, -1, PRIME) % PRIME
    root = pow(square, (PRIME + 3) // 8, PRIME)
    if root * root % PRIME != square:
        root = root * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    assert root * root % PRIME == square
    return min(root, PRIME - root), y


def _encoded(point: Point) -> bytes:
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


_BASE = _with_y(4 * pow(5, -1, PRIME) % PRIME)
if _BASE[0] & 1:
    _BASE = (PRIME - _BASE[0], _BASE[1])
_EIGHTH = _with_y(
    int.from_bytes(
        bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
    )
)
SMALL_ORDER: tuple[bytes, ...] = tuple(_encoded(_times(count, _EIGHTH)) for count in range(8))
"""The eight points of small order, in their one canonical encoding."""

NOT_CANONICAL: tuple[bytes, ...] = tuple(
    (y | sign << 255).to_bytes(32, "little")
    for y in (0, 1, PRIME, PRIME + 1, PRIME - 1)
    for sign in (0, 1)
    if y >= PRIME or (y != 0 and sign)
)
"""Further spellings of some of them: y from p on, or the sign of an x that is 0."""


def public_key() -> bytes:
    """Returns a key that is sound by itself: of large order, with a part of order eight."""
    return _encoded(_add(_times(_SECRET, _BASE), _EIGHTH))


def signed(message: bytes, r: bytes) -> bytes:
    """Returns what the key's holder can make with this first half."""
    s = _challenge(r, message) * _SECRET % ORDER
    return r + s.to_bytes(32, "little")


def _challenge(r: bytes, message: bytes) -> int:
    # Reduced, as every library does, so that it acts on both parts of a key alike everywhere.
    digest = hashlib.sha512(r + public_key() + message).digest()
    return int.from_bytes(digest, "little") % ORDER


def fitting(make: Iterator[bytes], index: int) -> bytes:
    """Returns the first message for which a signature with SMALL_ORDER[index] holds by RFC 8032."""
    return next(
        message for message in make if (_challenge(SMALL_ORDER[index], message) + index) % 8 == 0
    )
