"""Trust stores: sound keys, each once, and none that proves nothing."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hushdoc import signing, trust
from hushdoc.errors import InputError, SignatureError


def _small_order_keys() -> list[bytes]:
    """Every encoding of a point whose order divides eight, non-canonical ones too."""
    prime = 2**255 - 19
    order_eight = int.from_bytes(
        bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
    )
    values = [0, 1, prime - 1, order_eight, prime - order_eight, prime, prime + 1]
    return [(y | sign << 255).to_bytes(32, "little") for y in values for sign in (0, 1)]


@pytest.mark.parametrize("public_key", _small_order_keys(), ids=lambda raw: raw.hex()[:8])
def test_keys_of_small_order_are_never_trusted(public_key: bytes) -> None:
    with pytest.raises(SignatureError) as caught:
        trust.TrustedKey(name="thief", public_key=public_key)
    assert caught.value.code == "WEAK_KEY"


def test_the_constant_is_a_point_of_order_eight() -> None:
    prime = 2**255 - 19
    d = -121665 * pow(121666, -1, prime) % prime
    y = trust._ORDER_EIGHT_Y
    x_squared = (y * y - 1) * pow(d * y * y + 1, -1, prime) % prime
    x = pow(x_squared, (prime + 3) // 8, prime)
    if x * x % prime != x_squared:
        x = x * pow(2, (prime - 1) // 4, prime) % prime
    assert x * x % prime == x_squared

    def doubled(point: tuple[int, int]) -> tuple[int, int]:
        a, b = point
        t = d * a * a * b * b % prime
        return (
            2 * a * b * pow(1 + t, -1, prime) % prime,
            (b * b + a * a) * pow(1 - t, -1, prime) % prime,
        )

    four = doubled(doubled((x, y)))
    assert four == (0, prime - 1)
    assert doubled(four) == (0, 1)


def test_points_off_the_curve_and_short_keys_are_refused() -> None:
    for raw in (b"", b"\1" * 31, (2).to_bytes(32, "little"), b"\xff" * 32):
        assert trust.key_problem(raw) is not None
    for _ in range(8):
        assert trust.key_problem(signing.public_key_of(signing.generate_key())) is None


def test_a_trust_store_is_read_back(build: ModuleType, key: Any, tmp_path: Path) -> None:
    store = build.trust(key, models=("invoices", "receipts"))
    path = tmp_path / "trust.json"
    path.write_bytes(store.to_json())
    assert trust.TrustStore.from_file(path) == store


def test_a_key_stands_once_in_a_store(build: ModuleType, key: Any) -> None:
    with pytest.raises(InputError) as caught:
        build.trust(key, key)
    assert caught.value.code == "BAD_TRUST_STORE"


@pytest.mark.parametrize(
    "edit",
    [
        {"version": 2},
        {"version": True},
        {"extra": 1},
        {"keys": {}},
        {"keys": [{}]},
        {"keys": [{"keyid": "0" * 64}]},
        {"keys": [{"algorithm": "none"}]},
        {"keys": [{"algorithm": "ed25519ph"}]},
        {"keys": [{"publicKey": "AA"}]},
        {"keys": [{"models": "*"}]},
        {"keys": [{"name": ""}]},
    ],
)
def test_a_malformed_store_is_refused(
    build: ModuleType, key: Any, tmp_path: Path, edit: dict[str, Any]
) -> None:
    data = json.loads(build.trust(key).to_json())
    if isinstance(edit.get("keys"), list) and edit["keys"][0]:
        edit = {"keys": [{**data["keys"][0], **edit["keys"][0]}]}
    path = tmp_path / "trust.json"
    path.write_text(json.dumps({**data, **edit}))
    with pytest.raises(InputError) as caught:
        trust.TrustStore.from_file(path)
    assert caught.value.code == "BAD_TRUST_STORE"


def test_a_store_with_a_weak_key_is_refused(tmp_path: Path, build: ModuleType, key: Any) -> None:
    data = json.loads(build.trust(key).to_json())
    weak = (1).to_bytes(32, "little")
    data["keys"][0].update(
        keyid=trust.key_id(weak), publicKey=base64.b64encode(weak).decode("ascii")
    )
    path = tmp_path / "trust.json"
    path.write_text(json.dumps(data))
    with pytest.raises(SignatureError) as caught:
        trust.TrustStore.from_file(path)
    assert caught.value.code == "WEAK_KEY"
