"""Sums of real clients and a real coordinator, frame by frame, with nobody at fault but by silence.

`test_sum_faults` has what anybody does wrong.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hushdoc_secure_sums import Parties, counter_mode, drawn, hkdf, names, silent, terms, total
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.bindings import crypto_scalarmult

from hushdoc.errors import PrivacyError
from hushdoc.serialization import strict_json
from hushdoc_training.federated import masks
from hushdoc_training.federated.secure_sum import MODES

PHASES = ("keys", "shares", "vector", "confirm", "answer")


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("clients", [2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_a_sum_is_exact(mode: str, clients: int, bits: int) -> None:
    parties = Parties(terms(clients, mode=mode, ring_bits=bits))
    for number in (0, 1):
        values = drawn(parties.terms, seed=number)
        found = parties.round(number, values)
        assert found is not None
        assert found.tolist() == total(values).tolist()
        assert parties.coordinator.survivors == tuple(values)
    assert not parties.refused
    assert not parties.dropped


def test_64_clients_of_whom_as_many_as_may_are_silent() -> None:
    agreed = terms(64, silent=21, colluding=21)
    parties, values, gone = Parties(agreed), drawn(agreed), names(21)
    found = parties.round(0, values, change=silent(*gone, phase="vector"))
    assert found is not None
    assert found.tolist() == total(values, without=gone).tolist()


def test_64_clients_without_a_threshold() -> None:
    agreed = terms(64, mode="all-or-nothing", ring_bits=64)
    values = drawn(agreed)
    found = Parties(agreed).round(0, values)
    assert found is not None
    assert found.tolist() == total(values).tolist()


@pytest.mark.parametrize(("bits", "most"), [(32, 2**31 - 1), (64, 2**63 - 1)])
@pytest.mark.parametrize("mode", MODES)
def test_a_sum_at_the_edge_of_the_ring_is_exact_and_beyond_it_wraps(
    mode: str, bits: int, most: int
) -> None:
    parties = Parties(terms(2, mode=mode, ring_bits=bits))
    one, other = names(2)
    values = {one: np.array([most - 1, -most, most, 0, 1]), other: np.array([1, -1, 1, 0, -2])}
    found = parties.round(0, values)
    assert found is not None
    assert found.tolist() == [most, -most - 1, -most - 1, 0, -1]


@settings(max_examples=25)
@given(st.data())
def test_with_up_to_t_silent_clients_the_others_are_summed(data: st.DataObject) -> None:
    colluding = data.draw(st.integers(0, 2))
    t = data.draw(st.integers(0, 3))
    clients = data.draw(st.integers(2 * t + colluding + 1, 2 * t + colluding + 3).filter(bool))
    agreed = terms(max(clients, 2), silent=t, colluding=colluding)
    gone = data.draw(st.lists(st.sampled_from(names(agreed.clients_per_round)), max_size=t))
    phase = data.draw(st.sampled_from(PHASES))
    parties, values = Parties(agreed), drawn(agreed)
    found = parties.round(0, values, change=silent(*gone, phase=phase))
    counted = () if phase in ("confirm", "answer") else gone
    assert found is not None
    assert found.tolist() == total(values, without=counted).tolist()
    assert parties.coordinator.survivors == tuple(n for n in values if n not in counted)


@pytest.mark.parametrize("phase", PHASES)
def test_one_more_silent_client_than_t_and_there_is_no_sum(phase: str) -> None:
    agreed = terms(7, silent=2, colluding=2)
    parties, gone = Parties(agreed), names(3)
    assert parties.round(0, drawn(agreed), change=silent(*gone, phase=phase)) is None
    aborted = parties.coordinator.aborted
    assert aborted is not None
    assert (aborted.code, aborted.clients) == ("TOO_FEW_CLIENTS", tuple(gone))
    values = drawn(agreed, seed=1)
    found = parties.round(1, values)
    assert found is not None
    assert found.tolist() == total(values).tolist()


@pytest.mark.parametrize("phase", ["keys", "vector"])
def test_all_or_nothing_is_nothing_without_one_client_and_asks_for_new_keys(phase: str) -> None:
    parties = Parties(terms(4, mode="all-or-nothing"))
    assert parties.round(0, drawn(parties.terms)) is not None
    gone = silent("client-02", phase=phase)
    if phase == "keys":
        parties = Parties(parties.terms)
    assert parties.round(1, drawn(parties.terms), change=gone) is None
    assert parties.coordinator.aborted is not None
    assert parties.coordinator.aborted.clients == ("client-02",)
    parties.clients["client-02"].leave()  # as after a restart
    values = drawn(parties.terms, seed=2)
    found = parties.round(2, values)
    assert found is not None
    assert found.tolist() == total(values).tolist()


def test_all_or_nothing_takes_one_message_a_round_once_keys_are_agreed_on() -> None:
    parties = Parties(terms(3, mode="all-or-nothing"))
    parties.round(0, drawn(parties.terms))
    parties.sent.clear()
    parties.round(1, drawn(parties.terms))
    assert [frame.phase for frame in parties.sent] == ["open"] * 3 + ["vector"] * 3


def test_other_members_agree_on_keys_of_their_own() -> None:
    parties = Parties(terms(6, mode="all-or-nothing", clients_per_round=4))
    for number, first in enumerate((0, 2, 1)):
        chosen = names(6)[first : first + 4]
        values = {n: v for n, v in drawn(parties.terms, members=6).items() if n in chosen}
        found = parties.round(number, values)
        assert found is not None
        assert found.tolist() == total(values).tolist()


@pytest.mark.parametrize("mode", MODES)
def test_no_two_rounds_have_the_same_masks(mode: str) -> None:
    parties = Parties(terms(3, mode=mode, numbers=64))
    values = {name: np.zeros(64, dtype=np.int64) for name in names(3)}
    sent: dict[tuple[str, int], np.ndarray] = {}
    for number in range(4):
        assert not parties.round(number, values).any()  # type: ignore[union-attr]
        for frame in parties.sent:
            if frame.phase == "vector":
                sent[frame.sender, frame.round] = np.frombuffer(frame.payload, dtype="<u4")
    # A number that comes back in two of 12 vectors of 64: 2^-32 for each of 66 * 64 pairs.
    for key, vector in sent.items():
        for other, another in sent.items():
            assert key == other or not (vector == another).any()


def test_a_masked_vector_is_uniform_and_shows_nothing_of_its_values() -> None:
    parties = Parties(terms(2, mode="all-or-nothing", numbers=1 << 16))
    values = {name: np.full(1 << 16, 12345) for name in names(2)}
    parties.round(0, values)
    for frame in parties.sent:
        if frame.phase == "vector":
            counts = np.bincount(np.frombuffer(frame.payload, dtype=np.uint8), minlength=256)
            # 2^18 bytes, 1024 of each value: chi squared of 255 degrees, 8 deviations.
            assert ((counts - 1024) ** 2 / 1024).sum() < 255 + 8 * (2 * 255) ** 0.5


def test_a_masked_vector_as_another_implementation_makes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X25519 by libsodium, HKDF by hmac, counter mode by AES of each counter."""
    private = [bytes([number]) * 32 for number in (1, 2)]
    drawn_keys = iter(private)
    made = masks.KeyPair
    monkeypatch.setattr(masks, "KeyPair", lambda: made(next(drawn_keys)))
    agreed = terms(2, mode="all-or-nothing")
    parties, (one, other) = Parties(agreed), names(2)
    values = drawn(agreed)
    parties.round(7, values)
    public = {n: made(key).public for n, key in zip((one, other), private, strict=True)}

    def info(purpose: str, *parts: str) -> bytes:
        of = ["hushdoc federated v1", purpose, agreed.run, agreed.roster, 7, 0, *parts]
        return strict_json.dumps(of)

    said = hashlib.sha256(
        info("transcript", one, public[one].hex(), other, public[other].hex())
    ).hexdigest()
    members = hashlib.sha256(info("transcript", one, other)).hexdigest()
    shared = crypto_scalarmult(private[0], public[other])
    key = hkdf(hkdf(shared, info("pair", one, other, said)), info("mask", one, other, members))
    mask = np.frombuffer(counter_mode(key, 4 * agreed.numbers), dtype="<u4").astype(np.int64)
    for name, sign in ((one, 1), (other, -1)):
        (sent,) = [f for f in parties.sent if f.phase == "vector" and f.sender == name]
        expected = (values[name] + sign * mask) % 2**32
        assert np.frombuffer(sent.payload, dtype="<u4").tolist() == expected.tolist()


