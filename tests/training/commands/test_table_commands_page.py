"""The commands in docs/hashed-tables.md run as they stand there."""

from __future__ import annotations

import json
import pkgutil
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from hushdoc.__main__ import main
from hushdoc_training import table_checkpoint

PAGE = Path(__file__).parents[3] / "docs" / "hashed-tables.md"
WORDS = {"bill": "invoice amount due payment", "order": "deliver quantity goods please"}


def write_mail(path: Path, count: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    lines = []
    for number in range(count):
        kind = list(WORDS)[number % 2]
        own = " ".join(chance.choice(WORDS[kind].split(), 6))
        rest = " ".join(f"w{word}" for word in chance.integers(200, size=10))
        lines.append({"id": number, "label": kind, "text": f"Dear all,\n\n{own}.\n\n{rest}."})
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


def test_the_commands_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [block] = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for seed, (name, count) in enumerate((("mail", 240), ("archive", 150), ("more", 200))):
        write_mail(tmp_path / f"{name}.jsonl", count, seed)
    letter = " ".join([WORDS["order"]] * 4)
    (tmp_path / "letter.txt").write_text(f"{letter}.\n\n{letter}.", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["keygen", "--out", "keys/release"]) == 0
    found = {}
    for command in block.splitlines():
        subcommand, *rest = shlex.split(command)[1:]
        capsys.readouterr()
        assert main([subcommand, *rest]) == 0, command
        found[subcommand] = capsys.readouterr().out
    answer = json.loads(found["classify"])
    assert answer["label"] == "order"
    kinds = {run: table_checkpoint.load(tmp_path / "runs" / run).claim.guarantees[0].kind
             for run in ("mail", "more")}  # fmt: skip
    assert kinds == {"mail": "dp", "more": "dp"}


def test_the_attacks_of_the_page_are_where_it_says() -> None:
    table = PAGE.read_text("utf-8").split("| attack | module in `hushdoc_training.audit` |")[1]
    rows = [line.split("|")[2] for line in table.split("\n\n")[0].splitlines()[2:]]
    names = [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    assert len(names) == 11
    for name in names:
        module, *parts = name.split(".")
        assert pkgutil.resolve_name(f"hushdoc_training.audit.{module}:{'.'.join(parts)}")
