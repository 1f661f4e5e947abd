"""`hushdoc train clauses`, from labelled contracts to clauses found in a text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from table_commands import CLAUSES, export

from hushdoc.__main__ import main
from hushdoc_training import table_checkpoint
from hushdoc_training.commands.clauses import INVENTED, SENTENCE
from hushdoc_training.crf import word_ranks
from hushdoc_training.invented import clause_contracts

QUICK = CLAUSES.options
CONLL = "Acme B-party\nInc I-party\npays O\nBolt B-party\n. O\n\n-DOCSTART- O\n\nNobody O\npays O\n"


train = CLAUSES.train


DOCUMENTS = ("--max-epsilon", "8", "--max-delta", "1e-5", "--unit", "document")


@pytest.mark.parametrize(
    ("mode", "verified", "policy"), [("dp-sgd", 0, DOCUMENTS), ("none", 5, ("--integrity-only",))]
)
def test_clauses_of_a_new_contract_are_found_where_they_stand(
    clauses_runs: Path,
    release: Path,
    tmp_path: Path,
    mode: str,
    verified: int,
    policy: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = str(tmp_path / "model")
    assert export(clauses_runs / mode, Path(model), release) == 0
    trust = ("--trust", f"{release}.trust.json")
    assert main(["verify", model, *trust, *DOCUMENTS]) == verified
    [contract] = clause_contracts.contracts(1, seed=5)
    (tmp_path / "contract.txt").write_text(contract.text, encoding="utf-8")
    capsys.readouterr()
    asked = (model, str(tmp_path / "contract.txt"), *trust, *policy, "--json")
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
    clauses_runs: Path, tmp_path: Path
) -> None:
    made = table_checkpoint.load(clauses_runs / "noisy-fill")
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
    private = table_checkpoint.load(clauses_runs / "dp-sgd").claim
    assert [data.name for data in private.public_data] == [INVENTED]
    assert private.training["unseen_scale"] == 0.3
    options = (*QUICK, *CLAUSES.filled, "--algorithm", "pa", "--held-out", 0.2)
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
    printed = capsys.readouterr().out
    assert "F1 " in printed
    assert "invented" not in printed
    (folder / "more.jsonl").write_text(lines[0])
    assert train(folder, tmp_path / "again", *options) == 3
    assert "more.jsonl, train.jsonl.gz" in capsys.readouterr().err


def test_a_table_that_protects_terms_is_accepted_by_whoever_names_its_relation_and_public_labels(
    clauses_runs: Path, tmp_path: Path, release: Path
) -> None:
    assert export(clauses_runs / "term-dp", tmp_path / "model", release) == 0
    asked = ["--trust", f"{release}.trust.json", "--max-epsilon", "8", "--max-delta", "1e-5"]
    verify = ["verify", str(tmp_path / "model"), *asked, "--unit", "token-term"]
    assert main(verify) == 5
    assert main([*verify, "--adjacency", "zero-out"]) == 5
    public = ("--accept-treatment", "declared-public")
    assert main([*verify, "--adjacency", "zero-out", *public]) == 0


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
    quick = {"dp-sgd": ("--expected-records", 40), "noisy-fill": ("--iterations", 3)}
    options = ("--mode", mode, "--rows", 4096, *quick[mode])
    assert train(data, tmp_path / "refused", *options) == 3
    assert "--sentences-are-documents" in capsys.readouterr().err
    assert not (tmp_path / "refused").exists()
    assert train(data, tmp_path / "run", *options, "--sentences-are-documents") == 0
    claim = table_checkpoint.load(tmp_path / "run").claim
    [guarantee] = claim.guarantees
    if mode == "dp-sgd":
        assert guarantee.unit_definition.startswith(SENTENCE)
    else:
        assert f"A document is {SENTENCE}." in claim.caveats
