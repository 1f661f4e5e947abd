"""`hushdoc trust add`, `list` and `remove`: stores that are never lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hushdoc_command_runs import public_pem, refusal, run

from hushdoc.errors import InputError, OutputWriteError
from hushdoc.signing import keys
from hushdoc.signing.trust_store import TrustedKey, TrustStore
from hushdoc.system import atomic_files

BOTH = ("--role", "certificate", "--role", "audit")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.json"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The public file of a key that proposes models, roles and a name."""
    run("keygen", "--out", tmp_path / "k", "--model", "invoices", *BOTH)
    return tmp_path / "k.trust.json"


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    return public_pem(keys.generate_key(keys.ECDSA_P256), tmp_path / "service.pem")


def test_keys_are_added_as_proposed_and_for_certificates_alone(
    store: Path, made: Path, pem: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("trust", "add", "--store", store, "--public-key", made) == 0
    assert run("trust", "add", "--store", store, "--public-key", pem) == 0
    first, second = TrustStore.from_file(store).keys
    assert (first.name, first.models, first.roles) == ("k", ("invoices",), ("certificate",))
    assert (second.name, second.models, second.roles) == ("service", ("*",), ("certificate",))
    assert (first.algorithm, second.algorithm) == ("ed25519", "ecdsa-p256")
    shown = capsys.readouterr().out
    assert first.keyid in shown
    assert second.keyid in shown


def test_a_key_for_something_else_is_trusted_with_it_when_told(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("keygen", "--out", tmp_path / "a", "--role", "audit")
    add = ("trust", "add", "--store", store, "--public-key", tmp_path / "a.trust.json")
    with pytest.raises(SystemExit, match="2"):
        run(*add)
    assert "is meant for audit; to trust it with that, name --role audit" in capsys.readouterr().err
    assert not store.exists()
    run(*add, "--role", "audit")
    assert TrustStore.from_file(store).keys[0].roles == ("audit",)


def test_the_application_decides_what_a_key_may_sign(store: Path, made: Path, pem: Path) -> None:
    decided = ("--name", "Ann", "--model", "a", "--model", "b", "--role", "certificate")
    for path in (made, pem):
        run("trust", "add", "--store", store, "--public-key", path, *decided)
    for key in TrustStore.from_file(store).keys:
        assert (key.name, key.models, key.roles) == ("Ann", ("a", "b"), ("certificate",))


def test_a_whole_store_can_be_added(store: Path, made: Path, pem: Path, tmp_path: Path) -> None:
    for path in (made, pem):
        run("trust", "add", "--store", tmp_path / "theirs.json", "--public-key", path)
    run("trust", "add", "--store", store, "--public-key", tmp_path / "theirs.json")
    assert len(TrustStore.from_file(store).keys) == 2
    theirs = tmp_path / "theirs.json"
    with pytest.raises(SystemExit):
        run("trust", "add", "--store", store, "--public-key", theirs, "--name", "one for two")


def test_a_key_is_added_once(store: Path, made: Path) -> None:
    run("trust", "add", "--store", store, "--public-key", made)
    before = store.read_bytes()
    assert refusal("trust", "add", "--store", store, "--public-key", made) == "KEY_EXISTS"
    assert store.read_bytes() == before


def test_what_is_no_public_key_changes_nothing(store: Path, made: Path, tmp_path: Path) -> None:
    run("trust", "add", "--store", store, "--public-key", made)
    before = store.read_bytes()
    weak = json.loads(made.read_bytes())
    weak["keys"][0].update(
        keyid=keys.key_id((1).to_bytes(32, "little")),
        publicKey="AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    )
    (tmp_path / "weak.json").write_text(json.dumps(weak))
    (tmp_path / "text").write_text("hello")
    expected = {
        "k.key": "BAD_KEY",  # a private key is not taken over by mistake
        "none": "BAD_KEY",
        "text": "BAD_KEY",
        "weak.json": "WEAK_KEY",
    }
    for name, code in expected.items():
        assert refusal("trust", "add", "--store", store, "--public-key", tmp_path / name) == code
    assert store.read_bytes() == before


def test_a_store_that_could_not_be_read_back_is_not_written(
    store: Path, made: Path, pem: Path
) -> None:
    run("trust", "add", "--store", store, "--public-key", made)
    before = store.read_bytes()
    wrong = {"--name": "x" * 5000, "--model": ""}
    for option, value in wrong.items():
        add = ("trust", "add", "--store", store, "--public-key", pem, option, value)
        assert refusal(*add) == "BAD_TRUST_STORE"
    assert store.read_bytes() == before


def test_a_broken_store_is_not_overwritten(store: Path, made: Path) -> None:
    store.write_text("{")
    assert refusal("trust", "add", "--store", store, "--public-key", made) == "BAD_TRUST_STORE"
    assert store.read_text() == "{"
    assert refusal("trust", "list", "--store", store) == "BAD_TRUST_STORE"


def test_a_full_disk_leaves_the_store_as_it_is(
    store: Path, made: Path, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("trust", "add", "--store", store, "--public-key", made)
    before = store.read_bytes()

    def full(source: Any, target: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files.os, "replace", full)
    with pytest.raises(OutputWriteError):
        run("trust", "add", "--store", store, "--public-key", pem)
    assert store.read_bytes() == before
    assert not [path for path in store.parent.iterdir() if path.name.endswith(".partial")]


def test_what_a_store_remembers_and_how_it_is_kept_survives(
    store: Path, key: Any, made: Path
) -> None:
    remembering = TrustStore(keys=(TrustedKey.of(key, name="x"),), min_revocation_sequence=9)
    store.write_bytes(remembering.to_json())
    store.chmod(0o600)
    link = store.with_name("link.json")
    link.symlink_to(store.name)
    run("trust", "add", "--store", link, "--public-key", made)
    assert link.is_symlink()
    after = TrustStore.from_file(store)
    assert (after.min_revocation_sequence, after.keys[:1]) == (9, remembering.keys)
    assert store.stat().st_mode & 0o777 == 0o600


def test_the_list_says_who_may_sign_what(
    store: Path, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = ("--name", "A\x1b[2J\u202eB")
    run("trust", "add", "--store", store, "--public-key", made, *name, *BOTH)
    capsys.readouterr()
    assert run("trust", "list", "--store", store) == 0
    shown = capsys.readouterr().out
    for words in ("invoices", "audit", "ed25519", TrustStore.from_file(store).keys[0].keyid):
        assert words in shown
    assert not {"\x1b", "\u202e"} & set(shown)
    store.write_bytes(TrustStore(keys=(), min_revocation_sequence=3).to_json())
    run("trust", "list", "--store", store)
    shown = capsys.readouterr().out
    assert "No key is trusted" in shown
    assert "before number 3" in shown


def test_a_key_is_removed_by_its_id(
    store: Path, made: Path, pem: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (made, pem):
        run("trust", "add", "--store", store, "--public-key", path)
    first, second = TrustStore.from_file(store).keys
    for wrong in ("", first.keyid[:7], "0" * 64, "é"):
        assert refusal("trust", "remove", "--store", store, "--keyid", wrong) == "UNKNOWN_KEY"
    capsys.readouterr()
    for wrong, said in ((first.keyid[:7], "has 7 digits, expected"), ("0" * 64, "names no key")):
        with pytest.raises(InputError, match=said):
            run("trust", "remove", "--store", store, "--keyid", wrong)
    assert len(TrustStore.from_file(store).keys) == 2
    assert run("trust", "remove", "--store", store, "--keyid", first.keyid[:8].upper()) == 0
    assert first.keyid in capsys.readouterr().out
    assert TrustStore.from_file(store).keys == (second,)
    assert refusal("trust", "remove", "--store", store.parent / "none", "--keyid", "x") == (
        "BAD_TRUST_STORE"
    )


def test_two_additions_at_once_are_both_kept(store: Path, tmp_path: Path) -> None:
    names = [f"k{number}" for number in range(6)]
    for name in names:
        run("keygen", "--out", tmp_path / name)

    def add(name: str) -> int:
        return run(
            "trust", "add", "--store", store, "--public-key", tmp_path / f"{name}.trust.json"
        )

    with ThreadPoolExecutor(len(names)) as pool:
        assert list(pool.map(add, names)) == [0] * len(names)
    assert {key.name for key in TrustStore.from_file(store).keys} == set(names)
