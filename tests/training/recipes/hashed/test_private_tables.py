from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushdoc.hashing import FeatureScheme, features
from hushdoc_training import table_checkpoint
from hushdoc_training.crf import corpus, term_release
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.invented import clause_contracts
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.hashed import private_tables

SCHEME = FeatureScheme(rows=601, bigrams=False, skip_grams=False)


def texts() -> Corpus:
    return corpus.sentence_corpus(clause_contracts.contracts(20), ["Governing Law"])


def plan() -> PrivacyPlan:
    return PrivacyPlan.calibrated(
        epsilon=8, sampling_rate=1.0, steps=4, clipping_norm=1.0, expected_records=60
    )


def test_other_units_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 'document'"):
        private_tables.train_documents(
            texts(),
            SCHEME,
            replace(plan(), privacy_unit="sequence"),
            public=features([["w1"]], SCHEME),
            name="c",
            public_data=(),
        )


def test_all_sequences_of_a_document_are_one_record() -> None:
    data = texts()
    in_fours = replace(data, owners=np.arange(20) // 4)
    assert private_tables.records_of(in_fours).tolist() == data.documents[::4].tolist()
    with pytest.raises(ValueError, match="stand together"):
        private_tables.records_of(replace(data, owners=np.arange(20) % 2))


def test_terms_are_promised_something_where_their_rows_are_bounded() -> None:
    data = texts()
    table = term_release.log_odds(data.sentences, data.labels, SCHEME, num_labels=2, bound=0.5)
    noisy, claim = private_tables.release_terms(table, noise_std=1.0, delta=1e-5, name="c")
    assert (noisy != table.weights).all()
    [guarantee] = claim.guarantees
    assert (guarantee.kind, guarantee.unit) == ("dp", "token-term")
    assert guarantee.hyperparameter_tuning == "none"
    tuned = {"hyperparameter_tuning": "unaccounted"}
    _, claim = private_tables.release_terms(table, noise_std=1.0, delta=1e-5, name="c", **tuned)
    assert claim.guarantees[0].hyperparameter_tuning == "unaccounted"
    with pytest.raises(ValueError, match="bounded number of rows"):
        term_release.log_odds(
            data.sentences, data.labels, FeatureScheme(rows=601), num_labels=2, bound=0.5
        )
    other: Any = table.weights
    with pytest.raises(TypeError, match="expected one of term_release.log_odds"):
        private_tables.release_terms(other, noise_std=1.0, delta=1e-5, name="c")


def test_the_sample_in_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[4] / "docs" / "hashed-tables.md").read_text()
    [sample] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    line = "The laws of Ohio govern this Agreement."
    contract = f"Invoices are due monthly.\n\n{line}\n\nNotices are in writing.\n"
    span = ["Governing Law", contract.index(line), contract.index(line) + len(line)]
    lines = [json.dumps({"id": i, "text": contract, "spans": [span]}) for i in range(4)]
    for name in ("contracts.jsonl", "public.jsonl"):
        (tmp_path / name).write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    exec(compile(sample, "docs/hashed-tables.md", "exec"), {})
    found = table_checkpoint.load(tmp_path / "governing-law")
    assert found.tags == ("O", "Governing Law")
    assert found.claim.guarantees[0].kind == "dp"
    assert (found.weights != 0).any(axis=1).all()
