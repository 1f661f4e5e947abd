"""The commands of docs/federated.md on three machines, with a power cut at the server and a client.

Real processes and couriers, on a loopback address; without Flower it is skipped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hushdoc_witnessed
import pytest
from hushdoc_flower import flower
from hushdoc_javascript import require_accepted

from hushdoc.artifact import artifact
from hushdoc.policy.policy import Policy
from hushdoc.signing import keys
from hushdoc.signing.trust_store import TrustedKey, TrustStore
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.ledger.ledger import Ledger

ROUNDS = 5


@pytest.mark.timeout(900)
def test_killed_parties_go_on_and_clients_countersign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = flower()
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks")
    import federated_loopback

    start = hushdoc_witnessed.public_start(tmp_path / "start")
    settings = ("--trained", "encoder", "--sampling-rate", "0.5", "--accountant", "rdp")
    home = tmp_path / "machines"
    home.mkdir()
    machines = federated_loopback.Machines(
        home, python, start=str(start), planned=("--rounds", str(ROUNDS), *settings)
    )

    def wait_for(what: Callable[[], bool]) -> None:
        until = time.monotonic() + 300
        while not what():
            machines.require_running()
            assert time.monotonic() < until, [machines.said(name) for name in machines.running]
            time.sleep(0.02)

    machines.agree()
    assert "each document at up to 1 place" in machines.done(
        "north", "hushdoc federated status north"
    )
    try:
        machines.begin_all()
        wait_for(lambda: len(machines.rounds()) >= 1)
        machines.kill("coordinator")
        before = len(machines.rounds())
        machines.begin("coordinator")
        wait_for(lambda: len(machines.rounds()) > before)
        machines.kill("south")
        machines.begin("south")
        machines.wait()
    finally:
        machines.end()
    run = machines.status()
    assert run["begun"] == ROUNDS
    assert run["finished"]
    assert len(run["aborted"]) <= 3  # one of the server, and one or two till the client is back
    for name in federated_loopback.CLIENTS:
        (known,) = Ledger.open(home / name / "forms.ledger").runs()
        assert known.closed
        sent = ROUNDS - len(run["aborted"])
        assert sent <= known.charged <= ROUNDS
    claim = Checkpoint.load(home / "coordinator/run/coordinator/checkpoint").claim
    assert {item.adversary for item in claim.guarantees} >= {"model-recipient", "server"}
    assert {item.kind for item in claim.guarantees} == {"dp"}
    assert all((item.epsilon or 99) <= 8 for item in claim.guarantees)
    machines.done("coordinator", "hushdoc keygen --out release")
    machines.done("coordinator", "hushdoc export run/coordinator --out model --key release.key")
    countersign, check = machines.commands["7"]
    coordinator = home / "coordinator"
    (home / "north" / "model").symlink_to(coordinator / "model")
    (home / "north" / "receipts").symlink_to(coordinator / "run/coordinator/receipts")
    assert "what 2 clients signed" in machines.done("north", check)
    assert "Signed with the" in machines.done("north", countersign)
    released = keys.load_private_key(coordinator / "release.key")
    own = keys.load_private_key(home / "north" / "north.key")
    trust = TrustStore.of(
        [TrustedKey.of(released, name="released"), TrustedKey.of(own, name="own")]
    )
    limits: dict[str, Any] = {"max_epsilon": 8, "max_delta": 1e-5, "privacy_units": ["document"]}
    policy = Policy(trust=trust, threshold=2, adversary="server", **limits)
    report = artifact.examine(coordinator / "model", policy)
    assert report.passed, [rule.code for rule in report.policy.failed]
    require_accepted(coordinator / "model", tmp_path, own, adversary="server", **limits)


def test_without_flower_the_benchmark_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks")
    import federated_loopback

    monkeypatch.setattr(sys, "argv", ["federated_loopback.py", "--flower-python", "/nowhere"])
    assert federated_loopback.main() == 2
    assert "Nothing was measured" in capsys.readouterr().err
    assert {"2", "3", "5", "6", "7"} <= federated_loopback.commands_of_page().keys()
