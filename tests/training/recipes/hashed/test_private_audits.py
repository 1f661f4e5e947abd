"""Private tables are audited through their own recipe, and what an audit refutes is not trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushdoc.certificate.claim import Claim
from hushdoc.errors import PrivacyError
from hushdoc.hashing import FeatureScheme
from hushdoc_training import audited_claims
from hushdoc_training.audit import twins
from hushdoc_training.audited_claims import AuditedRun
from hushdoc_training.crf import corpus
from hushdoc_training.crf.private_fitting import Settings
from hushdoc_training.crf.term_release import LogOddsTable
from hushdoc_training.invented import clause_contracts
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.hashed import canary_corpora, private_audits, private_runs
from hushdoc_training.recipes.hashed.public_texts import PublicText
from hushdoc_training.recipes.hashed.table_tasks import Clauses, TableTask, WholeTexts
from hushdoc_training.table_checkpoint import TableCheckpoint

WORDS = FeatureScheme(rows=65_536, bigrams=False, skip_grams=False)
PLAN = PrivacyPlan.calibrated(
    epsilon=8.0, sampling_rate=1.0, steps=4, clipping_norm=1.0, expected_records=300
)
RECIPES = ("clauses", "tokens", "classifier", "terms")


def task_of(recipe: str, scheme: FeatureScheme = WORDS) -> TableTask:
    contracts = clause_contracts.contracts(20, seed=7)
    if recipe == "classifier":
        return WholeTexts(corpus=canary_corpora.classes(), scheme=scheme)
    if recipe == "tokens":
        scheme = FeatureScheme(rows=scheme.rows, level="token")
        return Clauses(corpus=corpus.token_corpus(contracts, ["Audit Rights"]), scheme=scheme)
    return Clauses(corpus=corpus.sentence_corpus(contracts, ["Audit Rights"]), scheme=scheme)


def trained(
    recipe: str, out: Path, scheme: FeatureScheme = WORDS, **options: Any
) -> TableCheckpoint:
    """Runs a shipped recipe with its audit."""
    task = task_of(recipe, scheme)
    if recipe == "terms":
        return private_runs.protect_terms(task, epsilon=8.0, out=out, name="contracts", **options)
    public = clause_contracts.contracts(20, seed=1)
    make = corpus.token_corpus if recipe == "tokens" else corpus.sentence_corpus
    return private_runs.protect_documents(
        task,
        PLAN,
        public=PublicText(
            features=make(public, []).features(task.scheme),
            data=(),
            unseen_scale=1.0 if recipe == "classifier" else 0.02,
        ),
        out=out,
        name="contracts",
        settings=private_runs.CLASSIFIER if recipe == "classifier" else Settings(),
        **options,
    )


@pytest.mark.parametrize("recipe", RECIPES)
def test_an_honest_recipe_passes_and_says_what_was_audited(recipe: str, tmp_path: Path) -> None:
    claim = trained(recipe, tmp_path / "run").claim
    audited_claims.require_unrefuted(claim)
    assert private_audits.CAVEAT in claim.caveats
    [guarantee] = claim.guarantees
    assert guarantee.epsilon is not None
    audit, entry = claim.audits[0], claim.training["audits"][0]
    assert (audit.unit, audit.delta) == (guarantee.unit, guarantee.delta)
    assert audit.canaries == 1000
    assert (audit.epsilon_lower, audit.confidence) == (entry["epsilon_lower"], entry["confidence"])
    # The twin claims at most 1, whatever the model claims, and the ceiling is far above that.
    assert 0.9 < entry["claimed_epsilon"] <= twins.EPSILON < 7 < guarantee.epsilon
    assert audit.epsilon_lower is not None
    assert audit.epsilon_lower <= guarantee.audit_lower_bound <= 1.0 < 3 < entry["ceiling"]
    assert (entry["guesses"], audit.runs) == (250, 1)
    assert audit.auc is not None
    assert 0.45 < audit.auc < 0.65
    assert Claim.from_json(claim.to_json()).audits == claim.audits
    assert [other.unit for other in claim.audits[1:]] == ["token-term"] * 5
    # Attacks on rows are about terms: bounds of theirs are held against a guarantee for terms.
    bounds = len(claim.audits) if recipe == "terms" else 1
    assert audit.confidence == pytest.approx(1 - 0.01 / bounds)
    assert len(claim.training["audits"]) == bounds
    assert sum(other.epsilon_lower is not None for other in claim.audits) == bounds


@pytest.mark.parametrize(
    ("recipe", "factor"),
    [("clauses", 0.1), ("classifier", 0.1), ("terms", 0.1), ("tokens", 1e-6)],
)
def test_a_recipe_with_too_little_noise_is_refuted_before_anything_is_trained(
    recipe: str, factor: float, tmp_path: Path, with_noise: Callable[[float], None]
) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="contracts", epsilon=20, delta=PLAN.delta)
    with_noise(factor)
    with pytest.raises(PrivacyError, match=r"shows an epsilon of at least .*claims") as refused:
        trained(recipe, tmp_path / "run", **({} if recipe == "terms" else {"ledger": ledger}))
    assert refused.value.code == "AUDIT_CONTRADICTION"
    assert not (tmp_path / "run").exists()
    assert len(ledger.refuted()) == (recipe != "terms")


def test_what_counts_the_terms_of_whole_texts_is_what_is_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one, which counts sentences, passed for it."""
    counted, honest = [], WholeTexts.log_odds

    def noted(self: WholeTexts, bound: float) -> LogOddsTable:
        counted.append(len(self.corpus.owners))
        return honest(self, bound)

    monkeypatch.setattr(WholeTexts, "log_odds", noted)
    task = WholeTexts(corpus=canary_corpora.classes(), scheme=WORDS)
    made = private_runs.protect_terms(task, epsilon=8.0, out=tmp_path / "run", name="texts")
    canaries = 2 * canary_corpora.COPIES * made.claim.audits[0].canaries
    assert counted == [canaries, len(task.corpus.owners)]


