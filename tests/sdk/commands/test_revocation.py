"""`hushdoc trust revoke` and `update`: lists that only ever grow, and stores that remember."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hushdoc_command_runs import refusal, run

from hushdoc.signing import keys, revocation
from hushdoc.signing.trust_store import TrustStore

KEYID, CERTIFICATE_ID = "ab" * 32, "cd" * 16
DAYS = ("--next-update-days", "30")


@pytest.fixture
def revoker(tmp_path: Path) -> Path:
    run("keygen", "--out", tmp_path / "revoker", "--role", "revocation")
    return tmp_path / "revoker.key"


@pytest.fixture
def store(revoker: Path, tmp_path: Path) -> Path:
    """Believes one key for certificates and one for revocations."""
    run("keygen", "--out", tmp_path / "release")
    path = tmp_path / "store.json"
    for name, role in (("release", "certificate"), ("revoker", "revocation")):
        public = tmp_path / f"{name}.trust.json"
        run("trust", "add", "--store", path, "--public-key", public, "--role", role)
    return path


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    return tmp_path / "revoked.json"


def read(listed: Path, store: Path) -> revocation.RevocationList:
    return revocation.read_list_file(listed, TrustStore.from_file(store), now=datetime.now(UTC))


def test_a_list_is_issued_and_continued(
    revoker: Path, store: Path, listed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issue = ("trust", "revoke", "--list", listed, "--key", revoker, *DAYS)
    assert run(*issue, "--revoke-key", KEYID.upper(), "--reason", "lost\x1b[2J") == 0
    first = read(listed, store)
    assert (first.sequence, first.keyids) == (1, {KEYID})
    life = datetime.fromisoformat(first.next_update) - datetime.fromisoformat(first.issued_at)
    assert life == timedelta(days=30)
    assert run(*issue, "--revoke-certificate", CERTIFICATE_ID) == 0
    second = read(listed, store)
    assert (second.sequence, second.keyids) == (2, {KEYID})
    assert second.certificate_ids == {CERTIFICATE_ID}
    assert run(*issue) == 0
    third = read(listed, store)
    assert third.sequence == 3
    assert third.revoked_keys == first.revoked_keys
    assert listed.read_bytes().count(b"\n") == 1
    shown = capsys.readouterr().out
    assert "number 3" in shown
    assert "\x1b" not in shown


def test_only_who_signed_a_list_continues_it(
    revoker: Path, store: Path, listed: Path, tmp_path: Path
) -> None:
    run("trust", "revoke", "--list", listed, "--key", revoker, "--revoke-key", KEYID, *DAYS)
    before = listed.read_bytes()
    run("keygen", "--out", tmp_path / "new", "--role", "revocation", "--algorithm", "ecdsa-p256")
    issue = ("trust", "revoke", "--list", listed, "--key", tmp_path / "new.key", *DAYS)
    assert refusal(*issue) == "REVOCATION_UNAVAILABLE"
    assert listed.read_bytes() == before
    # With a store that trusts the old key, a new one takes over and nothing is forgotten.
    assert run(*issue, "--store", store) == 0
    new = ("--public-key", tmp_path / "new.trust.json", "--role", "revocation")
    run("trust", "add", "--store", store, *new)
    assert (read(listed, store).sequence, read(listed, store).keyids) == (2, {KEYID})
    assert run(*issue, "--store", store) == 0  # the key that signs stands in the store as well


def test_a_broken_list_is_not_started_anew(revoker: Path, listed: Path) -> None:
    issue = ("trust", "revoke", "--list", listed, "--key", revoker, *DAYS)
    for content in (b"", b"{}", b"hello\n"):
        listed.write_bytes(content)
        assert refusal(*issue) == "REVOCATION_UNAVAILABLE"
        assert listed.read_bytes() == content


@pytest.mark.parametrize(
    "options",
    [
        ("--revoke-key", "ab"),
        ("--revoke-key", "x" * 64),
        ("--revoke-key", CERTIFICATE_ID),
        ("--revoke-certificate", KEYID),
        ("--next-update-days", "0"),
        ("--next-update-days", "-1"),
        ("--next-update-days", "3651"),
        ("--next-update-days", "1.5"),
        ("--next-update-days", "000000001000000"),
        ("--next-update-days", "²"),
    ],
)
def test_wrong_names_and_times_are_wrong_usage(
    revoker: Path, listed: Path, options: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run("trust", "revoke", "--list", listed, "--key", revoker, *DAYS, *options)
    assert caught.value.code == 2
    assert not listed.exists()


def test_a_reason_that_no_reader_reads_is_refused(revoker: Path, listed: Path) -> None:
    issue = ("trust", "revoke", "--list", listed, "--key", revoker, *DAYS, "--revoke-key", KEYID)
    assert refusal(*issue, "--reason", "x" * 5000) == "BAD_FIELD"
    assert not listed.exists()


def test_a_store_remembers_the_newest_list(
    revoker: Path, store: Path, listed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = TrustStore.from_file(store).keys[0]
    issue = ("trust", "revoke", "--list", listed, "--key", revoker, *DAYS)
    run(*issue)
    old = tmp_path / "old.json"
    old.write_bytes(listed.read_bytes())
    run(*issue, "--revoke-key", release.keyid)
    capsys.readouterr()
    update = ("trust", "update", "--store", store, "--list")
    assert run(*update, listed) == 0
    shown = capsys.readouterr().out
    assert "number 2" in shown
    assert "Revoked, and in the store:\nrelease" in shown
    assert "by\n--revocations FILE, or as revocations in a policy file." in shown
    assert TrustStore.from_file(store).min_revocation_sequence == 2
    before = store.read_bytes()
    assert refusal(*update, old) == "REVOCATION_ROLLBACK"
    assert store.read_bytes() == before
    assert run(*update, listed) == 0
    assert store.read_bytes() == before


def test_a_store_remembers_which_keys_sign_lists_no_more(
    revoker: Path, store: Path, listed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("keygen", "--out", tmp_path / "new", "--role", "revocation")
    new = ("--public-key", tmp_path / "new.trust.json", "--role", "revocation")
    run("trust", "add", "--store", store, *new)
    old_key = TrustStore.from_file(store).keys[1]
    issue = ("trust", "revoke", "--list", listed, "--store", store, *DAYS, "--key")
    assert run(*issue, revoker, "--revoke-certificate", CERTIFICATE_ID) == 0
    first = listed.read_bytes()
    assert refusal(*issue, revoker, "--revoke-key", old_key.keyid) == "REVOKED"
    assert listed.read_bytes() == first
    assert run(*issue, tmp_path / "new.key", "--revoke-key", old_key.keyid) == 0
    update = ("trust", "update", "--store", store, "--list", listed)
    assert run(*update) == 0
    assert TrustStore.from_file(store).revoked_revokers == {old_key.keyid}
    assert refusal(*issue, revoker) == "REVOKED"
    # A thief begins anew and counts on; neither is it obeyed nor continued by mistake.
    listed.unlink()
    for _ in range(3):
        assert run("trust", "revoke", "--list", listed, *DAYS, "--key", revoker) == 0
    before = store.read_bytes()
    assert refusal(*update) == "REVOCATION_UNAVAILABLE"
    assert refusal(*issue, tmp_path / "new.key") == "REVOCATION_UNAVAILABLE"
    assert store.read_bytes() == before
    capsys.readouterr()
    # Out of the store and in again is not trusted anew.
    run("trust", "remove", "--store", store, "--keyid", old_key.keyid)
    public = ("--public-key", tmp_path / "revoker.trust.json", "--role", "revocation")
    run("trust", "add", "--store", store, *public)
    assert refusal(*update) == "REVOCATION_UNAVAILABLE"
    run("trust", "list", "--store", store)
    assert f"Revocation lists by the revoked key {old_key.keyid} are refused." in (
        capsys.readouterr().out
    )


def test_a_store_learns_nothing_from_a_list_it_does_not_trust(
    revoker: Path, store: Path, listed: Path, tmp_path: Path
) -> None:
    before = store.read_bytes()
    update = ("trust", "update", "--store", store, "--list", listed)
    assert refusal(*update) == "REVOCATION_UNAVAILABLE"
    run("trust", "revoke", "--list", listed, "--key", tmp_path / "release.key", *DAYS)
    assert refusal(*update) == "REVOCATION_UNAVAILABLE"
    listed.unlink()
    run("trust", "revoke", "--list", listed, "--key", revoker, *DAYS)
    sound = json.loads(listed.read_bytes())
    listed.write_text(json.dumps({**sound, "signatures": []}))
    assert refusal(*update) == "REVOCATION_UNAVAILABLE"
    outdated = revocation.successor(
        None, valid_for=timedelta(days=1), now=datetime.now(UTC) - timedelta(days=2)
    )
    listed.write_text(revocation.sign_list(outdated, keys.load_private_key(revoker)))
    assert refusal(*update) == "REVOCATION_UNAVAILABLE"
    assert store.read_bytes() == before


def test_an_outdated_list_can_be_renewed(revoker: Path, store: Path, listed: Path) -> None:
    private: Any = keys.load_private_key(revoker)
    outdated = revocation.successor(
        None,
        keys=[KEYID],
        valid_for=timedelta(days=1),
        now=datetime.now(UTC) - timedelta(days=400),
    )
    listed.write_text(revocation.sign_list(outdated, private) + "\n")
    run("trust", "revoke", "--list", listed, "--key", revoker, *DAYS)
    assert (read(listed, store).sequence, read(listed, store).keyids) == (2, {KEYID})


@pytest.mark.parametrize("year", [1970, 2150, 9999])
def test_a_clock_that_cant_be_right_dates_no_list(
    year: int, revoker: Path, store: Path, listed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would obey it, and the list that it replaced would be gone."""
    issue = ("trust", "revoke", "--list", listed, "--key", revoker, *DAYS)
    run(*issue, "--revoke-key", KEYID)
    before = listed.read_bytes(), store.read_bytes()

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime(year, 12, 31, tzinfo=UTC)

    monkeypatch.setattr("hushdoc.commands.revocation.datetime", Clock)
    assert refusal(*issue) == "CLOCK_IMPLAUSIBLE"
    assert refusal("trust", "update", "--store", store, "--list", listed) == "CLOCK_IMPLAUSIBLE"
    assert (listed.read_bytes(), store.read_bytes()) == before
