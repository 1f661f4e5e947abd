"""`hushdoc train clauses`, from labelled contracts to clauses found in a text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from hushdoc.__main__ import main
from hushdoc_training import table_checkpoint
from hushdoc_training.commands.clauses import INVENTED, SENTENCE
from hushdoc_training.commands.table_options import MODES
from hushdoc_training.crf import word_ranks
from hushdoc_training.invented import clause_contracts

QUICK = ("--rows", "16384", "--documents", "120")
FILLED = ("--iterations", "5", "--min-document-frequency", "3")
CONLL = "Acme B-party\nInc I-party\npays O\nBolt B-party\n. O\n\n-DOCSTART- O\n\nNobody O\npays O\n"


def train(data: object, out: Path, *options: object) -> int:
    return main(["train", "clauses", "--data", str(data), "--out", str(out), *map(str, options)])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each mode."""
    folder = tmp_path_factory.mktemp("runs")
    for mode in MODES:
        options = () if mode in ("dp-sgd", "term-dp") else FILLED
        if mode == "dp-sgd":
            options = ("--expected-records", 80)
        assert train(INVENTED, folder / mode, "--mode", mode, *QUICK, *options) == 0
    return folder


def export(run: Path, out: Path, release: Path, *options: str) -> int:
    return main(["export", str(run), "--out", str(out), "--key", f"{release}.key", *options])


@pytest.mark.parametrize(
    ("mode", "kind", "unit"),
    [
        ("paper-fill", "empirical", "token-term"),
        ("noisy-fill", "empirical", "token-term"),
        ("term-dp", "dp", "token-term"),
        ("dp-sgd", "dp", "document"),
        ("none", "none", "token-term"),
    ],
)
def test_the_claim_is_what_the_mode_can_promise(
    runs: Path, mode: str, kind: str, unit: str
) -> None:
    claim = table_checkpoint.load(runs / mode).claim
    (guarantee,) = claim.guarantees
    assert (guarantee.kind, guarantee.unit) == (kind, unit)
    if kind == "dp":
        assert guarantee.epsilon is not None
        assert 7.9 < guarantee.epsilon <= 8
        assert guarantee.delta == 1e-5
    else:
        assert guarantee.epsilon is None
    methods = [audit.method for audit in claim.audits]
    if kind == "empirical":
        assert {"antisymmetric rows", "value multiplicity", "float pattern"} < {*methods}
        assert all(audit.auc is not None for audit in claim.audits)
    elif kind != "none":
        # Of the same training of invented documents.
        canaries = {"dp-sgd": "documents", "term-dp": "terms"}
        assert f"canary {canaries[mode]}" in methods
    else:
        assert not methods
    assert [data.name for data in claim.protected_data] == [INVENTED]


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


