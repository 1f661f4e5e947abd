"""Filled tables are attacked before they are certified, and what is found is reported."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from hushdoc.certificate.audit_reports import Audit
from hushdoc.hashing import FeatureScheme
from hushdoc_training.audit import coincidence, two_sample
from hushdoc_training.audit.roc import Attack
from hushdoc_training.crf import corpus
from hushdoc_training.invented import clause_contracts
from hushdoc_training.labelled_texts import Contract
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed import crf, table_attacks
from hushdoc_training.recipes.hashed.crf import Trained
from hushdoc_training.recipes.hashed.settings import CRFSettings

SCHEME = FeatureScheme(rows=2**15)
ROWS = {
    "weights of zero",
    "antisymmetric rows",
    "value multiplicity",
    "float pattern",
    "classifier two-sample test",
}
ON_TERMS = (
    coincidence.TRACES,
    coincidence.CLOSENESS,
    coincidence.SCORE,
    coincidence.RANK,
)


@pytest.fixture(autouse=True)
def _smaller_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large enough for every interval below, in a sixth of the time."""
    monkeypatch.setattr(table_attacks, "PUZZLES", 100)
    monkeypatch.setattr(table_attacks, "CANDIDATES", 50)
    monkeypatch.setattr(two_sample, "TREES", 20)


def on_terms(few: int) -> set[str]:
    kinds = (
        f"at most {few} documents",
        f"more than {few} documents",
        f"more than {few} documents, in sentences without a label",
    )
    return {f"{attack}, terms of {kind}" for attack in ON_TERMS for kind in kinds}


@cache
def trained(
    fill: str, algorithm: str = "lbfgs", level: str = "sentence", pairs: bool = True
) -> Trained:
    texts = clause_contracts.contracts(60)
    make = corpus.sentence_corpus if level == "sentence" else corpus.token_corpus
    # All features of all documents leave a weight, as where training goes on to the end.
    settings = CRFSettings(fill=fill, algorithm=algorithm, iterations=15)
    scheme = FeatureScheme(rows=SCHEME.rows, level=level, bigrams=pairs, skip_grams=pairs)
    documents = make(texts, [*clause_contracts.CLAUSES])
    public = corpus.sentence_corpus(clause_contracts.contracts(60, seed=1), [])
    return crf.fit_and_fill(
        documents,
        scheme,
        settings,
        public=public.features(scheme) if algorithm == "batch" else None,
        stream=SecretStream(key=bytes(32)),
    )


@cache
def audited(*settings: Any, **changed: Any) -> tuple[tuple[Audit, ...], list[Attack]]:
    """Returns what is written down of a table's attacks, and what is reported."""
    seen: list[Attack] = []
    return table_attacks.audits(trained(*settings, **changed), report=seen.append), seen


def attacks_on(*settings: Any, **changed: Any) -> dict[str, Attack]:
    return {attack.method: attack for attack in audited(*settings, **changed)[1]}


def test_every_attack_is_reported_and_written_down() -> None:
    audits, seen = audited("paper-fill")
    assert {audit.method for audit in audits} == ROWS | on_terms(2)
    assert [attack.method for attack in seen] == [audit.method for audit in audits]
    assert [attack.auc for attack in seen] == [audit.auc for audit in audits]
    assert all(audit.unit == "token-term" for audit in audits)


def test_the_paper_fill_gives_rare_names_away_and_the_noisy_one_does_not() -> None:
    found = {fill: attacks_on(fill) for fill in ("paper-fill", "noisy-fill")}
    # Names of companies that two contracts have are found again by their equal weights.
    rare = f"{coincidence.CLOSENESS}, terms of at most 2 documents"
    assert found["paper-fill"][rare].auc > 0.9
    assert found["paper-fill"]["value multiplicity"].auc > 0.8
    assert found["noisy-fill"].keys() == ROWS | on_terms(9)
    for method, attack in found["noisy-fill"].items():
        if "more than" not in method:
            assert attack.auc_interval[0] < 0.55, method
            assert attack.tpr_interval[0] < 0.01, method


def test_terms_that_training_kept_are_asked_for_and_found() -> None:
    found = attacks_on("noisy-fill")
    # Which words such clauses have is what the table was made to tell, and the certificate says so.
    assert found[f"{coincidence.RANK}, terms of more than 9 documents"].auc_interval[0] > 0.9


def test_a_table_of_tokens_alone_tells_less_of_the_terms_that_it_kept() -> None:
    method = f"{coincidence.RANK}, terms of more than 9 documents"
    pairs, tokens = attacks_on("noisy-fill"), attacks_on("noisy-fill", "batch", pairs=False)
    assert tokens.keys() == ROWS | on_terms(9)
    assert pairs[method].tpr_interval[0] > 0.5
    assert tokens[method].tpr_interval[1] < 0.2
    assert tokens[method].auc < pairs[method].auc - 0.05
    for row in ROWS:
        assert tokens[row].auc_interval[0] < 0.55, row


def test_tags_of_tokens_are_attacked_row_by_row() -> None:
    assert attacks_on("noisy-fill", level="token").keys() == ROWS


def test_a_table_with_too_few_rows_of_a_kind_has_no_audit() -> None:
    one = Contract(name="a", group="a", text="Laws govern. No.", spans=(("law", 0, 12),))
    scheme = FeatureScheme(rows=1000, bigrams=False, skip_grams=False)
    settings = CRFSettings(fill="paper-fill", algorithm="lbfgs", iterations=2)
    made = crf.fit_and_fill(corpus.sentence_corpus([one], ["law"]), scheme, settings)
    assert 2 <= made.fitted.genuine.sum() < table_attacks.LEAST_ROWS
    assert table_attacks.audits(made) == ()
