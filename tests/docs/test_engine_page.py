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


def test_the_page_names_the_codes_of_claims_that_are_refused() -> None:
    import torch
    from torch import nn

    from hushdoc.errors import PrivacyError
    from hushdoc_training.privacy.engine import PrivateTraining
    from hushdoc_training.privacy.plan import PrivacyPlan
    from hushdoc_training.runs import receipts

    plan = PrivacyPlan.calibrated(epsilon=3, sampling_rate=0.5, steps=2, expected_records=4)
    inputs = torch.randn(8, 3)

    def refused(*, resumed: bool) -> str:
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with PrivateTraining(
            plan,
            model,
            optimizer,
            records=[[place] for place in range(8)],
            losses=lambda examples: model(inputs[examples]).square().mean(1),
        ) as training:
            if resumed:
                training.resume(1)
            for _ in training:
                pass
            with pytest.raises(PrivacyError) as error:
                receipts.claim_of(training, "invented")
        return error.value.code

    table = PAGE.split("## What is refused, and the way out")[1].split("\n## ")[0]
    for row, code in (
        ("the records are a plain list", refused(resumed=False)),
        ("resumed without the receipt", refused(resumed=True)),
    ):
        (found,) = (line for line in table.splitlines() if row in line)
        assert f"`{code}`" in found
    with pytest.raises(ValueError, match="vanish in float32"):
        PrivacyPlan.calibrated(epsilon=3, sampling_rate=0.5, steps=2, clipping_norm=1e-9)
    assert "below 1e-8, whose squares vanish in float32 (a `ValueError` of the plan)" in table
