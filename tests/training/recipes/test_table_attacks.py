"""Filled tables are attacked before they are certified, and what is found is reported."""

from __future__ import annotations

from functools import cache

from hushdoc.hashing import FeatureScheme
from hushdoc_training.audit import coincidence
from hushdoc_training.audit.roc import Attack
from hushdoc_training.crf import corpus
from hushdoc_training.crf.randomness import SecretStream
from hushdoc_training.data import invented_contracts
from hushdoc_training.data.contracts import Contract
from hushdoc_training.recipes import hashed_crf, table_attacks
from hushdoc_training.recipes.hashed_crf import CRFSettings, Trained

SCHEME = FeatureScheme(rows=2**15)
ROWS = {
    "antisymmetric rows",
    "value multiplicity",
    "float pattern",
    "classifier two-sample test",
}
TERMS = {coincidence.CLOSENESS, coincidence.RANK}


@cache
def trained(fill: str, level: str = "sentence") -> Trained:
    texts = invented_contracts.contracts(60)
    make = corpus.sentence_corpus if level == "sentence" else corpus.token_corpus
    # All features of all documents leave a weight, as where training goes on to the end.
    settings = CRFSettings(fill=fill, algorithm="lbfgs", iterations=15)
    scheme = FeatureScheme(rows=SCHEME.rows, level=level)
    documents = make(texts, [*invented_contracts.CLAUSES])
    return hashed_crf.fit_and_fill(documents, scheme, settings, stream=SecretStream(key=bytes(32)))


def test_every_attack_is_reported_and_written_down() -> None:
    seen: list[Attack] = []
    audits = table_attacks.audits(trained("published"), report=seen.append)
    assert {audit.method for audit in audits} == ROWS | TERMS
    assert [attack.method for attack in seen] == [audit.method for audit in audits]
    assert [attack.auc for attack in seen] == [audit.auc for audit in audits]
    assert all(audit.unit == "token-term" for audit in audits)


def test_the_published_fill_gives_rare_names_away_and_the_hardened_one_does_not() -> None:
    found = {
        fill: {attack.method: attack for attack in table_attacks.attacks(trained(fill))}
        for fill in ("published", "hardened")
    }
    # Names of companies that two contracts have are found again by their equal weights.
    assert found["published"][coincidence.CLOSENESS].auc > 0.9
    assert found["published"]["value multiplicity"].auc > 0.8
    for method, attack in found["hardened"].items():
        assert attack.auc_interval[0] < 0.55, method
        assert attack.tpr_interval[0] < 0.01, method
    assert found["hardened"].keys() == ROWS | TERMS


def test_tags_of_tokens_are_attacked_row_by_row() -> None:
    found = {attack.method for attack in table_attacks.attacks(trained("hardened", "token"))}
    assert found == ROWS


def test_a_table_with_too_few_rows_of_a_kind_has_no_audit() -> None:
    one = Contract(name="a", group="a", text="Laws govern. No.", spans=(("law", 0, 12),))
    scheme = FeatureScheme(rows=1000, bigrams=False, skip_grams=False)
    settings = CRFSettings(fill="published", algorithm="lbfgs", iterations=2)
    made = hashed_crf.fit_and_fill(corpus.sentence_corpus([one], ["law"]), scheme, settings)
    assert 2 <= made.fitted.genuine.sum() < table_attacks.LEAST_ROWS
    assert table_attacks.audits(made) == ()
