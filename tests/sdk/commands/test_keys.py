"""`hushdoc keygen`: two files that fit, or none."""

from __future__ import annotations

import stat
from functools import partial
from pathlib import Path

import hushdoc_command_runs
import pytest

from hushdoc.errors import InputError, OutputExistsError, OutputWriteError
from hushdoc.signing import dsse
from hushdoc.signing import keys as signing_keys
from hushdoc.signing.trust_store import TrustStore

run = partial(hushdoc_command_runs.run, "keygen")


@pytest.mark.parametrize("algorithm", [None, "ed25519", "ecdsa-p256"])
def test_a_key_and_the_store_that_trusts_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], algorithm: str | None
) -> None:
    out = tmp_path / "keys" / "release"
    chosen = () if algorithm is None else ("--algorithm", algorithm)
    assert run("--out", str(out), "--name", "Release 2026", *chosen) == 0
    private = tmp_path / "keys" / "release.key"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    store = TrustStore.from_file(tmp_path / "keys" / "release.trust.json")
    (key,) = store.keys
    assert (key.name, key.models, key.roles) == ("Release 2026", ("*",), ("certificate",))
    assert key.algorithm == (algorithm or "ed25519")
    line = dsse.sign(b"{}", signing_keys.load_private_key(private))
    assert dsse.verify(line.encode(), store).keys == (key,)
    shown = capsys.readouterr().out
    assert key.keyid in shown
    assert "PRIVATE" not in shown


def test_models_and_roles_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = ("--model", "invoices", "--model", "receipts", "--model", "invoices")
    roles = ("--role", "audit", "--role", "revocation", "--role", "audit")
    run("--out", str(tmp_path / "k"), *models, *roles)
    (key,) = TrustStore.from_file(tmp_path / "k.trust.json").keys
    assert (key.name, key.models) == ("k", ("invoices", "receipts"))
    assert key.roles == ("audit", "revocation")
    assert "hushdoc trust revoke" in capsys.readouterr().out


def test_roles_and_algorithms_are_those_there_are(tmp_path: Path) -> None:
    for wrong in (("--role", "root"), ("--algorithm", "rsa")):
        with pytest.raises(SystemExit) as caught:
            run("--out", str(tmp_path / "k"), *wrong)
        assert caught.value.code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_can_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        run("--out", str(tmp_path / "k"), "--name", "x" * 5000)
    assert caught.value.code == "BAD_TRUST_STORE"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["k.key", "k.trust.json"])
def test_nothing_is_ever_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(OutputExistsError):
        run("--out", str(tmp_path / "k"))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "precious"


def test_a_place_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputWriteError):
        run("--out", str(tmp_path / "file" / "k"))