def test_clauses_of_a_new_contract_are_found_where_they_stand(
    runs: Path, release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(runs / "dp-sgd", tmp_path / "model", release) == 0
    [contract] = clause_contracts.contracts(1, seed=5)
    (tmp_path / "contract.txt").write_text(contract.text, encoding="utf-8")
    capsys.readouterr()
    limits = ("--max-epsilon", "8", "--max-delta", "1e-5", "--unit", "document")
    documents = (str(tmp_path / "model"), str(tmp_path / "contract.txt"))
    asked = (*documents, "--trust", f"{release}.trust.json", *limits, "--json")
    assert main(["extract", *asked]) == 0
    found = json.loads(capsys.readouterr().out)["fields"]
    assert len(found) >= len(contract.spans) - 1 >= 2
    right = 0
    for field in found:
        assert contract.text[field["start"] : field["stop"]] == field["text"]
        right += any(
            field["label"] == label and field["start"] <= start and stop <= field["stop"]
            for label, start, stop in contract.spans
        )
    assert right >= len(contract.spans) - 1


def test_a_table_with_noisy_fill_learns_from_tokens_alone_unless_told_otherwise(
    runs: Path, tmp_path: Path
) -> None:
    made = table_checkpoint.load(runs / "noisy-fill")
    assert not made.scheme.bigrams
    assert not made.scheme.skip_grams
    names = [data.name for data in made.claim.public_data]
    assert names == [INVENTED, word_ranks.NAME]
    assert all(data.uses == ("scales of rows",) for data in made.claim.public_data)
    used = made.claim.training
    assert (used["algorithm"], used["iterations"], used["noise"]) == ("batch", 5, 1.0)
    assert (
        used["batch"]["total_learning_rate"],
        used["top_features_per_label"],
        used["unseen_scale"],
    ) == (
        750.0,
        128,
        0.1,
    )
    private = table_checkpoint.load(runs / "dp-sgd").claim
    assert [data.name for data in private.public_data] == [INVENTED]
    assert private.training["unseen_scale"] == 0.3
    options = (*QUICK, *FILLED, "--algorithm", "pa", "--held-out", 0.2)
    assert train(INVENTED, tmp_path / "run", *options) == 0
    pairs = table_checkpoint.load(tmp_path / "run")
    assert pairs.scheme.bigrams
    assert not pairs.claim.public_data
    assert pairs.claim.training["noise"] == 0.5


def test_words_at_large_scale_a_private_table_by_its_makers_word(
    tmp_path: Path, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (*QUICK, "--mode", "dp-sgd", "--expected-records", 80)
    assert train(INVENTED, tmp_path / "run", *options, "--public-overlap", "none") == 0
    assert "Scales:" not in capsys.readouterr().out
    claim = table_checkpoint.load(tmp_path / "run").claim
    assert [data.name for data in claim.public_data] == [INVENTED, word_ranks.NAME]
    assert {data.overlap_with_protected for data in claim.public_data} == {"none"}
    assert export(tmp_path / "run", tmp_path / "model", release) == 0
    limits = ("--max-epsilon", "8", "--max-delta", "1e-5", "--unit", "document")
    trust = ("--trust", f"{release}.trust.json")
    assert main(["verify", str(tmp_path / "model"), *trust, *limits]) == 0


def test_a_table_with_noisy_fill_finds_clauses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "public.jsonl").write_text(
        "\n".join(
            json.dumps({"id": made.name, "text": made.text, "spans": []})
            for made in clause_contracts.contracts(60, seed=9)
        )
    )
    options = ("--public", tmp_path / "public.jsonl", "--public-overlap", "none")
    options += ("--rows", 16384, "--held-out", 0.3)
    assert train(INVENTED, tmp_path / "run", *options) == 0
    told = capsys.readouterr().out
    assert float(told.split("F1 ")[1].split()[0]) > 0.9
    claim = table_checkpoint.load(tmp_path / "run").claim
    assert claim.training["unseen_scale"] == 0.02
    [public] = claim.public_data
    assert (public.name, public.overlap_with_protected) == ("public.jsonl", "none")


def test_a_ledger_is_charged_once_and_refuses_what_it_has_no_room_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = str(tmp_path / "ledger")
    assert main(["ledger", "init", ledger, "--data", "our contracts", "--epsilon", "5"]) == 0
    options = ("--mode", "dp-sgd", *QUICK, "--ledger", ledger, "--expected-records", 80)
    assert train(INVENTED, tmp_path / "one", *options, "--epsilon", 4) == 0
    claim = table_checkpoint.load(tmp_path / "one").claim
    (guarantee,) = claim.guarantees
    assert guarantee.hyperparameter_tuning == "accounted"
    assert [data.name for data in claim.protected_data] == ["our contracts"]
    capsys.readouterr()
    assert train(INVENTED, tmp_path / "two", *options, "--epsilon", 4) == 5
    assert "BUDGET_EXCEEDED" in capsys.readouterr().err
    assert not (tmp_path / "two").exists()
    assert main(["ledger", "show", ledger, "--json"]) == 0
    [run] = json.loads(capsys.readouterr().out)["runs"]
    assert run["chargedSteps"] == 16
    # Other documents are not these.
    other = ("--label", "Audit Rights")
    assert train(INVENTED, tmp_path / "three", *options, "--epsilon", 0.5, *other) == 5
    assert "OTHER_DOCUMENTS" in capsys.readouterr().err


def test_files_and_folders_of_contracts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        json.dumps({"id": item.name, "text": item.text, "spans": item.spans})
        for item in clause_contracts.contracts(30)
    ]
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "LICENSE.txt").write_text("free")
    (folder / "train.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    options = ("--mode", "none", "--rows", 4096, "--iterations", 3, "--label", "Audit Rights")
    assert train(folder, tmp_path / "run", *options, "--held-out", 0.3) == 0
    assert table_checkpoint.load(tmp_path / "run").tags == ("O", "Audit Rights")
    assert "F1 " in capsys.readouterr().out
    (folder / "more.jsonl").write_text(lines[0])
    assert train(folder, tmp_path / "again", *options) == 3
    assert "more.jsonl, train.jsonl.gz" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mode", "size"),
    [
        ("none", ("--iterations", 3)),
        ("dp-sgd", ("--expected-records", 80)),
        ("term-dp", ()),
    ],
)
def test_a_score_on_held_out_documents_is_a_read_that_the_certificate_lists(
    tmp_path: Path, mode: str, size: tuple[object, ...]
) -> None:
    options = ("--mode", mode, "--rows", 4096, *size)
    for share in (0, 0.3):
        assert train(INVENTED, tmp_path / str(share), *options, "--held-out", share) == 0
    without, with_score = (
        {
            (access.purpose, access.treatment)
            for access in table_checkpoint.load(tmp_path / run).claim.data_accesses
        }
        for run in ("0", "0.3")
    )
    ((purpose, treatment),) = with_score - without
    assert "held-out" in purpose
    assert treatment == "not-released"
    assert without < with_score


