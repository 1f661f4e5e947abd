"""What `hushdoc train clauses` and `hushdoc train classifier` do alike, in every mode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from table_commands import COMMANDS, TableCommand, export

from hushdoc.__main__ import main
from hushdoc_training import table_checkpoint
from hushdoc_training.commands.table_options import MODES
from hushdoc_training.recipes.hashed import private_audits
from hushdoc_training.runs.claim_words import READABLE

ROW_ATTACKS = {"antisymmetric rows", "value multiplicity"}


@pytest.fixture(params=COMMANDS.values(), ids=COMMANDS.keys())
def command(request: pytest.FixtureRequest) -> TableCommand:
    found: TableCommand = request.param
    return found


@pytest.fixture
def runs(command: TableCommand, request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(f"{command.name}_runs")
    return folder


@pytest.mark.parametrize(
    ("mode", "kind", "unit", "attacks"),
    [
        ("paper-fill", "empirical", "token-term", {*ROW_ATTACKS, "float pattern"}),
        ("noisy-fill", "empirical", "token-term", {*ROW_ATTACKS, "float pattern"}),
        # Of the same training of invented documents.
        ("term-dp", "dp", "token-term", {*ROW_ATTACKS, private_audits.METHOD_OF_TERMS}),
        ("dp-sgd", "dp", "document", {*ROW_ATTACKS, private_audits.METHOD_OF_DOCUMENTS}),
        ("none", "none", "token-term", set()),
    ],
)
def test_the_claim_is_what_the_mode_can_guarantee(
    command: TableCommand, runs: Path, mode: str, kind: str, unit: str, attacks: set[str]
) -> None:
    claim = table_checkpoint.load(runs / mode).claim
    (guarantee,) = claim.guarantees
    assert (guarantee.kind, guarantee.unit) == (kind, unit)
    assert (READABLE in guarantee.assumes) == (unit == "document")
    if kind == "dp":
        assert guarantee.epsilon is not None
        assert 7.9 < guarantee.epsilon <= 8
        assert guarantee.delta == 1e-5
        # What is audited reads no protected document, so that the guarantee covers all that did.
        assert private_audits.CAVEAT in claim.caveats
        assert all("audit" not in access.purpose for access in claim.data_accesses)
    else:
        assert guarantee.epsilon is None
    methods = {audit.method for audit in claim.audits}
    assert attacks <= methods
    assert bool(methods) == bool(attacks)
    assert any(m.startswith("candidate score, terms of") for m in methods) == (kind == "empirical")
    assert all(audit.auc is not None for audit in claim.audits)
    scored = [access for access in claim.data_accesses if "held-out" in access.purpose]
    assert {access.treatment for access in scored} == (
        set() if mode == "none" else {"not-released"}
    )
    declared = any("nothing was decided by un-noised" in text for text in guarantee.assumes)
    assert declared == (kind == "dp")
    assert (guarantee.hyperparameter_tuning == "none") == declared
    [protected] = claim.protected_data
    invented = str(command.data(runs)).startswith("invented:")
    assert protected.name == (command.data(runs) if invented else "private documents")


@pytest.mark.parametrize("mode", MODES)
def test_every_score_on_invented_text_says_so(
    command: TableCommand, mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--mode", mode, "--rows", 4096, "--documents", 60)
    private = ("--no-audit", "--private-numbers", "shown-unused")
    scored = ("--held-out", 0.3, *(private if mode in ("term-dp", "dp-sgd") else ()))
    assert command.train(command.invented, tmp_path / "run", *options, *scored) == 0
    lines = capsys.readouterr().out.splitlines()
    scores = [line for line in lines if line.startswith(("Held out: ", "Attack: "))]
    assert scores[-1].startswith("Held out: ")
    assert (len(scores) > 1) == (mode in ("paper-fill", "noisy-fill"))
    assert [line for line in scores if not line.endswith(", all of invented text")] == []


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "none"])
def test_a_run_is_sealed_and_checked(
    runs: Path, release: Path, tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(runs / mode, tmp_path / "model", release, "--weights", "int8") == 0
    model, trust = str(tmp_path / "model"), ("--trust", f"{release}.trust.json")
    limits = ("--max-epsilon", "8", "--max-delta", "1e-5", "--unit", "document")
    assert main(["verify", model, *trust, "--integrity-only"]) == 0
    # Only documents that are protected satisfy a policy that asks for it.
    assert main(["verify", model, *trust, *limits]) == (0 if mode == "dp-sgd" else 5)
    assert main(["inspect", model, *trust]) == 0
    assert "Attacks were" in capsys.readouterr().out or mode in ("dp-sgd", "term-dp")


def test_a_ledger_is_charged_once_and_refuses_what_it_has_no_room_for(
    command: TableCommand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, ledger = command.data(tmp_path), str(tmp_path / "ledger")
    assert main(["ledger", "init", ledger, "--data", "our texts", "--epsilon", "5"]) == 0
    options = ("--mode", "dp-sgd", "--ledger", ledger, *command.options, *command.sized)
    assert command.train(data, tmp_path / "one", *options, "--epsilon", 4) == 0
    claim = table_checkpoint.load(tmp_path / "one").claim
    (guarantee,) = claim.guarantees
    assert guarantee.hyperparameter_tuning == "accounted"
    assert [data.name for data in claim.protected_data] == ["our texts"]
    capsys.readouterr()
    assert command.train(data, tmp_path / "two", *options, "--epsilon", 4) == 5
    assert "BUDGET_EXCEEDED" in capsys.readouterr().err
    assert not (tmp_path / "two").exists()
    assert main(["ledger", "show", ledger, "--json"]) == 0
    [run] = json.loads(capsys.readouterr().out)["runs"]
    assert run["chargedSteps"] == {"clauses": 16, "classifier": 8}[command.name]
    # Other documents are not these.
    other = (*options, "--epsilon", 0.5, *command.other_labels)
    assert command.train(data, tmp_path / "three", *other) == 5
    assert "OTHER_DOCUMENTS" in capsys.readouterr().err


ON_EITHER: list[tuple[list[object], str]] = [
    (["--held-out", 1], "--held-out"),
    (["--rows", 1], "rows"),
    (["--mode", "magic"], "invalid choice"),
    (["--unseen-scale", 0], "--unseen-scale"),
    (["--ledger", "file"], "--ledger"),
    (["--documents-changed"], "--documents-changed"),
    *((["--mode", "dp-sgd", "--delta", value], "--delta") for value in (0, 1, "nan")),
    *((["--noise", value], "--noise is") for value in (0, "nan", "inf", 1e300)),
    (["--min-document-frequency", 0], "--min-document-frequency"),
    (["--mode", "dp-sgd", "--total-learning-rate", 1e300], "--total-learning-rate"),
    (["--mode=dp-sgd", "--total-learning-rate", 1e6, "--expected-records", 1], "smaller rate"),
    (["--mode", "dp-sgd", "--no-audit", "--epsilon", 1, "--steps", 1000], "fewer steps"),
    (["--mode", "dp-sgd", "--epsilon", 8, "--steps", 1000], "fewer steps"),  # of the audit's twin
    (["--mode", "dp-sgd", "--total-learning-rate", "nan"], "--total-learning-rate"),
    *((["--mode", "dp-sgd", "--epsilon", value], "epsilon") for value in (0, "inf")),
    (["--mode", "dp-sgd", "--clipping-norm", 0], "--clipping-norm"),
    (["--mode", "dp-sgd", "--name", " "], "--name"),
    *((["--mode", mode, "--held-out", 0.2], "--private-numbers") for mode in ("dp-sgd", "term-dp")),
]
OF_CLAUSES: list[tuple[list[object], str]] = [
    (["--documents", 0], "--documents"),
    (["--algorithm", "magic"], "algorithm"),
    (["--algorithm", "batch", "--mode", "paper-fill"], "batch"),
    (["--top-features-per-label", 0], "top_features_per_label"),
    (["--unseen-scale", 1.5], "--unseen-scale"),
    (["--public", "invented:contract", "--mode", "paper-fill"], "--public"),
    (["--public", "invented:contract", "--algorithm", "pa"], "--public"),
    (["--mode", "term-dp", "--epsilon", 0], "epsilon"),
    (["--iterations", 0], "--iterations"),
    (["--mode", "dp-sgd", "--clusters", 8], "--clusters"),
    (["--mode", "term-dp", "--level", "token"], "--mode term-dp"),
]
OF_CLASSIFIER: list[tuple[list[object], str]] = [
    (["--rows", 0], "rows"),
    (["--model", "magic"], "invalid choice"),
    (["--public", "file"], "--public"),
    (["--unseen-scale", 0.5], "--public"),
    (["--mode", "dp-sgd", "--steps", 1], "--steps"),
]


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        *((name, *wrong) for name in COMMANDS for wrong in ON_EITHER),
        *(("clauses", *wrong) for wrong in OF_CLAUSES),
        *(("classifier", *wrong) for wrong in OF_CLASSIFIER),
    ],
)
def test_wrong_usage_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, options: list[Any], says: str
) -> None:
    command = COMMANDS[name]
    with pytest.raises(SystemExit) as stop:
        command.train(command.invented, tmp_path / "run", "--documents", 10, *options)
    assert stop.value.code == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("public", ["texts/all.jsonl", "texts", "texts/../texts/all.jsonl"])
def test_the_protected_documents_are_not_taken_for_public_ones(
    command: TableCommand, tmp_path: Path, capsys: pytest.CaptureFixture[str], public: str
) -> None:
    (tmp_path / "texts").mkdir()
    words = ("--mode", "dp-sgd", "--public", tmp_path / public, "--public-overlap", "none")
    with pytest.raises(SystemExit, match="2"):
        command.train(str(tmp_path / "texts/all.jsonl"), tmp_path / "run", *words)
    assert "the same documents" in capsys.readouterr().err


OF_OTHER_MODES: list[tuple[str, str, list[object]]] = [
    (name, mode, [option, value])
    for option, value, modes in (
        ("--epsilon", 1, ("paper-fill", "noisy-fill", "none")),
        ("--delta", "1e-6", ("paper-fill", "noisy-fill", "none")),
        ("--private-numbers", "hidden", ("paper-fill", "noisy-fill", "none")),
        ("--steps", 4, ("paper-fill", "noisy-fill", "none", "term-dp")),
        ("--clipping-norm", 1, ("noisy-fill", "term-dp")),
        ("--tuned-on", "unaccounted", ("noisy-fill", "none")),
        ("--noise", 3, ("paper-fill", "term-dp", "dp-sgd", "none")),
        ("--min-document-frequency", 2, ("term-dp", "dp-sgd")),
        ("--total-learning-rate", 9, ("paper-fill", "term-dp")),
        ("--public-overlap", "none", ("paper-fill", "term-dp")),
    )
    for mode in modes
    for name in COMMANDS
]


@pytest.mark.parametrize(
    ("name", "mode", "option"),
    [
        *OF_OTHER_MODES,
        *(
            ("clauses", mode, option)
            for mode in ("term-dp", "dp-sgd")
            for option in (["--algorithm", "pa"], ["--iterations", 5], ["--c=1"])
        ),
        *(("classifier", mode, ["--unseen-scale", 0.5]) for mode in ("noisy-fill", "none")),
    ],
)
def test_an_option_that_the_mode_does_not_use_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    mode: str,
    option: list[Any],
) -> None:
    """Whoever asks for an epsilon gets a table that has one, or none."""
    command = COMMANDS[name]
    with pytest.raises(SystemExit, match="2"):
        command.train(command.invented, tmp_path / "run", "--mode", mode, *option)
    assert str(option[0]).partition("=")[0] in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_what_the_default_mode_does_not_use_is_named_with_the_modes_that_do(
    command: TableCommand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.train(command.invented, tmp_path / "run", "--epsilon", 8, "--steps", 16)
    said = capsys.readouterr().err
    assert "--mode noisy-fill, the default, does not use " in said
    assert "--epsilon (of term-dp, dp-sgd) and --steps (of dp-sgd)" in said


@pytest.mark.parametrize(
    "options",
    [
        ("--algorithm", "pa", "--total-learning-rate", 9),
        ("--algorithm", "pa", "--top-features-per-label", 9),
        ("--level", "token", "--unseen-scale", 0.5),
        ("--mode", "none", "--public-overlap", "none"),
    ],
)
def test_clauses_refuse_what_is_of_batches_where_there_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[object, ...]
) -> None:
    command = COMMANDS["clauses"]
    with pytest.raises(SystemExit, match="2"):
        command.train(command.invented, tmp_path / "run", *options)
    assert f"{options[2]} is of what is learned in batches" in capsys.readouterr().err


@pytest.mark.parametrize("data", ["nowhere", "invented:poem"])
def test_data_that_are_not_there_are_exit_code_3(
    command: TableCommand, tmp_path: Path, capsys: pytest.CaptureFixture[str], data: str
) -> None:
    assert command.train(data, tmp_path / "run") == 3
    assert data in capsys.readouterr().err


@pytest.mark.parametrize("mode", ["noisy-fill", "dp-sgd"])
def test_a_checkpoint_is_in_the_way_before_anything_is_learned(
    command: TableCommand, runs: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    assert command.train(command.invented, runs / mode, "--mode", mode) == 3
    found = capsys.readouterr()
    assert "Name a new folder" in found.err
    assert found.out == ""
