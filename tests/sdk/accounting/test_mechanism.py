"""The closed vocabulary: what it writes it reads, and it reads nothing else."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.accounting import mechanism
from hushdoc.accounting.mechanism import (
    Composed,
    Gaussian,
    Mechanism,
    PoissonSampled,
    Sequence,
    from_dict,
    to_dict,
)
from hushdoc.errors import CertificateError

LEAVES = st.floats(0, 1e6).map(lambda noise: Gaussian(noise_multiplier=noise))


def _grown(inner: st.SearchStrategy[Mechanism]) -> st.SearchStrategy[Mechanism]:
    return st.one_of(
        st.builds(PoissonSampled, sampling_rate=st.floats(0, 1), event=inner),
        st.builds(Composed, event=inner, count=st.integers(0, 10**6)),
        st.lists(inner, max_size=3).map(lambda events: Sequence(events=tuple(events))),
    )


@given(st.recursive(LEAVES, _grown, max_leaves=6))
def test_what_is_written_is_read_back(event: Mechanism) -> None:
    assert from_dict(to_dict(event)) == event


GAUSSIAN = {"type": "gaussian", "noiseMultiplier": 1.0}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({"type": "gaussian"}, "BAD_FIELD"),
        ({"type": "gaussian", "noiseMultiplier": True}, "BAD_FIELD"),
        ({"type": "gaussian", "noiseMultiplier": math.nan}, "BAD_FIELD"),
        ({"type": "gaussian", "noiseMultiplier": math.inf}, "BAD_FIELD"),
        ({"type": "gaussian", "noiseMultiplier": "1"}, "BAD_FIELD"),
        ({"type": "composed", "count": 1.5, "event": GAUSSIAN}, "BAD_FIELD"),
        ({"type": "composed", "count": True, "event": GAUSSIAN}, "BAD_FIELD"),
        ({"type": "sequence", "events": GAUSSIAN}, "BAD_FIELD"),
        ({"type": "hash-fill"}, "BAD_FIELD"),
        ({"type": "Gaussian", "noiseMultiplier": 1.0}, "UNKNOWN_VALUE"),
        ({"type": "g\u0430ussian", "noiseMultiplier": 1.0}, "UNKNOWN_VALUE"),
        ({"type": ["gaussian"]}, "BAD_FIELD"),
        (None, "BAD_FIELD"),
    ],
)
def test_anything_else_is_refused(data: object, code: str) -> None:
    with pytest.raises(CertificateError) as caught:
        from_dict(data)
    assert caught.value.code == code


def test_too_many_events_are_refused() -> None:
    events = [GAUSSIAN] * mechanism.MAX_NODES
    with pytest.raises(CertificateError, match="10000 events"):
        from_dict({"type": "sequence", "events": events})
    from_dict({"type": "sequence", "events": events[1:]})


@pytest.mark.parametrize("noise", [-1.0, math.nan, math.inf, True])
def test_a_wrong_noise_is_a_callers_error(noise: float) -> None:
    with pytest.raises(ValueError, match="noise_multiplier"):
        Gaussian(noise_multiplier=noise)


def test_a_wrong_rate_or_count_is_a_callers_error() -> None:
    event = Gaussian(noise_multiplier=1.0)
    with pytest.raises(ValueError, match="sampling_rate"):
        PoissonSampled(sampling_rate=1.5, event=event)
    with pytest.raises(ValueError, match="count"):
        Composed(event=event, count=-1)
