"""`train kie --config`: a file of TOML, the command line and presets set the same options."""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from hushdoc.__main__ import main
from hushdoc.commands.command_line import build_parser
from hushdoc_training.commands import configuration
from hushdoc_training.commands.training_options import tuned_on
from hushdoc_training.recipes.kie.presets import PRESETS
from hushdoc_training.runs.run_folder import CONFIGURATION, ENVIRONMENT

DATA = 'data = "invented:receipt"\nstart = "small"\nmax-tokens = 32\n'


def train(*arguments: object) -> int:
    return main(["train", "kie", *map(str, arguments)])


def options_for(folder: Path, text: str, *arguments: str) -> dict[str, object]:
    """Returns the options that a file and a command line make together."""
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    parser = build_parser()
    given = ["train", "kie", "--config", str(path), "--out", "run", *arguments]
    return vars(parser.parse_args(given))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("epsilon = 3\nepsilom = 4\n", "line 2, sets 'epsilom', which is no option; the nearest"),
        ("declared_documents = 4\n", "the nearest is 'declared-documents'"),
        ("steps = 4\n\nsteps = 5\n", "line 3 sets 'steps' again"),
        ("steps = 4\nlabel = [\n  'date',\n]\nlabel = ['total']\n", "line 5 sets 'label' again"),
        ("steps = 2.5\n", "line 1, sets 'steps' to 2.5; expected a whole number"),
        ("steps = true\n", "expected a whole number"),
        ('epsilon = "8"\n', "sets 'epsilon' to '8'; expected a number"),
        ("public = 1\n", "expected true or false"),
        ('decay = "no"\n', "expected true or false"),
        ('label = "date"\n', "expected a list of texts"),
        ("label = [1]\n", "expected a list of texts"),
        ("data = 3\n", "expected a text"),
        ('recipe = "hundred"\n', "the nearest is hundreds"),
        ("[privacy]\nepsilon = 8\n", "line 1, has a table 'privacy'"),
        ("epsilon = [8]\n", "expected a number"),
        ("config = 'other.toml'\n", "sets 'config', which is no option"),
        ("epsilon = \n", "can't be read as TOML"),
        ('start = "C:\\Users\\me\\run"\n', "write such a path with / or in single quotes"),
        ('start = "C:\\new"\n', "line 1, sets 'start' to 'C:\\new'. In double quotes TOML takes"),
    ],
)
def test_what_a_file_can_not_say_is_one_line_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        options_for(tmp_path, text, "--data", "nowhere")
    assert stop.value.code == 3
    said = capsys.readouterr().err
    assert says in said
    assert "train kie: BAD_CONFIG: " in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("content", [None, b"name = '\xff'\n"])
def test_a_file_that_is_not_there_or_no_text_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    path = tmp_path / "run.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit, match="3"):
        train("--config", path, "--data", "nowhere", "--out", tmp_path / "run")
    assert f"BAD_CONFIG: '{path}' can't be read" in capsys.readouterr().err


def test_the_command_line_goes_before_the_file_and_the_file_before_a_preset(
    tmp_path: Path,
) -> None:
    text = DATA + (
        'preset = "pried-kie-funsd"\nepsilon = 3\nlabel = ["date", "-total"]\ndropout = 0.2\n'
        "images = false\n"
    )
    found = options_for(tmp_path, text)
    assert found["label"] == ["date", "-total"]
    assert (found["epsilon"], found["dropout"], found["max_tokens"]) == (3.0, 0.2, 32)
    assert (found["steps"], found["decay"], found["images"]) == (350, False, False)
    given = ("--label", "other", "--epsilon=4", "--decay", "--dropout", "0.3", "--images")
    found = options_for(tmp_path, text, *given)
    assert found["label"] == ["other"]
    assert (found["epsilon"], found["decay"], found["dropout"]) == (4.0, True, 0.3)
    assert found["images"] is True


