"""Keys of both algorithms: known answers, keys that prove nothing, and second spellings."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hushdoc_small_order
import pytest
from hushdoc_processes import in_python

from hushdoc.errors import InputError, OutputExistsError, SignatureError
from hushdoc.signing import keys
from hushdoc.signing.trust_store import TrustedKey

P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701c"
        "f9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0"
        "f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f76098"
        "4dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]
"""Section 7.1: private key, public key, message, signature."""

RFC_6979_PRIVATE = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721
RFC_6979_PUBLIC = bytes.fromhex(
    "0460fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"
    "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299"
)
RFC_6979 = {
    b"sample": (
        0xEFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716,
        0xF7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8,
    ),
    b"test": (
        0xF1ABB023518351CD71D881567B1EA663ED3EFCF6C5132B354F28D3B0B7D38367,
        0x019F4113742A2B14BD25926B49C649155F267E60D3814B4C0CC84250E46F0083,
    ),
}
"""Appendix A.2.5, SHA-256: message, r and s."""


def p256_holds(signature: bytes, message: bytes = b"sample") -> bool:
    return keys.verifies(RFC_6979_PUBLIC, keys.ECDSA_P256, signature, message)


def der_integer(value: int, *, padding: bytes = b"") -> bytes:
    content = padding + value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
    return bytes((2, len(content))) + content


def der(*parts: bytes, after: bytes = b"") -> bytes:
    content = b"".join(parts)
    return bytes((0x30, len(content))) + content + after


@pytest.mark.parametrize(("private", "public", "message", "signature"), RFC_8032)
def test_the_answers_of_rfc_8032(private: str, public: str, message: str, signature: str) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private))
    assert keys.algorithm_of(key) == keys.ED25519
    assert keys.public_key_of(key).hex() == public
    assert keys.key_problem(bytes.fromhex(public)) is None
    assert keys.sign_message(bytes.fromhex(message), key).hex() == signature
    holds = (bytes.fromhex(public), keys.ED25519, bytes.fromhex(signature))
    assert keys.verifies(*holds, bytes.fromhex(message))
    assert not keys.verifies(*holds, bytes.fromhex(message) + b"\0")


@pytest.mark.parametrize("message", RFC_6979)
def test_the_answers_of_rfc_6979(message: bytes) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.derive_private_key(RFC_6979_PRIVATE, ec.SECP256R1())
    assert keys.algorithm_of(key) == keys.ECDSA_P256
    assert keys.public_key_of(key) == RFC_6979_PUBLIC
    assert keys.key_problem(RFC_6979_PUBLIC, keys.ECDSA_P256) is None
    r, s = RFC_6979[message]
    assert p256_holds(der(der_integer(r), der_integer(s)), message)
    assert not p256_holds(der(der_integer(r), der_integer(s)), message + b"\0")
    assert p256_holds(keys.sign_message(message, key), message)


def test_the_twin_of_an_ecdsa_signature_holds_as_well() -> None:
    """Key services return either, so it is accepted, and nothing is told apart by signatures."""
    r, s = RFC_6979[b"sample"]
    assert p256_holds(der(der_integer(r), der_integer(P256_ORDER - s)))


def test_every_other_spelling_of_an_ecdsa_signature_is_refused() -> None:
    r, s = RFC_6979[b"sample"]
    sound = der(der_integer(r), der_integer(s))
    assert p256_holds(sound)
    other = {
        "a zero in front of r": der(der_integer(r, padding=b"\0"), der_integer(s)),
        "a zero in front of s": der(der_integer(r), der_integer(s, padding=b"\0")),
        "a negative r": der(b"\2\x20" + r.to_bytes(32, "big"), der_integer(s)),
        "bytes after it": der(der_integer(r), der_integer(s), after=b"\0"),
        "a third number": der(der_integer(r), der_integer(s), der_integer(1)),
        "a long length": b"\x30\x81" + sound[1:],
        "an open length": b"\x30\x80" + sound[2:] + b"\0\0",
        "a long length of r": der(b"\2\x81" + der_integer(r)[1:], der_integer(s)),
        "another tag": b"\x31" + sound[1:],
        "too short": sound[:-1],
        "r and s side by side": r.to_bytes(32, "big") + s.to_bytes(32, "big"),
        "nothing": b"",
    }
    assert [what for what, signature in other.items() if p256_holds(signature)] == []


@pytest.mark.parametrize("r", [-1, 0, 1, P256_ORDER - 1, P256_ORDER, P256_ORDER + 1, 2**256])
@pytest.mark.parametrize("s", [-1, 0, 1, P256_ORDER - 1, P256_ORDER, P256_ORDER + 1, 2**256])
def test_numbers_at_the_edge_sign_nothing(r: int, s: int) -> None:
    assert not p256_holds(der(der_integer(r), der_integer(s)))


def test_numbers_plus_the_order_are_no_second_signature() -> None:
    r, s = RFC_6979[b"test"]
    assert p256_holds(der(der_integer(r), der_integer(s)), b"test")
    assert not p256_holds(der(der_integer(r + P256_ORDER), der_integer(s)), b"test")
    assert not p256_holds(der(der_integer(r), der_integer(s + P256_ORDER)), b"test")


def test_one_algorithm_never_passes_for_the_other() -> None:
    for signer, other in ((keys.ED25519, keys.ECDSA_P256), (keys.ECDSA_P256, keys.ED25519)):
        private = keys.generate_key(signer)
        signature = keys.sign_message(b"x", private)
        wrong = keys.public_key_of(keys.generate_key(other))
        assert not keys.verifies(wrong, other, signature, b"x")
        assert keys.key_problem(keys.public_key_of(private), other) is not None


def test_the_constant_is_a_point_of_order_eight() -> None:
    prime = 2**255 - 19
    d = -121665 * pow(121666, -1, prime) % prime
    y = keys._ORDER_EIGHT_Y
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


def _bad_p256_keys() -> dict[str, bytes]:
    x, y = RFC_6979_PUBLIC[1:33], RFC_6979_PUBLIC[33:]
    prime = 2**256 - 2**224 + 2**192 + 2**96 - 1
    # The two points with x = 0: adding the prime still fits in 32 bytes and names them again.
    b = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
    root = pow(b, (prime + 1) // 4, prime)
    assert root * root % prime == b
    return {
        "nothing": b"",
        "infinity": b"\0",
        "zeros": bytes(65),
        "the origin": b"\4" + bytes(64),
        "compressed": bytes((2 | y[-1] & 1,)) + x,
        "hybrid": bytes((6 | y[-1] & 1,)) + x + y,
        "without its mark": x + y,
        "y of another point": b"\4" + x + bytes((y[0] ^ 1,)) + y[1:],
        "x past the prime": b"\4" + prime.to_bytes(32, "big") + root.to_bytes(32, "big"),
        "too long": RFC_6979_PUBLIC + b"\0",
    }


@pytest.mark.parametrize("what", _bad_p256_keys())
def test_p256_points_are_on_the_curve_and_spelled_once(what: str) -> None:
    public_key = _bad_p256_keys()[what]
    assert keys.key_problem(public_key, keys.ECDSA_P256) is not None
    with pytest.raises(SignatureError) as caught:
        TrustedKey(name="x", public_key=public_key, algorithm=keys.ECDSA_P256)
    assert caught.value.code == "WEAK_KEY"


PEM = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
"""
"""The first public key of RFC_8032, as openssl writes it."""