def test_a_table_that_protects_terms_is_accepted_by_whoever_names_its_relation(
    runs: Path, tmp_path: Path, release: Path
) -> None:
    assert export(runs / "term-dp", tmp_path / "model", release) == 0
    asked = ["--trust", f"{release}.trust.json", "--max-epsilon", "8", "--max-delta", "1e-5"]
    verify = ["verify", str(tmp_path / "model"), *asked, "--unit", "token-term"]
    assert main(verify) == 5
    assert main([*verify, "--adjacency", "zero-out"]) == 0


def test_tagged_tokens(tmp_path: Path, release: Path) -> None:
    (tmp_path / "data.conll").write_text(CONLL * 5)
    options = ("--mode", "paper-fill", "--rows", 512, "--iterations", 3)
    assert train(tmp_path / "data.conll", tmp_path / "run", *options) == 0
    found = table_checkpoint.load(tmp_path / "run")
    assert found.tags == ("O", "B-party", "I-party")
    assert found.scheme.level == "token"
    assert export(tmp_path / "run", tmp_path / "model", release) == 0
    trust = ("--trust", f"{release}.trust.json", "--integrity-only")
    assert main(["verify", str(tmp_path / "model"), *trust]) == 0
    with pytest.raises(SystemExit) as stop:
        train(tmp_path / "data.conll", tmp_path / "other", "--level", "sentence")
    assert stop.value.code == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--held-out", 1], "--held-out"),
        (["--documents", 0], "--documents"),
        (["--rows", 1], "rows"),
        (["--algorithm", "magic"], "algorithm"),
        (["--algorithm", "batch", "--mode", "paper-fill"], "batch"),
        (["--top-features-per-label", 0], "top_features_per_label"),
        (["--unseen-scale", 0], "--unseen-scale"),
        (["--unseen-scale", 1.5], "--unseen-scale"),
        (["--public", "invented:contract", "--mode", "paper-fill"], "--public"),
        (["--public", "invented:contract", "--algorithm", "pa"], "--public"),
        (["--mode", "magic"], "invalid choice"),
        (["--mode", "dp-sgd", "--epsilon", 0], "epsilon"),
        (["--mode", "term-dp", "--epsilon", 0], "epsilon"),
        (["--iterations", 0], "--iterations"),
        (["--mode", "dp-sgd", "--clusters", 8], "--clusters"),
        (["--mode", "term-dp", "--level", "token"], "--mode term-dp"),
        (["--ledger", "file"], "--ledger"),
        (["--documents-changed"], "--documents-changed"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[Any], says: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        train(INVENTED, tmp_path / "run", "--documents", 10, *options)
    assert stop.value.code == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("data", ["nowhere", "invented:poem"])
def test_data_that_are_not_there_are_exit_code_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: str
) -> None:
    assert train(data, tmp_path / "run") == 3
    assert data in capsys.readouterr().err


def test_weights_are_for_tables_alone(tmp_path: Path, release: Path) -> None:
    (tmp_path / "checkpoint.json").write_text("{}")
    with pytest.raises(SystemExit) as stop:
        export(tmp_path, tmp_path / "model", release, "--weights", "int8")
    assert stop.value.code == 2


@pytest.mark.parametrize("mode", ["dp-sgd", "noisy-fill"])
def test_sentences_are_certified_as_documents_only_by_their_owners_word(
    tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "tweets.conll"
    data.write_text(CONLL.replace("-DOCSTART- O\n\n", "") * 30)
    options = ("--mode", mode, "--rows", 4096, "--iterations", 3, "--expected-records", 40)
    assert train(data, tmp_path / "refused", *options) == 3
    assert "--sentences-are-documents" in capsys.readouterr().err
    assert not (tmp_path / "refused").exists()
    assert train(data, tmp_path / "run", *options, "--sentences-are-documents") == 0
    claim = table_checkpoint.load(tmp_path / "run").claim
    [guarantee] = claim.guarantees
    if mode == "dp-sgd":
        assert guarantee.unit_definition == SENTENCE
    else:
        assert f"A document is {SENTENCE}." in claim.caveats


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--delta", "0"),
        ("--delta", "1"),
        ("--delta", "nan"),
        ("--noise", "0"),
        ("--noise", "nan"),
        ("--noise", "inf"),
        ("--total-learning-rate", "nan"),
        ("--epsilon", "inf"),
        ("--clipping-norm", "0"),
        ("--name", " "),
    ],
)
def test_numbers_that_no_run_can_follow_are_refused_as_usage(
    tmp_path: Path, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        train(INVENTED, tmp_path / "run", "--mode", "dp-sgd", option, value)
    assert left.value.code == 2
    assert option in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_is_in_the_way_before_anything_is_learned(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for mode in ("noisy-fill", "dp-sgd"):
        assert train(INVENTED, runs / mode, "--mode", mode) == 3
        told = capsys.readouterr()
        assert "Name a new folder" in told.err
        assert told.out == ""
