from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from hushdoc.errors import AnnotationError, InputError
from hushdoc_training.audit import provider_membership
from hushdoc_training.audit.provider_membership import (
    FEATURES,
    G1,
    METHODS,
    Method,
    Providers,
    attacked,
    providers_of,
)
from hushdoc_training.question_scores import QuestionScore

APK = next(method for method in METHODS if method.name == "APK")


@pytest.fixture(autouse=True)
def _small_forests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_membership, "_TREES", (20, 60))


def score(
    provider: str | None, text: str, prediction: str | None, loss: float, confidence: float
) -> QuestionScore:
    return QuestionScore(
        document_id=f"of {provider}",
        provider=provider,
        key="total",
        text=text,
        answers=("12.50",),
        prediction=prediction,
        confidence=confidence,
        loss=loss,
    )


def made(members: np.ndarray, others: np.ndarray) -> Providers:
    """Providers with these features, shape [providers, 8], of 1, 2, 3, ... questions."""
    count = len(members) + len(others)
    return Providers(
        names=tuple(f"{number:03}" for number in range(count)),
        is_member=np.arange(count) < len(members),
        questions=np.arange(1, count + 1),
        features=np.concatenate([members, others]),
    )


def test_features_are_means_over_a_providers_questions() -> None:
    others = [score(f"other {number}", "a", "x", 1.0, 0.5) for number in range(4)]
    mine = [score(f"member {number}", "a", "12.50", 1.0, 0.5) for number in range(3)]
    model = [score("Acme.", "a", "12.50", 1.0, 0.9), score("Acme.", "b", "12.5", 3.0, 0.5)]
    start = [score("Acme.", "a", None, 4.0, 0.1), score("Acme.", "b", None, 4.0, 0.3)]
    found = providers_of(
        [*model, *mine, *others],
        [*start, *mine, *others],
        {"ACME", *(item.provider or "" for item in mine)},
        memory={"acme": (0.25, 0.75)},
    )
    assert found.names[0] == "acme"
    assert found.questions[0] == 2
    by_hand = [0.5, (1 + 0.8) / 2, 2.0, 0.7, -2.0, 0.5, 0.25, 0.75]
    assert found.features[0] == pytest.approx(by_hand, abs=1e-12)
    assert found.features[1][-2:].tolist() == [0.0, 0.0]
    assert found.sizes() == (4, 4)


def test_azk_finds_the_two_groups_of_the_least_squared_distances() -> None:
    generator = np.random.default_rng(3)
    features = generator.random((10, 8))
    found = made(features[:5], features[5:])
    points = features[:, :2]

    def cost(side: tuple[bool, ...]) -> float:
        groups = (points[np.array(side)], points[~np.array(side)])
        return sum(float(((group - group.mean(0)) ** 2).sum()) for group in groups if len(group))

    attacker = provider_membership._Attacker(found, 1, 1)
    attacker.known[:] = False
    guesses, scores = attacker.guesses(Method(name="AZK", features=G1))
    best = min(product((True, False), repeat=10), key=cost)
    assert {tuple(guesses), tuple(~guesses)} == {best, tuple(not side for side in best)}
    assert points[guesses, 0].mean() > points[~guesses, 0].mean()
    assert ((scores > 0) == guesses).all()


def test_what_differs_is_found_by_every_method_and_by_every_rate() -> None:
    spread = np.random.default_rng(1).normal(0, 0.01, (24, 8))
    found = made(spread[:12] + 1, spread[12:])
    for result in attacked(found, seeds=(1026,), least_questions=(0,), draws=1):
        assert (result.accuracy, result.accuracy_deviation, result.auc) == (1.0, 0.0, 1.0)
        assert dict(result.tpr_at_fpr) == {0.1: 1.0, 0.03: 1.0, 0.01: 1.0}
        assert (result.members, result.others) == (10, 10)  # two of each are known


def test_where_nothing_differs_the_area_is_that_of_guessing() -> None:
    features = np.random.default_rng(2).normal(size=(200, 8))
    found = made(features[:100], features[100:])
    [result] = attacked(found, methods=(APK,), least_questions=(0,), seeds=(1,), draws=1)
    assert result.auc_interval[0] < 0.5 < result.auc_interval[1]
    assert result.tpr_at_fpr[0.01] < 0.1


def test_equal_providers_are_nobodys_members() -> None:
    found = made(np.zeros((6, 8)), np.zeros((6, 8)))
    for result in attacked(found, methods=METHODS[:2], seeds=(1,), least_questions=(0,)):
        assert (result.accuracy, result.auc) == (0.5, 0.5)


def test_votes_are_counted() -> None:
    features = np.zeros((12, 8))
    features[:, FEATURES.index("accuracy")] = [1, 1, 1, 0, 0, 0] * 2
    features[:, FEATURES.index("memorised_nls")] = [0.1, 0.1, 0, 0.1, 0, 0] * 2
    features[:, FEATURES.index("unasked_nls")] = [1, 0, 1, 1, 1, 0] * 2
    attacker = provider_membership._Attacker(made(features[:6], features[6:]), 1, 1)
    attacker.known[:] = False
    guesses, shares = attacker.guesses(Method(name="", features=G1, ensemble=True))
    assert guesses.tolist() == [True, True, True, True, False, False] * 2
    assert shares == pytest.approx([1, 2 / 3, 2 / 3, 2 / 3, 1 / 3, 0] * 2)


def test_providers_of_few_questions_are_left_out_and_rows_that_need_what_is_not_there() -> None:
    features = np.random.default_rng(4).normal(size=(12, 8))
    found = made(features[:6], features[6:])
    rows = attacked(found, methods=METHODS[:2], least_questions=(0, 2, 6), seeds=(1,), draws=1)
    assert [(row.method.name, row.least_questions, row.members) for row in rows] == [
        ("AZK", 0, 4),
        ("AZK with G4", 0, 4),
        ("AZK", 2, 2),
        ("AZK with G4", 2, 2),
    ]
    without = np.concatenate([features[:, :6], np.full((12, 2), np.nan)], axis=1)
    found = made(without[:6], without[6:])
    rows = attacked(found, least_questions=(0,), seeds=(1,), draws=1)
    assert [row.method.name for row in rows] == ["AZK", "AZK, supervised", "APK"]
    assert rows[0].to_dict()["tpr_at_fpr"].keys() == {"0.1", "0.03", "0.01"}


def test_what_is_no_attack_on_providers_is_refused() -> None:
    scores = [score(f"{number}", "a", "x", 1.0, 0.5) for number in range(9)]
    with pytest.raises(InputError, match="3 providers that were trained on and 6 others") as found:
        providers_of(scores, scores, {"1", "2", "3", "absent"})
    assert found.value.code == "TOO_FEW_PROVIDERS"
    nameless = [*scores, score(None, "a", "x", 1.0, 0.5)]
    with pytest.raises(AnnotationError, match="no provider"):
        providers_of(nameless, nameless, {"1", "2", "3", "4"})
    with pytest.raises(ValueError, match="other questions"):
        providers_of(scores, scores[::-1], {"1", "2", "3", "4"})
