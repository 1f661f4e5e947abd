"""How sure a table is of the kind of a whole text: never saturated, and as the manifest says."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc import hashing
from hushdoc.artifact.artifact import read_unverified
from hushdoc.document.document import Document
from hushdoc.errors import ArtifactError
from hushdoc.hashing import FeatureScheme, segmentation
from hushdoc.runtime.hashed import class_scoring
from hushdoc.runtime.hashed import model as crf
from hushdoc.runtime.hashed.class_scoring import KEY, ClassConfidence, confidence, is_classifier
from hushdoc.runtime.hashed.model import HashedCRFModel
from hushdoc.runtime.hashed.table import HashedTable
from hushdoc.runtime.scoring import Scoring
from hushdoc_export.table import seal_table

SCHEME = FeatureScheme(rows=5003, bigrams=False, skip_grams=False)
KINDS = ("farm", "law", "sea")
NEVER = np.where(np.eye(3, dtype=bool), 0.0, -1e6)
TEXT = "A court, a court. The judge read.\n\nSheep! A ship and a sail; the judge went."
WEIGHTS = {"court": (0, 4, 1), "judge": (0, 2, -1), "sheep": (3, 0, 0), "ship": (0, 1, 2)}
numbers = st.floats(-1e6, 1e6)
units = st.floats(1e-6, 1e6)
sums = st.lists(numbers, min_size=2, max_size=6)


@given(sums, units, st.data())
def test_confidence_is_a_share_that_follows_the_lead(
    told: list[float], unit: float, data: st.DataObject
) -> None:
    label = data.draw(st.integers(0, len(told) - 1))
    found = confidence(np.array(told), label, unit=unit)
    assert 0 <= found <= 1
    more = data.draw(st.floats(0, 1e6))
    further = [value + more * (place == label) for place, value in enumerate(told)]
    assert confidence(np.array(further), label, unit=unit) >= found
    others = [value + more * (place != label) for place, value in enumerate(told)]
    assert confidence(np.array(others), label, unit=unit) <= found + 1e-9
    order = data.draw(st.permutations(range(len(told))))
    moved = np.array([told[place] for place in order])
    assert confidence(moved, order.index(label), unit=unit) == pytest.approx(found)
    best = max(confidence(np.array(told), other, unit=unit) for other in range(len(told)))
    assert confidence(np.array(told), int(np.argmax(told)), unit=unit) == pytest.approx(best)


@given(st.lists(st.floats(0, 1e4), min_size=2, max_size=9, unique=True))
def test_clearer_kinds_are_told_apart_where_probabilities_are_all_one(leads: list[float]) -> None:
    leads = [round(lead, 3) for lead in leads]
    found = {lead: confidence(np.array([lead, 0.0]), 0, unit=1.0) for lead in leads}
    assert [found[lead] for lead in sorted(found)] == sorted(set(found.values()))
    assert all(value < 1 for value in found.values())


@pytest.mark.parametrize(
    ("told", "label", "unit", "wanted"),
    [
        ([0.0, 0.0], 0, 1.0, 0.5),
        ([2.0, 0.0], 0, 2.0, 0.75),
        ([2.0, 0.0], 1, 2.0, 0.25),
        ([5.0, 5.0, 5.0], 1, 9.0, 0.5 - 0.5 * math.log(2) / (1 + math.log(2))),
        ([math.log(6), math.log(2), 0.0], 0, 1.0, 0.5 + 0.5 * math.log(2) / (1 + math.log(2))),
        ([1e9, 0.0, 0.0], 0, 1e-6, 1.0),
        ([1e9, 0.0, 0.0], 1, 1e-6, 0.0),
    ],
)
def test_known_confidence(told: list[float], label: int, unit: float, wanted: float) -> None:
    assert confidence(np.array(told), label, unit=unit) == pytest.approx(wanted, abs=1e-12)


def test_a_long_text_is_no_surer_for_saying_nothing() -> None:
    generator = np.random.default_rng(5)
    rule = ClassConfidence(spread=math.sqrt(2))
    means = []
    for length in (10, 100, 1000):
        noise = generator.normal(size=(400, length, 2)).sum(axis=1)
        unit = rule.unit(length)
        means.append(np.mean([confidence(told, int(told.argmax()), unit=unit) for told in noise]))
    assert max(means) - min(means) < 0.02
    assert max(means) < 0.75


@pytest.mark.parametrize("tags", [("O", "law", "sea"), ("law",), ("a", "b")])
@pytest.mark.parametrize("level", ["sentence", "token"])
def test_what_is_classifier(tags: tuple[str, ...], level: str) -> None:
    never = np.where(np.eye(len(tags), dtype=bool), 0.0, class_scoring.FORBIDDEN)
    assert is_classifier(tags, level, never) == (tags == ("a", "b") and level == "sentence")
    assert not is_classifier(tags, level, never / 2 - (len(tags) == 1))
    assert not is_classifier(tags, level, never + 1)


def test_the_rule_survives_the_manifest() -> None:
    rule = ClassConfidence(spread=0.25)
    assert rule.to_dict() == {"rule": "margin", "spread": 0.25}
    assert ClassConfidence.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule
    assert ClassConfidence.from_manifest({KEY: rule.to_dict()}) == rule
    assert ClassConfidence.from_manifest({}) is None
    assert rule.unit(0) == rule.unit(1) == 0.25


WRONG = [
    None,
    3,
    [],
    {},
    {"rule": "margin"},
    {"spread": 1.0},
    {"rule": "lead", "spread": 1.0},
    {"rule": "margin", "spread": 0.0},
    {"rule": "margin", "spread": -1.0},
    {"rule": "margin", "spread": 1e300},
    {"rule": "margin", "spread": float("nan")},
    {"rule": "margin", "spread": True},
    {"rule": "margin", "spread": "1"},
    {"rule": "margin", "spread": 1.0, "more": 1},
]


@pytest.mark.parametrize("data", WRONG)
def test_other_json_is_no_rule(data: Any) -> None:
    with pytest.raises(ArtifactError, match="can't be read") as raised:
        ClassConfidence.from_dict(data)
    assert raised.value.code == "BAD_MANIFEST"


def test_spread_is_told_to_six_digits_and_never_nothing() -> None:
    level = HashedTable(weights=np.ones((4, 2)), transitions=np.zeros((2, 2)))
    assert ClassConfidence.of(level).spread == class_scoring.SMALLEST
    third = HashedTable(weights=np.array([[1 / 3, 0.0]]), transitions=np.zeros((2, 2)))
    assert ClassConfidence.of(third).spread == 0.333333


# Models.


def table_weights() -> np.ndarray[Any, Any]:
    """Weights that float16 holds exactly, and so do their differences."""
    weights = np.full((SCHEME.rows, 3), 0.0, dtype=np.float32)
    weights[:, 2] = 1 / 8
    for word, told in WEIGHTS.items():
        (row,) = hashing.features([[word]], SCHEME).indices.tolist()
        weights[row] = told
    return weights


Load = Callable[..., HashedCRFModel]


@pytest.fixture
def load(tmp_path: Path, build: ModuleType, key: Any) -> Load:
    """Returns what seals a table, states a rule in its manifest or none, and loads it."""
    made = 0

    def make(*, preprocessing: dict[str, Any], **change: Any) -> HashedCRFModel:
        nonlocal made
        made += 1
        folder = tmp_path / f"{made}"
        parts = {
            "weights": table_weights(),
            "transitions": NEVER,
            "tags": KINDS,
            "scheme": SCHEME,
            "claim": build.claim(),
            "key": key,
            "name": "kinds",
            "issuer": "the tests",
            **change,
        }
        seal_table(folder, **parts)
        manifest = json.loads((folder / "hushdoc.json").read_bytes())
        manifest["preprocessing"].pop(KEY, None)
        manifest["preprocessing"] |= preprocessing
        (folder / "hushdoc.json").write_text(json.dumps(manifest))
        names = ("hushdoc.json", "labels.json", "table.safetensors")
        contents = {name: (folder / name).read_bytes() for name in names}
        stated = read_unverified(folder).certificate
        again = build.seal(tmp_path / f"{made}-stated", key, stated, contents)
        return HashedCRFModel.load(again, policy=build.policy(key))

    return make


RULE = {"rule": "margin", "spread": 0.5}
CURVE = Scoring(
    raw=(0.0, 1.0), calibrated=(0.1, 0.9), threshold=0.6, fitted_on="public texts", num_answers=99
)


def by_hand(text: str, spread: float) -> tuple[str, float]:
    """Returns the kind of a text and its score, word by word."""
    totals, count = [0.0, 0.0, 0.0], 0
    for first, last in segmentation.sentences(text):
        words = {word.lower() for word in segmentation.words(text, first, last)}
        count += len(words)
        for word in words:
            for kind, weight in enumerate(WEIGHTS.get(word, (0, 0, 1 / 8))):
                totals[kind] += weight
    best = totals.index(max(totals))
    told = [total / (spread * math.sqrt(count)) for total in totals]
    others = sum(math.exp(value) for kind, value in enumerate(told) if kind != best)
    odds = told[best] - math.log(others)
    return KINDS[best], 0.5 * (1 + odds / (1 + abs(odds)))


@pytest.mark.parametrize("spread", [0.5, 0.01, 7.0])
@pytest.mark.parametrize("text", [TEXT, "Sheep.", "A ship.\n\nA ship.\n\nA court.", "Nothing."])
def test_a_declared_score_is_that_of_every_word(load: Load, spread: float, text: str) -> None:
    model = load(preprocessing={KEY: {"rule": "margin", "spread": spread}})
    assert model.is_classifier
    (field,) = model.extract(Document.from_text(text)).fields
    label, score = by_hand(text, spread)
    assert (field.label, field.score) == (label, pytest.approx(score, abs=1e-12))
    assert model.extract(Document.from_text(text)).fields == (field,)


def test_what_declares_no_rule_keeps_its_scores(load: Load) -> None:
    old, new = load(preprocessing={}), load(preprocessing={KEY: RULE})
    assert (old.class_confidence, new.class_confidence) == (None, ClassConfidence(spread=0.5))
    (before,) = old.extract(Document.from_text(TEXT)).fields
    (after,) = new.extract(Document.from_text(TEXT)).fields
    assert before.score == 1.0
    assert after.score < 0.9
    assert (before.label, before.start, before.stop) == (after.label, after.start, after.stop)
    curve = load(preprocessing={"scores": CURVE.to_dict()})
    assert curve.extract(Document.from_text(TEXT)).fields[0].score == pytest.approx(0.9, abs=0.01)


def test_a_curve_and_a_threshold_hold_for_kinds(load: Load) -> None:
    model = load(preprocessing={KEY: RULE, "scores": CURVE.to_dict()})
    (sure,) = model.extract(Document.from_text("A court. A judge. A court.")).fields
    assert 0.6 < sure.score < 0.9
    answer = model.extract(Document.from_text("Sheep. A judge. A ship."))
    (unsure,) = answer.below_threshold
    assert not answer.fields
    assert unsure.score < 0.6
    raw = load(preprocessing={KEY: RULE})
    for text, field in (("A court. A judge. A court.", sure), ("Sheep. A judge. A ship.", unsure)):
        (told,) = raw.extract(Document.from_text(text)).fields
        assert field.score == pytest.approx(0.1 + 0.8 * told.score)
        assert field.label == told.label


def test_temperature_makes_kinds_less_clear(load: Load) -> None:
    plain = Scoring(fitted_on="nothing", num_answers=0)
    model = load(preprocessing={KEY: RULE}).scored_by(plain)
    warm = model.scored_by(Scoring(fitted_on="nothing", num_answers=0, temperature=2.0))
    wide = load(preprocessing={KEY: {**RULE, "spread": 1.0}})
    scores = [
        made.extract(Document.from_text(TEXT)).fields[0].score for made in (model, warm, wide)
    ]
    assert scores[0] > scores[1] == pytest.approx(scores[2])


def test_measuring_takes_the_tables_own_spread(load: Load) -> None:
    plain = Scoring(fitted_on="nothing", num_answers=0)
    model = load(preprocessing={})
    asked = model.scored_by(plain)
    assert (model.class_confidence, model.scoring) == (None, None)
    weights = table_weights().astype(float)
    pairs = [(weights[:, a] - weights[:, b]) ** 2 for a in range(3) for b in range(a)]
    assert asked.class_confidence is not None
    assert asked.class_confidence.spread == pytest.approx(math.sqrt(np.mean(pairs)), rel=1e-5)
    stated = load(preprocessing={KEY: RULE}).scored_by(plain)
    assert stated.class_confidence == ClassConfidence(spread=0.5)


def test_blocks_pages_and_bytes_do_not_show(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(preprocessing={KEY: RULE})
    text = "\n\n".join([TEXT] * 30)
    whole = model.extract(Document.from_text(text))
    short = load(preprocessing={KEY: RULE}, dtype="int8").extract(Document.from_text(text))
    assert short.fields[0].score == pytest.approx(whole.fields[0].score, abs=0.01)
    monkeypatch.setattr(crf, "BLOCK_CHARACTERS", 40)
    assert model.extract(Document.from_text(text)) == whole
    words = TEXT.split()
    boxes = [(10, 10 * row, 90, 10 * row + 8) for row in range(len(words))]
    page = Document.from_words(words, boxes, width=100, height=10 * len(words))
    (read,) = model.extract(page).fields
    (told,) = model.extract(Document.from_text(" ".join(words))).fields
    assert (read.label, read.score) == (told.label, told.score)
    assert read.word_ids == tuple(range(len(words)))


@pytest.mark.parametrize("told", [None, {}, {"rule": "lead", "spread": 1.0}])
def test_what_is_no_rule_is_refused(load: Load, told: Any) -> None:
    with pytest.raises(ArtifactError, match="can't be read") as raised:
        load(preprocessing={KEY: told})
    assert raised.value.code == "BAD_MANIFEST"


@pytest.mark.parametrize(
    "change",
    [
        {"transitions": np.zeros((3, 3))},
        {"tags": ("O", "law", "sea")},
        {"scheme": FeatureScheme(rows=5003, bigrams=False, skip_grams=False, level="token")},
    ],
)
def test_tables_that_tell_no_kinds_have_no_such_rule(load: Load, change: dict[str, Any]) -> None:
    if change.get("scheme"):
        change = {**change, "tags": ("B-farm", "B-law", "B-sea")}
    assert not load(preprocessing={}, **change).is_classifier
    with pytest.raises(ArtifactError, match="this table tells none") as raised:
        load(preprocessing={KEY: RULE}, **change)
    assert raised.value.code == "BAD_MANIFEST"
