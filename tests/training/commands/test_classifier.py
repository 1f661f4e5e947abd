"""`hushdoc train classifier`, from labelled texts to the class of a text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from table_commands import CLASSIFIER, TOPICS, export, message, messages, spelled

import hushdoc
from hushdoc import labelled_files
from hushdoc.__main__ import main
from hushdoc_training import table_checkpoint
from hushdoc_training.commands import classifier
from hushdoc_training.crf.corpus import is_held_out
from hushdoc_training.data import dataset


def train(data: object, out: Path, *options: object) -> int:
    return CLASSIFIER.train(data, out, *CLASSIFIER.options, *options)


@pytest.mark.parametrize("weights", ["float16", "int8"])
def test_an_artifact_tells_the_class_of_a_text_as_one_field(
    classifier_runs: Path,
    release: Path,
    tmp_path: Path,
    weights: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = str(tmp_path / "model")
    assert table_checkpoint.load(classifier_runs / "dp-sgd").tags == ("farm", "law", "sea")
    assert export(classifier_runs / "dp-sgd", Path(model), release, "--weights", weights) == 0
    words = np.arange(40)
    limits = ("--max-epsilon", "8", "--max-delta", "1e-5", "--unit", "document")
    policy = hushdoc.Policy(
        trust=hushdoc.TrustStore.from_file(f"{release}.trust.json"),
        max_epsilon=8,
        max_delta=1e-5,
        privacy_units=frozenset({"document"}),
    )
    for topic in TOPICS:
        text = tmp_path / f"{topic}.txt"
        text.write_text(f"{spelled(topic, words)}.\n\n{spelled(topic, words[::-1])}.")
        capsys.readouterr()
        trust = ("--trust", f"{release}.trust.json", "--json")
        assert main(["classify", model, str(text), *trust, *limits]) == 0
        assert json.loads(capsys.readouterr().out)["label"] == topic
        with hushdoc.load(model, policy=policy) as loaded:
            assert isinstance(loaded, hushdoc.ClassificationModel)
            assert loaded.classify(text).label == topic


@pytest.mark.parametrize("weights", ["float16", "int8"])
def test_a_table_as_it_was_fitted_is_sealed_without_a_guarantee(
    classifier_runs: Path,
    release: Path,
    tmp_path: Path,
    weights: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = str(tmp_path / "model")
    fitted = table_checkpoint.load(classifier_runs / "none").weights
    assert not fitted.any(axis=1).all()
    assert export(classifier_runs / "none", Path(model), release, "--weights", weights) == 0
    trust = ("--trust", f"{release}.trust.json")
    limits = ("--max-epsilon", "8", "--max-delta", "1e-5", "--unit", "document")
    assert main(["verify", model, *trust, *limits]) == 5
    text = tmp_path / "text.txt"
    for topic in TOPICS:
        text.write_text(f"{spelled(topic, np.arange(40))}.")
        capsys.readouterr()
        assert main(["classify", model, str(text), *trust, "--integrity-only", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["label"] == topic


def test_documents_of_boxes_may_be_invented(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--documents", 40, "--mode", "term-dp", "--held-out", 0.3)
    options += ("--private-numbers", "shown-unused")
    assert train(CLASSIFIER.invented, tmp_path / "run", *options) == 0
    assert "form, receipt" in capsys.readouterr().out
    assert table_checkpoint.load(tmp_path / "run").tags == ("form", "receipt")


def test_labelled_documents_are_of_the_class_that_is_their_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "documents.jsonl"
    found = dataset.read(dataset.Source(location="invented:form+receipt", documents=40))
    labelled_files.write(data, found)
    assert train(data, tmp_path / "run", "--mode", "dp-sgd", "--epsilon", 8) == 0
    made = table_checkpoint.load(tmp_path / "run")
    assert made.tags == ("form", "receipt")
    asked = classifier.read_messages(str(data), 1)
    assert [(one.label, one.text) for one in asked] == [
        (one.label, one.text) for one in classifier.read_messages("invented:form+receipt", 40)
    ]
    untyped = [*found[:3], replace(found[3], document_type=None)]
    labelled_files.write(data, untyped, overwrite=True)
    capsys.readouterr()
    assert train(data, tmp_path / "untyped") == 3
    told = capsys.readouterr().err
    assert "document_type" in told
    assert found[3].document.id in told
    assert not (tmp_path / "untyped").exists()


def test_two_kinds_and_public_text(tmp_path: Path) -> None:
    data = messages(tmp_path)
    kinds = ("--label", "sea", "--label", "law")
    public = ("--public", data, "--public-overlap", "contained", "--unseen-scale", 0.5)
    private = ("--mode", "dp-sgd", "--expected-records", 200)
    assert train(data, tmp_path / "dp-sgd", *kinds, *private, *public) == 0
    made = table_checkpoint.load(tmp_path / "dp-sgd")
    assert made.tags == ("sea", "law")
    [stated] = made.claim.public_data
    assert (stated.name, stated.overlap_with_protected) == (data.name, "contained")
    assert made.claim.training["unseen_scale"] == 0.5
    assert made.claim.training["total_learning_rate"] == 50.0
    assert train(data, tmp_path / "noisy-fill", *kinds) == 0
    weights = table_checkpoint.load(tmp_path / "noisy-fill").weights
    # The one column of two kinds became two that say the same.
    assert weights.shape == (8192, 2)
    assert np.array_equal(weights[:, 0], -weights[:, 1])


def further(folder: Path, count: int = 240) -> Path:
    """Later documents of the same kinds, none of them known."""
    chance = np.random.default_rng(7)
    labels = [TOPICS[number] for number in chance.integers(3, size=count)]
    lines = [message(f"later {number}", label, chance) for number, label in enumerate(labels)]
    path = folder / "later.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


LATER = ("--name", "later")


def learn_on(data: Path, before: Path, out: Path, *options: object) -> int:
    told = ["train", "classifier", "--data", data, "--update", before, "--out", out, *options]
    return main([str(part) for part in told])


@pytest.mark.parametrize("mode", ["paper-fill", "noisy-fill"])
def test_an_update_of_a_filled_table_promises_nothing_and_says_what_both_tell(
    classifier_runs: Path, tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = further(tmp_path)
    assert (
        learn_on(
            data,
            classifier_runs / mode,
            tmp_path / "next",
            "--mode",
            mode,
            *LATER,
            "--held-out",
            0.2,
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert "are classified correctly" in printed
    assert "invented" not in printed
    before, after = (
        table_checkpoint.load(classifier_runs / mode),
        table_checkpoint.load(tmp_path / "next"),
    )
    # Every row changed, so that the set of rows that did says nothing.
    assert (before.weights != after.weights).any(axis=1).all()
    (guarantee,) = after.claim.guarantees
    assert (guarantee.kind, guarantee.epsilon) == ("empirical", None)
    assert "two releases" in guarantee.composition
    names = {item.name for item in after.claim.protected_data}
    assert names == {"private documents", "later"}
    assert {access.data for access in after.claim.data_accesses} == names
    earlier = [a for a in after.claim.audits if a.method.startswith("earlier table: ")]
    assert len(earlier) == len(before.claim.audits)
    assert len(after.claim.audits) > len(earlier)


def test_an_update_of_a_private_table_adds_both_trainings_up(
    classifier_runs: Path, release: Path, tmp_path: Path
) -> None:
    data = further(tmp_path)
    options = ("--mode", "dp-sgd", "--expected-records", 200, "--epsilon", 4, *LATER)
    assert learn_on(data, classifier_runs / "dp-sgd", tmp_path / "next", *options) == 0
    claim = table_checkpoint.load(tmp_path / "next").claim
    (guarantee,) = claim.guarantees
    assert (guarantee.kind, guarantee.unit) == ("dp", "document")
    assert guarantee.epsilon is not None
    # Gaussian mechanisms add up more slowly than epsilons do.
    assert 8.2 < guarantee.epsilon < 11.9
    assert {item.name for item in claim.protected_data} == {"private documents", "later"}
    assert export(tmp_path / "next", tmp_path / "model", release) == 0
    asked = ["--trust", f"{release}.trust.json", "--max-delta", "1e-5", "--unit", "document"]
    verify = ["verify", str(tmp_path / "model"), *asked, "--max-epsilon"]
    assert main([*verify, "8"]) == 5
    assert main([*verify, "12"]) == 0


@pytest.mark.parametrize(
    ("said", "stated"), [((), "unknown"), (("--public-overlap", "none"), "none")]
)
def test_an_update_is_asked_anew_how_far_public_texts_hold_its_documents(
    tmp_path: Path, said: tuple[str, ...], stated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The public texts of the first table are those that are protected now."""
    archive = further(tmp_path)
    private = ("--mode", "dp-sgd", "--expected-records", 200, "--no-audit")
    public = ("--public", archive, "--public-overlap", "none")
    assert train(messages(tmp_path), tmp_path / "first", *private, *public) == 0
    capsys.readouterr()
    assert learn_on(archive, tmp_path / "first", tmp_path / "next", *private, *LATER, *said) == 0
    assert ("--public-overlap" in capsys.readouterr().err) == (stated != "none")
    (data,) = table_checkpoint.load(tmp_path / "next").claim.public_data
    assert (data.name, data.overlap_with_protected) == (archive.name, stated)


