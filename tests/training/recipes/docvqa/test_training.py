from __future__ import annotations

import copy
import os
import signal
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
import torch

from hushdoc.document.document import Document
from hushdoc.errors import AnnotationError, CheckpointError, EmptyDocumentError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.federated.updates import LocalTraining
from hushdoc_training.invented import stream
from hushdoc_training.invented.settings import InventedConfig
from hushdoc_training.models import pointer
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.physical import by_itself, pack
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.docvqa import private
from hushdoc_training.recipes.docvqa.rows import MAX_QUESTIONS, records_of, rows_of
from hushdoc_training.recipes.docvqa.scores import Scorer
from hushdoc_training.recipes.docvqa.start import Start, start_from
from hushdoc_training.recipes.docvqa.training import train_plain, train_private
from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings
from hushdoc_training.runs.step_log import StepReport, read_log

KEYED = InventedConfig(document_types=("receipt",), providers=(0, 4), questions="keyed")


@pytest.fixture(scope="module")
def receipts() -> list[LabelledDocument]:
    return list(stream.documents(seed=3, count=8, config=KEYED))


@pytest.fixture(scope="module")
def made(receipts: list[LabelledDocument]) -> Start:
    texts = [word.text for item in receipts for page in item.document.pages for word in page.words]
    return start_from("small", max_tokens=96, max_question=40, vocabulary=lambda: texts)


@pytest.fixture
def start(made: Start) -> Start:
    return replace(made, model=copy.deepcopy(made.model))


def plan(unit: str = "provider") -> PrivacyPlan:
    return PrivacyPlan.calibrated(
        privacy_unit=unit,
        epsilon=8,
        delta=1e-5,
        sampling_rate=0.5,
        steps=2,
        clipping_norm=0.1,
        expected_records=2,
    )


@pytest.mark.parametrize("unit", ["provider", "document"])
def test_a_private_run_claims_its_unit_and_leaves_a_pointer(
    unit: str, tmp_path: Path, start: Start, receipts: list[LabelledDocument]
) -> None:
    settings = PrivateSettings(trained="biases")
    outcome = train_private(
        start, receipts, plan(unit), settings, out=tmp_path / "run", name="receipts", quiet=True
    )
    assert (outcome.charged, outcome.interrupted) == (2, False)
    stored = DocVQACheckpoint.load(tmp_path / "run")
    (guarantee,) = stored.claim.guarantees
    assert guarantee.unit == unit
    assert guarantee.epsilon is not None
    assert guarantee.epsilon <= 8
    assert stored.claim.transcripts["training"] == plan(unit).mechanism()
    assert f"at most {MAX_QUESTIONS}" in guarantee.unit_definition
    assert stored.asking == start.asking
    again = dict(pointer.load(stored.folder).named_parameters())
    for name, value in start.model.named_parameters():
        assert (again[name] == value).all(), name
    for other, named in ((receipts[1:], "documents, weights"), (receipts, "weights")):
        with pytest.raises(CheckpointError, match=f"other settings: {named}"):
            train_private(
                start, other, plan(unit), settings, out=tmp_path / "run", name="receipts",
                resume=True, quiet=True,
            )  # fmt: skip


@pytest.mark.parametrize("local", [None, LocalTraining(learning_rate=0.01)])
def test_factors_of_low_rank_end_in_a_pointers_layers(
    tmp_path: Path, start: Start, receipts: list[LabelledDocument], local: LocalTraining | None
) -> None:
    own = replace(start, model=copy.deepcopy(start.model))
    before = copy.deepcopy(own.model.state_dict())
    rate = {} if local else {"learning_rate": 0.01}
    settings = PrivateSettings(trained="lora:2", **rate)
    train_private(
        own, receipts, plan(), settings, out=tmp_path / "run", name="a", quiet=True, local=local
    )
    stored = DocVQACheckpoint.load(tmp_path / "run")
    assert stored.claim.training["trained"] == "lora:2"
    after = pointer.load(stored.folder).state_dict()
    assert after.keys() == before.keys()
    moved = [name for name in after if not torch.equal(after[name], before[name])]
    layers = [name for name in moved if not name.startswith("reader.")]
    assert layers
    for name in layers:
        assert after[name].ndim == 2
        assert torch.linalg.matrix_rank(after[name] - before[name], atol=1e-4) <= 2, name
    assert any(name.startswith("reader.") for name in moved)


