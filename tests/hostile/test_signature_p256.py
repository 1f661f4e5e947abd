"""P-256, where one key makes many signatures, and each of them has a twin and other spellings."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from hushdoc_corruption import Act, Refused, Scene, acceptances, b64, cases, on_signature, refusals

from hushdoc.signing import dsse, keys
from hushdoc.signing.keys import ECDSA_P256, sign_message
from hushdoc.signing.trust_store import TrustedKey

P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def _with_p256(scene: Scene, **options: Any) -> Any:
    """Seals with a P-256 key that the application trusts, and returns it."""
    key = keys.generate_key(ECDSA_P256)
    scene.sign(scene.payload(), key)
    scene.trust(TrustedKey.of(key), TrustedKey.of(scene.other_key), **options)
    return key


def _twin(signature: bytes) -> bytes:
    """Returns (r, n - s), which holds as well as (r, s) does."""
    from cryptography.hazmat.primitives.asymmetric import utils

    r, s = utils.decode_dss_signature(signature)
    return utils.encode_dss_signature(r, P256_ORDER - s)


def _p256_twin_counts_twice(scene: Scene) -> None:
    _with_p256(scene, threshold=2)
    data = scene.envelope()
    made = data["signatures"][0]
    twin = {"keyid": "", "sig": b64(_twin(base64.b64decode(made["sig"])))}
    data["signatures"].append(twin)
    scene.write_envelope(data)


def _p256_again(scene: Scene) -> None:
    """ECDSA is random: one key makes as many different signatures as it likes."""
    key = _with_p256(scene, threshold=2)
    data = scene.envelope()
    message = dsse.pae(data["payloadType"], scene.payload())
    data["signatures"].append({"keyid": "", "sig": b64(sign_message(message, key))})
    scene.write_envelope(data)


def _p256(change: Callable[[bytes], bytes]) -> Act:
    def act(scene: Scene) -> None:
        _with_p256(scene)
        on_signature(change)(scene)

    return act


def _long_length(signature: bytes) -> bytes:
    """BER: the length in two bytes where one would do."""
    return b"\x30\x81" + signature[1:]


def _side_by_side(signature: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric import utils

    return b"".join(number.to_bytes(32) for number in utils.decode_dss_signature(signature))


def _numbers(r: int, s: int) -> Callable[[bytes], bytes]:
    from cryptography.hazmat.primitives.asymmetric import utils

    return lambda _: utils.encode_dss_signature(r, s)


REFUSED: Refused = {
    "NO_TRUSTED_SIGNATURE": {
        # cryptography accepts both (r, s) and (r, n - s): two signatures, still one key.
        "p256-twin-for-threshold-2": _p256_twin_counts_twice,
        "p256-signed-again-for-threshold-2": _p256_again,
        "p256-length-in-ber": _p256(_long_length),
        "p256-side-by-side": _p256(_side_by_side),
        "p256-byte-after": _p256(lambda sig: sig + b"\0"),
        "p256-zeros": _p256(_numbers(0, 0)),
        "p256-ones": _p256(_numbers(1, 1)),
        "p256-as-large-as-the-order": _p256(_numbers(P256_ORDER, P256_ORDER)),
    },
}

CASES = cases("signature/", REFUSED)


test_is_refused = refusals(CASES)


test_what_is_harmless_comes_as_far_as_the_door = acceptances(
    {
        "p256": _with_p256,
        "twin": _p256(_twin),
    }
)