@pytest.mark.parametrize("mode", MODES)
def test_secrets_of_a_round_are_overwritten(mode: str) -> None:
    parties = Parties(terms(3, mode=mode))
    held: list[bytearray] = []
    client = parties.clients["client-00"]
    contribute = client.contribute

    def watched(values: masks.Integers) -> list:
        round_ = client._round
        assert round_ is not None
        chains = (client._agreed or round_.chains).values()
        held.extend([chain._secret for chain in chains])
        held.extend([round_.seed, *round_.shares.values()])
        return contribute(values)

    client.contribute = watched  # type: ignore[method-assign]
    parties.round(0, drawn(parties.terms))
    client.leave()
    assert len(held) >= 3
    assert not any(any(secret) for secret in held)


@pytest.mark.parametrize(
    "values",
    [np.zeros(5), np.full(5, np.nan), np.zeros(4, dtype=np.int64), np.zeros(5, dtype=np.int32)],
    ids=["floats", "NaN", "another shape", "another type"],
)
def test_only_integers_of_the_agreed_shape_are_sent(values: np.ndarray) -> None:
    parties = Parties(terms(2, mode="all-or-nothing"))
    with pytest.raises(ValueError, match="expected int64"):
        parties.round(0, dict.fromkeys(names(2), values))


def test_nothing_is_sent_before_it_is_due_nor_twice() -> None:
    parties = Parties(terms(2))
    values = drawn(parties.terms)
    client = parties.clients["client-00"]
    for _ in ("before", "after"):
        with pytest.raises(PrivacyError) as refused:
            client.contribute(values["client-00"])
        assert refused.value.code == "NOT_AWAITED"
        parties.round(parties.coordinator._last_round + 1, values)


