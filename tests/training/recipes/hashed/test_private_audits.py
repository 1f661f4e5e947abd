"""Certificates of private tables say what attacks on their own training measured."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import pytest

from hushdoc.accounting import calibration
from hushdoc.hashing import FeatureScheme
from hushdoc_training.audit.roc import Attack
from hushdoc_training.crf import corpus, whole_texts
from hushdoc_training.crf.private_fitting import Settings
from hushdoc_training.invented import clause_contracts
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.hashed import private_audits, private_runs

WORDS = FeatureScheme(rows=5_003, bigrams=False, skip_grams=False)


def plan(epsilon: float = 8.0) -> PrivacyPlan:
    return PrivacyPlan.calibrated(
        epsilon=epsilon, sampling_rate=1.0, steps=4, clipping_norm=1.0, expected_records=80
    )


def attacks_on(unit: str, used: PrivacyPlan) -> list[Attack]:
    """Attacks training on whole documents of sentences, or on texts of one class each."""
    texts = corpus.sentence_corpus(clause_contracts.contracts(20, seed=1), [])
    public = texts.features(WORDS)
    if unit == "documents":
        return private_audits.attacks_on_documents(WORDS, used, public=public, settings=Settings())
    whole = whole_texts.whole(public, texts)
    scales = whole_texts.rarity_scales(whole, WORDS.rows, unseen_scale=1.0)
    settings = private_runs.CLASSIFIER
    return private_audits.attacks_on_whole_texts(WORDS, used, scales=scales, settings=settings)


@pytest.mark.parametrize("unit", ["documents", "texts"])
def test_canaries_are_seen_as_much_as_the_plan_allows_and_no_more(unit: str) -> None:
    made = plan()
    [canary, *rows] = attacks_on(unit, made)
    assert (canary.method, canary.unit) == ("canary documents", "document")
    assert len(rows) == 5
    mu = made.steps**0.5 / made.noise_multiplier
    # The area under the curve of one Gaussian mechanism: what an attack can reach at most.
    assert canary.auc_interval[0] <= NormalDist().cdf(mu / 2**0.5)
    assert canary.auc > 0.6
    for attack in rows:
        assert attack.auc < 0.65, attack.method


@pytest.mark.parametrize("unit", ["documents", "texts"])
def test_training_without_noise_fails_its_audit(unit: str) -> None:
    [canary, *_] = attacks_on(unit, replace(plan(), noise_multiplier=1e-6, epsilon=1e15))
    assert canary.auc > 0.99


def test_canary_terms_are_hidden_by_the_noise_and_by_nothing_else() -> None:
    multiplier = calibration.noise_multiplier(
        epsilon=1.0, delta=1e-5, sampling_rate=1.0, steps=1, accountant="pld"
    )
    [hidden, *_] = private_audits.attacks_on_terms(WORDS, bound=1.0, noise_std=2 * multiplier)
    [seen, *_] = private_audits.attacks_on_terms(WORDS, bound=1.0, noise_std=1e-6)
    assert (hidden.method, hidden.unit) == ("canary terms", "token-term")
    assert hidden.auc_interval[0] < NormalDist().cdf(1 / multiplier / 2**0.5)
    assert seen.auc > 0.99


def test_tables_too_small_for_canaries_have_no_audit() -> None:
    tiny = FeatureScheme(rows=20, bigrams=False, skip_grams=False)
    features = corpus.sentence_corpus(clause_contracts.contracts(2), []).features(tiny)
    found = private_audits.attacks_on_documents(tiny, plan(), public=features, settings=Settings())
    assert found == []
    assert private_audits.attacks_on_terms(tiny, bound=1.0, noise_std=1.0) == []
