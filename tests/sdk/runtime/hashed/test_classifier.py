"""A table of hashed features that classifies: scores by hand, calibration, pages and refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import numpy as np
import pytest

from hushdoc import hashing
from hushdoc.artifact.artifact import read_unverified
from hushdoc.document.document import Document
from hushdoc.errors import ArtifactError, EmptyDocumentError
from hushdoc.hashing import FeatureScheme, segmentation
from hushdoc.runtime.classification import ClassificationModel
from hushdoc.runtime.hashed import sealed_table
from hushdoc.runtime.hashed.class_scoring import KEY
from hushdoc.runtime.scoring import Scoring
from hushdoc_export.release import Release
from hushdoc_export.table import seal_table
from hushdoc_training.table_checkpoint import TableCheckpoint

SCHEME = FeatureScheme(rows=5003, bigrams=False, skip_grams=False)
CLASSES = ("farm", "law", "sea")
NEVER = np.where(np.eye(3, dtype=bool), 0.0, -1e6)
TEXT = "A court, a court. The judge read.\n\nSheep! A ship and a sail; the judge went."
WEIGHTS = {"court": (0, 4, 1), "judge": (0, 2, -1), "sheep": (3, 0, 0), "ship": (0, 1, 2)}
RULE = {"rule": "margin", "spread": 0.5}
CURVE = Scoring(
    raw=(0.0, 1.0), calibrated=(0.1, 0.9), threshold=0.6, fitted_on="public texts", num_answers=99
)
Load = Callable[..., ClassificationModel]


def table_weights() -> np.ndarray[Any, Any]:
    """Weights that float16 holds exactly, and so do their differences."""
    weights = np.full((SCHEME.rows, 3), 0.0, dtype=np.float32)
    weights[:, 2] = 1 / 8
    for word, row_weights in WEIGHTS.items():
        (row,) = hashing.features([[word]], SCHEME).indices.tolist()
        weights[row] = row_weights
    return weights


@pytest.fixture
def load(tmp_path: Path, key: Any) -> Load:
    """Returns what seals a table, changes what its manifest declares, and loads it."""
    count = 0

    def sealed_and_loaded(
        preprocessing: dict[str, Any], *, dtype: str = "float16", **change: Any
    ) -> ClassificationModel:
        nonlocal count
        count += 1
        folder = tmp_path / f"{count}"
        parts = {
            "weights": table_weights(),
            "transitions": NEVER,
            "tags": CLASSES,
            "scheme": SCHEME,
            "claim": build.claim(),
            **change,
        }
        release = Release(key=key, name="classes", issuer="the tests")
        seal_table(folder, TableCheckpoint(**parts), release, dtype=dtype)
        manifest = json.loads((folder / "hushdoc.json").read_bytes())
        manifest["preprocessing"] |= preprocessing
        (folder / "hushdoc.json").write_text(json.dumps(manifest))
        names = ("hushdoc.json", "labels.json", "table.safetensors")
        contents = {name: (folder / name).read_bytes() for name in names}
        certificate = read_unverified(folder).certificate
        again = build.seal(tmp_path / f"{count}-again", key, certificate, contents)
        return ClassificationModel.load(again, policy=build.policy(key))

    return sealed_and_loaded


def classified(model: ClassificationModel, text: str) -> dict[str, float]:
    """Returns the score of every class, best first."""
    answer = model.classify(Document.from_text(text), top_k=3)
    return {item.label: item.score for item in answer.scores}


def by_hand(text: str, spread: float) -> dict[str, float]:
    """Returns the score of every class, computed word by word."""
    totals, count = [0.0, 0.0, 0.0], 0
    for first, last in segmentation.sentences(text):
        words = {word.lower() for word in segmentation.words(text, first, last)}
        count += len(words)
        for word in words:
            for label, weight in enumerate(WEIGHTS.get(word, (0, 0, 1 / 8))):
                totals[label] += weight
    scaled = [total / (spread * math.sqrt(count)) for total in totals]
    scores = {}
    for label, name in enumerate(CLASSES):
        others = sum(math.exp(value) for other, value in enumerate(scaled) if other != label)
        margin = scaled[label] - math.log(others)
        scores[name] = 0.5 * (1 + margin / (1 + abs(margin)))
    return scores


@pytest.mark.parametrize("spread", [0.5, 0.01, 7.0])
@pytest.mark.parametrize("text", [TEXT, "Sheep.", "A ship.\n\nA ship.\n\nA court.", "Nothing."])
def test_scores_are_those_computed_by_hand(load: Load, spread: float, text: str) -> None:
    model = load({KEY: {**RULE, "spread": spread}})
    scores = classified(model, text)
    assert scores == pytest.approx(by_hand(text, spread), abs=1e-12)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    answer = model.classify(Document.from_text(text))
    assert (answer.label, answer.below_threshold) == (next(iter(scores)), False)
    assert (answer.coverage, answer.warnings) == (1.0, ())
    assert (model.labels, model.modality, model.scoring) == (CLASSES, "text", None)


def test_the_exporter_declares_the_tables_own_spread(load: Load) -> None:
    weights = table_weights().astype(float)
    pairs = [(weights[:, a] - weights[:, b]) ** 2 for a in range(3) for b in range(a)]
    expected = by_hand(TEXT, math.sqrt(np.mean(pairs)))
    assert classified(load({}), TEXT) == pytest.approx(expected, abs=1e-5)


def test_a_curve_and_a_threshold_hold_for_classes(load: Load) -> None:
    model, raw = load({KEY: RULE, "scores": CURVE.to_dict()}), load({KEY: RULE})
    for text, below in (("A court. A judge. A court.", False), ("Sheep. A judge. A ship.", True)):
        answer = model.classify(Document.from_text(text))
        (best,) = answer.scores
        assert answer.below_threshold == below == (best.score < 0.6)
        assert answer.label == (None if below else best.label)
        expected = raw.classify(Document.from_text(text)).scores[0]
        assert best.score == pytest.approx(0.1 + 0.8 * expected.score)
        assert best.label == expected.label
    assert classified(model.scored_by(None), TEXT) == classified(raw, TEXT)


def test_temperature_lowers_the_confidence(load: Load) -> None:
    model = load({KEY: RULE})
    warm = model.scored_by(Scoring(fitted_on="nothing", num_answers=0, temperature=2.0))
    wide = load({KEY: {**RULE, "spread": 1.0}})
    scores = [max(classified(item, TEXT).values()) for item in (model, warm, wide)]
    assert scores[0] > scores[1] == pytest.approx(scores[2])


def test_blocks_pages_and_bytes_do_not_show(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load({KEY: RULE})
    text = "\n\n".join([TEXT] * 30)
    whole = classified(model, text)
    short = classified(load({KEY: RULE}, dtype="int8"), text)
    assert short == pytest.approx(whole, abs=0.01)
    monkeypatch.setattr(sealed_table, "BLOCK_CHARACTERS", 40)
    assert classified(model, text) == pytest.approx(whole, abs=1e-12)
    words = TEXT.split()
    boxes = [(10, 10 * row, 90, 10 * row + 8) for row in range(len(words))]
    page = Document.from_words(words, boxes, width=100, height=10 * len(words)).pages[0]
    read = model.classify(Document(id="two pages", pages=(page, page)), top_k=3)
    twice = classified(model, "\n\n".join([" ".join(words)] * 2))
    assert {item.label: item.score for item in read.scores} == pytest.approx(twice)


def test_many_documents_and_nothing_to_read(load: Load) -> None:
    model = load({KEY: RULE})
    first, second = model.classify_many([Document.from_text(TEXT), Document.from_text("Sheep.")])
    assert [first.label, second.label] == ["law", "farm"]  # type: ignore[union-attr]
    with pytest.raises(EmptyDocumentError):
        model.classify(Document.from_text(" \n"))


@pytest.mark.parametrize("rule", [None, {}, {"rule": "lead", "spread": 1.0}])
def test_a_manifest_without_a_known_rule_is_refused(load: Load, rule: Any) -> None:
    with pytest.raises(ArtifactError, match="can't be read") as raised:
        load({KEY: rule})
    assert raised.value.code == "BAD_MANIFEST"


def test_a_table_whose_labels_may_change_is_no_classifier(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hushdoc_export.table.class_scoring.is_classifier", lambda *parts: True)
    with pytest.raises(ArtifactError, match="this table can't classify") as raised:
        load({KEY: RULE}, transitions=np.zeros((3, 3)))
    assert raised.value.code == "BAD_MANIFEST"
