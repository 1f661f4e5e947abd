"""Answers that a model writes: a real artifact of a tiny VT5 that has learned a few, asked."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import hushdoc_command_runs
import hushdoc_tiny as tiny
import numpy as np
import pytest

import hushdoc
from hushdoc.artifact import artifact
from hushdoc.document.document import Document
from hushdoc.errors import ArtifactError, InputError, LimitExceededError
from hushdoc.labels import LabelledDocument, Question
from hushdoc.runtime import matching
from hushdoc.runtime.docvqa import DocVQAModel
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc.runtime.scoring import Scoring
from hushdoc.runtime.session import Runtime
from hushdoc.runtime.writing import DECODER, ENCODER, GRAPHS, Writer, require_fitting
from hushdoc_export import calibration, sealing

vt5 = pytest.importorskip("hushdoc_tiny_vt5")

TOTAL = "What is the total?"


@pytest.fixture(scope="module")
def model() -> DocVQAModel:
    return DocVQAModel.load(tiny.sealed_vt5(), policy=tiny.policy(), runtime=Runtime(threads=1))


def changed(model: DocVQAModel, **asking: Any) -> DocVQAModel:
    """Returns the model with other settings of its asking."""
    other = object.__new__(DocVQAModel)
    vars(other).update(vars(model))
    other.asking = replace(model.asking, **asking)
    return other


def test_one_artifact_holds_all_graphs_and_its_manifest_describes_them(model: DocVQAModel) -> None:
    folder = tiny.sealed_vt5()
    assert hushdoc.verify(folder, tiny.policy()).passed
    assert isinstance(hushdoc.load(folder, policy=tiny.policy()), DocVQAModel)
    manifest = json.loads((folder / "hushdoc.json").read_text())
    assert manifest["entry"] == "onnx/encoder_model.onnx"
    described = manifest["preprocessing"][GRAPHS]
    assert {name: graph["entry"] for name, graph in described.items()} == {
        "decoder": "onnx/decoder_model.onnx"
    }
    types = {port["name"]: port["dtype"] for port in described["decoder"]["inputs"]}
    assert (types["tokens"], types["encoder_mask"]) == ("int64", "int64")
    assert types["cross.0.key"] == "float32"
    [step] = model.certificate.derivation
    parity: Any = step["parity"]
    assert parity["sameTokens"] == 6
    assert parity["maxDifference"] <= 1e-4


@pytest.mark.parametrize(("name", "question", "answer"), vt5.LEARNED)
def test_answers_are_words_of_the_page_with_their_boxes(
    model: DocVQAModel, name: str, question: str, answer: str
) -> None:
    asked = vt5.document(name)
    found = model.ask(asked, question)
    assert found.text == (answer or None)
    assert found.warnings == ()
    if answer:
        words = [asked.pages[0].words[index] for index in found.best.word_ids]
        assert " ".join(word.text for word in words) == answer
        assert found.best.boxes == tuple(word.box for word in words)
        assert (found.best.evidence, found.best.page) == ("words", 0)
        assert 0.5 < found.best.score <= 1
    else:
        assert found.best.null_score > 0.5


def test_free_answers_say_what_they_match(model: DocVQAModel) -> None:
    asked = vt5.document("a")
    free = model.ask(asked, TOTAL, grounded=False)
    assert (free.text, free.best.evidence, free.best.word_ids) == ("9.50 eur", "matched", (5, 6))
    assert free.best.score == pytest.approx(model.ask(asked, TOTAL).best.score, abs=0.05)
    # On a page without these words it still says what it has learned; grounded it can't.
    lone = Document.from_words(["thanks"], [(10, 10, 45, 22)], width=640, height=100)
    said = model.ask(lone, "Who sent it?", grounded=False, top_k=2)
    held = model.ask(lone, "Who sent it?", top_k=2)
    assert {item.evidence for item in said.candidates} == {"none"}
    assert said.fields == ()
    assert [item.text for item in held.candidates] == ["thanks"]


def test_several_questions_are_answered_as_each_alone(model: DocVQAModel) -> None:
    asked = vt5.document("a")
    questions = [question for name, question, _ in vt5.LEARNED if name == "a"]
    together = model.ask_all(asked, questions, top_k=2)
    for one, question in zip(together, questions, strict=True):
        alone = model.ask(asked, question, top_k=2)
        assert [item.text for item in one.candidates] == [item.text for item in alone.candidates]
        assert one.best.score == pytest.approx(alone.best.score, abs=1e-5)
    streamed = list(model.ask_many([asked, vt5.document("b")], TOTAL))
    assert [item.text for item in streamed] == ["9.50 EUR", "12.00"]


def test_more_candidates_are_other_answers_best_first(model: DocVQAModel) -> None:
    found = model.ask(vt5.document("a"), TOTAL, top_k=4).candidates
    assert len({item.text for item in found}) == len(found) == 4
    scores = [item.score for item in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] + sum(scores[1:]) <= 1 + 1e-9


@pytest.mark.parametrize("grounded", [True, False])
def test_pages_without_words_are_passed_over(model: DocVQAModel, grounded: bool) -> None:
    asked = vt5.document("a")
    blank = replace(asked.pages[0], words=())
    among = replace(asked, pages=(blank, asked.pages[0], blank))
    questions = [question for name, question, _ in vt5.LEARNED if name == "a"]
    expected = model.ask_all(asked, questions, top_k=2, grounded=grounded)
    found = model.ask_all(among, questions, top_k=2, grounded=grounded)
    for one, other in zip(found, expected, strict=True):
        assert (one.text, one.best.word_ids, one.best.score) == (
            other.text,
            other.best.word_ids,
            other.best.score,
        )
        assert one.best.page == (None if one.text is None else 1)
        assert [item.text for item in one.candidates] == [item.text for item in other.candidates]
        assert (one.coverage, one.warnings) == (1, other.warnings)
    assert [item.text for item in found].count(None) == 1


def test_many_pages_are_read_in_windows_within_the_memory_limit(model: DocVQAModel) -> None:
    runtime = Runtime(threads=1, memory_limit="4MB")
    limited = DocVQAModel.load(tiny.sealed_vt5(), policy=tiny.policy(), runtime=runtime)
    last = vt5.document("a").pages[0]
    thanks = vt5.document("b").pages[0]
    thanks = replace(thanks, words=thanks.words[-2:])
    many = Document(id="d", pages=(thanks,) * 299 + (last,))
    found = limited.ask(many, TOTAL)
    assert (found.text, found.best.page, found.coverage) == ("9.50 EUR", 299, 1)
    long = replace(last, words=thanks.words * 200 + last.words)
    assert limited.ask(Document(id="d", pages=(long,)), TOTAL).text == "9.50 EUR"
    with pytest.raises(LimitExceededError, match="memory_limit"):
        DocVQAModel.load(
            tiny.sealed_vt5(),
            policy=tiny.policy(),
            # Less than both graphs together, and more than either.
            runtime=Runtime(threads=1, memory_limit=_sizes(model)[0] + 1000),
        )


def _sizes(model: DocVQAModel) -> list[int]:
    return sorted(
        (path.stat().st_size for path in (tiny.sealed_vt5() / "onnx").iterdir()), reverse=True
    )


def test_an_answer_without_end_is_cut_and_reported(model: DocVQAModel) -> None:
    endless: Writer = object.__new__(Writer)
    vars(endless).update(vars(model._reader))
    encoder = object.__new__(type(model._encoder))
    vars(encoder).update(vars(model._encoder))
    # A token that it never writes as its end.
    encoder.asking = replace(model.asking, eos_id=2)
    endless._encoder = encoder
    other = changed(model)
    other._reader = endless
    found = other.ask(vt5.document("a"), TOTAL, grounded=False)
    assert found.warnings == ("Candidate 1 had no end within 12 tokens and was cut there.",)


def test_no_image_where_one_is_read_is_a_typed_error(model: DocVQAModel) -> None:
    half = (0.5, 0.5, 0.5)
    image = ImagePreprocessing(height=32, width=32, mean=half, std=half)
    with pytest.raises(InputError, match="has no image") as raised:
        changed(model, image=image).ask(vt5.document("a"), TOTAL)
    assert raised.value.code == "NO_IMAGE"


def test_ask_free_says_what_has_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    hushdoc_command_runs.write_policy(tmp_path, tiny.TRUST)
    Path("a.json").write_text(json.dumps(vt5.document("a").to_dict()))
    told = ("-q", TOTAL, "--policy", "policy.toml")
    assert hushdoc_command_runs.run("ask", tiny.sealed_vt5(), "a.json", *told) == 0
    assert "9.50 EUR" in capsys.readouterr().out
    assert hushdoc_command_runs.run("ask", tiny.sealed_vt5(), "a.json", *told, "--free") == 0
    assert "page 0, much the same words" in capsys.readouterr().out


def test_ask_prints_each_warning_once_and_names_its_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    hushdoc_command_runs.write_policy(tmp_path, tiny.TRUST)
    long = Document.from_words(["a" * 300], [(0, 0, 5, 5)], width=9, height=9).pages
    asked = replace(vt5.document("a"), pages=(*vt5.document("a").pages, *long))
    Path("a.json").write_text(json.dumps(asked.to_dict()))
    folder = resealed(tmp_path / "cut", max_answer=5)

    def notes(*questions: str) -> list[str]:
        told = [part for question in questions for part in ("-q", question)]
        code = hushdoc_command_runs.run("ask", folder, "a.json", *told, "--policy", "policy.toml")
        assert code == 0
        lines = capsys.readouterr().out.splitlines()
        return [line.strip() for line in lines if line.startswith("  note")]

    sent, number = "Who sent it?", "Which number?"
    lost = (
        "Page 1: 1 word (0) exceed one whole window of 69 tokens; the model read only their "
        "beginning."
    )
    cut = "Candidate 1 had no end within 5 tokens and was cut there."
    assert notes(sent) == [f"note: {lost}"]
    assert notes(TOTAL) == [f"note: {lost}", f"note: {cut}"]
    assert notes(sent, TOTAL) == [f"note: {lost}", f'note on "{TOTAL}": {cut}']
    assert notes(number, sent, TOTAL) == [
        f"note: {lost}",
        f'note on "{number}", "{TOTAL}": {cut}',
    ]
    assert notes(number, TOTAL) == [f"note: {lost}", f"note: {cut}"]


def test_calibrated_scores_are_the_share_of_right_answers(tmp_path: Path) -> None:
    known = {name: [item for item in vt5.LEARNED if item[0] == name] for name in vt5.PAGES}
    # Every second answer is declared to be wrong.
    documents = [
        LabelledDocument(
            document=vt5.document(name),
            spans=(),
            questions=tuple(
                Question(text=text, answers=(answer if number % 2 else "another",))
                for _, text, answer in known[name]
                if answer
            ),
        )
        for number, name in enumerate(["a", "a", "b", "b"] * 7)
    ]
    folder = calibration.export_calibrated(
        tiny.sealed_vt5(),
        tmp_path / "calibrated",
        tiny.release(),
        policy=tiny.policy(),
        documents=documents,
        data=tiny.calibration_data("pages that it has learned"),
        threshold=0.4,
    )
    assert hushdoc.verify(folder, tiny.policy()).passed
    found = DocVQAModel.load(folder, policy=tiny.policy()).ask(vt5.document("a"), TOTAL)
    assert found.calibrated_on == "pages that it has learned"
    assert found.text == "9.50 EUR"
    assert found.best.score == pytest.approx(0.5, abs=0.1)
    assert found.warnings == ()
    mapped = DocVQAModel.load(folder, policy=tiny.policy(), low_memory=True)
    assert mapped.ask(vt5.document("a"), TOTAL) == found


@pytest.mark.parametrize("otherwise", [{"top_k": 2}, {"grounded": False}])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_answers_that_no_calibration_asked_for_keep_the_scores_of_the_model(
    model: DocVQAModel, otherwise: dict[str, Any], share: float
) -> None:
    curve = Scoring(
        raw=(0, 1), calibrated=(share, share), threshold=0.5, fitted_on="x", num_answers=1
    )
    judged = changed(model, scores=curve)
    usual, found = (
        judged.ask(vt5.document("a"), TOTAL),
        judged.ask(vt5.document("a"), TOTAL, **otherwise),
    )
    assert (usual.best.score, usual.calibrated_on) == (share, "x")
    plain = model.ask(vt5.document("a"), TOTAL, **otherwise)
    assert found.calibrated_on is None
    assert [item.score for item in found.candidates] == [item.score for item in plain.candidates]
    assert found.best.score == plain.best.score
    wanted = "9.50 eur" if share > 0.5 else "none"  # written freely it is lower-case
    assert str(found.text).lower() == str(usual.text).lower() == wanted
    assert "Scores are the model's own" in found.warnings[-1]
    assert plain.warnings == usual.warnings == ()


def resealed(out: Path, **preprocessing: Any) -> Path:
    """Returns a copy with other settings or graphs described, soundly signed: a wrong export."""
    opened = artifact.open_artifact(tiny.sealed_vt5(), tiny.policy())
    contents = {subject.name: opened.read(subject.name) for subject in opened.subjects}
    manifest = json.loads(contents["hushdoc.json"])
    manifest["preprocessing"] |= preprocessing
    contents["hushdoc.json"] = sealing.dump(manifest)
    return sealing.seal(out, contents, opened.certificate, labels=None, key=tiny.KEY)


def test_graphs_that_the_manifest_does_not_describe_are_refused(tmp_path: Path) -> None:
    manifest = json.loads((tiny.sealed_vt5() / "hushdoc.json").read_text())
    described = manifest["preprocessing"][GRAPHS]
    for number, graphs in enumerate(
        (
            {},
            {"decoder": 7},
            {"decoder": {**described["decoder"], "entry": "onnx/other.onnx"}},
            {"decoder": {**described["decoder"], "inputs": []}},
            {**described, "vision": described["decoder"]},
        )
    ):
        folder = resealed(tmp_path / str(number), **{GRAPHS: graphs})
        with pytest.raises(ArtifactError):
            DocVQAModel.load(folder, policy=tiny.policy())


def test_a_decoder_that_fits_no_encoder_is_refused(model: DocVQAModel, tmp_path: Path) -> None:
    sessions = model._reader._sessions  # type: ignore[union-attr]
    with pytest.raises(ArtifactError, match="Expected a decoder that reads all of it"):
        Writer(model._encoder, {ENCODER: sessions[DECODER], DECODER: sessions[DECODER]})
    manifest = json.loads((tiny.sealed_vt5() / "hushdoc.json").read_text())
    swapped = {"decoder": {**manifest["preprocessing"][GRAPHS]["decoder"]}}
    swapped["decoder"]["entry"] = "onnx/encoder_model.onnx"
    with pytest.raises(ArtifactError, match="manifest declares"):
        DocVQAModel.load(resealed(tmp_path / "a", **{GRAPHS: swapped}), policy=tiny.policy())


class Ports(NamedTuple):
    """What is asked of a session whether it fits others."""

    inputs: dict[str, list[Any]]
    outputs: dict[str, list[Any]]


@pytest.mark.parametrize("given", [["keys", 16], [16, "keys"]])
def test_keys_may_lie_either_way_if_both_graphs_say_so(
    model: DocVQAModel, given: list[Any]
) -> None:
    def require(read: list[Any], past: list[Any], tokens: Any = "tokens") -> None:
        mask, value = ["batch", "keys"], ["batch", 4, "keys", 16]
        present = {"present.0.key": past, "present.0.value": past}
        made = {"encoder_mask": mask, "cross.0.key": ["batch", 4, *given], "cross.0.value": value}
        taken = {**made, "cross.0.key": ["batch", 4, *read], "tokens": ["batch", tokens]}
        taken |= {"past.0.key": past, "past.0.value": past}
        answered = {"logits": ["batch", tokens, model._encoder.num_tokens], **present}
        graphs: Any = {ENCODER: Ports({}, made), DECODER: Ports(taken, answered)}
        require_fitting(graphs, model._encoder)

    past = ["batch", 4, "past", 16]
    require(given, past)
    for read in (given[::-1], [8, "keys"], ["keys", 8]):
        with pytest.raises(ArtifactError, match="Expected a decoder that reads all of it"):
            require(read, past)
    with pytest.raises(ArtifactError, match="Expected a decoder that reads all of it"):
        require(given, ["batch", 4, 16, "past"])
    with pytest.raises(ArtifactError, match="Expected a decoder that reads all of it"):
        require(given, past, 1)  # it takes one token at a time


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("acme ltd", range(1, 3)),
        ("ACME  Ltd", range(1, 3)),
        ("acme lt", range(1, 3)),  # .875 alike
        ("9.5o eur", range(4, 6)),
        ("acmeltd", range(1, 3)),
        ("something else", None),
        ("", None),
    ],
)
def test_free_texts_are_placed_at_the_words_most_like_them(
    text: str, expected: range | None
) -> None:
    assert matching.most_alike(text, ["from", "Acme", "Ltd", "total", "9.50", "EUR"]) == expected


def test_places_are_those_that_trying_all_runs_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    from hushdoc.metrics import answer_of, similarity

    monkeypatch.setattr(matching, "_AT_ONCE", 3)
    rng = np.random.default_rng(3)
    for longest in [4] * 60 + [60] * 20:  # the latter are longer than the 64 bits of a block
        words = ["".join(rng.choice(list("aB"), rng.integers(0, longest))) for _ in range(7)]
        text = " ".join(words[2 : rng.integers(3, 6)])
        text = "".join(letter if rng.random() < 0.9 else "b" for letter in text)
        runs = [range(i, j) for i in range(7) for j in range(i + 1, 8)]
        alike = [
            similarity(" ".join(answer_of(words[i]) for i in run), answer_of(text)) for run in runs
        ]
        best = max(alike)
        expected = runs[alike.index(best)] if best >= matching.LEAST_ALIKE else None
        assert matching.most_alike(text, words) == expected


def test_a_long_answer_is_looked_for_among_many_short_words_in_a_moment() -> None:
    """Each run of words that has the answer's letters was compared with it for itself."""
    answer = "the goods remain the property of the seller until the invoice is paid in full"
    words = list("".join(sorted(answer.replace(" ", "")))) * 700
    started = time.process_time()
    assert matching.most_alike(answer, words) is None
    assert time.process_time() - started < 2
