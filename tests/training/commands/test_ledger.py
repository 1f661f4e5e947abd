"""The subcommand `ledger`: its actions, its exit codes, and training that is bound to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hushdoc_processes import in_python

from hushdoc.__main__ import main
from hushdoc.accounting.mechanism import Gaussian, PoissonSampled, to_dict
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.ledger.ledger import Ledger

STEP = PoissonSampled(sampling_rate=0.2, event=Gaussian(noise_multiplier=2.0))


def ledger(*arguments: object) -> int:
    return main(["ledger", *map(str, arguments)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    assert ledger("init", tmp_path / "forms.ledger", "--data", "forms", "--epsilon", "4") == 0
    return tmp_path / "forms.ledger"


@pytest.fixture
def used(path: Path) -> Path:
    made = Ledger.open(path)
    made.reserve("abc", title="a run", step=STEP, steps=30, claim="c", documents="d")
    made.charge("abc", 1)
    made.charge("abc", 2)
    return path


def test_init_says_what_was_made_and_overwrites_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "forms.ledger"
    assert ledger("init", path, "--data", "forms", "--epsilon", "4") == 0
    out = capsys.readouterr().out
    assert "all runs on 'forms' together may spend epsilon 4 at delta 1e-05, per document" in out
    assert f"--ledger {path}" in out
    assert "Train with: hushdoc train kie" in out
    assert ledger("init", path, "--data", "x", "--epsilon", "9") == 3
    assert Ledger.open(path).epsilon == 4
    path = tmp_path / "bills.ledger"
    assert ledger("init", path, "--data", "bills", "--epsilon", "4", "--unit", "provider") == 0
    out = capsys.readouterr().out
    assert "per provider" in out
    assert "Train with: hushdoc train docvqa" in out
    assert Ledger.open(path).unit == "provider"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--epsilon", "0"], "epsilon"),
        (["--epsilon", "4", "--delta", "1"], "delta"),
        (["--epsilon", "4", "--unit", "page"], "invalid choice"),
        ([], "--epsilon"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: list[str], says: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        ledger("init", tmp_path / "x", "--data", "forms", *wrong)
    assert stop.value.code == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_show_says_what_is_spent_reserved_and_left(
    used: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert ledger("show", used) == 0
    out = capsys.readouterr().out
    spent = Ledger.open(used).spent()
    assert f"spent     epsilon {spent.charged:.4g}" in out
    assert f"reserved  epsilon {spent.reserved:.4g}" in out
    assert "2 charged steps" in out
    assert "28 more that open runs may take" in out
    assert "allowed   epsilon 4" in out
    assert "more steps like those of the last run" in out
    assert "abc  open    2/30 steps" in out
    assert "probability 0.2, noise multiplier 2" in out
    assert f"head      {Ledger.open(used).head()}" in out
    assert ledger("show", used, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["epsilonCharged"] == spent.charged
    assert shown["epsilonAllowed"] == 4
    assert [run["step"] for run in shown["runs"]] == [to_dict(STEP)]
    assert (shown["runs"][0]["chargedSteps"], shown["runs"][0]["reservedSteps"]) == (2, 30)


def test_close_frees_what_was_not_charged(used: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ledger("close", used, "abc") == 0
    assert "2 steps stay charged, 28 free again" in capsys.readouterr().out
    assert Ledger.open(used).spent().reserved == Ledger.open(used).spent().charged
    assert ledger("close", used, "nobody") == 3
    assert "UNKNOWN_RUN" in capsys.readouterr().err


def test_audit_has_an_exit_code_for_each_kind_of_trouble(
    used: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ledger("audit", used) == 0
    assert "FAIL" not in capsys.readouterr().out
    folder = tmp_path / "run"
    folder.mkdir()
    settings = {"run": "abc", "ledger": Ledger.open(used).ledger_id}
    (folder / "run.json").write_text(json.dumps(settings))
    (folder / "steps.jsonl").write_text('{"charge": 2}\n{"cha')
    assert ledger("audit", used, "--run", folder) == 0
    (folder / "steps.jsonl").write_text('{"charge": 3}\n')
    assert ledger("audit", used, "--run", folder) == 5
    assert "FAIL  folder" in capsys.readouterr().out
    assert ledger("audit", used, "--run", tmp_path / "nowhere") == 4
    assert "holds no run" in capsys.readouterr().err
    head = Ledger.open(used).head()
    assert ledger("audit", used, "--head", head) == 0
    assert f"ok    head {head}" in capsys.readouterr().out
    assert ledger("audit", used, "--head", head[:-1] + "x") == 3
    assert ledger("audit", used, "--head", f"9{head}") == 5
    used.write_bytes(used.read_bytes()[:6000])
    assert ledger("audit", used) == 4
    assert "FAIL  " in capsys.readouterr().out
    assert ledger("audit", tmp_path / "nowhere") == 3


def test_the_verb_needs_neither_torch_nor_the_training_extra(used: Path) -> None:
    program = (
        "import sys; sys.modules['torch'] = None; sys.modules['opacus'] = None\n"
        "from hushdoc.__main__ import main\n"
        "for action in ('show', 'audit'): assert main(['ledger', action, sys.argv[1]]) == 0\n"
    )
    in_python(program, used)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--ledger", "x", "--public"], "training without privacy does not use --ledger"),
        (["--ledger", "x", "--not-private"], "training without privacy does not use --ledger"),
        (["--documents-changed"], "--documents-changed needs --ledger"),
    ],
)
def test_a_ledger_is_for_private_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: list[str], says: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", "kie", "--data", "invented:form", "--out", str(tmp_path / "run"), *wrong])
    assert stop.value.code == 2
    assert says in capsys.readouterr().err


def test_training_takes_delta_and_name_from_the_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ledger"
    ledger("init", path, "--data", "my receipts", "--epsilon", "3.2", "--delta", "1e-6")
    train = ["train", "kie", "--data", "invented:receipt", "--documents", "6", "--start", "small"]
    train += ["--steps", "2", "--epsilon", "2", "--ledger", str(path), "--quiet"]
    train += ["--max-tokens", "64", "--trained", "output", "--expected-records", "4"]
    assert main([*train, "--out", str(tmp_path / "first")]) == 0
    claim = Checkpoint.load(tmp_path / "first").claim
    assert claim.guarantees[0].delta == 1e-6
    assert claim.protected_data[0].name == "my receipts"
    assert main([*train, "--out", str(tmp_path / "second")]) == 0
    third = str(tmp_path / "third")
    assert main([*train, "--steps", "300", "--epsilon", "3.2", "--out", third]) == 5
    assert "BUDGET_EXCEEDED" in capsys.readouterr().err
    assert main([*train, "--delta", "1e-5", "--out", third]) == 3
    assert "WRONG_DELTA" in capsys.readouterr().err
    assert main([*train, "--seed", "1", "--out", third]) == 5
    assert "OTHER_DOCUMENTS" in capsys.readouterr().err
    folders = ["--run", str(tmp_path / "first"), "--run", str(tmp_path / "second")]
    assert ledger("audit", path, *folders) == 0
