"""docs/engine.md shows programs that run, and names what the engine refuses."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/engine.md").read_text(encoding="utf-8")
SAMPLE = ROOT / "samples/engine_plain_torch.py"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_page_shows_the_sample() -> None:
    assert PROGRAMS[0] == SAMPLE.read_text(encoding="utf-8")
    code = PROGRAMS[0].split('"""', 2)[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 22


def test_the_programs_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile("".join(PROGRAMS), "docs/engine.md", "exec"), names)
    said = capsys.readouterr().out
    assert "step 60 of 60" in said
    (found,) = re.findall(r"epsilon ([\d.]+) for each user; accuracy ([\d.]+)", said)
    assert 2.9 < float(found[0]) <= 3
    assert float(found[1]) > 0.75
    (best,) = re.findall(r"the best of a random number .* 3 on average.*: epsilon ([\d.]+)", said)
    assert 0.5 < float(best) < 2.5
    assert names["finished"] is True
    log = (tmp_path / "run" / "steps.jsonl").read_text()
    assert log.count('"charge"') == 60


def test_the_page_names_every_setting() -> None:
    from hushdoc_training.privacy.engine import BACKENDS, PrivateTraining

    arguments = inspect.signature(PrivateTraining.__init__).parameters
    for name in set(arguments) - {"self", "processes"}:
        assert name in PAGE, name
    for backend in BACKENDS:
        assert f"`{backend}`" in PAGE
