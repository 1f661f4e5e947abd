"""docs/docvqa.md: its samples and commands run, and its numbers are those of the code."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path

import hushdoc_command_runs
import hushdoc_tiny as tiny
import pytest
from hushdoc_documents import document
from hushdoc_smaller import smaller

import hushdoc
from hushdoc.runtime import matching
from hushdoc.runtime.questions import VT5_PROMPT, Asking
from hushdoc_export import agreement, parity, question_agreement
from hushdoc_training import invented
from hushdoc_training.commands.training_options import small_delta
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.invented.settings import InventedConfig
from hushdoc_training.recipes.docvqa import public_inputs, rows, settings
from hushdoc_training.recipes.docvqa.presets import PRESETS, PROVIDERS
from hushdoc_training.recipes.docvqa.settings import SCALED

TEXT = (Path(__file__).parents[2] / "docs/docvqa.md").read_text("utf-8")


def test_the_samples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "asked").symlink_to(tiny.sealed_pointer())
    (tmp_path / "invoice.json").write_text(json.dumps(document(9).to_dict()))
    hushdoc_command_runs.write_policy(tmp_path, tiny.TRUST)
    monkeypatch.chdir(tmp_path)
    [sample] = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    exec(compile(sample, "docs/docvqa.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[4].startswith("What is the total? ")
    assert hushdoc.Answers.from_dict(json.loads(lines[6])).document_id == "d"
    assert json.loads(lines[7])["error"]["code"] == "BAD_INPUT"
    assert "What is the total?" in Path("answer.html").read_text("utf-8")
    asking, *_ = TEXT.split("\n## ", maxsplit=2)[1:]
    [commands] = re.findall(r"```sh\n(.*?)```", asking, flags=re.DOTALL)
    for command in commands.splitlines():
        assert hushdoc_command_runs.run(*shlex.split(command)[1:]) == 0
    assert Path("answer.png").is_file()


def section(title: str) -> str:
    """Returns the text under a title, its lines joined."""
    return " ".join(TEXT.split(f"\n{title}\n")[1].split("\n## ")[0].split())


def test_numbers_are_those_of_the_code() -> None:
    asking = Asking(kind="vt5", prompt=VT5_PROMPT, eos_id=1, pad_id=0)
    assert asking.max_answer == 32
    writes = section("## What a VT5 can say")
    assert f"the model's most tokens ({asking.max_answer} by default)" in writes
    assert f"at least {100 * matching.LEAST_ALIKE:g} % like the answer" in writes
    assert f"{question_agreement.NUM_QUESTIONS} invented questions are answered" in writes
    assert parity.TOLERANCE == 1e-4
    assert "within 1e-4 of their scale" in writes
    assert agreement.MAX_ANLS_LOSS == 1
    assert "refused above one point unless" in writes
    training = section("## Training")
    assert f"Of a record at most {rows.MAX_QUESTIONS} questions are read" in training
    assert f"in at most {public_inputs.DIRECTIONS} directions" in training
    assert SCALED.sampling_rate == 1
    assert f"All records are in each of {SCALED.steps} steps of DP-SGD" in training
    assert (SCALED.algorithm, SCALED.trained, SCALED.scaling) == ("dp-sgd", "output", "public")
    assert SCALED.directions is None  # as many as public_inputs has
    assert small_delta(1e3) == 1e-5
    assert small_delta(1e6) == 1e-7
    assert "a tenth of one over the declared number of records" in training


def test_settings_for_many_records_are_those_of_the_code() -> None:
    training = section("## Training")
    least, most = settings.LEAST_OF_MANY, settings.LEAST_OF_MORE
    providers = {where: math.ceil(where / 8) for where in (least, most)}
    many, more = settings.MANY, settings.MORE
    assert (
        f"(`--expected-records` times `--epsilon` from {least} on, so {providers[least]} providers "
        f"at epsilon 8), it learns in {many.directions} directions by {many.steps} steps of "
        f"DP-Adam, and from {most:,} on, so {providers[most]:,} providers, in {more.directions} by "
        f"{more.steps} steps."
    ) in training
    for kind in (many, more):
        assert (kind.algorithm, kind.trained, kind.scaling) == ("dp-adam", "output", "public")
        assert kind.sampling_rate == 1
    assert [settings.scaled_for(providers[least] - less, 8) for less in (1, 0)] == [SCALED, many]
    assert [settings.scaled_for(providers[most] - less, 8) for less in (1, 0)] == [many, more]


def test_the_table_of_presets_is_what_they_set() -> None:
    printed = {
        name: [cell.strip() for cell in cells.split("|")]
        for name, cells in re.findall(r"^\| `(pa-docvqa[^`]*)` \|(.*)\|$", TEXT, flags=re.MULTILINE)
    }
    assert printed.keys() == PRESETS.keys()
    for name, cells in printed.items():
        chosen = PRESETS[name].settings
        epsilon, delta, norm, drawn, steps, adam, _ = cells
        assert adam == f"{chosen['learning-rate']:g}, {chosen['batch-size']}".replace(
            "0.0002", "2e-4"
        )
        if name == "pa-docvqa":
            assert (epsilon, delta, norm, drawn) == ("none", "", "", "all")
            assert steps == f"{chosen['epochs']:g} passes"
            continue
        assert [float(cell) for cell in (epsilon, delta, norm)] == [
            chosen[key] for key in ("epsilon", "delta", "clipping-norm")
        ]
        assert steps == str(chosen["steps"])
        assert drawn == f"{chosen['expected-records']} of {PROVIDERS}"


@smaller()
def test_the_commands_train_from_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand, but for a start from nothing, and two steps on few documents."""
    monkeypatch.setattr(public_inputs, "NUM_DOCUMENTS", 2)
    monkeypatch.chdir(tmp_path)
    config = InventedConfig(document_types=("receipt",), questions="keyed")
    invented.write(tmp_path / "path" / "to" / "documents", seed=1, count=3, config=config)
    [commands] = re.findall(r"## Training\n\n```sh\n(.*?)```", TEXT, flags=re.DOTALL)
    public, private = (shlex.split(command)[1:] for command in commands.splitlines())
    few = ("--documents", "2", "--start", "small", "--max-tokens", "128", "--quiet")
    assert hushdoc_command_runs.run(*public, *few) == 0
    assert hushdoc_command_runs.run(*private, "--steps", "2", "--quiet") == 0
    stored = DocVQACheckpoint.load(Path("runs/private"))
    (guarantee,) = stored.claim.guarantees
    assert (guarantee.unit, stored.architecture) == ("provider", "pointer")
    assert 7 < (guarantee.epsilon or 0) <= 8
