"""Trust stores: sound keys, each once, each for what it is trusted with."""

from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hushdoc.errors import InputError, SignatureError
from hushdoc.signing import keys, trust_store


def code_of(path: Path, data: Any) -> str:
    path.write_text(json.dumps(data))
    with pytest.raises((InputError, SignatureError)) as caught:
        trust_store.TrustStore.from_file(path)
    return caught.value.code


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trust.json"


@pytest.fixture(scope="module")
def store() -> trust_store.TrustStore:
    """A store with every algorithm and every role."""
    first, second = keys.generate_key(), keys.generate_key(keys.ECDSA_P256)
    return trust_store.TrustStore(
        keys=(
            trust_store.TrustedKey.of(first, name="é", models=("invoices", "receipts")),
            trust_store.TrustedKey.of(second, name="service", roles=trust_store.ROLES),
        ),
        min_revocation_sequence=7,
    )


def test_a_trust_store_is_read_back(path: Path, store: trust_store.TrustStore) -> None:
    path.write_bytes(store.to_json())
    assert trust_store.TrustStore.from_file(path) == store
    assert trust_store.TrustStore.from_json(store.to_json()) == store


def test_only_a_store_that_remembers_revoked_keys_has_a_version_that_old_readers_refuse(
    path: Path, store: trust_store.TrustStore
) -> None:
    revoked = frozenset(key.keyid for key in store.keys)
    remembering = dataclasses.replace(store, revoked_revokers=revoked)
    path.write_bytes(remembering.to_json())
    assert trust_store.TrustStore.from_file(path) == remembering != store
    assert [json.loads(item.to_json())["version"] for item in (store, remembering)] == [2, 3]


@pytest.mark.parametrize(
    "edit",
    [
        {"version": 0},
        {"version": 1},
        {"version": "2"},
        {"extra": 1},
        {"minRevocationSequence": None},
        {"minRevocationSequence": 1.5},
        {"minRevocationSequence": True},
        {"keys": {}},
        {"keys": [{}]},
        {"keys": [{"extra": 1}]},
        {"keys": [{"algorithm": "none"}]},
        {"keys": [{"algorithm": "ed25519ph"}]},
        {"keys": [{"algorithm": "Ed25519"}]},
        {"keys": [{"publicKey": "AA"}]},
        {"keys": [{"name": ""}]},
        {"keys": [{"roles": "certificate"}]},
        {"keys": [{"roles": ["certificate", "certificate"]}]},
        {"keys": [{"roles": ["Certificate"]}]},
        {"keys": [{"roles": [1]}]},
    ],
)
def test_a_malformed_store_is_refused(
    build: ModuleType, key: Any, path: Path, edit: dict[str, Any]
) -> None:
    data = json.loads(build.trust(key).to_json())
    if isinstance(edit.get("keys"), list) and edit["keys"][0]:
        edit = {"keys": [{**data["keys"][0], **edit["keys"][0]}]}
    assert code_of(path, {**data, **edit}) == "BAD_TRUST_STORE"


def test_what_is_missing_is_not_guessed(path: Path, store: trust_store.TrustStore) -> None:
    sound = json.loads(store.to_json())
    for name in sound:
        assert code_of(path, {k: v for k, v in sound.items() if k != name}) == "BAD_TRUST_STORE"
    for name in sound["keys"][0]:
        first = {k: v for k, v in sound["keys"][0].items() if k != name}
        assert code_of(path, {**sound, "keys": [first]}) == "BAD_TRUST_STORE"


def test_the_messages_of_hostile_stores_steer_no_terminal(path: Path, key: Any) -> None:
    data = json.loads(
        trust_store.TrustStore.of([trust_store.TrustedKey.of(key, name="x")]).to_json()
    )
    weak = (1).to_bytes(32, "little")
    data["keys"][0].update(
        name="\x1b[2Jme",
        keyid=keys.key_id(weak),
        publicKey=base64.b64encode(weak).decode("ascii"),
    )
    path.write_text(json.dumps(data))
    with pytest.raises(SignatureError) as caught:
        trust_store.TrustStore.from_file(path)
    assert "\x1b" not in str(caught.value)


def test_keys_are_found_by_their_role(store: trust_store.TrustStore) -> None:
    first, second = store.keys
    assert store.with_role("certificate") == (first, second)
    assert store.with_role("audit") == store.with_role("revocation") == (second,)
    with pytest.raises(ValueError, match="expected one of"):
        store.with_role("root")


@pytest.mark.parametrize("roles", [(), ("root",), ("audit", "audit"), ("certificate", "")])
def test_roles_are_those_there_are(key: Any, roles: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="expected some of"):
        trust_store.TrustedKey.of(key, roles=roles)


def test_one_text_is_no_list_of_models(key: Any) -> None:
    one: Any = "invoices-of-acme"
    with pytest.raises(InputError, match="expected a list, .* of names of models"):
        trust_store.TrustedKey.of(key, models=one)
    assert not trust_store.TrustedKey.of(key, models=(one,)).speaks_for("invoices")


def test_a_sequence_number_is_never_negative() -> None:
    with pytest.raises(ValueError, match="expected 0 or more"):
        trust_store.TrustStore(keys=(), min_revocation_sequence=-1)
