"""Options of training with privacy, and without it: refused where the other kind is typed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hushdoc.__main__ import main
from hushdoc.commands.command_line import build_parser
from hushdoc_training.commands import configuration, training_kinds
from hushdoc_training.runs.run_folder import CONFIGURATION

TASKS = ("kie", "docvqa", "images")
WITH = {
    "kie": ("--trained=output", "--optimizer=sgd", "--dropout=.1", "--no-decay", "--audit"),
    "docvqa": ("--algorithm=dp-sgd", "--canaries=3", "--scaling=none", "--passes=1"),
    "images": ("--trained=output",),
}
WITH_IN_EVERY_TASK = (
    *("--steps=2", "--sampling-rate=0.1", "--delta=1e-6", "--tuned-on=none", "--ledger=x"),
    *("--private-numbers=hidden", "--duplicates=keep", "--documents-changed"),
)
WITHOUT = {
    "kie": ("--epochs=3", "--batch-size=2", "--token-noise=.1", "--label-smoothing=.1"),
    "docvqa": ("--epochs=5", "--batch-size=2"),
    "images": ("--epochs=5", "--batch-size=2", "--optimizer=adamw", "--dropout=.1"),
}


def refused(capsys: pytest.CaptureFixture[str], task: str, out: Path, *options: str) -> str:
    with pytest.raises(SystemExit, match="2"):
        main(["train", task, "--data", "nowhere", "--out", str(out), *options])
    assert not out.exists()
    return capsys.readouterr().err


@pytest.mark.parametrize("how", ["--public", "--not-private", "--synthetic=policy.toml"])
@pytest.mark.parametrize("task", TASKS)
def test_without_privacy_nothing_of_it_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str, how: str
) -> None:
    for option in (*WITH_IN_EVERY_TASK, *WITH[task]):
        said = refused(capsys, task, tmp_path / "run", how, option)
        name = option.partition("=")[0].replace("--no-", "--")
        assert f"training without privacy does not use {name}: " in said


@pytest.mark.parametrize("task", TASKS)
def test_with_privacy_nothing_of_training_without_it_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str
) -> None:
    for option in WITHOUT[task]:
        said = refused(capsys, task, tmp_path / "run", "--epsilon=8", option)
        assert f"training with privacy does not use {option.partition('=')[0]}: " in said


def test_several_are_named_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(
        capsys, "kie", tmp_path / "run", "--public", "--sampling-rate=0.1", "--steps", "2"
    )
    assert "does not use --sampling-rate and --steps: " in said


def test_a_switch_that_is_turned_off_as_it_is_anyway_asks_for_nothing(tmp_path: Path) -> None:
    told = ["--data", str(tmp_path / "gone"), "--public", "--no-audit"]
    assert main(["train", "kie", *told, "--out", str(tmp_path / "run")]) == 3


def test_providers_train_on_batches_of_their_own(
    tmp_path: Path,
) -> None:
    told = ("--data", str(tmp_path / "gone"), "--batch-size", "2", "--out", str(tmp_path / "run"))
    assert main(["train", "docvqa", *told, "--algorithm", "fl-provider-dp"]) == 3


def test_every_option_is_one_of_some_task() -> None:
    """A name that no task has would refuse nothing."""
    of_tasks = set()
    for each in TASKS:
        given = ["train", each, "--data", "nowhere", "--out", "run"]
        of_tasks |= configuration.options_of(build_parser().parse_args(given).parser).keys()
    assert of_tasks >= training_kinds.PRIVATE | training_kinds.PLAIN


DATA = {
    "kie": ("--data", "invented:receipt", "--start", "small", "--max-tokens", "32"),
    "docvqa": ("--data", "invented:receipt,questions=keyed", "--start", "small"),
    "images": ("--data", "invented:receipt+invoice", "--architecture", "linear"),
}
PRIVATE = ("--steps", "1", "--sampling-rate", "0.5", "--expected-records", "2", "--duplicates=keep")


@pytest.mark.parametrize("task", TASKS)
def test_a_configuration_of_one_kind_serves_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str
) -> None:
    """It says what the run used, and what the other kind does not use is passed over."""

    def train(out: str, *options: str) -> dict[str, object]:
        told = ["train", task, *options, "--out", str(tmp_path / out), "--quiet"]
        assert main(told) == 0, capsys.readouterr().err
        return tomllib.loads((tmp_path / out / CONFIGURATION).read_text())

    begun = (*DATA[task], "--documents", "4")
    private = train("private", *begun, *PRIVATE, "--epsilon", "8")
    assert {"steps", "sampling-rate", "duplicates", "epsilon"} <= private.keys()
    assert not private.keys() & {"epochs", "batch-size", "mixup", "token-noise"}
    left = str(tmp_path / "private" / CONFIGURATION)
    public = train("public", "--config", left, "--public", "--epochs", "0.5")
    assert (public["public"], public["epochs"]) == (True, 0.5)
    assert not public.keys() & training_kinds.PRIVATE
    left = str(tmp_path / "public" / CONFIGURATION)
    again = train("again", "--config", left, "--epsilon", "8", *PRIVATE)
    assert again.keys() == private.keys()
