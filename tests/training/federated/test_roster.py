"""Rosters: signed, approved by digest, and refused where parties can't be told apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import pytest
from hushdoc_parties import FIRST, SECOND, SERVER
from hushdoc_parties import roster as made

from hushdoc.errors import CertificateError, InputError, OutputExistsError, PrivacyError
from hushdoc.serialization import strict_json
from hushdoc.signing import dsse, keys
from hushdoc_training.federated import roster as rosters
from hushdoc_training.federated.roster import COORDINATOR, PAYLOAD_TYPE, Party, Roster


def test_a_roster_is_read_as_it_was_signed(tmp_path: Path) -> None:
    rosters.save(tmp_path / "roster.json", made(), SERVER)
    found = rosters.load(tmp_path / "roster.json")
    assert found == made()
    assert found.digest == made().digest
    assert found.number_of("second") == 1
    assert found.party_of(SECOND).name == "second"
    found.require_approved(f" {found.digest.upper()}\n")
    with pytest.raises(OutputExistsError):
        rosters.save(tmp_path / "roster.json", made(), SERVER)


CHANGES: dict[str, dict[str, Any]] = {
    "run": {"run": "cd" * 16},
    "plan": {"plan": {"clients": 3}},
    "task": {"task": {"model": "other"}},
    "start": {"start": "sha256:" + "1" * 64},
    "one client fewer": {"clients": made().clients[:1]},
    "another order": {"clients": made().clients[::-1]},
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_is_changed_has_another_digest_and_is_not_approved(change: str) -> None:
    other = replace(made(), **CHANGES[change])
    with pytest.raises(PrivacyError, match="was approved") as refused:
        other.require_approved(made().digest)
    assert refused.value.code == "ROSTER_NOT_APPROVED"


WRONG: dict[str, dict[str, Any]] = {
    "two clients with one key": {"clients": (Party.of("first", FIRST), Party.of("second", FIRST))},
    "two clients of one name": {"clients": (Party.of("first", FIRST), Party.of("first", SECOND))},
    "a client with the coordinator's key": {"clients": (Party.of("first", SERVER),)},
    "a client called coordinator": {"clients": (Party.of(COORDINATOR, FIRST),)},
    "a coordinator of another name": {"coordinator": Party.of("server", SERVER)},
    "no client": {"clients": ()},
    "a key of small order": {"clients": (Party(name="first", public_key="01" + "00" * 31),)},
    "a name with a slash": {"clients": (replace(made().clients[0], name="../first"),)},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_parties_that_cannot_be_told_apart_are_refused(wrong: str, tmp_path: Path) -> None:
    data = made(**WRONG[wrong]).to_dict()
    with pytest.raises(CertificateError):
        Roster.from_dict(data)
    content = strict_json.dumps({"schemaVersion": 1, **data})
    path = tmp_path / "roster.json"
    path.write_text(dsse.sign(content, SERVER, payload_type=PAYLOAD_TYPE))
    with pytest.raises(InputError) as refused:
        rosters.load(path)
    assert refused.value.code == "BAD_ROSTER"


def signed(content: bytes, key: keys.PrivateKey = SERVER, kind: str = PAYLOAD_TYPE) -> bytes:
    return dsse.sign(content, key, payload_type=kind).encode()


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "by another key": lambda content: signed(content, FIRST),
    "as a certificate": lambda content: signed(content, kind=dsse.PAYLOAD_TYPE),
    "unsigned": lambda content: content,
    "of a newer schema": lambda content: signed(content.replace(b'Version":1', b'Version":2')),
    "in other bytes": lambda content: signed(content.replace(b'":', b'": ')),
    "cut off": lambda content: signed(content)[:-9],
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_what_the_coordinator_has_not_signed_is_refused(damage: str, tmp_path: Path) -> None:
    (tmp_path / "roster.json").write_bytes(DAMAGED[damage](made().content))
    with pytest.raises(InputError) as refused:
        rosters.load(tmp_path / "roster.json")
    assert refused.value.code == "BAD_ROSTER"


def test_only_the_coordinator_signs_and_only_parties_have_a_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="coordinator's to use"):
        rosters.save(tmp_path / "roster.json", made(), FIRST)
    with pytest.raises(InputError) as refused:
        made().party_of(build.known_key(9))
    assert refused.value.code == "NOT_IN_ROSTER"
    with pytest.raises(InputError):
        made().number_of(COORDINATOR)
    assert not (tmp_path / "roster.json").exists()


def test_frames_are_verified_by_the_keys_of_all_parties() -> None:
    public = made().public_keys
    assert sorted(public) == [COORDINATOR, "first", "second"]
    public["first"].verify(keys.sign_message(b"frame", FIRST), b"frame")


def test_a_party_has_an_ed25519_key() -> None:
    with pytest.raises(ValueError, match="Ed25519"):
        Party.of("first", keys.generate_key(keys.ECDSA_P256))
