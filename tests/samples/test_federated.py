"""The sample of federated training: three processes over Flower, three rounds, two ledgers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hushdoc_flower import flower

from hushdoc_training.ledger.ledger import Ledger

SAMPLE = Path(__file__).parents[2] / "samples/federated/party.py"
PARTIES = ("coordinator", "first", "second")


@pytest.mark.timeout(600)
def test_three_processes_train_one_model(tmp_path: Path) -> None:
    python = flower()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"

    def begun(command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, SAMPLE, command, address, python],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    said, _ = begun("init").communicate(timeout=100)
    assert "approve" in said
    parties = {name: begun(name) for name in PARTIES}
    try:
        said_by = {name: party.communicate(timeout=400)[0] for name, party in parties.items()}
    finally:
        for party in parties.values():
            party.kill()
    assert "3 rounds, 0 aborted" in said_by["coordinator"], said_by
    log = (tmp_path / "federation/coordinator/rounds.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in log] == ["stepped"] * 3
    for name in PARTIES[1:]:
        assert said_by[name] == f"{name}: 3 rounds charged\n"
        (run,) = Ledger.open(tmp_path / "federation" / name / "ledger").runs()
        assert run.charged == run.counted == 3


def test_the_sample_is_short() -> None:
    assert len(SAMPLE.read_text("utf-8").splitlines()) < 100