@pytest.mark.parametrize(
    "content", [PEM, PEM.replace("\n", "\r\n"), "\n" + PEM + "\n\n", "Our key:\n" + PEM]
)
def test_public_keys_are_read_as_openssl_writes_them(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key.pem"
    path.write_text(content, newline="")
    assert keys.load_public_key(path) == (keys.ED25519, bytes.fromhex(RFC_8032[0][1]))


@pytest.mark.parametrize(
    "content",
    [
        "",
        PEM.replace("MCow", "MCox"),
        PEM.replace("HURo=", "HUQ=="),
        PEM.replace("HURo=", "HURo"),
        PEM.replace("HURo=", "HURoAA=="),
        PEM.replace("PUBLIC", "PRIVATE"),
        PEM.replace("END", "BEGIN"),
    ],
)
def test_other_texts_are_no_public_keys(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key.pem"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        keys.load_public_key(path)
    assert caught.value.code == "BAD_KEY"


WITHOUT_KEY_LIBRARY = """
import sys
from pathlib import Path
sys.modules["cryptography"] = None
from hushdoc.signing import keys
from hushdoc.errors import MissingExtraError

public, message, signature, point, pem = sys.argv[1:]
holds = bytes.fromhex(public), keys.ED25519, bytes.fromhex(signature)
print(keys.verifies(*holds, bytes.fromhex(message)), keys.verifies(*holds, b"another"))
print(keys.load_public_key(Path(pem))[0])
Path(pem).write_text("-----BEGIN PUBLIC KEY-----\\nAAAA\\n-----END PUBLIC KEY-----")
for action in (
    lambda: keys.verifies(bytes.fromhex(point), keys.ECDSA_P256, b"", b""),
    keys.generate_key,
    lambda: keys.load_private_key(Path(pem)),
    lambda: keys.load_public_key(Path(pem)),
):
    try:
        action()
    except MissingExtraError as error:
        print("hushdoc[keys]" in str(error))
"""


def test_checking_ed25519_takes_the_base_installation_alone(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text(PEM)
    _, public, message, signature = RFC_8032[1]
    given = (public, message, signature, RFC_6979_PUBLIC.hex(), tmp_path / "key.pem")
    done = in_python(WITHOUT_KEY_LIBRARY, *given)
    assert done.stdout.split() == ["True", "False", "ed25519", "True", "True", "True", "True"]


def test_generated_p256_keys_are_sound() -> None:
    for _ in range(8):
        public = keys.public_key_of(keys.generate_key(keys.ECDSA_P256))
        assert keys.key_problem(public, keys.ECDSA_P256) is None


def test_other_algorithms_are_a_callers_mistake() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    with pytest.raises(ValueError, match="expected one of"):
        keys.generate_key("rsa")
    with pytest.raises(ValueError, match="expected one of"):
        keys.key_problem(b"", "none")
    with pytest.raises(ValueError, match="expected one of"):
        keys.public_key_of(ec.generate_private_key(ec.SECP384R1()))


@pytest.mark.parametrize("algorithm", keys.ALGORITHMS)
def test_a_private_key_is_for_its_owner_and_never_replaced(tmp_path: Path, algorithm: str) -> None:
    key = keys.generate_key(algorithm)
    path = tmp_path / "release.key"
    keys.write_private_key(key, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keys.public_key_of(keys.load_private_key(path)) == keys.public_key_of(key)
    before = path.read_bytes()
    with pytest.raises(OutputExistsError):
        keys.write_private_key(keys.generate_key(algorithm), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("algorithm", keys.ALGORITHMS)
def test_an_encrypted_key_is_read_with_its_passphrase_alone(tmp_path: Path, algorithm: str) -> None:
    key, path = keys.generate_key(algorithm), tmp_path / "release.key"
    keys.write_private_key(key, path, passphrase="correct h\u00f6rse")
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in path.read_bytes()
    found = keys.load_private_key(path, passphrase="correct h\u00f6rse")
    assert keys.public_key_of(found) == keys.public_key_of(key)
    for passphrase, code in ((None, "KEY_ENCRYPTED"), ("wrong", "BAD_KEY"), ("", "BAD_KEY")):
        with pytest.raises(InputError) as refused:
            keys.load_private_key(path, passphrase=passphrase)
        assert refused.value.code == code
    keys.write_private_key(key, tmp_path / "open.key")
    with pytest.raises(InputError, match="not encrypted"):
        keys.load_private_key(tmp_path / "open.key", passphrase="correct h\u00f6rse")


@pytest.mark.skipif(os.name != "posix", reason="permission bits say nothing here")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o610])
def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "release.key"
    keys.write_private_key(keys.generate_key(), path)
    path.chmod(mode)
    with pytest.raises(InputError, match=f"mode {mode:04o}.*chmod 600") as refused:
        keys.load_private_key(path)
    assert refused.value.code == "KEY_EXPOSED"
    path.with_name("der").write_bytes(b"0\x2e\x02\xff")  # may be one, in another form
    path.with_name("der").chmod(mode)
    with pytest.raises(InputError) as refused:
        keys.load_private_key(path.with_name("der"))
    assert refused.value.code == "KEY_EXPOSED"
    for name, content in (("trust.json", "{}"), ("public.pem", "-----BEGIN PUBLIC KEY-----")):
        path.with_name(name).write_text(content)
        path.with_name(name).chmod(mode)
        with pytest.raises(InputError, match="holds no private key") as refused:
            keys.load_private_key(path.with_name(name))
        assert refused.value.code == "BAD_KEY"
    path.chmod(0o400)
    keys.load_private_key(path)


def pem_of(key: Any) -> tuple[bytes, bytes]:
    """Returns private and public key in PEM."""
    from cryptography.hazmat.primitives import serialization

    return (
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
    )


def foreign_keys() -> list[Any]:
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa

    return [
        ec.generate_private_key(ec.SECP384R1()),
        ec.generate_private_key(ec.SECP256K1()),
        ed448.Ed448PrivateKey.generate(),
        rsa.generate_private_key(public_exponent=65537, key_size=2048),
    ]


@pytest.mark.parametrize("algorithm", keys.ALGORITHMS)
def test_public_keys_are_read_from_pem(tmp_path: Path, algorithm: str) -> None:
    key = keys.generate_key(algorithm)
    path = tmp_path / "service.pem"
    path.write_bytes(pem_of(key)[1])
    assert keys.load_public_key(path) == (algorithm, keys.public_key_of(key))


@pytest.mark.parametrize(
    ("load", "half"),
    [(keys.load_private_key, 0), (keys.load_public_key, 1)],
    ids=["private", "public"],
)
def test_other_files_are_no_keys(tmp_path: Path, load: Callable[[Path], object], half: int) -> None:
    path = tmp_path / "other.pem"
    other_half = pem_of(keys.generate_key())[1 - half]
    for content in (b"", b"hello", other_half, *(pem_of(key)[half] for key in foreign_keys())):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(InputError) as caught:
            load(path)
        assert caught.value.code == "BAD_KEY"
    with pytest.raises(InputError):
        load(tmp_path / "none.pem")


@pytest.mark.parametrize("index", range(8))
def test_a_first_half_of_small_order_is_no_signature(index: int) -> None:
    """Its equation holds, and OpenSSL accepts it; only the holder of the key can make it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = hushdoc_small_order.public_key()
    assert keys.key_problem(public) is None
    message = hushdoc_small_order.fitting((b"%d" % count for count in range(1000)), index)
    made = hushdoc_small_order.signed(message, hushdoc_small_order.SMALL_ORDER[index])
    Ed25519PublicKey.from_public_bytes(public).verify(made, message)
    assert not keys.verifies(public, keys.ED25519, made, message)


@pytest.mark.parametrize("r", hushdoc_small_order.NOT_CANONICAL)
def test_another_spelling_of_small_order_is_no_signature_either(r: bytes) -> None:
    public = hushdoc_small_order.public_key()
    for count in range(16):
        message = b"%d" % count
        made = hushdoc_small_order.signed(message, r)
        assert not keys.verifies(public, keys.ED25519, made, message)


def test_small_order_is_refused_by_us_whatever_the_library_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A library that accepts everything is never asked."""
    bindings = pytest.importorskip("nacl.bindings")
    monkeypatch.setattr(bindings, "crypto_sign_open", lambda signed, public: b"")
    public = hushdoc_small_order.public_key()
    assert keys.verifies(public, keys.ED25519, (9).to_bytes(32, "little") + bytes(32), b"x")
    for r in (*hushdoc_small_order.SMALL_ORDER, *hushdoc_small_order.NOT_CANONICAL):
        assert not keys.verifies(public, keys.ED25519, r + bytes(32), b"x")


def test_a_private_key_that_is_not_there_is_no_wrong_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no private key") as refused:
        keys.load_private_key(tmp_path / "none.key")
    assert refused.value.code == "BAD_KEY"
