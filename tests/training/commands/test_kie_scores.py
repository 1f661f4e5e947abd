"""`train kie --test` and `--held-out`: what is scored, what is refused, and what the claim says."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hushdoc.__main__ import main
from hushdoc.commands.command_line import build_parser
from hushdoc.labels import LabelledDocument
from hushdoc_training import invented
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.commands import kie_scores
from hushdoc_training.data import dataset, splits
from hushdoc_training.private_view import HELD_OUT, TESTED
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.recipes.kie import training
from hushdoc_training.recipes.kie.identity import documents_digest
from hushdoc_training.runs.run_folder import STEPS

RECEIPTS = invented.InventedConfig(document_types=("receipt",))
PRIVATE = ("--steps", "2", "--expected-records", "4", "--label", "total", "--label", "date")

KEEP = ("--test-providers", "keep")


def train(*arguments: object) -> int:
    return main(["train", "kie", *map(str, arguments), "--max-tokens", "64", "--quiet"])


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a run on public documents that private ones start from."""
    folder = tmp_path_factory.mktemp("public")
    invented.write(folder / "data", seed=1, count=12, config=RECEIPTS, images=False)
    chosen = ("--public", "--start", "small", "--label", "total", "--label", "date")
    assert train("--data", folder / "data", *chosen, "--out", folder / "run") == 0
    return folder / "run"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    invented.write(tmp_path / "data", seed=1, count=12, config=RECEIPTS, images=False)
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--held-out", "1"], "from 0 to below 1"),
        (["--held-out", "-0.1"], "from 0 to below 1"),
        (["--public-test"], "give --test too"),
        (["--test-copies", "drop"], "give --test too"),
        (["--test-providers", "keep"], "give --test too"),
        (["--held-out", "0.2"], "--held-out shows a score on private documents"),
        (["--test", "forms"], "--public-test says that documents of --test are public"),
        (["--test", "others", "--public-test", "--held-out", "0.1"], "--held-out shows a score"),
        (["--test", "./forms", "--public-test"], "--test and --data are the same documents"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        train("--data", "forms", "--out", tmp_path / "run", *arguments)
    assert says in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_test_file_with_documents_of_training_is_refused_or_loses_them(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = tmp_path / "tests"
    invented.write(tests, seed=2, count=4, config=RECEIPTS, images=False)
    copied = sorted(data.glob("*.json"))[0]
    record = json.loads(copied.read_text())
    record["id"] = "under another name"
    record["pages"][0]["words"][0]["text"] += "!"  # punctuation is no other word
    (tests / "copy.json").write_text(json.dumps(record))
    asked = ("--data", data, "--public", "--start", "small", "--test", tests, *KEEP)
    assert train(*asked, "--out", tmp_path / "run") == 3
    told = capsys.readouterr().err
    assert "TEST_IN_TRAINING: 1 of 5 documents of --test" in told
    assert "'under another name' has the same words as" in told
    assert not (tmp_path / "run").exists()

    assert train(*asked, "--test-copies", "drop", "--out", tmp_path / "run") == 0
    printed = capsys.readouterr().out
    assert "1 of 5 left out, which are in training too" in printed
    assert "Test: 4 documents, by the weights of the checkpoint" in printed


@pytest.fixture
def tests_of_a_known_provider(data: Path, tmp_path: Path) -> Path:
    """Returns four documents to score, one of a provider that training knows, spelled otherwise."""
    tests = tmp_path / "tests"
    invented.write(tests, seed=2, count=4, config=RECEIPTS, images=False)
    (own, *_), records = sorted(data.glob("*.json")), sorted(tests.glob("*.json"))
    for path, provider in zip(
        [own, *records], ["ACME Stores", "acme, stores", *"BCD"], strict=True
    ):
        path.write_text(json.dumps({**json.loads(path.read_text()), "provider": provider}))
    return tests


def scored(data: Path, tests: Path, *further: str) -> tuple[str, ...]:
    """Returns the ids of the documents of --test that a training would score."""
    given = ("train", "kie", "--data", str(data), "--test", str(tests), *further)
    options = build_parser().parse_args([*given, "--out", "nowhere"])
    documents = dataset.read(dataset.Source(location=str(data)))
    with kie_scores.sides(options, documents, images=False) as sides:
        (found,) = sides.scored
        return tuple(labelled.document.id for labelled in found.documents)


def test_a_provider_on_both_sides_is_refused_kept_or_left_out(
    data: Path,
    tests_of_a_known_provider: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sides = (data, tests_of_a_known_provider)
    public = ("--public", "--start", "small", "--out", tmp_path / "run")
    assert train("--data", data, "--test", tests_of_a_known_provider, *public) == 3
    told = capsys.readouterr().err
    assert "TEST_PROVIDER_IN_TRAINING: 1 of 4 documents of --test" in told
    assert "others in training, 1 in all: 'acme stores'" in told
    assert not (tmp_path / "run").exists()

    every = scored(*sides, "--not-private", *KEEP)
    assert len(every) == 4
    assert "1 in all; they are scored too" in capsys.readouterr().out
    assert scored(*sides, "--not-private", "--test-providers", "drop") == every[1:]
    assert "1 in all; they are left out" in capsys.readouterr().out


@pytest.mark.parametrize("choice", [(), ("--test-providers", "refuse")])
def test_whether_private_training_starts_tells_of_no_provider(
    data: Path,
    tests_of_a_known_provider: Path,
    capsys: pytest.CaptureFixture[str],
    choice: tuple[str, ...],
) -> None:
    sides = (data, tests_of_a_known_provider, *choice)
    assert len(scored(*sides, "--private-numbers", "shown")) == 4
    assert "1 in all; they are scored too" in capsys.readouterr().out
    assert len(scored(*sides, "--public-test")) == 4
    assert "nor providers" in (printed := capsys.readouterr().out)
    assert "in all" not in printed


def test_what_is_held_out_is_scored_and_not_trained_on(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    chosen = ("--public", "--start", "small", "--held-out", "0.4", "--out", out)
    assert train("--data", data, *chosen) == 0
    printed = capsys.readouterr().out
    documents = dataset.read(dataset.Source(location=str(data)))
    made = splits.split(documents, held_out=0.4, traits=splits.traits_of)
    assert made.train
    assert made.held_out
    assert made.lines()[0] in printed
    asked = json.loads((out / "run.json").read_text())
    assert documents_digest(made.train) in json.dumps(asked)

    evaluation = training.evaluation_of(kie_start.start_from(str(out), None), made.held_out)
    total = evaluation.at_words.total()
    (line,) = re.findall(r"all, by fields .*", printed)
    cells = line.split()[3:7]
    assert cells == [
        str(total.expected),
        *(f"{value:.3f}" for value in (total.precision, total.recall, total.f1)),
    ]
    assert "note:" not in printed


def test_a_window_less_moves_no_other_window_to_the_held_out_side(data: Path) -> None:
    """Where windows are protected; a document's words would decide of all its other windows."""
    read = dataset.read(dataset.Source(location=str(data)))
    documents = [replace(labelled, provider=None) for labelled in read]
    given = ("train", "kie", "--data", str(data), "--private-numbers", "shown", "--out", "nowhere")
    window = ("--held-out", "0.4", "--privacy-unit", "sequence")

    def trained(read: Sequence[LabelledDocument], *chosen: str) -> set[str]:
        options = build_parser().parse_args([*given, *chosen])
        with kie_scores.sides(options, read, images=False) as sides:
            return {labelled.document.id for labelled in sides.train}

    shorter = [without_its_last_words(labelled) for labelled in documents]
    assert trained(shorter, *window) == trained(documents, *window) != trained(documents)
    assert trained(shorter, *window[:2]) != trained(documents, *window[:2])


def without_its_last_words(labelled: LabelledDocument) -> LabelledDocument:
    (page,) = labelled.document.pages
    document = replace(labelled.document, pages=(replace(page, words=page.words[:-9]),))
    return LabelledDocument(document=document, spans=())


def test_a_score_on_invented_documents_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "NUM_INVENTED", 4)
    given = ("--data", "invented:receipt", "--documents", "8", "--public", "--start", "small")
    tested = ("--held-out", "0.4", "--test", "invented:form", *KEEP)
    assert train(*given, *tested, "--out", tmp_path / "run") == 0
    printed = capsys.readouterr().out
    assert re.search(r"Held out: \d documents, all of invented text, by the weights", printed)
    assert re.search(r"Test: 4 documents, all of invented text, by the weights", printed)


@pytest.mark.parametrize(("mode", "tuning"), [("shown-unused", "none"), ("shown", "unaccounted")])
def test_a_score_on_private_documents_is_in_the_claim_and_its_number_nowhere(
    data: Path,
    public: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    mode: str,
    tuning: str,
) -> None:
    capsys.readouterr()
    out = tmp_path / "run"
    chosen = ("--start", public, "--held-out", "0.4", "--private-numbers", mode)
    assert train("--data", data, *PRIVATE, *chosen, "--out", out) == 0
    printed = capsys.readouterr().out
    assert "all, by fields" in printed
    assert "note: Exact numbers about the documents" in printed
    claim = Checkpoint.load(out).claim
    (guarantee,) = claim.guarantees
    assert guarantee.hyperparameter_tuning == tuning
    (access,) = [found for found in claim.data_accesses if "held-out" in found.purpose]
    assert access.treatment == "not-released"
    assumed = re.findall(r"un-noised numbers that somebody saw \(([^)]*)\)", str(claim.to_dict()))
    assert [HELD_OUT in said for said in assumed] == [True] * (mode == "shown-unused")
    assert HELD_OUT in (out / STEPS).read_text()
    for path in out.rglob("*.json*"):
        assert not re.search('"(f1|recall|at_words|by_value)"', path.read_text()), path


def test_public_tests_of_a_private_run_leave_its_claim_as_it_is(
    data: Path, public: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = tmp_path / "tests"
    invented.write(tests, seed=2, count=4, config=RECEIPTS, images=False)
    capsys.readouterr()
    chosen = ("--start", public, "--test", tests, "--public-test")
    assert train("--data", data, *PRIVATE, *chosen, "--out", tmp_path / "run") == 0
    printed = capsys.readouterr().out
    assert "all, by fields" in printed
    assert "note: Exact numbers" not in printed
    claim = Checkpoint.load(tmp_path / "run").claim
    assert claim.guarantees[0].hyperparameter_tuning == "none"
    assert not any("score" in found.purpose for found in claim.data_accesses)


@pytest.mark.parametrize("copied", [False, True])
def test_whether_a_private_document_is_in_a_public_test_file_is_told_by_nothing(
    data: Path, public: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], copied: bool
) -> None:
    """A refusal told of one document, and so did the number of those left out of the score."""
    tests = tmp_path / "tests"
    invented.write(tests, seed=2, count=4, config=RECEIPTS, images=False)
    own = sorted(data.glob("*.json"))[0]
    twin = json.loads(own.read_text())
    twin["id"] = "a copy"
    (tests / "copy.json").write_text(json.dumps(twin))
    if not copied:
        own.unlink()
    capsys.readouterr()
    chosen = ("--start", public, "--test", tests, "--public-test")
    assert train("--data", data, *PRIVATE, *chosen, "--out", tmp_path / "run") == 0
    printed = capsys.readouterr().out
    assert "copies of private documents in it are not looked for, nor providers" in printed
    assert "Test: 5 documents, by the weights of the checkpoint" in printed


def test_a_private_test_file_with_documents_of_private_training_loses_them_and_the_claim_says_so(
    data: Path, public: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    chosen = ("--start", public, "--test", data, "--private-numbers", "shown-unused")
    assert train("--data", data, *PRIVATE, *chosen, "--out", tmp_path / "run") == 0
    printed = capsys.readouterr().out
    assert "12 of 12 left out, which are in training too" in printed
    claim = Checkpoint.load(tmp_path / "run").claim
    (access,) = [found for found in claim.data_accesses if "test file" in found.purpose]
    assert access.treatment == "not-released"
    assert TESTED in str(claim.guarantees[0].assumes)


def test_a_finished_private_run_shows_no_score_that_its_claim_does_not_know(
    data: Path, public: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its claim is made; a score asked for by --resume would be read and noted nowhere."""
    tests = tmp_path / "tests"
    invented.write(tests, seed=2, count=4, config=RECEIPTS, images=False)
    asked = ("--data", data, *PRIVATE, "--start", public, "--private-numbers", "shown-unused")
    assert train(*asked, "--out", tmp_path / "run") == 0
    capsys.readouterr()
    assert train(*asked, "--out", tmp_path / "run", "--resume", "--test", tests) == 4
    printed, told = capsys.readouterr()
    assert "F1" not in printed
    assert "BAD_CHECKPOINT" in told
