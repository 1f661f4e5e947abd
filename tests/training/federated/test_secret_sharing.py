from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushdoc_training.federated import secret_sharing
from hushdoc_training.federated.secret_sharing import PRIME, rebuilt, split

SECRETS = st.integers(0, PRIME - 1)


def interpolated(points: Sequence[tuple[int, int]]) -> list[int]:
    """Returns a polynomial's coefficients modulo PRIME, by Lagrange over fractions."""
    whole = [Fraction(0)] * len(points)
    for x, y in points:
        basis = [Fraction(1)]
        for other, _ in points:
            if other != x:  # times (X - other) / (x - other)
                shifted = [Fraction(0), *basis]
                for power, value in enumerate(basis):
                    shifted[power] -= other * value
                basis = [value / (x - other) for value in shifted]
        for power, value in enumerate(basis):
            whole[power] += y * value
    return [c.numerator * pow(c.denominator, -1, PRIME) % PRIME for c in whole]


def test_shares_are_values_of_a_polynomial(monkeypatch: pytest.MonkeyPatch) -> None:
    coefficients = iter([7, PRIME - 1])
    monkeypatch.setattr(secret_sharing.secrets, "randbelow", lambda most: next(coefficients))
    expected = [(5 + 7 * x - pow(x, 2)) % PRIME for x in (1, 2, 3, 4)]
    assert split(5, threshold=3, holders=4) == expected


@settings(max_examples=30)
@given(SECRETS, st.integers(1, 6), st.integers(0, 3), st.data())
def test_any_threshold_of_shares_gives_the_secret_as_lagrange_does(
    secret: int, threshold: int, more: int, data: st.DataObject
) -> None:
    holders = threshold + more
    shares = dict(enumerate(split(secret, threshold=threshold, holders=holders), start=1))
    order = data.draw(st.permutations(sorted(shares)))
    taken = {place: shares[place] for place in order[:threshold]}
    assert rebuilt(taken) == secret == interpolated(list(taken.items()))[0]


@settings(max_examples=30)
@given(SECRETS, SECRETS, st.integers(2, 6), st.data())
def test_one_share_less_fits_every_secret_as_well(
    secret: int, other: int, threshold: int, data: st.DataObject
) -> None:
    shares = dict(enumerate(split(secret, threshold=threshold, holders=8), start=1))
    seen = data.draw(st.permutations(sorted(shares)))[: threshold - 1]
    coefficients = interpolated([(0, other), *((place, shares[place]) for place in seen)])
    with pytest.MonkeyPatch.context() as patch:
        drawn = iter(coefficients[1:])
        patch.setattr(secret_sharing.secrets, "randbelow", lambda most: next(drawn))
        again = split(other, threshold=threshold, holders=8)
    assert [again[place - 1] for place in seen] == [shares[place] for place in seen]


@pytest.mark.parametrize("secret", [0, 1, PRIME - 1])
@pytest.mark.parametrize(("threshold", "holders"), [(1, 1), (1, 64), (64, 64), (43, 64)])
def test_boundaries(secret: int, threshold: int, holders: int) -> None:
    shares = split(secret, threshold=threshold, holders=holders)
    last = dict(list(enumerate(shares, start=1))[-threshold:])
    assert rebuilt(last) == secret


@pytest.mark.parametrize(
    ("secret", "threshold", "holders"), [(PRIME, 2, 3), (-1, 2, 3), (0, 0, 3), (0, 4, 3)]
)
def test_what_can_not_be_shared_is_refused(secret: int, threshold: int, holders: int) -> None:
    with pytest.raises(ValueError, match="expected|below"):
        split(secret, threshold=threshold, holders=holders)


def test_two_splits_have_nothing_in_common() -> None:
    assert not set(split(1, threshold=2, holders=9)) & set(split(1, threshold=2, holders=9))