def test_an_option_given_goes_before_what_it_excludes(tmp_path: Path) -> None:
    text = DATA + 'epsilon = 3\nrecipe = "tens"\n'
    found = options_for(tmp_path, text, "--public", "--preset", "pried-kie-cord")
    assert (found["public"], found["epsilon"]) == (True, 8.0)
    assert (found["recipe"], found["preset"]) == (None, "pried-kie-cord")
    # What a file leaves out takes nothing from a preset.
    found = options_for(tmp_path, DATA + 'public = false\npreset = "pried-kie"\n')
    assert found["epsilon"] == 20.0


def test_a_file_declares_no_overlap_for_its_own_data_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = DATA + 'public-overlap = "none"\n'
    for given in (("--data", "other"), ("--start=runs/other",)):
        with pytest.raises(SystemExit):
            options_for(tmp_path, text, *given)
        assert 'declares public-overlap "none" for' in capsys.readouterr().err
        assert options_for(tmp_path, text, *given, "--public-overlap", "none")
        assert options_for(tmp_path, DATA + 'public-overlap = "unknown"\n', *given)
    assert options_for(tmp_path, text, "--data", "invented:receipt", "--seed", "2")


def test_two_keys_that_exclude_each_other_are_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        options_for(tmp_path, DATA + "epsilon = 3\npublic = true\n")
    assert "not allowed with" in capsys.readouterr().err


def kie_options(arguments: Sequence[str]) -> set[str]:
    parser = build_parser().parse_args(["train", "kie", *arguments]).parser
    return {*configuration.options_of(parser)}


def test_every_option_has_a_type_that_toml_can_write(tmp_path: Path) -> None:
    """There is no second list of names: each option is a key, and its value comes back."""
    named = kie_options(["--data", "nowhere", "--out", "run"])
    assert {"epsilon", "data", "label", "preset", "trained", "decay", "ledger"} <= named
    assert not named & {"help", "config"}
    odd = 'a "name" \\ with\ttab, \x7f and 😀'
    text = DATA + configuration.line("name", odd) + "\n" + configuration.line("delta", 1e-7)
    found = options_for(tmp_path, text)
    assert (found["name"], found["delta"]) == (odd, 1e-7)


