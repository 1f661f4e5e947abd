"""`hushdoc federated server` and `client`: what they refuse; `test_three_machines` runs them."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from hushdoc_command_runs import refusal, run
from hushdoc_parties import FIRST, SERVER, plan, roster

from hushdoc.signing import keys
from hushdoc_training.commands import federated_network, kie_data
from hushdoc_training.federated import roster as rosters
from hushdoc_training.federated.roster import COORDINATOR
from hushdoc_training.ledger.ledger import Ledger

CLIENTS = ("first", "second")
ROSTER = roster()


@pytest.fixture
def parties(tmp_path: Path) -> Path:
    """The folders of a coordinator and a client, as `init` writes them."""
    for name, key in ((COORDINATOR, SERVER), ("first", FIRST)):
        (tmp_path / name).mkdir()
        rosters.save(tmp_path / name / "roster.json", ROSTER, SERVER)
        keys.write_private_key(key, tmp_path / name / "key.pem")
    (tmp_path / "second").mkdir()
    federated_network.write_doors(tmp_path, CLIENTS, "127.0.0.1:8443")
    return tmp_path


def test_each_party_has_what_it_needs_to_meet_and_nobody_elses_key(parties: Path) -> None:
    files = {
        str(path.relative_to(parties)): stat.S_IMODE(path.stat().st_mode)
        for path in parties.rglob("*")
        if path.is_file() and path.name not in ("roster.json", "key.pem")
    }
    private = {name for name in files if (parties / name).read_bytes().count(b"PRIVATE KEY")}
    assert private == {"coordinator/server-key.pem", *(f"{name}/node-key.pem" for name in CLIENTS)}
    assert {files[name] for name in private} == {0o600}
    assert {f"coordinator/nodes/{name}.pem" for name in CLIENTS} <= set(files)
    assert len({(parties / name / "ca.pem").read_bytes() for name in (COORDINATOR, *CLIENTS)}) == 1


COMMANDS = {"server": (COORDINATOR, ()), "client": ("first", ("--data", "invented:form"))}


@pytest.mark.parametrize("command", COMMANDS)
def test_another_roster_than_the_approved_one_is_refused(command: str, parties: Path) -> None:
    name, more = COMMANDS[command]
    given = ("federated", command, parties / name, *more, "--approve", "0" * 64)
    assert refusal(*given) == "ROSTER_NOT_APPROVED"


def test_a_key_of_nobody_in_the_roster_is_refused(parties: Path) -> None:
    (parties / COORDINATOR / "key.pem").unlink()
    keys.write_private_key(keys.generate_key(), parties / COORDINATOR / "key.pem")
    given = ("federated", "server", parties / COORDINATOR, "--approve", ROSTER.digest)
    assert refusal(*given) == "NOT_IN_ROSTER"


@pytest.mark.parametrize("address", ["8443", "host:", ":1", "host:70000", "host:https"])
def test_what_is_no_address_is_wrong_usage(
    address: str, parties: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--data", "invented:form", "--approve", ROSTER.digest, "--server", address)
    with pytest.raises(SystemExit):
        run("federated", "client", parties / "first", *given)
    assert "expected HOST:PORT" in capsys.readouterr().err


def test_a_folder_without_certificates_names_the_missing_file(parties: Path) -> None:
    (parties / "first" / "ca.pem").unlink()
    given = ("--data", "invented:form", "--approve", ROSTER.digest)
    assert refusal("federated", "client", parties / "first", *given) == "BAD_INPUT"


def test_a_key_that_others_may_read_is_not_used(parties: Path) -> None:
    (parties / "first" / "node-key.pem").chmod(0o644)
    given = ("--data", "invented:form", "--approve", ROSTER.digest)
    assert refusal("federated", "client", parties / "first", *given) == "BAD_INPUT"


def test_changed_documents_are_declared_to_a_ledger(
    parties: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--data", "invented:form", "--approve", ROSTER.digest, "--documents-changed")
    with pytest.raises(SystemExit):
        run("federated", "client", parties / "first", *given)
    assert "--documents-changed needs --ledger" in capsys.readouterr().err


@pytest.mark.parametrize(("corpus", "warned"), [("sroie", True), ("labelled", False)])
def test_a_client_hears_that_defaults_were_chosen_at_its_corpus(
    corpus: str,
    warned: bool,
    parties: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kie_data, "corpus", lambda source: corpus)
    given = ("--data", "forms", "--approve", ROSTER.digest, "--flower-python", sys.executable)
    refusal("federated", "client", parties / "first", *given, "--start", parties)
    assert ("--tuned-on unaccounted" in capsys.readouterr().err) is warned


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ({"algorithm": "fedavg", "noise_multiplier": 0.0, "epsilon": None, "delta": None}, ()),
        ({"noise_multiplier": 0.5}, ()),
        ({}, ("--max-epsilon", "inf", "--max-delta", "1e-6")),
    ],
)
def test_a_client_reserves_nothing_for_a_plan_beyond_its_owner_s_limits(
    change: dict[str, object], asked: tuple[str, ...], parties: Path, tmp_path: Path
) -> None:
    planned = roster(plan=plan(clients=2, clients_per_round=2, **change).to_dict())
    (parties / "first" / "roster.json").unlink()
    rosters.save(parties / "first" / "roster.json", planned, SERVER)
    ledger = tmp_path / "forms.ledger"
    Ledger.create(ledger, data="forms", epsilon=100.0, delta=1e-5)
    given = ("--data", "invented:form", "--documents", "2", "--ledger", ledger)
    common = ("--approve", planned.digest, "--flower-python", sys.executable, *asked)
    assert refusal("federated", "client", parties / "first", *given, *common) == "BEYOND_LIMITS"
    assert Ledger.open(ledger).runs() == ()
