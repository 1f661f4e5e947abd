"""Secret sharing: a secret in parts, of which so many give it back and fewer say nothing of it.

A secret below the prime 2^255 - 19 is the value at 0 of a random polynomial, and its shares are the
values at 1, 2, 3, ... (Shamir: How to Share a Secret, 1979). Any `threshold` of them determine it;
with fewer, every secret is as likely as before.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache

PRIME = 2**255 - 19

SHARE_BYTES = 32


def split(secret: int, *, threshold: int, holders: int) -> list[int]:
    """Returns the shares of a secret, the first for the holder at 1.

    Args:
        secret: From 0 to PRIME - 1.
        threshold: How many shares give it back.
        holders: How many there are.

    Raises:
        ValueError: The secret is not below PRIME, or the threshold not among 1 to `holders`.
    """
    if not 0 <= secret < PRIME:
        raise ValueError("The secret is not below 2^255 - 19; draw it with `secrets.randbelow`.")
    if not 1 <= threshold <= holders:
        raise ValueError(f"The threshold is {threshold}; expected 1 to the {holders} holders.")
    coefficients = [secret, *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return [_value(coefficients, place) for place in range(1, holders + 1)]


def rebuilt(shares: Mapping[int, int]) -> int:
    """Returns the secret that has these shares, by the place of their holders.

    Exactly as many as the threshold have to be given: of fewer, as of wrong ones, something else
    comes out, and nobody can tell.
    """
    places = tuple(sorted(shares))
    factors = _factors_at_zero(places)
    return sum(f * shares[place] for f, place in zip(factors, places, strict=True)) % PRIME


def _value(coefficients: Sequence[int], place: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * place + coefficient) % PRIME
    return value


@lru_cache(maxsize=16)
def _factors_at_zero(places: tuple[int, ...]) -> list[int]:
    """Lagrange's: the value at 0 is the sum of values times these."""
    factors = []
    for place in places:
        above, below = 1, 1
        for other in places:
            if other != place:
                above = above * other % PRIME
                below = below * (other - place) % PRIME
        factors.append(above * pow(below, -1, PRIME) % PRIME)
    return factors
