"""A VT5 becomes an artifact of three graphs, in bytes too, and none that answers otherwise does."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import hushdoc_command_runs
import hushdoc_tiny as tiny
import hushdoc_tiny_vt5 as vt5
import pytest
import torch
from PIL import Image

import hushdoc
from hushdoc.document.document import Document
from hushdoc.errors import CheckpointError, InputError, ParityError
from hushdoc.runtime import images
from hushdoc.runtime.answers import Answers
from hushdoc.runtime.docvqa import DocVQAModel
from hushdoc.runtime.questions import QuestionEncoder
from hushdoc.runtime.writing import ENCODER, GRAPHS, VISION, Writer
from hushdoc_export import docvqa, question_agreement, seq2seq
from hushdoc_export.question_agreement import QuestionAgreement, invented_questions
from hushdoc_training import docvqa_checkpoint
from hushdoc_training.models import vt5 as models_vt5

TOTAL = "What is the total?"


def agreed(**change: Any) -> QuestionAgreement:
    values = {
        "questions": 500,
        "answer_agreement": 97.0,
        "anls_graph": 80.0,
        "anls_variant": 79.5,
        "max_anls_loss": 1.0,
        **change,
    }
    return QuestionAgreement(**values)


def test_a_loss_is_one_against_what_is_right_or_against_the_graph() -> None:
    assert agreed().anls_loss == pytest.approx(0.5)
    agreed().require("int8")
    assert agreed(anls_variant=82.0).anls_loss == 0
    with pytest.raises(ParityError, match="1.50 points of ANLS against the right") as refused:
        agreed(anls_variant=78.5).require("int8")
    assert refused.value.code == "VARIANT_LOSES_TOO_MUCH"
    agreed(anls_variant=78.5, max_anls_loss=2.0).require("int8")
    # A graph that can't answer is no judge of what is right.
    assert agreed(anls_graph=20.0, anls_variant=20.0).anls_loss == pytest.approx(3.0)
    assert "the answers of the float32 graph" in agreed(anls_graph=20.0).caveat("int8")


def test_agreement_is_counted_over_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_agreement, "NUM_QUESTIONS", 12)
    encoder = docvqa.QuestionEncoder(vt5.learned_tokenizer(), vt5.asking(max_tokens=400))
    with invented_questions(encoder) as documents:
        right = [asked.answers for item in documents for asked in item.questions]
        texts = [answers[0] if answers else None for answers in right]
        assert len(texts) == 12
        same = question_agreement.compare(texts, texts, documents, max_anls_loss=1)
        none = question_agreement.compare(texts, [None] * 12, documents, max_anls_loss=1)
    assert (same.anls_graph, same.anls_variant, same.answer_agreement) == (100, 100, 100)
    unanswered = 100 * texts.count(None) / 12
    assert none.anls_variant == pytest.approx(unanswered)
    assert none.answer_agreement == pytest.approx(unanswered)


def test_settings_of_another_model_are_refused_before_it_is_traced(tmp_path: Path) -> None:
    model = vt5.start(image=False).model
    for change in ({"eos_id": 7}, {"image": vt5.start().model.image_preprocessing()}):
        with pytest.raises(CheckpointError, match="Train again, or restore"):
            docvqa.export_vt5(
                model,
                tmp_path / "out",
                tiny.release(),
                asking=vt5.asking(**change),
                tokenizer_json=vt5.tokenizer_json(),
                claim=tiny.claim(),
            )
    with pytest.raises(CheckpointError, match="its settings say"):
        docvqa.export_vt5(
            model,
            tmp_path / "out",
            tiny.release(),
            asking=vt5.asking(),
            tokenizer_json=vt5.vt5_start.tokenizer([vt5.WORDS, "zebra quartz "] * 9),
            claim=tiny.claim(),
        )
    assert not (tmp_path / "out").exists()


def test_other_tokens_than_transformers_writes_are_refused_unless_both_are_as_likely() -> None:
    model = vt5.start(image=False).model
    inputs, _ = vt5.rows([9], image=False)
    given = {name: value.numpy() for name, value in inputs.items()}
    written = seq2seq.generated(model, given, max_answer=3)
    assert len(written) == 3
    seq2seq.require_same_tokens(model, given, written, written)
    other = 7 if written[1] != 7 else 8
    for wrong in ([written[0], other, written[2]], written[:2], [], [*written, other]):
        with pytest.raises(ParityError, match="where transformers writes"):
            seq2seq.require_same_tokens(model, given, written, wrong)
    with torch.no_grad():  # two tokens of the same weights have the same logits
        model.word_embeddings[other] = model.word_embeddings[written[1]]
    written = seq2seq.generated(model, given, max_answer=3)
    pair = {written[1], other}
    same = [other if token in pair else token for token in written]
    seq2seq.require_same_tokens(model, given, written, same)


@pytest.fixture(scope="module")
def with_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vt5.export_vt5(tmp_path_factory.mktemp("vt5") / "artifact", image=True)


@pytest.mark.slow  # three graphs are traced
def test_images_have_a_graph_of_their_own_and_are_drawn_once(
    with_images: Path, tmp_path: Path
) -> None:
    assert hushdoc.verify(with_images, tiny.policy()).passed
    manifest = json.loads((with_images / "hushdoc.json").read_text())
    described = manifest["preprocessing"][GRAPHS]
    assert {name: graph["entry"] for name, graph in described.items()} == {
        "vision": "onnx/vision_model.onnx",
        "decoder": "onnx/decoder_model.onnx",
    }
    assert [port["name"] for port in described["vision"]["outputs"]] == ["visual"]
    model = hushdoc.DocVQAModel.load(with_images, policy=tiny.policy())
    with pytest.raises(InputError, match="has no image"):
        model.ask(vt5.document("a"), TOTAL)
    Image.new("RGB", (64, 64), (128, 128, 128)).save(tmp_path / "page.png")
    asked = vt5.document("a")
    asked = replace(asked, pages=(replace(asked.pages[0], image=tmp_path / "page.png"),) * 2)
    own = [(text, answer) for name, text, answer in vt5.LEARNED if name == "a"] * 4
    drawn, runs, found = asked_all(model, asked, [text for text, _ in own])
    assert drawn == runs[VISION] == 2
    assert runs[ENCODER] > 2  # of each page, not all questions are read in one run
    assert [item.text for item in found] == [answer or None for _, answer in own]


def asked_all(
    model: DocVQAModel, asked: Document, questions: list[str]
) -> tuple[int, dict[str, int], tuple[Answers, ...]]:
    """Returns how often images were drawn, and each graph run, for questions; and the answers."""
    assert isinstance(model._reader, Writer)
    with ExitStack() as stack:
        drawn = stack.enter_context(
            mock.patch.object(images, "pixels_of_page", wraps=images.pixels_of_page)
        )
        runs = {
            name: stack.enter_context(mock.patch.object(session, "run", wraps=session.run))
            for name, session in model._reader._sessions.items()
        }
        found = model.ask_all(asked, questions)
    return drawn.call_count, {name: run.call_count for name, run in runs.items()}, found


@pytest.mark.slow  # three graphs are traced
def test_pages_without_words_need_no_image(with_images: Path, tmp_path: Path) -> None:
    model = hushdoc.DocVQAModel.load(with_images, policy=tiny.policy())
    Image.new("RGB", (64, 64), (128, 128, 128)).save(tmp_path / "page.png")
    [page] = vt5.document("a").pages
    shown, blank = replace(page, image=tmp_path / "page.png"), replace(page, words=())
    asked = replace(vt5.document("a"), pages=(blank, shown))
    drawn, runs, [found] = asked_all(model, asked, [TOTAL])
    assert drawn == runs[VISION] == runs[ENCODER] == 1
    assert (found.text, found.best.page) == ("9.50 EUR", 1)
    assert (found.coverage, found.warnings) == (1, ())
    with pytest.raises(InputError, match="Page 0 of document 'a' has no image"):
        model.ask(replace(asked, pages=(page, shown)), TOTAL)


@pytest.mark.slow  # three graphs are traced
@pytest.mark.parametrize("papers", [False, True])
def test_a_run_with_images_is_exported_and_asked_about_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    papers: bool,
) -> None:
    monkeypatch.setattr(question_agreement, "NUM_QUESTIONS", 4)
    monkeypatch.chdir(tmp_path)
    begin = ("--start", "tiny", "--image-encoder", "tiny")
    if papers:
        vt5.write_reference(vt5.start(), tmp_path / "papers", monkeypatch)
        begin = ("--start", "papers", "--public-overlap", "none")
    sizes = (*begin, "--max-tokens", "128")
    data = ("--data", "invented:receipt,questions=keyed,providers=0:4", "--documents", "4")
    steps = ("--steps", "1", "--expected-records", "2", "--sampling-rate", "0.5")
    unit = ("--privacy-unit", "document", "--delta", "1e-5", "--quiet", "--out", "run")
    how = ("--architecture", "vt5", *data, *sizes, *steps, *unit)
    assert hushdoc_command_runs.run("train", "docvqa", *how) == 0
    stored = docvqa_checkpoint.DocVQACheckpoint.load(tmp_path / "run")
    assert stored.asking.image is not None
    assert stored.asking.box_scale == (1 if papers else 1000)
    if papers:  # which training by default leaves as they are
        begun = vt5.start().model.boxes.x.weight
        assert models_vt5.load(stored.folder).boxes.x.weight.equal(begun)
    assert tiny.export_command(tmp_path, "run", "--out", "asked", "--name", "tiny-kie") == 0
    hushdoc_command_runs.write_policy(tmp_path, tiny.TRUST)
    sample = Path(hushdoc.__file__).parent / "sample" / "invoice.pdf"
    shown = ("-q", TOTAL, "--free", "--json", "--policy", "policy.toml")
    capsys.readouterr()
    assert hushdoc_command_runs.run("ask", "asked", sample, *shown) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["question"] == TOTAL
    least = 0.3 if papers else 0.9  # other words hold characters that its tokenizer never saw
    assert least < answer["coverage"] < 1


@pytest.mark.slow  # two graphs are traced
def test_a_checkpoint_becomes_bytes_by_the_command_and_says_what_it_loses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question_agreement, "NUM_QUESTIONS", 8)
    model = vt5.taught()
    docvqa_checkpoint.save(
        tmp_path / "checkpoint",
        asking=vt5.asking(),
        claim=tiny.claim(),
        tokenizer_json=vt5.learned_tokenizer(),
        save_weights=model.save,
    )
    out = tmp_path / "artifact"
    command = (tmp_path, "--out", out, "--name", "tiny-kie", "--variant", "int8")
    assert tiny.export_command(tmp_path, *command, "--max-anls-loss", "100") == 0
    made = hushdoc.DocVQAModel.load(out, policy=tiny.policy())
    assert made.certificate.model.entry == "onnx/encoder_model_int8.onnx"
    assert (out / "onnx" / "decoder_model_int8.onnx").is_file()
    exported, rounded = made.certificate.derivation
    assert exported["architecture"] == "t5"
    agreement: Any = rounded["agreement"]
    assert (agreement["questions"], agreement["maxAnlsLoss"]) == (8, 100)
    assert "points of ANLS" in made.certificate.claim.caveats[-1]
    right = [made.ask(vt5.document(name), text).text == (answer or None)
             for name, text, answer in vt5.LEARNED]  # fmt: skip
    assert sum(right) >= len(right) - 1


def test_a_model_that_reads_too_few_questions_to_be_compared_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(question_agreement, "NUM_QUESTIONS", 20)
    encoder = QuestionEncoder(vt5.learned_tokenizer(), vt5.asking(max_question=9))
    with (
        pytest.raises(CheckpointError, match="reads 2 questions of 20 invented documents"),
        question_agreement.invented_questions(encoder),
    ):
        pass