@pytest.mark.parametrize("local", [None, LocalTraining(learning_rate=1e-3)])
def test_an_interrupted_run_goes_on_with_what_was_charged(
    tmp_path: Path,
    start: Start,
    receipts: list[LabelledDocument],
    local: LocalTraining | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def train(out: str, *, resume: bool = False) -> tuple[int, bool]:
        own = replace(start, model=copy.deepcopy(start.model))
        outcome = train_private(
            own, receipts, plan(), PrivateSettings(trained="biases"), local=local,
            out=tmp_path / out, name="receipts", quiet=True, resume=resume,
        )  # fmt: skip
        return outcome.charged, outcome.interrupted

    with monkeypatch.context() as patch:
        patch.setattr(StepReport, "show_step", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        assert train("run") == (1, True)
    assert not (tmp_path / "run" / "checkpoint").exists()
    assert train("run", resume=True) == (2, False)
    log = read_log(tmp_path / "run" / "steps.jsonl")
    assert [entry["charge"] for entry in log if "charge" in entry] == [1, 2]
    assert train("whole") == (2, False)
    spent = [DocVQACheckpoint.load(tmp_path / out).claim.guarantees for out in ("run", "whole")]
    assert spent[0][0].epsilon == spent[1][0].epsilon


@pytest.mark.parametrize("kind", ["pointer", "vt5"])
def test_training_without_privacy_learns_and_is_a_start(
    kind: str, tmp_path: Path, start: Start, receipts: list[LabelledDocument]
) -> None:
    start = start if kind == "pointer" else tiny_vt5(receipts)

    def loss(of: Start) -> float:
        scores = Scorer(start=of, device=torch.device("cpu"), longest=0).score(receipts)
        return fmean(score.loss for score in scores)

    before = loss(start)
    train_plain(
        start, receipts, PlainSettings(epochs=2, batch_size=8, learning_rate=1e-3),
        out=tmp_path / "run", claim=claims.public((), training={}), quiet=True,
    )  # fmt: skip
    again = start_from(str(tmp_path / "run"))
    assert again.asking == start.asking
    assert loss(again) < 0.9 * before


def test_a_start_on_protected_documents_is_refused(
    tmp_path: Path, start: Start, receipts: list[LabelledDocument]
) -> None:
    seen = replace(start, claim=claims.not_private("letters", (), training={}))
    with pytest.raises(PrivacyError, match="protected documents"):
        train_private(
            seen, receipts, plan(), PrivateSettings(), out=tmp_path / "run", name="a", quiet=True
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("setting", [{"scaling": "public"}, {"optimizer": "adam-public"}])
def test_settings_that_questions_do_not_have_are_refused_not_claimed(
    setting: dict[str, str], tmp_path: Path, start: Start, receipts: list[LabelledDocument]
) -> None:
    unknown = replace(PrivateSettings(), **setting)
    with pytest.raises(PrivacyError, match="on questions"):
        train_private(start, receipts, plan(), unknown, out=tmp_path / "run", name="a", quiet=True)
    assert not (tmp_path / "run").exists()


def test_what_no_row_reaches_stays_where_changes_are_summed(
    tmp_path: Path, start: Start, receipts: list[LabelledDocument]
) -> None:
    unreached = start.unreached()
    before = {name: value.detach().clone() for name, value in start.model.named_parameters()}
    local = LocalTraining(learning_rate=1e-3)
    train_private(
        start, receipts, plan(), PrivateSettings(trained="all"), local=local,
        out=tmp_path / "run", name="receipts", quiet=True,
    )  # fmt: skip
    stays = {n for n, value in start.model.named_parameters() if torch.equal(value, before[n])}
    assert unreached
    assert stays == {*unreached}
    claim = DocVQACheckpoint.load(tmp_path / "run").claim
    assert claim.training["untrained_parameters"] == sorted(unreached)
    with pytest.raises(PrivacyError, match="optimizer are of training by noised gradients"):
        train_private(
            start, receipts, plan(), PrivateSettings(optimizer="sgd"), local=local,
            out=tmp_path / "again", name="receipts", quiet=True,
        )  # fmt: skip


def test_documents_without_a_provider_are_refused_before_a_folder_is_taken(
    tmp_path: Path, start: Start, receipts: list[LabelledDocument]
) -> None:
    unknown = [replace(receipts[0], provider=None), *receipts[1:]]
    with pytest.raises(AnnotationError, match="provider"):
        train_private(
            start, unknown, plan(), PrivateSettings(), out=tmp_path / "run", name="a", quiet=True
        )
    assert not (tmp_path / "run").exists()


def test_a_document_without_pages_is_refused_before_a_folder_is_taken(
    tmp_path: Path, start: Start, receipts: list[LabelledDocument]
) -> None:
    text = replace(receipts[0], document=Document.from_text("Total 9.00"), questions=())
    with pytest.raises(EmptyDocumentError, match="0 pages"):
        train_private(
            start, [*receipts[1:], text], plan(), PrivateSettings(), out=tmp_path / "run", name="a",
            quiet=True,
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_words_that_a_page_lacks_are_refused(
    tmp_path: Path, start: Start, receipts: list[LabelledDocument]
) -> None:
    asked = replace(receipts[0].questions[0], word_ids=(100_000,))
    wrong = replace(receipts[0], questions=(asked,))
    with pytest.raises(AnnotationError, match="100000"):
        train_private(
            start, [wrong], plan(), PrivateSettings(), out=tmp_path / "run", name="a", quiet=True
        )


def test_a_provider_is_one_record_that_no_other_provider_changes(
    start: Start, receipts: list[LabelledDocument]
) -> None:
    names = sorted({item.provider or "" for item in receipts})
    assert len(names) > 1
    alone = [item for item in receipts if item.provider == names[0]]
    all_of_them = records_of(receipts, start.encoder, unit="provider")
    assert len(all_of_them) == len(names)
    (record,) = records_of(alone, start.encoder, unit="provider")
    matching = [
        other
        for other in all_of_them
        if len(other) == len(record)
        and all(
            [row.target.tolist() for row in a.rows] == [row.target.tolist() for row in b.rows]
            and [row.asked.question.tolist() for row in a.rows]
            == [row.asked.question.tolist() for row in b.rows]
            for a, b in zip(record, other, strict=True)
        )
    ]
    assert len(matching) == 1
    spelled = [replace(item, provider=f" {names[0].upper()}.") for item in alone[:1]] + alone[1:]
    assert len(records_of(spelled, start.encoder, unit="provider")) == 1


def test_targets_are_the_tokens_of_the_answers_words(
    start: Start, receipts: list[LabelledDocument]
) -> None:
    for labelled in receipts:
        for question in labelled.questions:
            alone = replace(labelled, questions=(question,))
            rows = rows_of([alone], start.encoder)
            held = [row for row in rows if row.target.any()]
            assert len(held) == bool(question.answers)
            for row in held:
                first, last = row.target - start.encoder.first_token(row.asked) + row.asked.start
                words = row.asked.page.words[first : last + 1]
                assert sorted(set(words.tolist())) == sorted(question.word_ids)


def test_of_a_large_record_the_same_questions_are_read_in_any_order(
    start: Start, receipts: list[LabelledDocument]
) -> None:
    def questions(documents: list[LabelledDocument]) -> list[list[int]]:
        rows = rows_of(documents, start.encoder, most=5)
        return [row.asked.question.tolist() for row in rows]

    found = questions(receipts)
    assert found == questions(receipts[::-1])
    assert len({tuple(question) for question in found}) <= 5


def tiny_vt5(receipts: list[LabelledDocument]) -> Start:
    texts = [word.text for item in receipts for page in item.document.pages for word in page.words]
    asked = [question.text for item in receipts for question in item.questions]
    return start_from(
        "tiny", architecture="vt5", vocabulary=lambda: texts + asked, max_tokens=96, max_question=40
    )


def test_answers_of_a_vt5_end_and_are_empty_where_there_is_none(
    receipts: list[LabelledDocument],
) -> None:
    start = tiny_vt5(receipts)
    encoder = start.encoder
    rows = rows_of(receipts, encoder)
    targets = {encoder.text(row.target[:-1].tolist()) for row in rows}
    asked = [question for item in receipts for question in item.questions]
    answers = {" ".join(each.answers[0].lower().split()) for each in asked if each.answers}
    assert {row.target[-1] for row in rows} == {encoder.asking.eos_id}
    assert targets - {""} <= answers
    assert len(targets) > 5
    assert {len(row.target) == 1 for row in rows if not row.answered} == {True}
    assert all(len(row.target) > 1 for row in rows if row.answered)


@pytest.mark.parametrize("kind", ["pointer", "vt5"])
def test_what_fills_a_record_up_is_told_by_itself(
    kind: str, start: Start, receipts: list[LabelledDocument]
) -> None:
    start = start if kind == "pointer" else tiny_vt5(receipts)
    records = records_of(receipts, start.encoder, unit="document")
    each = [[example] for record in (*records, *records) for example in record]
    length = private.how_to_sum(start, PrivateSettings(trained="biases"))["length"]
    packed = pack(each, max_examples=32, length=length)
    assert len(packed.batches) < len(each)
    for batch in packed.batches:
        found = set()
        for one in (batch, *by_itself(batch)):
            inputs, targets = private.batch_of(start, one.examples, device=torch.device("cpu"))
            masks = [bool(inputs[name].all()) for name in sorted(inputs) if name.endswith("mask")]
            shapes = [value.shape[1:] for value in (*inputs.values(), targets)]
            found.add((*masks, *shapes))
        assert len(found) == 1


def test_a_vt5_needs_public_texts_and_a_start_of_its_kind(
    tmp_path: Path, start: Start, receipts: list[LabelledDocument]
) -> None:
    with pytest.raises(CheckpointError, match="public documents"):
        start_from("small", architecture="vt5", vocabulary=list)
    train_plain(
        start, receipts, PlainSettings(epochs=1, batch_size=8), out=tmp_path / "run",
        claim=claims.public((), training={}), quiet=True,
    )  # fmt: skip
    with pytest.raises(CheckpointError, match="is a pointer"):
        start_from(str(tmp_path / "run"), architecture="vt5")
