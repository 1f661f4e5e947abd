from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hushdoc_secure_sums import counter_mode, hkdf
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.bindings import crypto_scalarmult_base

from hushdoc.errors import FrameError, PrivacyError
from hushdoc_training.federated import masks
from hushdoc_training.federated.secret_sharing import PRIME

# RFC 7748, section 6.1.
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
BOB_PUBLIC = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
ALICE_PUBLIC = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
SHARED = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"


def test_a_shared_secret_is_that_of_rfc_7748() -> None:
    pair = masks.KeyPair(BOB)
    assert pair.public.hex() == BOB_PUBLIC
    assert pair.shared(ALICE_PUBLIC, "alice").hex() == SHARED


@pytest.mark.parametrize("public", [bytes(32), b"\x01" + bytes(31), PRIME.to_bytes(32, "little")])
def test_a_key_that_leaves_no_secret_is_refused(public: bytes) -> None:
    with pytest.raises(FrameError, match="anna") as refused:
        masks.KeyPair().shared(public, "anna")
    assert refused.value.code == "BAD_KEY_AGREEMENT"


def test_keys_are_those_of_rfc_5869() -> None:
    # Test case 3: neither salt nor info; the first 32 bytes of what is expanded.
    expected = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
    assert masks.derived(b"\x0b" * 22, b"").hex() == expected


def test_masks_are_aes_256_in_counter_mode_from_0() -> None:
    # The Galois/Counter Mode of Operation (McGrew, Viega), test cases 13 and 14: H is block 0, the
    # tag of nothing is block 1, and the encrypted zeros are block 2, all under the key 0.
    expected = (
        "dc95c078a2408989ad48a21492842087530f8afbc74536b9a963b4f1c4cb738b"
        "cea7403d4d606b6e074ec5d3baf39d18"
    )
    words = np.zeros(12, dtype="<u4")
    masks.add_mask(words, bytes(32))
    assert words.tobytes().hex() == expected


@settings(max_examples=30)
@given(st.sampled_from([32, 64]), st.sampled_from([1, 7, 8, 32767, 32768, 32769, 70001]))
def test_masks_of_any_length_are_one_stream_and_cancel(bits: int, count: int) -> None:
    key = hashlib.sha256(bytes([bits])).digest()
    words = np.zeros(count, dtype=masks.RINGS[bits])
    masks.add_mask(words, key)
    assert words.tobytes() == counter_mode(key, count * bits // 8)
    masks.add_mask(words, key, subtract=True)
    assert not words.any()


@settings(max_examples=30)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=5, unique=True), st.integers(0, 3))
def test_a_chain_gives_both_sides_the_same_keys_whichever_rounds_they_skip(
    rounds: list[int], start: int
) -> None:
    shared, info = b"s" * 32, b"pair"
    secret = hkdf(shared, info)
    expected = []
    for _ in range(44):
        expected.append(hkdf(secret, b"round"))
        secret = hkdf(secret, masks.context("next"))
    chain = masks.Chain(bytearray(shared), info, round=start)
    for number in sorted(rounds):
        assert chain.key(start + number, b"round") == expected[number]
    with pytest.raises(PrivacyError) as refused:
        chain.key(start + max(rounds), b"another purpose")
    assert refused.value.code == "MASK_SPENT"


def test_a_chain_overwrites_what_it_leaves_behind() -> None:
    shared = bytearray(b"s" * 32)
    chain = masks.Chain(shared, b"pair", round=0)
    first = chain._secret
    key = chain.key(3, b"")
    assert not any(shared)
    assert not any(first)
    last = chain._secret
    chain.erase()
    assert not any(last)
    assert any(key)


PARTS = st.lists(st.one_of(st.integers(0, 99), st.text('ab,|[]"', max_size=3)), max_size=3)


@settings(max_examples=30)
@given(PARTS, PARTS)
def test_no_two_contexts_are_the_same_text(one: list[str | int], other: list[str | int]) -> None:
    assert (masks.context("p", *one) == masks.context("p", *other)) == (one == other)


@settings(max_examples=30)
@given(st.sampled_from([32, 64]), st.data())
def test_integers_come_back_from_the_ring_as_they_went_in(bits: int, data: st.DataObject) -> None:
    most = 2 ** (bits - 1)
    drawn = data.draw(st.lists(st.integers(-most, most - 1), min_size=1, max_size=9))
    values = np.array([*drawn, -most, most - 1, 0, -1], dtype=np.int64)
    assert masks.centred(masks.to_ring(values, bits), bits).tolist() == values.tolist()


def test_a_sum_that_leaves_the_ring_comes_in_at_its_other_end() -> None:
    words = masks.to_ring(np.array([2**31 - 1, -(2**31)]), 32)
    words += masks.to_ring(np.array([1, -1]), 32)
    assert masks.centred(words, 32).tolist() == [-(2**31), 2**31 - 1]


def test_keys_and_seeds_that_are_shared_are_below_the_prime() -> None:
    for _ in range(20):
        private, pair = masks.sharable_key_pair()
        assert int.from_bytes(private, "little") < PRIME
        assert pair.public == crypto_scalarmult_base(bytes(private))
        assert int.from_bytes(masks.sharable_seed(), "little") < PRIME


def test_a_key_not_below_the_prime_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([(PRIME + 3).to_bytes(32, "little"), b"\x28" * 32])
    monkeypatch.setattr(masks.secrets, "token_bytes", lambda size: next(drawn))
    private, _ = masks.sharable_key_pair()
    assert private == bytearray(b"\x28" * 31 + b"\x68")
