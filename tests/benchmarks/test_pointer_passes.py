"""Both forms of a pointer: rows of one pass, what they answer, and the run that compares them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from hushdoc.document.document import Document
from hushdoc.labels import LabelledDocument, Question
from hushdoc_training.recipes.docvqa.private import batch_of, losses_of
from hushdoc_training.recipes.docvqa.rows import Example
from hushdoc_training.recipes.docvqa.scores import Scorer

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CPU = torch.device("cpu")
WORDS = ("invoice", "date", "total", "phone", "due", "number", "amount")
ASKED = {"What is the date?": 1, "Which number has it?": 5, "Who?": None}


def one_page() -> LabelledDocument:
    """Returns a page whose questions are answered by a word each, or by none."""
    boxes = [(10 * at, 0, 10 * at + 9, 9) for at in range(len(WORDS))]
    questions = [
        Question(
            text=text,
            answers=() if at is None else (WORDS[at],),
            word_ids=() if at is None else (at,),
        )
        for text, at in ASKED.items()
    ]
    page = Document.from_words(list(WORDS), boxes, width=99, height=9, id="one")
    return LabelledDocument(document=page, spans=(), questions=tuple(questions), provider="Olo")


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns the benchmark's module."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import pointer_passes

    monkeypatch.setattr(pointer_passes, "TOKENIZER_DOCUMENTS", 20)
    return pointer_passes


def test_a_row_of_one_pass_is_the_question_and_its_window_with_targets_at_the_answer(
    passes: Any,
) -> None:
    start = passes.begin("small", "one_pass")
    examples = passes.examples([one_page()], start.encoder, "one_pass")
    (whole,) = passes.examples([one_page()], start.encoder, "page_once")
    assert [example.rows[0].target.tolist() for example in examples] == [
        row.target.tolist() for row in whole.rows
    ]
    seen: dict[str, torch.Tensor] = {}
    model = start.model.eval()
    handle = model.inner.register_forward_pre_hook(
        lambda *given: seen.update(given[-1]), with_kwargs=True
    )
    # A window with fewer questions than another's: what stands in their place is not encoded.
    inputs, targets = batch_of(start, [whole, examples[1]], device=CPU)
    with torch.inference_mode():
        scores = model(**inputs)
    handle.remove()
    answers = {tuple(start.encoder.question(text).tolist()): at for text, at in ASKED.items()}
    cls, sep = start.asking.cls_id, start.asking.sep_id
    rows = [*whole.rows, examples[1].rows[0]]
    assert len(seen["input_ids"]) == len(rows)
    places = [(0, 0), (0, 1), (0, 2), (1, 0)]
    for number, (row, (window, place)) in enumerate(zip(rows, places, strict=True)):
        asked, page = row.asked.question.tolist(), row.asked.page.ids.tolist()
        length = int(seen["attention_mask"][number].sum())
        found = {name: value[number, :length] for name, value in seen.items()}
        assert found["input_ids"].tolist() == [cls, *asked, sep, *page, sep]
        first = len(asked) + 2
        assert found["token_type_ids"].tolist() == [0] * first + [1] * (len(page) + 1)
        assert found["bbox"][first:-1].tolist() == row.asked.page.boxes.tolist()
        with torch.inference_mode():  # alone, it has the same scores
            alone = {name: value[None] for name, value in found.items()}
            states = model.ends(model.inner(**alone)[0][0])
        expected = torch.cat([states[:1], states[first:]])
        torch.testing.assert_close(
            scores[window, : len(expected), place], expected, atol=1e-4, rtol=1e-4
        )
        at = row.asked.page.words[targets[window, place, 0] - 1] if row.answered else None
        assert at == answers[tuple(asked)]
    model.train()
    losses = losses_of(start, examples, device=CPU)
    torch.autograd.backward(losses.mean())
    assert losses.shape == (len(examples),)
    assert model.ends.weight.grad is not None


def test_scores_that_are_set_are_the_answers(passes: Any) -> None:
    start = passes.begin("small", "one_pass")
    (whole,) = passes.examples([one_page()], start.encoder, "page_once")
    answers = {
        tuple(row.asked.question.tolist()): row.asked.page.ids[row.target[0] - 1].item()
        for row in whole.rows
        if row.answered
    }
    sep = start.asking.sep_id

    def states(_inner: Any, _args: Any, given: dict[str, torch.Tensor], output: Any) -> Any:
        made = torch.zeros_like(output[0])
        made[:, 0, 0] = 5  # no answer, unless a word is surer
        for number, ids in enumerate(given["input_ids"].tolist()):
            answer = answers.get(tuple(ids[1 : ids.index(sep)]))
            if answer is not None:
                made[number, ids.index(answer, ids.index(sep)), 0] = 20
        return (made,)

    start.model.inner.register_forward_hook(states, with_kwargs=True)
    with torch.no_grad():
        start.model.ends.weight.zero_()
        start.model.ends.weight[:, 0] = 1
    found = Scorer(start=start, device=CPU).score([one_page()])
    assert [score.prediction for score in found] == ["date", "number", None]
    assert all(score.exact_match == 1 and score.nls == 1 for score in found)


def test_both_forms_begin_with_the_same_encoder_and_learn_from_the_same_questions(
    passes: Any,
) -> None:
    starts = {form: passes.begin("small", form) for form in passes.FORMS}
    encoders = [start.model.inner.state_dict() for start in starts.values()]
    types = "embeddings.token_type_embeddings.weight"
    apart = {name for name, value in encoders[0].items() if not value.equal(encoders[1][name])}
    assert apart == {types}
    assert encoders[0][types].equal(encoders[1][types][:1].expand(2, -1))  # both begin alike
    questions = []
    for form, start in starts.items():
        made: list[Example] = next(passes.batches(start, form, at_once=3))
        assert len(made) <= passes.BATCH[form]
        whole = passes.examples([one_page()], start.encoder, form)
        questions.append(sum(len(example.rows) for example in whole))
    assert questions[0] == questions[1] == len(ASKED)


def test_figures_are_null_for_what_did_not_run(passes: Any) -> None:
    assert set(passes.figures({}).values()) == {None}
    one = {
        "anls": 0.2,
        "anls_answerable": 0.1,
        "exact": 0.0,
        "questions_learned": 20,
        "asking_cpu_seconds": 9.0,
    }
    alone = passes.figures({"one_pass": one})
    assert (alone["anls_one_pass"], alone["anls_page_once"]) == (0.2, None)
    assert alone["questions_ratio"] is alone["asking_cpu_ratio"] is None
    other = {**one, "questions_learned": 90, "asking_cpu_seconds": 3.0}
    both = passes.figures({"one_pass": one, "page_once": other})
    assert (both["questions_ratio"], both["asking_cpu_ratio"]) == (4.5, 3.0)
    assert passes.share_of_rate(0) == passes.share_of_rate(1) == 0
    assert passes.share_of_rate(passes.WARM_UP) == 1


@pytest.mark.slow
def test_the_quick_run_trains_and_asks_both_forms_and_keeps_them(run: Any, tmp_path: Path) -> None:
    alone, _ = run("pointer_passes", "--quick", "--work", str(tmp_path), "--forms", "page_once")
    assert alone["anls_one_pass"] is None
    assert alone["questions_learned_page_once"] > 0
    both, output = run("pointer_passes", "--quick", "--work", str(tmp_path), "--forms", "one_pass")
    assert both["quick"] is True
    assert both["results"]["page_once"] == alone["results"]["page_once"]
    assert both["questions_ratio"] > 1
    assert both["asking_cpu_ratio"] > 1
    assert all(0 <= both[f"anls_{form}"] <= 1 for form in ("one_pass", "page_once"))
    assert "minutes left" in output