@pytest.mark.parametrize(
    "changed",
    [
        {"mode": "half"},
        {"ring_bits": 48},
        {"clients_per_round": 1},
        {"clients_per_round": 8},
        {"silent": 3, "colluding": 1},
        {"silent": 4},
        {"silent": -1},
        {"mode": "all-or-nothing", "silent": 1},
    ],
    ids=str,
)
def test_terms_that_can_not_be_secure_are_refused(changed: dict[str, object]) -> None:
    terms(7, silent=3)
    with pytest.raises(ValueError, match="expected|survives"):
        terms(7, **changed)  # type: ignore[arg-type]


def test_65_clients_are_more_than_a_round_has() -> None:
    with pytest.raises(ValueError, match="2 to 64"):
        terms(65)


def test_a_round_is_opened_once_and_with_as_many_as_agreed() -> None:
    parties = Parties(terms(3))
    parties.round(4, drawn(parties.terms))
    with pytest.raises(ValueError, match="expected a later one"):
        parties.coordinator.open(4, 1, names(3), 0.0)
    with pytest.raises(ValueError, match="expected 3"):
        parties.coordinator.open(5, 0, names(2), 0.0)
    with pytest.raises(ValueError, match="expected 3"):
        parties.coordinator.open(5, 0, [*names(2), "client-00", "client-02"], 0.0)
