"""Certificates of private tables say what attacks on their own training measured."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

from hushdoc.accounting import calibration
from hushdoc.hashing import FeatureScheme
from hushdoc_training.crf import corpus
from hushdoc_training.crf.private_fitting import Settings
from hushdoc_training.invented import clause_contracts
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.hashed import crf, private_audits
from hushdoc_training.recipes.hashed.public_texts import PublicText

WORDS = FeatureScheme(rows=5_003, bigrams=False, skip_grams=False)


def plan(epsilon: float = 8.0) -> PrivacyPlan:
    return PrivacyPlan.calibrated(
        epsilon=epsilon, sampling_rate=1.0, steps=4, clipping_norm=1.0, expected_records=80
    )


def public() -> PublicText:
    texts = corpus.sentence_corpus(clause_contracts.contracts(20, seed=1), [])
    return PublicText(features=texts.features(WORDS), data=(crf._word_clusters(),))


def test_canary_documents_are_seen_as_much_as_the_plan_allows_and_no_more() -> None:
    made = plan()
    [canary, *rows] = private_audits.attacks_on_documents(
        WORDS, made, public=public().features, settings=Settings()
    )
    assert (canary.method, canary.unit) == ("canary documents", "document")
    assert len(rows) == 5
    mu = made.steps**0.5 / made.noise_multiplier
    # The area under the curve of one Gaussian mechanism: what an attack can reach at most.
    most = NormalDist().cdf(mu / 2**0.5)
    assert canary.auc_interval[0] <= most
    assert canary.auc > 0.6
    for attack in rows:
        assert attack.auc < 0.65, attack.method


def test_training_without_noise_fails_its_audit() -> None:
    bare = replace(plan(), noise_multiplier=1e-6, epsilon=1e15)
    [canary, *_] = private_audits.attacks_on_documents(
        WORDS, bare, public=public().features, settings=Settings()
    )
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
