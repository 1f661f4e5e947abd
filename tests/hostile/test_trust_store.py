"""Trust stores that would trust anybody: weak keys, one key twice, roles that are none."""

from __future__ import annotations

import base64
import json
from typing import Any

from hushdoc_corruption import Act, Scene, cases, refusals

from hushdoc.signing.keys import key_problem

PRIME = 2**255 - 19
ORDER_EIGHT = int.from_bytes(
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
)
SMALL_ORDER = {
    f"{name}-{sign}": (y | sign << 255).to_bytes(32, "little")
    for name, y in (
        ("order-four", 0),
        ("identity", 1),
        ("order-two", PRIME - 1),
        ("order-eight", ORDER_EIGHT),
        ("order-eight-negative", PRIME - ORDER_EIGHT),
        ("order-four-not-canonical", PRIME),
        ("identity-not-canonical", PRIME + 1),
    )
    for sign in (0, 1)
}


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _store(**change: Any) -> Act:
    """Writes a trust store as hostile hands would: the file is read before the artifact."""

    def act(scene: Scene) -> None:
        data = json.loads(scene.policy.trust.to_json())
        for name, value in change.items():
            (data["keys"][0] if name in data["keys"][0] else data)[name] = value
        (scene.outside / "trust.json").write_text(json.dumps(data))

    return act


def _store_with_key(public_key: bytes, algorithm: str = "ed25519") -> Act:
    import hashlib

    return _store(
        publicKey=_b64(public_key),
        keyid=hashlib.sha256(public_key).hexdigest(),
        algorithm=algorithm,
    )


def _store_with_one_key_twice(scene: Scene) -> None:
    data = json.loads(scene.policy.trust.to_json())
    data["keys"].append({**data["keys"][0], "name": "another name"})
    (scene.outside / "trust.json").write_text(json.dumps(data))


def _store_text(content: bytes) -> Act:
    return lambda scene: (scene.outside / "trust.json").write_bytes(content)


def _off_the_curve() -> bytes:
    """Returns a y to which the curve has no x."""
    y = next(
        y
        for y in range(2, 100)
        if key_problem(y.to_bytes(32, "little")) == "is not a point of the curve"
    )
    return y.to_bytes(32, "little")


WEAK_KEY: dict[str, Act] = {
    # cryptography verifies under these keys: a signature of the neutral element and zero holds
    # for any message, or for one in two, four or eight (see test_differential).
    **{name: _store_with_key(public) for name, public in SMALL_ORDER.items()},
    "not-on-the-curve": _store_with_key(_off_the_curve()),
    "past-the-prime": _store_with_key(b"\xff" * 32),
    "too-short": _store_with_key(b"x" * 31),
    "p256-not-on-the-curve": _store_with_key(b"\4" + b"\1" * 64, "ecdsa-p256"),
    "p256-compressed": _store_with_key(b"\2" + b"\1" * 32, "ecdsa-p256"),
    "p256-infinity": _store_with_key(b"\0", "ecdsa-p256"),
    "p256-key-as-ed25519": _store_with_key(b"\4" + b"\1" * 64),
}
BAD_STORE: dict[str, Act] = {
    "holds-one-key-twice": _store_with_one_key_twice,
    "with-a-false-key-id": _store(keyid="0" * 64),
    "with-an-unknown-algorithm": _store(algorithm="rsa"),
    "without-an-algorithm": _store(algorithm=None),
    "of-a-later-version": _store(version=4),
    "of-version-3-without-what-it-remembers": _store(version=3),
    "of-version-2-with-what-only-3-remembers": _store(revokedRevokers=[]),
    "that-remembers-no-key-ids": _store(version=3, revokedRevokers=["0" * 63]),
    "that-remembers-one-text": _store(version=3, revokedRevokers="0" * 64),
    "of-a-version-that-is-true": _store(version=True),
    "with-an-unknown-role": _store(roles=["certificate", "root"]),
    "with-no-role": _store(roles=[]),
    "with-models-in-one-text": _store(models="*"),
    "with-a-negative-number-seen": _store(minRevocationSequence=-1),
    "empty": _store_text(b""),
    "with-a-key-twice-in-an-object": _store_text(b'{"version": 2, "version": 2}'),
    "in-pem": _store_text(b"-----BEGIN PUBLIC KEY-----\n"),
}
CASES = (
    *cases("signature/weak-key-", {"WEAK_KEY": WEAK_KEY}, ways=("store",)),
    *cases("signature/store-", {"BAD_TRUST_STORE": BAD_STORE}, ways=("store",)),
)


test_is_refused = refusals(CASES)


def test_cryptography_accepts_a_forgery_under_the_keys_that_are_refused_here() -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    def holds(public: bytes, number: int) -> bool:
        forgery = (1).to_bytes(32, "little") + bytes(32)
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(forgery, b"%d" % number)
        except InvalidSignature:
            return False
        return True

    for name, public in SMALL_ORDER.items():
        # An element of order eight is neutral for one message in eight; of 400 some hold.
        assert any(holds(public, number) for number in range(400)), name
        assert key_problem(public) is not None
