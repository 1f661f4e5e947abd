from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kie_training import OUTPUT, PLAN, train_plain, train_private

from hushdoc.__main__ import main
from hushdoc.errors import (
    CertificateError,
    CheckpointError,
    EmptyDocumentError,
    LabelMismatchError,
    OutputExistsError,
    OutputWriteError,
    PrivacyError,
)
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc_training import duplicates
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.models import layout
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import UNIT_DEFINITIONS
from hushdoc_training.randomness import dropout_seeds
from hushdoc_training.recipes.kie import private
from hushdoc_training.recipes.kie import training as kie
from hushdoc_training.recipes.kie.epochs import shuffled_segments
from hushdoc_training.recipes.kie.records import (
    collate,
    loss_of,
    records_of,
    windows_of,
)
from hushdoc_training.recipes.kie.settings import PlainSettings
from hushdoc_training.recipes.kie.start import Start, start_from
from hushdoc_training.runs.claim_words import READABLE, READING
from hushdoc_training.runs.step_log import read_log

CPU = torch.device("cpu")


def test_private_training_writes_a_checkpoint_whose_claim_is_its_plan(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    out = tmp_path / "run"
    outcome = train_private(small_start, receipts, out)
    assert (outcome.charged, outcome.interrupted) == (6, False)
    stored = Checkpoint.load(out)
    (guarantee,) = stored.claim.guarantees
    assert guarantee.unit == "document"
    assert guarantee.epsilon is not None
    assert PLAN.epsilon_after(6) <= guarantee.epsilon <= 8
    assert stored.claim.transcripts["training"] == PLAN.mechanism()
    again = layout.load(stored.folder, stored.architecture)
    for (name, left), (_, right) in zip(
        again.named_parameters(), small_start.model.named_parameters(), strict=True
    ):
        assert torch.equal(left, right), name
    assert (out / "training.png").read_bytes().startswith(b"\x89PNG")
    log = [entry for entry in read_log(out / "steps.jsonl") if "step" in entry]
    assert [entry["step"] for entry in log] == [1, 2, 3, 4, 5, 6]
    assert log[-1]["epsilon"] == pytest.approx(PLAN.epsilon_after(6))
    assert not list(out.glob("state-*"))


def test_all_windows_of_a_document_are_one_record(
    small_start: Start, receipts: list[LabelledDocument]
) -> None:
    start = small_start
    by_document = records_of(receipts, start.encoder, start.labels, unit="document")
    by_sequence = records_of(receipts, start.encoder, start.labels, unit="sequence")
    assert len(by_document) == len(receipts)
    assert max(len(record) for record in by_document) > 1
    assert len(by_sequence) == sum(len(record) for record in by_document)
    for labelled, record in zip(receipts, by_document, strict=True):
        words = {
            int(word) for window in record for word in window.page.words[window.start : window.stop]
        }
        targets = np.concatenate([window.targets for window in record])
        assert words == set(range(labelled.document.num_words))
        assert (targets >= 0).sum() == labelled.document.num_words


def test_where_windows_are_protected_copies_of_documents_stay(
    tmp_path: Path,
    small_start: Start,
    receipts: list[LabelledDocument],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A window less may make two documents the same: all windows of one would go with it."""
    copy = replace(receipts[0], document=replace(receipts[0].document, id="copy"))
    counted = []

    def counting(start: Start, documents: list[LabelledDocument], *given: Any, **more: Any) -> Any:
        counted.append(len(documents))
        return private.private_training(start, documents, *given, **more)

    monkeypatch.setattr(kie, "private_training", counting)
    for unit in ("document", "sequence"):
        plan = replace(PLAN, privacy_unit=unit)
        begun = replace(small_start, model=deepcopy(small_start.model))
        train_private(begun, [*receipts[:4], copy], tmp_path / unit, plan=plan, settings=OUTPUT)
    assert counted == [4, 5]
    grouped, alone = (Checkpoint.load(tmp_path / unit).claim for unit in ("document", "sequence"))
    assert duplicates.CAVEAT in grouped.caveats
    assert duplicates.CAVEAT not in alone.caveats
    assert alone.guarantees[0].unit_definition == UNIT_DEFINITIONS["sequence"]


def test_runs_of_one_ledger_have_the_same_windows(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    """A window of the second run would be several records of the first."""
    ledger = Ledger.create(
        tmp_path / "ledger", data="receipts", unit="sequence", epsilon=50, delta=1e-5
    )
    plan = replace(PLAN, privacy_unit="sequence")
    told: dict[str, Any] = {"plan": plan, "ledger": ledger, "settings": OUTPUT}
    few = receipts[:4]
    train_private(small_start, few, tmp_path / "first", **told)
    train_private(small_start, few, tmp_path / "second", **told)
    shorter = replace(small_start.preprocessing, max_tokens=16, overlap=4)
    other = replace(small_start, preprocessing=shorter)
    for changed in (False, True):
        with pytest.raises(PrivacyError) as refused:
            train_private(other, few, tmp_path / "third", documents_changed=changed, **told)
        assert refused.value.code == "OTHER_RECORDS"
    assert not (tmp_path / "third").exists()


def test_a_records_loss_does_not_depend_on_its_neighbours(
    small_start: Start, receipts: list[LabelledDocument]
) -> None:
    start = small_start
    start.model.eval()
    records = records_of(receipts, start.encoder, start.labels, unit="document")
    alone = loss_of(start.model, collate(start.encoder, records[0]), device=CPU)
    records_without = records_of(receipts[:1], start.encoder, start.labels, unit="document")
    assert torch.equal(
        alone, loss_of(start.model, collate(start.encoder, records_without[0]), device=CPU)
    )


IMAGE_SIZES = {"coordinate_size": 8, "shape_size": 8, "input_size": 32, "patch_size": 16}


@pytest.mark.parametrize(
    ("architecture", "settings", "never_reached"),
    [
        ("layoutlm", {}, "pooler"),
        ("layoutlmv3", IMAGE_SIZES, "rel_pos_bias"),
        ("lilt", {}, "layout_output"),
    ],
)
def test_every_architecture_trains_privately_and_comes_back(
    tmp_path: Path,
    receipts: list[LabelledDocument],
    publish: Callable[..., Path],
    architecture: str,
    settings: dict[str, int],
    never_reached: str,
) -> None:
    folder = publish(architecture, **settings)
    labels = LabelSet.from_documents(receipts)
    start = start_from(str(folder), labels, max_tokens=64)
    assert start.model.architecture == architecture
    before = {name: value.detach().clone() for name, value in start.model.named_parameters()}
    train_private(start, receipts[:6], tmp_path / "run")
    moved = [n for n, v in start.model.named_parameters() if not torch.equal(v, before[n])]
    assert any("classifier" in name or "out_proj" in name for name in moved)
    assert not any("word_embeddings" in name for name in moved)
    claim = Checkpoint.load(tmp_path / "run").claim
    kept = set(before) - set(moved)
    unused = {name for name in kept if "word_embeddings" not in name}
    assert any(never_reached in name for name in unused)
    assert set(claim.training["untrained_parameters"]) == unused
    assert {dropout_seeds.ASSUMED, READABLE} <= {*claim.guarantees[0].assumes}
    assert {*READING} <= {access.purpose for access in claim.data_accesses}
    back = start_from(str(tmp_path / "run"), labels)
    batch = collate(back.encoder, windows_of(receipts[0], back.encoder, labels))
    inputs = (batch.input_ids, batch.bbox, batch.attention_mask)
    start.model.eval()
    assert torch.equal(back.model(*inputs), start.model(*inputs))


def test_plain_training_learns(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    before = kie.evaluate(small_start, receipts).f1
    settings = PlainSettings(epochs=12, learning_rate=2e-3, batch_size=8)
    train_plain(small_start, receipts, tmp_path / "run", settings=settings)
    assert kie.evaluate(small_start, receipts).f1 > max(0.5, before + 0.3)


def test_a_second_run_into_the_same_folder_is_refused(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("mine")
    for _ in range(2):
        with pytest.raises(OutputExistsError, match="--resume"):
            train_private(small_start, receipts, tmp_path / "kept")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["file"]


def test_resume_needs_the_same_run(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    def train(plan: PrivacyPlan, documents: list[LabelledDocument]) -> None:
        train_private(
            small_start, documents, tmp_path / "run", plan=plan, settings=OUTPUT, resume=True
        )

    with pytest.raises(CheckpointError, match="no run to resume"):
        train(PLAN, receipts)
    told: dict[str, Any] = {"settings": OUTPUT}
    train_private(small_start, receipts, tmp_path / "run", **told)
    with pytest.raises(CheckpointError, match="documents"):
        train(PLAN, receipts[1:])
    told |= {"name": "other documents", "resume": True}
    with pytest.raises(CheckpointError, match="other settings: claim"):
        train_private(small_start, receipts, tmp_path / "run", **told)
    other = PrivacyPlan.calibrated(epsilon=9, sampling_rate=0.3, steps=6, expected_records=6)
    with pytest.raises(CheckpointError, match="epsilon, noise_multiplier"):
        train(other, receipts)
    with torch.no_grad():
        next(small_start.model.parameters()).mul_(2.0)
    with pytest.raises(CheckpointError, match="other settings: weights"):
        train(PLAN, receipts)


def test_what_could_not_be_certified_is_refused_before_training(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    with pytest.raises(CertificateError, match="sometimes"):
        train_private(small_start, receipts, tmp_path / "run", hyperparameter_tuning="sometimes")
    assert not (tmp_path / "run").exists()


def test_finding_what_is_unused_leaves_the_model_as_it_was(small_start: Start) -> None:
    model = small_start.model
    first = next(model.parameters())
    first.requires_grad_(False)
    name = next(name for name, value in model.named_parameters() if value is first)
    unused = private.unreached(small_start)
    assert name not in unused
    assert [n for n, value in model.named_parameters() if not value.requires_grad] == [name]
    assert all(value.grad is None for value in model.parameters())


class Pressing:
    """Standard error before somebody who presses Ctrl-C on seeing the first step."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> None:
        self.stream.write(text)
        if text.startswith("step 1/"):
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_leaves_a_run_that_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    options = "--documents 12 --labels fields --start small --expected-records 4 --steps 6"
    data = ("--data", "invented:receipt", "--sampling-rate", "0.3")
    arguments = ["train", "kie", *data, *options.split(), "--out", str(out)]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Pressing(sys.stderr))
        assert main(arguments) == 130
    assert capsys.readouterr().err.endswith(
        "and saved; go on with the same command and --resume.\n"
    )
    entries = read_log(out / "steps.jsonl")
    charged = sum("charge" in entry for entry in entries)
    assert charged == sum("step" in entry for entry in entries) == 1
    assert len(list(out.glob("state-*"))) == 1
    assert main([*arguments, "--resume", "--quiet"]) == 0
    entries = read_log(out / "steps.jsonl")
    assert [entry["step"] for entry in entries if "step" in entry] == list(range(1, 7))
    (guarantee,) = Checkpoint.load(out).claim.guarantees
    assert guarantee.epsilon is not None
    assert guarantee.epsilon <= 8


def test_labels_that_differ_are_named(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    train_plain(small_start, receipts[:4], tmp_path / "run")
    other = LabelSet(fields=("question", "answer"))
    with pytest.raises(LabelMismatchError, match="answer, question.*--new-labels"):
        start_from(str(tmp_path / "run"), other)
    assert start_from(str(tmp_path / "run"), other, new_labels=True).labels == other


def test_weights_that_saw_protected_documents_are_no_start(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    train_plain(
        small_start,
        receipts[:4],
        tmp_path / "run",
        claim=claims.not_private("receipts", (), training={}),
    )
    start = start_from(str(tmp_path / "run"), small_start.labels)
    with pytest.raises(PrivacyError, match="protected documents"):
        train_private(start, receipts, tmp_path / "second")
    # Nor can public documents wash them: the claim would say that nothing protected was read.
    with pytest.raises(PrivacyError, match="protected documents"):
        train_plain(start, receipts, tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_no_documents_no_vocabulary_no_checkpoint(tmp_path: Path, small_start: Start) -> None:
    with pytest.raises(EmptyDocumentError):
        train_private(small_start, [], tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(CheckpointError, match="vocabulary"):
        start_from("small", LabelSet(fields=("a",)))
    with pytest.raises(CheckpointError, match="There is no folder"):
        start_from(str(tmp_path / "nowhere"), LabelSet(fields=("a",)))
    (tmp_path / "run").mkdir()
    with pytest.raises(CheckpointError, match="as an encoder"):
        start_from(str(tmp_path / "run"), LabelSet(fields=("a",)))
    (tmp_path / "run" / "run.json").write_text("{}")
    with pytest.raises(CheckpointError, match="has not finished"):
        start_from(str(tmp_path / "run"), LabelSet(fields=("a",)))


def test_a_full_disk_leaves_no_half_checkpoint(
    tmp_path: Path,
    small_start: Start,
    receipts: list[LabelledDocument],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(small_start.model, "save", full)
    with pytest.raises(OutputWriteError, match="No space left"):
        train_plain(small_start, receipts[:4], tmp_path / "run")
    assert not list((tmp_path / "run").glob("*checkpoint*"))
    assert not list((tmp_path / "run").glob(".*partial"))


def test_shuffling_segments_moves_labels_along(receipts: list[LabelledDocument]) -> None:
    generator = np.random.default_rng(1)
    for labelled in receipts:
        shuffled = shuffled_segments(labelled, generator)

        def texts(item: LabelledDocument) -> list[tuple[str, str]]:
            words = item.document.pages[0].words
            return sorted(
                (s.label, " ".join(w.text for w in words[s.start : s.stop])) for s in item.spans
            )

        assert texts(shuffled) == texts(labelled)
        assert sorted(map(str, shuffled.document.pages[0].words)) == sorted(
            map(str, labelled.document.pages[0].words)
        )


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, _small_start: Start, receipts: list[LabelledDocument]
) -> Path:
    """A run that is trained once for all tests that damage a copy of it."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    start = replace(_small_start, model=deepcopy(_small_start.model))
    train_plain(start, receipts[:2], folder)
    return folder


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("checkpoint.json", "{", "can't be read"),
        ("checkpoint.json", '{"formatVersion": 9, "task": "kie"}', "format 9"),
        ("labels.json", "[]", "expected an object"),
        ("labels.json", "{}", "damaged"),
        ("preprocessing.json", '{"max_tokens": "many"}', "damaged"),
        ("claim.json", '{"guarantees": []}', "another 'claim.json'"),
        ("tokenizer.json", None, ""),
        ("claim.json", None, "no file"),
        ("checkpoint.json", None, "--resume"),
    ],
)
def test_a_damaged_checkpoint_is_named(
    tmp_path: Path,
    trained: Path,
    receipts: list[LabelledDocument],
    name: str,
    content: str | None,
    says: str,
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    victim = tmp_path / "run" / "checkpoint" / name
    if content is None:
        victim.unlink()
    else:
        victim.write_text(content)
    if name == "tokenizer.json":
        with pytest.raises(CheckpointError):
            start_from(str(tmp_path / "run"), LabelSet.from_documents(receipts))
        return
    with pytest.raises(CheckpointError, match=says):
        Checkpoint.load(tmp_path / "run")