def test_what_was_trained_without_its_audit_is_refused_where_it_is_exported(
    tmp_path: Path, with_noise: Callable[[float], None]
) -> None:
    """The audit's result in the claim is enough, whoever let the training go on."""
    made = trained("clauses", tmp_path / "run", audited=False).claim
    audited_claims.require_unrefuted(made)
    with_noise(1e-6)
    task = task_of("clauses")
    public = task.corpus.features(WORDS)
    found = private_runs._audited_documents(
        task, PLAN, PublicText(features=public, data=()), Settings()
    )
    with pytest.raises(PrivacyError, match="Release nothing"):
        audited_claims.require_unrefuted(found.added_to(made))


def test_each_canary_has_rows_of_its_own_and_fills_the_clipping_norm() -> None:
    base = canary_corpora.contracts("sentence")
    found = canary_corpora.canaries(base, WORDS, 1000)
    rows = np.concatenate(found.rows)
    assert len(found.words) == 1000
    assert len(np.unique(rows)) == len(rows)
    assert not set(rows.tolist()) & set(base.features(WORDS).indices.tolist())
    corpus_of_two = canary_corpora.with_texts(base, found.words[:2])
    assert len(corpus_of_two.records) == len(base.records) + 2
    assert corpus_of_two.sentences_of(*corpus_of_two.records[-2:].tolist()) == [
        [found.words[1]]
    ] * len(range(canary_corpora.COPIES))


def test_canary_terms_that_are_left_out_leave_their_sentences_empty() -> None:
    made = canary_corpora.with_terms(["Ulwin", "Tambar"], np.array([True, False]))
    assert made.sentences[: canary_corpora.COPIES] == (["Ulwin"],) * canary_corpora.COPIES
    assert made.sentences[canary_corpora.COPIES] == []
    assert made.labels.sum() == 2 * canary_corpora.COPIES == len(made.labels) // 2


@pytest.mark.parametrize("recipe", ["clauses", "terms"])
def test_tables_too_small_for_canaries_have_no_audit(recipe: str, tmp_path: Path) -> None:
    tiny = FeatureScheme(rows=100, bigrams=False, skip_grams=False)
    claim = trained(recipe, tmp_path / "run", tiny).claim
    assert claim.audits == ()
    assert "audits" not in claim.training


def test_a_run_that_claims_less_than_its_twin_would_is_its_own_twin() -> None:
    small = PrivacyPlan.calibrated(epsilon=0.5, sampling_rate=0.5, steps=50)
    assert twins.twin_of(small).epsilon == 0.5
    assert twins.twin_of(small).noise_multiplier == pytest.approx(small.noise_multiplier)
    twin = twins.twin_of(PLAN, most_steps=3)
    kept = ("sampling_rate", "clipping_norm", "expected_records", "privacy_unit", "delta")
    assert all(getattr(twin, name) == getattr(PLAN, name) for name in kept)
    assert (twin.epsilon, twin.steps) == (1.0, 3)
    assert twin.noise_multiplier > PLAN.noise_multiplier


def test_a_bound_is_held_against_the_claim_that_the_twins_checkpoint_carries(
    tmp_path: Path,
) -> None:
    claim = trained("clauses", tmp_path / "run", audited=False).claim
    included = twins.coins(1000)
    run: AuditedRun = twins.audited(included * 1.0, included, claim, method="toy", details={})
    assert run.claimed == claim.guarantees[0].epsilon
    assert run.audit.epsilon_lower == run.ceiling