@pytest.mark.parametrize("mode", ["private", "public"])
def test_a_run_leaves_a_configuration_that_trains_so_again(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "run.toml"
    settings = "public = true" if mode == "public" else 'epsilon = 3\nlabel = ["total"]\nsteps = 1'
    path.write_text(f"{DATA}documents = 4\n{settings}\n")
    assert train("--config", path, "--out", tmp_path / "first", "--quiet") == 0
    left = tmp_path / "first" / CONFIGURATION
    assert train("--config", left, "--out", tmp_path / "second", "--quiet") == 0
    assert (tmp_path / "second" / CONFIGURATION).read_text() == left.read_text()
    runs = [json.loads((tmp_path / name / "run.json").read_text()) for name in ("first", "second")]
    drawn = {"run", "tokenizer", "weights", "start"}  # of fresh models
    first, second = ({k: v for k, v in run.items() if k not in drawn} for run in runs)
    assert first.keys() == second.keys()
    for name in {"steps", "noise_multiplier", "learning_rate", "trained", "epochs"} & {*first}:
        assert first[name] == second[name]
    said = json.loads((tmp_path / "first" / ENVIRONMENT).read_text())
    assert set(said) >= {"python", "packages", "processor"}
    assert said["packages"]["torch"]
    assert str(tmp_path) not in json.dumps(said)
    if mode == "private":
        kept = tomllib.loads(left.read_text())
        assert (kept["trained"], kept["recipe"], kept["expected-records"]) == ("output", "tens", 2)
        assert "out" not in kept
        assert train("--config", left, "--out", tmp_path / "first", "--quiet", "--resume") == 0


def test_suggestions_open_no_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe that nobody writes to would block whoever opened it."""
    os.mkfifo(tmp_path / "pipe")
    declared = ["--declared-documents", "100", "--declared-words", "900", "--epsilon", "4"]
    given = ["--data", tmp_path / "pipe", "--out", tmp_path / "run", *declared]
    assert train("--suggest", *given) == 0
    said = capsys.readouterr().out
    found = tomllib.loads(said)
    assert found["data"] == str(tmp_path / "pipe")
    assert (found["epsilon"], found["max-tokens"], found["dropout"]) == (4.0, 512, 0.1)
    assert (found["expected-records"], found["steps"], found["trained"]) == (33, 150, "all")
    for number in range(1, 5):
        assert f"Guideline {number}" in said
    options = options_for(tmp_path, said)
    assert options["sampling_rate"] == pytest.approx(1 / 3)
    path = tmp_path / "run.toml"
    assert train("--config", path, "--out", tmp_path / "run", "--plan") == 0
    assert "150 steps of about 33 records" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--recipe", "hundreds"], 'but for learning-rate = 0.02, scaling = "none", steps = 3'),
        (["--recipe", "tens", "--steps", "100"], None),
        (["--preset", "pried-kie-funsd"], "but for delta = 1e-05, sampling-rate = 0.5, steps = 3,"),
    ],
)
def test_what_a_file_sets_otherwise_than_the_recipe_that_is_named_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], says: str | None
) -> None:
    path = tmp_path / "run.toml"
    path.write_text(  # as the `config.toml` of a run by the recipe for tens
        'data = "invented:form"\nscaling = "none"\nlearning-rate = 0.02\nsteps = 3\n'
        "sampling-rate = 0.5\ndelta = 1e-5\n"
    )
    assert train("--config", path, *given, "--out", tmp_path / "run", "--plan") == 0
    said = capsys.readouterr().out
    assert ("but for" not in said) if says is None else (says in said)


@pytest.mark.parametrize(
    ("documents", "words", "expected"),
    [
        (149, 512, (128, 0.1, 1e-5)),
        (150, 513, (512, 0.0, 1e-5)),
        (10**6, 40, (128, 0.0, 1e-7)),
    ],
)
def test_suggestions_follow_the_guidelines(
    capsys: pytest.CaptureFixture[str],
    documents: int,
    words: int,
    expected: tuple[int, float, float],
) -> None:
    declared = ["--declared-documents", documents, "--declared-words", words]
    assert train("--suggest", "--data", "nowhere", "--out", "run", *declared) == 0
    found = tomllib.loads(capsys.readouterr().out)
    assert (found["max-tokens"], found["dropout"]) == expected[:2]
    assert found["delta"] == pytest.approx(expected[2])
    assert 0.1 <= found["sampling-rate"] <= 1 / 3
    assert found["expected-records"] == round(documents * found["sampling-rate"])


DECLARED = ("--declared-documents", "100", "--declared-words", "100")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--declared-documents"),
        (["--declared-documents", "9"], "--declared-words"),
        (["--declared-documents", "9", "--declared-words", "0"], "--declared-words is 0"),
        (["--public"], "--suggest is of private training"),
        ([*DECLARED, "--epsilon", "-3", "--delta", "7"], "epsilon is -3.0; expected"),
        ([*DECLARED, "--delta", "0"], "delta is 0.0; expected"),
    ],
)
def test_suggestions_need_what_is_declared(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        train("--suggest", "--data", "nowhere", "--out", "run", *arguments)
    assert says in capsys.readouterr().err


def test_suggestions_have_a_small_delta(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--suggest", "--data", "nowhere", "--out", "run", *DECLARED)
    assert train(*given, "--delta", "0.0011") == 5
    assert "DELTA_TOO_LARGE" in capsys.readouterr().err
    assert train(*given, "--delta", "0.001") == 0
    assert "delta = 0.001" in capsys.readouterr().out


def test_suggestions_are_of_unaccounted_tuning_on_the_corpora_of_their_paper(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train("--suggest", "--data", "nowhere", "--out", "run", *DECLARED) == 0
    suggested = options_for(tmp_path, capsys.readouterr().out)
    plain = options_for(tmp_path, DATA)
    for corpus in ("cord", "xfund"):
        assert tuned_on(argparse.Namespace(**suggested), corpus) == "unaccounted"
        assert tuned_on(argparse.Namespace(**plain), corpus) == "none"
    assert tuned_on(argparse.Namespace(**suggested), "labelled") == "none"


def test_presets_set_options_that_there_are() -> None:
    named = kie_options(["--data", "nowhere", "--out", "run"])
    for preset in PRESETS.values():
        assert {*preset.settings} <= named
