"""Documents and questions in, answers out: a real artifact of a tiny pointer, loaded and run."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from typing import Any

import hushdoc_command_runs
import hushdoc_tiny as tiny
import numpy as np
import pytest
from hushdoc_documents import document, page

import hushdoc
from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc.errors import (
    ArtifactError,
    EmptyDocumentError,
    HushdocError,
    InputError,
    LimitExceededError,
    UnsupportedFormatError,
    WordError,
)
from hushdoc.runtime import docvqa
from hushdoc.runtime.answers import Answer, Answers, Candidate
from hushdoc.runtime.docvqa import DocVQAModel
from hushdoc.runtime.pointing import Pointer
from hushdoc.runtime.questions import QuestionEncoder, QuestionRow
from hushdoc.runtime.scoring import Scoring
from hushdoc.runtime.session import Runtime, Session

QUESTION = "What is the total?"


@pytest.fixture(scope="module")
def model() -> DocVQAModel:
    return DocVQAModel.load(tiny.sealed_pointer(), policy=tiny.policy(), runtime=Runtime(threads=1))


def judged_by(model: DocVQAModel, scoring: Scoring) -> DocVQAModel:
    """Returns a model that calibrates its scores; its reader has another temperature of 1."""
    other = object.__new__(DocVQAModel)
    vars(other).update({**vars(model), "asking": replace(model.asking, scores=scoring)})
    return other


def test_an_exported_pointer_answers_like_its_checkpoint(model: DocVQAModel) -> None:
    tiny_models = pytest.importorskip("hushdoc_tiny_models")
    import torch

    assert hushdoc.verify(tiny.sealed_pointer(), tiny.policy()).passed
    asked = page(9)
    encoder = QuestionEncoder(tiny.tokenizer_json(), tiny.asking())
    encoded, question = encoder.page(asked), encoder.question(QUESTION)
    row = QuestionRow(question=question, page=encoded, start=0, stop=len(encoded.ids))
    inputs = {name: torch.from_numpy(value) for name, value in encoder.pointed([[row]]).items()}
    with torch.no_grad():
        logits = tiny_models.pointer()(**inputs)[0, :, 0].double().numpy()
    first = encoder.first_token(row)
    allowed = [0, *range(first, first + len(encoded.ids))]
    powers = np.exp(logits[allowed])
    start, end = (powers / powers.sum(0)).T
    # Of the best single word, by its own first and last token.
    tokens = [np.flatnonzero(encoded.words == word) for word in range(9)]
    alone = {word: start[1 + own[0]] * end[1 + own[-1]] for word, own in enumerate(tokens)}
    answer = model.ask(Document(id="d", pages=(asked,)), QUESTION, top_k=100)
    found = {item.word_ids[0]: item.score for item in answer.candidates if len(item.word_ids) == 1}
    texts = {asked.words[word].text: score for word, score in sorted(alone.items())}
    assert {asked.words[word].text: score for word, score in found.items()} == pytest.approx(
        {text: max(alone[w] for w in alone if asked.words[w].text == text) for text in texts},
        abs=1e-5,
    )
    assert answer.best.null_score == pytest.approx(start[0] * end[0], abs=1e-5)


def test_answers_carry_text_boxes_and_words(model: DocVQAModel) -> None:
    asked = document(20)
    answer = model.ask(asked, QUESTION, top_k=3)
    words = asked.pages[0].words
    assert len(answer.candidates) == 3
    for item in answer.candidates:
        members = [words[index] for index in item.word_ids]
        assert item.text == " ".join(word.text for word in members)
        assert item.boxes == tuple(word.box for word in members)
        assert item.evidence == "words"
        assert item.page == 0
        height = asked.pages[0].height
        assert item.normalized[0] == members[0].box.normalized(width=640, height=height)
    scores = [item.score for item in answer.candidates]
    assert scores == sorted(scores, reverse=True)
    assert len({item.text for item in answer.candidates}) == 3
    assert (answer.coverage, answer.warnings) == (1, ())


def test_without_an_answer_the_candidates_stay(model: DocVQAModel) -> None:
    asked = document(9)
    raw = model.ask(asked, QUESTION)
    null, score = raw.best.null_score, raw.candidates[0].score
    assert (raw.text is None) == (null > score)
    sure = Scoring(raw=(0, 1), calibrated=(0.6, 0.9), fitted_on="x", num_answers=1, threshold=0.5)
    unsure = replace(sure, threshold=0.95)
    calibrated = judged_by(model, sure).ask(asked, QUESTION)
    assert (calibrated.text is None) == (null > score)
    assert calibrated.candidates[0].score == pytest.approx(0.6 + 0.3 * score)
    assert calibrated.calibrated_on == "x"
    refused = judged_by(model, unsure).ask(asked, QUESTION)
    assert refused.text is None
    assert refused.fields == ()
    assert [item.text for item in refused.below_threshold] == [refused.candidates[0].text]


def test_further_candidates_share_what_the_best_one_leaves(model: DocVQAModel) -> None:
    raw = [item.score for item in model.ask(document(9), QUESTION, top_k=3).candidates]
    curve = Scoring(raw=(0, 1), calibrated=(0.6, 0.9), fitted_on="x", num_answers=1)
    found = judged_by(model, curve).ask(document(9), QUESTION, top_k=3)
    best = 0.6 + 0.3 * raw[0]
    left = [(1 - best) * score / (1 - raw[0]) for score in raw[1:]]
    assert [item.score for item in found.candidates] == pytest.approx([best, *left])
    assert found.best == found.candidates[0]


def test_candidates_that_are_less_likely_than_none_have_scores_of_the_model(
    model: DocVQAModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = document(9)
    raw = model.ask(asked, QUESTION, top_k=3)
    read = Pointer.read
    monkeypatch.setattr(
        Pointer,
        "read",
        lambda *given, count: {
            row: replace(found, null_score=0.5) for row, found in read(*given, count=count).items()
        },
    )
    curve = Scoring(raw=(0, 1), calibrated=(0.6, 0.9), fitted_on="x", num_answers=1)
    found = judged_by(model, curve).ask(asked, QUESTION, top_k=3)
    assert (found.text, found.calibrated_on) == (None, None)
    assert [item.score for item in found.candidates] == [item.score for item in raw.candidates]
    assert found.best.score == raw.best.score


def test_a_pointer_is_never_asked_to_speak_freely(
    model: DocVQAModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(InputError, match="can't speak freely"):
        model.ask(document(9), QUESTION, grounded=False)
    hushdoc_command_runs.write_policy(tmp_path, tiny.TRUST)
    monkeypatch.chdir(tmp_path)
    told = ("-q", QUESTION, "--policy", "policy.toml", "--free")
    with pytest.raises(SystemExit, match="2"):
        hushdoc_command_runs.run("ask", tiny.sealed_pointer(), "a.json", *told)
    assert "this one points" in capsys.readouterr().err


def test_scores_are_calibrated_on_invented_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibration = pytest.importorskip("hushdoc_export.calibration")
    monkeypatch.setattr("hushdoc_export.question_agreement.NUM_QUESTIONS", 80)
    folder = calibration.export_calibrated_on_invented(
        tiny.sealed_pointer(), tmp_path / "calibrated", tiny.release(), threshold=0.2
    )
    assert hushdoc.verify(folder, tiny.policy()).passed
    calibrated = DocVQAModel.load(folder, policy=tiny.policy())
    assert calibrated.certificate.claim.public_data[-1] == calibration.INVENTED
    assert calibrated.scoring is not None
    assert 50 <= calibrated.scoring.num_answers <= 80
    # A random model is almost never right, and now says so.
    found = calibrated.ask(document(9), QUESTION)
    assert (found.text, found.calibrated_on) == (None, calibration.INVENTED.name)
    assert found.candidates


def test_several_questions_are_answered_as_each_alone(model: DocVQAModel) -> None:
    asked = document(30, 60)
    questions = ["Who?", QUESTION, "When is it due, and to whom?"]
    together = model.ask_all(asked, questions, top_k=2)
    alone = [model.ask(asked, question, top_k=2) for question in questions]
    assert [item.question for item in together] == questions
    for one, other in zip(together, alone, strict=True):
        assert [item.word_ids for item in one.candidates] == [
            item.word_ids for item in other.candidates
        ]
        assert one.best.score == pytest.approx(other.best.score, abs=1e-5)
        assert one.best.null_score == pytest.approx(other.best.null_score, abs=1e-5)


def test_long_and_many_pages_are_read_to_their_end(model: DocVQAModel) -> None:
    words = ["a"] * 500 + ["zz", "9"]
    boxes = [(0, 0, 5, 5)] * len(words)
    far = Document.from_words(words, boxes, width=10, height=10)
    found = model.ask(far, QUESTION, top_k=300)
    assert {501, 500} <= {index for item in found.candidates for index in item.word_ids}
    assert found.coverage == 1


def test_hundreds_of_pages_are_read_within_the_memory_limit(model: DocVQAModel) -> None:
    runtime = Runtime(threads=1, memory_limit="4MB")
    limited = DocVQAModel.load(tiny.sealed_pointer(), policy=tiny.policy(), runtime=runtime)
    pages = (page(3),) * 299 + (page(9),)
    many = limited.ask(Document(id="d", pages=pages), QUESTION, top_k=40)
    assert {item.page for item in many.candidates} == {0, 299}  # of equal texts the first best
    free = model.ask(Document(id="d", pages=pages), QUESTION, top_k=40)
    assert [item.score for item in many.candidates] == pytest.approx(
        [item.score for item in free.candidates], abs=1e-5
    )


def test_questions_that_memory_does_not_hold_together_are_read_apart(
    model: DocVQAModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [f"{QUESTION} {number}" for number in range(7)]
    expected = model.ask_all(document(80), questions)
    run = Session.run

    def limited(session: Session, inputs: Any, *, most: int) -> Any:
        if inputs["question_ids"].shape[1] > most:
            raise LimitExceededError("Too much.")
        return run(session, inputs)

    monkeypatch.setattr(Session, "run", partialmethod(limited, most=2))
    for found, one in zip(model.ask_all(document(80), questions), expected, strict=True):
        assert (found.question, found.best.word_ids) == (one.question, one.best.word_ids)
        assert found.best.score == pytest.approx(one.best.score, abs=1e-6)
    monkeypatch.setattr(Session, "run", partialmethod(limited, most=0))
    with pytest.raises(LimitExceededError):
        model.ask_all(document(80), questions)


def test_pages_without_words_are_passed_over(model: DocVQAModel) -> None:
    asked = document(20)
    blank = replace(asked.pages[0], words=())
    among = replace(asked, pages=(blank, asked.pages[0], blank))
    expected, found = (model.ask(one, QUESTION, top_k=5) for one in (asked, among))
    assert [item.page for item in found.candidates] == [1] * 5
    assert [(item.text, item.word_ids, item.boxes) for item in found.candidates] == [
        (item.text, item.word_ids, item.boxes) for item in expected.candidates
    ]
    assert found.best.null_score == expected.best.null_score
    assert (found.text, found.coverage, found.warnings) == (expected.text, 1, ())


def test_what_no_window_holds_is_told(model: DocVQAModel) -> None:
    answer = model.ask(Document.from_words(["a" * 80], [(0, 0, 5, 5)], width=9, height=9), "Who?")
    assert answer.coverage == 0
    assert "exceed one whole window" in answer.warnings[0]


def test_words_that_the_tokenizer_does_not_know_have_no_answer(model: DocVQAModel) -> None:
    unread = Document.from_words(["\u200b"], [(0, 0, 5, 5)], width=9, height=9)
    answer = model.ask(unread, "Who?")
    assert (answer.text, answer.candidates, answer.best.null_score) == (None, (), 1.0)
    assert answer.coverage == 0
    assert model.ask(document(5), "合計は?").coverage == 1


@pytest.mark.parametrize(
    ("asked", "question", "error", "code"),
    [
        (Document(id="d", pages=()), "Who?", EmptyDocumentError, "EMPTY_DOCUMENT"),
        (
            Document(id="d", pages=(replace(page(1), words=()),)),
            "Who?",
            EmptyDocumentError,
            "EMPTY_DOCUMENT",
        ),
        (document(3), " ", InputError, "BAD_INPUT"),
        (document(3), 7, InputError, "BAD_INPUT"),
        (document(3), "a\x1b[2J", WordError, "BAD_WORD"),
        (document(3), "a" * 100_000, LimitExceededError, "LIMIT_EXCEEDED"),
        (document(3), "what " * 30, LimitExceededError, "LIMIT_EXCEEDED"),
        (7, "Who?", InputError, "BAD_INPUT"),
    ],
)
def test_bad_input_is_a_typed_error(
    model: DocVQAModel, asked: Any, question: Any, error: type[HushdocError], code: str
) -> None:
    with pytest.raises(error) as raised:
        model.ask(asked, question)
    assert raised.value.code == code
    assert model.ask(document(3), "Who?").coverage == 1


def test_a_question_is_refused_before_a_document_is_opened(model: DocVQAModel) -> None:
    with pytest.raises(InputError, match="blank"):
        model.ask("no such file", "")
    with pytest.raises(InputError, match="expected a list"):
        model.ask_all(document(3), "Who?")
    with pytest.raises(InputError, match="blank"):
        model.ask_many(iter([]), "")


def test_ask_refuses_a_question_once_and_before_a_document_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hushdoc_command_runs.write_policy(tmp_path, tiny.TRUST)
    monkeypatch.chdir(tmp_path)
    for name in ("a.json", "b.json"):
        Path(name).write_text(json.dumps(document(9).to_dict()))
    monkeypatch.setattr("hushdoc.commands.answering.read_document", None)
    told = (tiny.sealed_pointer(), "a.json", "b.json", "--policy", "policy.toml", "-q", QUESTION)
    for question, code in ((" ", "BAD_INPUT"), ("a" * 100_000, "LIMIT_EXCEEDED")):
        with pytest.raises(InputError, match="^The question ") as refused:
            hushdoc_command_runs.run("ask", *told, "-q", question)
        assert refused.value.code == code
        assert capsys.readouterr().out == ""


def test_answers_survive_json_and_are_fields_for_views(model: DocVQAModel) -> None:
    asked = document(9)
    answer = model.ask(asked, QUESTION, top_k=2)
    best = answer.candidates[0]
    answer = replace(answer, best=best)
    again = Answers.from_dict(json.loads(answer.to_json()))
    assert again == answer
    assert again.to_dict() == answer.to_dict()
    [found] = answer.fields
    assert (found.label, found.text, found.word_ids) == (QUESTION, best.text, best.word_ids)
    assert found.box is not None
    assert found.normalized == found.box.normalized(width=640, height=asked.pages[0].height)
    assert f"{QUESTION} {found.score:.2f}" in hushdoc.to_html(asked, answer)
    assert f"data-field='{QUESTION}'" in hushdoc.to_hocr(asked, answer.fields)
    assert hushdoc.overlay(asked.pages[0], answer.fields).width > 0
    nothing = Answer(text=None, score=0.1, null_score=0.9)
    assert Answer.from_dict(nothing.to_dict()) == nothing


def test_answers_of_other_versions_or_shapes_are_refused(model: DocVQAModel) -> None:
    data = model.ask(document(3), "Who?").to_dict()
    with pytest.raises(UnsupportedFormatError, match="schema version 9"):
        Answers.from_dict({**data, "schema_version": 9})
    for broken in (
        {**data, "answer": {**data["answer"], "evidence": "rumour"}},
        {**data, "candidates": [{}]},
        {**data, "coverage": "x"},
        {},
    ):
        with pytest.raises(InputError, match="not answers to a question"):
            Answers.from_dict(broken)


def test_a_graph_of_another_task_is_refused(tmp_path: Any) -> None:
    folder = tiny.resealed(tmp_path / "artifact", task="docvqa")
    with pytest.raises(ArtifactError, match="preprocessing contract"):
        DocVQAModel.load(folder, policy=tiny.policy())


def test_a_candidate_is_placed_without_a_look_at_all_words_of_its_page() -> None:
    word = Word(text="a", box=Box(x0=1, y0=1, x1=5, y1=5))
    page = Page(width=10, height=10, words=(word,) * 200_000)
    candidate = Candidate(score=0.5, words=range(7, 9))
    began = time.process_time()
    for _ in range(5_000):
        answer = docvqa._placed(candidate, page, 0, range(200_000), 0.0)
    assert time.process_time() - began < 3  # 0.1 s, or more than 10 s
    assert (answer.text, answer.word_ids) == ("a a", (7, 8))
