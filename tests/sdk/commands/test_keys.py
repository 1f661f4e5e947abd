"""`hushdoc keygen`: two files that fit, or none."""

from __future__ import annotations

import argparse
import stat
from pathlib import Path

import pytest

from hushdoc import signing
from hushdoc.commands import keys
from hushdoc.errors import OutputExistsError, OutputWriteError
from hushdoc.trust import TrustStore


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    keys.register(parser.add_subparsers())
    options = parser.parse_args(["keygen", *arguments])
    return int(options.run(options))


def test_a_key_and_the_store_that_believes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "keys" / "release"
    assert run("--out", str(out), "--name", "Release 2026") == 0
    private = tmp_path / "keys" / "release.key"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    store = TrustStore.from_file(tmp_path / "keys" / "release.trust.json")
    (key,) = store.keys
    assert (key.name, key.models) == ("Release 2026", ("*",))
    line = signing.sign(b"{}", signing.load_private_key(private))
    assert signing.verify(line.encode(), store).keys == (key,)
    shown = capsys.readouterr().out
    assert key.keyid in shown
    assert "PRIVATE" not in shown


def test_models_can_be_named(tmp_path: Path) -> None:
    run("--out", str(tmp_path / "k"), "--model", "invoices", "--model", "receipts")
    (key,) = TrustStore.from_file(tmp_path / "k.trust.json").keys
    assert (key.name, key.models) == ("k", ("invoices", "receipts"))


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
