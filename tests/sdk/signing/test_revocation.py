"""Revocation lists: what they take back, and lists that are old, late, early or anybody's."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from hushdoc.errors import CertificateError
from hushdoc.signing import dsse, keys, revocation
from hushdoc.signing.revocation import RevocationList, RevokedCertificate, RevokedKey
from hushdoc.signing.trust_store import TrustedKey, TrustStore

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
CERTIFICATE_ID = "0123456789abcdef0123456789abcdef"

LIST = RevocationList(
    sequence=5,
    issued_at="2026-12-01T08:00:00Z",
    next_update="2026-12-31T08:00:00Z",
    revoked_keys=(RevokedKey(keyid="ab" * 32, reason="lost"),),
    revoked_certificates=(RevokedCertificate(certificate_id=CERTIFICATE_ID, reason=None),),
)


@pytest.fixture(scope="module")
def revoker() -> Any:
    return keys.generate_key()


@pytest.fixture
def store(revoker: Any, key: Any) -> TrustStore:
    return TrustStore(
        keys=(
            TrustedKey.of(revoker, name="revoker", roles=("revocation",)),
            TrustedKey.of(key, name="release", roles=("certificate", "audit")),
        ),
        min_revocation_sequence=5,
    )


def refused(content: bytes | None, store: TrustStore, now: datetime = NOW) -> str:
    with pytest.raises(CertificateError) as caught:
        revocation.read_list(content, store, now=now)
    return caught.value.code


def signed(private: Any, **change: Any) -> bytes:
    return revocation.sign_list(dataclasses.replace(LIST, **change), private).encode()


def test_a_list_is_read_back(revoker: Any, store: TrustStore, tmp_path: Path) -> None:
    line = signed(revoker)
    assert b"\n" not in line
    assert revocation.read_list(line, store, now=NOW) == LIST
    path = tmp_path / "list.json"
    path.write_bytes(line + b"\n")
    assert revocation.read_list_file(path, store, now=NOW) == LIST


def test_an_old_list_is_a_rollback(revoker: Any, store: TrustStore) -> None:
    assert revocation.read_list(signed(revoker, sequence=6), store, now=NOW).sequence == 6
    assert refused(signed(revoker, sequence=4), store) == "REVOCATION_ROLLBACK"
    fresh = dataclasses.replace(store, min_revocation_sequence=0)
    assert revocation.read_list(signed(revoker, sequence=1), fresh, now=NOW).sequence == 1


@pytest.fixture
def second() -> Any:
    return keys.generate_key(keys.ECDSA_P256)


@pytest.fixture
def both(revoker: Any, second: Any, key: Any) -> TrustStore:
    """Lets two keys sign lists; one of them may sign certificates too."""
    return TrustStore(
        keys=(
            TrustedKey.of(revoker, name="first", roles=("revocation", "certificate")),
            TrustedKey.of(second, name="second", roles=("revocation",)),
            TrustedKey.of(key, name="release"),
        )
    )


def revoking(*private: Any, **change: Any) -> dict[str, Any]:
    """A list that revokes these keys."""
    keyids = sorted(TrustedKey.of(one).keyid for one in private)
    revoked = tuple(RevokedKey(keyid=keyid, reason="stolen") for keyid in keyids)
    return {"revoked_keys": revoked, **change}


def forged(*private: Any, **change: Any) -> bytes:
    """A list that is signed whatever it says, by several keys."""
    content = dataclasses.replace(LIST, **change).to_json()
    line = dsse.sign(content, private[0], payload_type=revocation.PAYLOAD_TYPE)
    for one in private[1:]:
        line = dsse.add_signature(line.encode(), one, payload_type=revocation.PAYLOAD_TYPE)
    return line.encode()


def test_a_revoked_key_signs_no_later_list(
    revoker: Any, second: Any, key: Any, both: TrustStore
) -> None:
    """Whoever stole it would take back its own revocation, and all others."""
    first = signed(second, **revoking(revoker, key))
    assert revocation.read_list(first, both, now=NOW).sequence == 5
    for sequence in (5, 6, 7):
        stolen = signed(revoker, sequence=sequence, revoked_keys=())
        assert refused(stolen, both) == "REVOCATION_UNAVAILABLE"
    # What was refused raised no number, and what was revoked before stays so.
    assert revocation.read_list(first, both, now=NOW).sequence == 5
    # No later list gives it back either.
    lenient = signed(second, sequence=8, revoked_keys=())
    assert revocation.read_list(lenient, both, now=NOW).sequence == 8
    assert refused(signed(revoker, sequence=9), both) == "REVOCATION_UNAVAILABLE"
    by_both = forged(revoker, second, sequence=9)
    assert revocation.read_list(by_both, both, now=NOW).sequence == 9


def test_a_key_that_no_list_revokes_goes_on_signing(
    revoker: Any, second: Any, key: Any, both: TrustStore
) -> None:
    revocation.read_list(signed(second, **revoking(key)), both, now=NOW)
    assert revocation.read_list(signed(revoker, sequence=6), both, now=NOW).sequence == 6
    assert revocation.read_list(signed(second, sequence=7), both, now=NOW).sequence == 7


def test_what_is_not_obeyed_revokes_no_revoker(revoker: Any, second: Any, both: TrustStore) -> None:
    late = signed(second, **revoking(revoker, next_update="2026-12-01T09:00:00Z"))
    assert refused(late, both) == "REVOCATION_UNAVAILABLE"
    assert refused(signed(keys.generate_key(), **revoking(revoker)), both) == (
        "REVOCATION_UNAVAILABLE"
    )
    assert revocation.read_list(signed(revoker), both, now=NOW).sequence == 5


def test_a_key_does_not_sign_the_list_that_revokes_it(
    revoker: Any, second: Any, both: TrustStore
) -> None:
    with pytest.raises(CertificateError, match="Sign it with another key") as caught:
        signed(revoker, **revoking(revoker))
    assert caught.value.code == "REVOKED"
    # Another signer of the list counts alone.
    line = forged(revoker, second, **revoking(revoker))
    assert revocation.read_list(line, both, now=NOW).sequence == 5
    narrow = dataclasses.replace(both.keys[1], models=("receipts",))
    store = TrustStore(keys=(both.keys[0], narrow))
    assert revocation.read_list(line, store, now=NOW, model="receipts").sequence == 5
    with pytest.raises(CertificateError) as caught:
        revocation.read_list(line, store, now=NOW, model="invoices")
    assert caught.value.code == "REVOCATION_UNAVAILABLE"


def test_a_list_that_revokes_all_its_signers_is_refused_and_so_are_their_next_ones(
    revoker: Any, second: Any, both: TrustStore
) -> None:
    assert revocation.read_list(signed(revoker), both, now=NOW).sequence == 5
    last = forged(revoker, **revoking(revoker, second, sequence=6))
    assert refused(last, both) == "REVOCATION_UNAVAILABLE"
    assert refused(signed(revoker), both) == "REVOCATION_UNAVAILABLE"
    assert refused(signed(revoker, sequence=7), both) == "REVOCATION_UNAVAILABLE"
    # What else it says is not believed: its number is not, and the other key is not revoked.
    assert revocation.read_list(signed(second), both, now=NOW).sequence == 5


def test_the_file_of_a_store_remembers_whose_lists_are_refused(
    revoker: Any, second: Any, both: TrustStore, tmp_path: Path
) -> None:
    path = tmp_path / "trust.json"
    path.write_bytes(both.to_json())
    before = TrustStore.from_file(path)
    revocation.read_list(signed(second, **revoking(revoker)), before, now=NOW)
    after = TrustStore.from_file(path)
    keyid = both.keys[0].keyid
    assert (after.keys, after.min_revocation_sequence) == (both.keys, 5)
    assert after.revoked_revokers == {keyid}
    assert refused(signed(revoker, sequence=6, revoked_keys=()), after) == "REVOCATION_UNAVAILABLE"
    # A store that an older hushdoc wrote knows the number alone; it learns from the same list.
    path.write_bytes(dataclasses.replace(both, min_revocation_sequence=5).to_json())
    revocation.read_list(
        signed(second, **revoking(revoker)), TrustStore.from_file(path), now=NOW, model="invoices"
    )
    assert TrustStore.from_file(path).revoked_revokers == {keyid}
    path.write_bytes(both.to_json())
    last = forged(revoker, **revoking(revoker))
    assert refused(last, TrustStore.from_file(path)) == "REVOCATION_UNAVAILABLE"
    after = TrustStore.from_file(path)
    assert (after.min_revocation_sequence, after.revoked_revokers) == (0, {keyid})


def test_a_store_that_can_not_be_written_remembers_while_it_is_held(
    revoker: Any, second: Any, both: TrustStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trust.json"
    path.write_bytes(both.to_json())
    before, held = path.read_bytes(), TrustStore.from_file(path)

    def read_only(path: Path, content: bytes) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(revocation.locks, "rewrite", read_only)
    revocation.read_list(signed(second, **revoking(revoker)), held, now=NOW)
    assert path.read_bytes() == before
    assert refused(signed(revoker, sequence=6, revoked_keys=()), held) == "REVOCATION_UNAVAILABLE"


def test_a_file_learns_from_lists_that_it_would_obey_alone(
    revoker: Any, second: Any, both: TrustStore, tmp_path: Path
) -> None:
    """The store was read before it was changed by somebody else."""
    path = tmp_path / "trust.json"
    path.write_bytes(both.to_json())
    held = TrustStore.from_file(path)
    # Another process obeyed a list that revokes a key; this one knows nothing of it.
    knowing = dataclasses.replace(
        both, min_revocation_sequence=5, revoked_revokers=frozenset({both.keys[0].keyid})
    )
    path.write_bytes(knowing.to_json())
    revocation.read_list(signed(revoker, sequence=8), held, now=NOW)
    assert TrustStore.from_file(path) == knowing
    revocation.read_list(signed(second, sequence=9), held, now=NOW)
    assert TrustStore.from_file(path) == dataclasses.replace(knowing, min_revocation_sequence=9)
    # A key was added, so that there is one more who may sign lists.
    third = TrustedKey.of(keys.generate_key(), name="third", roles=("revocation",))
    more = dataclasses.replace(both, keys=(*both.keys, third))
    path.write_bytes(more.to_json())
    revocation.read_list(signed(second, **revoking(revoker, sequence=10)), held, now=NOW)
    assert TrustStore.from_file(path) == dataclasses.replace(
        more, min_revocation_sequence=10, revoked_revokers=frozenset({both.keys[0].keyid})
    )


def test_a_list_is_not_trusted_for_ever(revoker: Any, store: TrustStore) -> None:
    """An attacker who withholds newer lists can freeze the world until nextUpdate only."""
    end = datetime(2026, 12, 31, 8, tzinfo=UTC)
    assert revocation.read_list(signed(revoker), store, now=end - timedelta(seconds=1)) == LIST
    assert refused(signed(revoker), store, end) == "REVOCATION_UNAVAILABLE"
    assert refused(signed(revoker), store, end + timedelta(days=400)) == "REVOCATION_UNAVAILABLE"


def test_a_list_from_the_future_is_not_trusted(revoker: Any, store: TrustStore) -> None:
    issued = datetime(2026, 12, 1, 8, tzinfo=UTC)
    early = issued - revocation.CLOCK_TOLERANCE
    assert revocation.read_list(signed(revoker), store, now=early) == LIST
    assert refused(signed(revoker), store, early - timedelta(seconds=1)) == "REVOCATION_UNAVAILABLE"
    assert refused(signed(revoker), store, datetime(1970, 1, 1, tzinfo=UTC)) == (
        "REVOCATION_UNAVAILABLE"
    )


def test_the_zone_of_the_clock_is_heeded(revoker: Any, store: TrustStore) -> None:
    east = timezone(timedelta(hours=9))
    last = datetime(2026, 12, 31, 16, 59, 59, tzinfo=east)  # 07:59:59 in UTC
    assert revocation.read_list(signed(revoker), store, now=last) == LIST
    late = last + timedelta(seconds=1)
    assert refused(signed(revoker), store, late) == "REVOCATION_UNAVAILABLE"


def test_a_broken_list_is_unavailable(revoker: Any, store: TrustStore) -> None:
    line = signed(revoker)
    unsigned = json.dumps({**json.loads(line), "signatures": []}).encode()
    for content in (b"\n", b"{}", b"[]", line * 2, unsigned, LIST.to_json()):
        assert refused(content, store) == "REVOCATION_UNAVAILABLE"


@pytest.mark.parametrize(
    "edit",
    [
        {"schemaVersion": 2},
        {"schemaVersion": True},
        {"sequence": 0},
        {"sequence": -1},
        {"sequence": True},
        {"sequence": 5.0},
        {"sequence": "5"},
        {"issuedAt": "2026-12-01"},
        {"issuedAt": "2026-12-01T08:00:00+00:00"},
        {"issuedAt": "2026-12-31T08:00:00Z"},
        {"nextUpdate": None},
        {"nextUpdate": "2026-13-31T08:00:00Z"},
        {"revokedKeys": {}},
        {"revokedKeys": ["ab" * 32]},
        {"revokedKeys": [{"keyid": "ab" * 32}]},
        {"revokedKeys": [{"keyid": "AB" * 32, "reason": None}]},
        {"revokedKeys": [{"keyid": "ab" * 31, "reason": None}]},
        {"revokedKeys": [{"keyid": "ab" * 32, "reason": ""}]},
        {"revokedKeys": [{"keyid": "ab" * 32, "reason": None}] * 2},
        {"revokedCertificates": [{"certificateId": "ab" * 32, "reason": None}]},
        {"revokedCertificates": [{"certificateId": "ab" * 16, "reason": None}] * 2},
        {"extra": 1},
    ],
)
def test_a_malformed_list_is_unavailable(
    revoker: Any, store: TrustStore, edit: dict[str, Any]
) -> None:
    data = {**json.loads(LIST.to_json()), **edit}

    def line(payload: dict[str, Any]) -> bytes:
        content = json.dumps(payload).encode()
        return dsse.sign(content, revoker, payload_type=revocation.PAYLOAD_TYPE).encode()

    assert refused(line(data), store) == "REVOCATION_UNAVAILABLE"
    for name in edit.keys() - {"extra"}:
        missing = {key: value for key, value in json.loads(LIST.to_json()).items() if key != name}
        assert refused(line(missing), store) == "REVOCATION_UNAVAILABLE"


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": 0},
        {"next_update": LIST.issued_at},
        {"issued_at": "now"},
        {"revoked_keys": LIST.revoked_keys * 2},
        {"revoked_certificates": (RevokedCertificate(certificate_id="x", reason=None),)},
        {"revoked_keys": (RevokedKey(keyid="ab" * 32, reason=""),)},
    ],
)
def test_what_can_not_be_read_back_is_not_signed(revoker: Any, change: dict[str, Any]) -> None:
    with pytest.raises(CertificateError):
        signed(revoker, **change)


def test_a_revoked_certificate_is_refused_whoever_signed_it(store: TrustStore) -> None:
    with pytest.raises(CertificateError) as caught:
        revocation.require_not_revoked(CERTIFICATE_ID, store.keys, LIST, threshold=0)
    assert caught.value.code == "REVOKED"
    left = revocation.require_not_revoked("ab" * 16, store.keys, LIST, threshold=2)
    assert left == store.keys


def test_revoked_keys_no_longer_count(store: TrustStore) -> None:
    lost = dataclasses.replace(
        LIST, revoked_keys=(RevokedKey(keyid=store.keys[0].keyid, reason="\x1b[2Jlost"),)
    )
    arguments = ("ab" * 16, store.keys, lost)
    assert revocation.require_not_revoked(*arguments, threshold=1) == store.keys[1:]
    assert revocation.unrevoked(store.keys, lost) == store.keys[1:]
    with pytest.raises(CertificateError) as caught:
        revocation.require_not_revoked(*arguments, threshold=2)
    assert caught.value.code == "REVOKED"
    assert "lost" in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_without_signers_only_a_threshold_of_nothing_is_met() -> None:
    assert revocation.require_not_revoked("ab" * 16, (), LIST, threshold=0) == ()
    with pytest.raises(CertificateError):
        revocation.require_not_revoked("ab" * 16, (), LIST, threshold=1)


def test_the_next_list_holds_all_that_was_revoked(revoker: Any, store: TrustStore) -> None:
    following = revocation.successor(
        LIST,
        keys=["cd" * 32, "ab" * 32, "cd" * 32],
        certificates=[CERTIFICATE_ID, "ef" * 16],
        reason="stolen",
        valid_for=timedelta(days=7),
        now=NOW,
    )
    assert following.sequence == 6
    assert (following.issued_at, following.next_update) == (
        "2026-12-01T12:00:00Z",
        "2026-12-08T12:00:00Z",
    )
    assert [(item.keyid, item.reason) for item in following.revoked_keys] == [
        ("ab" * 32, "lost"),
        ("cd" * 32, "stolen"),
    ]
    assert [item.certificate_id for item in following.revoked_certificates] == [
        CERTIFICATE_ID,
        "ef" * 16,
    ]
    line = revocation.sign_list(following, revoker).encode()
    assert revocation.read_list(line, store, now=NOW) == following


def test_a_list_of_any_age_can_be_continued(revoker: Any, key: Any, store: TrustStore) -> None:
    old = signed(revoker, sequence=1, next_update="2026-12-01T09:00:00Z")
    assert refused(old, store) == "REVOCATION_ROLLBACK"
    assert revocation.verify_list(old, store).sequence == 1
    with pytest.raises(CertificateError) as caught:
        revocation.verify_list(signed(key), store)
    assert caught.value.code == "REVOCATION_UNAVAILABLE"
    stolen = dataclasses.replace(store, revoked_revokers=frozenset({store.keys[0].keyid}))
    with pytest.raises(CertificateError) as caught:
        revocation.verify_list(old, stolen)
    assert caught.value.code == "REVOCATION_UNAVAILABLE"