def test_an_update_on_documents_with_a_ledger_is_counted_there_and_once(tmp_path: Path) -> None:
    data, ledger = messages(tmp_path), str(tmp_path / "ledger")
    assert main(["ledger", "init", ledger, "--data", "our mail", "--epsilon", "8"]) == 0
    options = ("--mode", "dp-sgd", "--ledger", ledger, "--expected-records", 200, "--epsilon", 3)
    assert train(data, tmp_path / "first", *options) == 0
    assert learn_on(data, tmp_path / "first", tmp_path / "next", *options) == 0
    claims = [table_checkpoint.load(tmp_path / run).claim for run in ("first", "next")]
    first, second = (claim.guarantees[0].epsilon or 0.0 for claim in claims)
    assert 2.9 < first <= 3
    assert 3.5 < second < 5
    assert "2 training runs" in claims[1].guarantees[0].composition
    assert len(claims[1].protected_data) == 1


@pytest.mark.parametrize(
    ("before", "mode", "says"),
    [
        ("noisy-fill", "dp-sgd", "expected dp for each document"),
        ("term-dp", "dp-sgd", "expected dp for each document"),
        ("dp-sgd", "noisy-fill", "a filled update guarantees less"),
        ("term-dp", "paper-fill", "a filled update guarantees less"),
    ],
)
def test_an_update_never_keeps_a_promise_that_it_can_not(
    classifier_runs: Path, tmp_path: Path, before: str, mode: str, says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    options = ("--mode", mode, *(CLASSIFIER.sized if mode == "dp-sgd" else ()))
    assert learn_on(further(tmp_path), classifier_runs / before, tmp_path / "next", *options) == 4
    assert says in capsys.readouterr().err
    assert not (tmp_path / "next").exists()


def test_an_update_needs_a_table_that_classifies(
    classifier_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = further(tmp_path)
    clauses = ["train", "clauses", "--data", "invented:contract", "--mode", "none"]
    small = ("--rows", "4096", "--iterations", "1", "--documents", "20")
    assert main([*clauses, *small, "--out", str(tmp_path / "clauses")]) == 0
    assert learn_on(data, tmp_path / "clauses", tmp_path / "next") == 4
    assert "does not classify whole documents" in capsys.readouterr().err
    assert learn_on(data, tmp_path / "nowhere", tmp_path / "next") == 4
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": 1, "label": "moon", "text": "crater"}')
    assert learn_on(other, classifier_runs / "noisy-fill", tmp_path / "next") == 3
    assert "'moon'" in capsys.readouterr().err
    for options in (("--mode", "term-dp"), ("--rows", 8), ("--label", "sea")):
        with pytest.raises(SystemExit) as stop:
            learn_on(data, classifier_runs / "noisy-fill", tmp_path / "next", *options)
        assert stop.value.code == 2
        assert "--update" in capsys.readouterr().err


def test_on_which_side_a_document_is_hangs_on_its_own_name_alone() -> None:
    names = [f"message {number}" for number in range(4000)]
    share = np.mean([is_held_out(name, 0.25) for name in names])
    assert 0.22 < share < 0.28
    more = [name for name in names if is_held_out(name, 0.5)]
    assert {name for name in names if is_held_out(name, 0.25)} < set(more)
    assert not any(is_held_out(name, 0.0) for name in names)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['{"id": 1, "label": "a", "text": "x"}'] * 2, "two lines|id '1'"),
        (['{"id": 1, "label": "a", "text": "x"}'], "1 class|1 classes"),
        (
            ['{"id": 1, "label": "a", "text": " "}', '{"id": 2, "label": "b", "text": " "}'],
            "'a'|no texts",
        ),
        (['{"id": 1, "label": "O", "text": "x"}'], "no label"),
        (['{"id": 1, "text": "x"}'], "Line 1"),
    ],
)
def test_texts_that_nothing_can_be_learned_from_are_exit_code_3(
    tmp_path: Path, lines: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    modes = ("noisy-fill", "dp-sgd", "term-dp")
    if "no texts" in says:  # that they have no other term is no reason for term-dp to refuse them
        modes = modes[:2]
    for mode in modes:
        assert train(tmp_path / "data.jsonl", tmp_path / "run", "--mode", mode) == 3
        told = capsys.readouterr().err
        assert any(part in told for part in says.split("|")), told
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("mode", ["noisy-fill", "none"])
def test_words_that_too_few_documents_share_are_exit_code_3(
    tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    common = "--min-document-frequency", 1000
    assert train("invented:invoice+receipt", tmp_path / "run", "--mode", mode, *common) == 3
    told = capsys.readouterr().err
    assert "TOO_FEW_ROWS: No feature is in 1000 documents" in told
    assert not (tmp_path / "run").exists()


def test_a_file_is_read_whole_and_data_that_are_not_there_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        train("messages.jsonl", tmp_path / "run", "--documents", 10)
    assert stop.value.code == 2
    for data in ("nowhere", "invented:poem"):
        assert train(data, tmp_path / "run") == 3
        assert data in capsys.readouterr().err
