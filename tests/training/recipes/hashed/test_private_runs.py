"""Private tables from documents of every kind, and from documents that teach nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushdoc.errors import AnnotationError, HushdocError, OutputExistsError, OutputWriteError
from hushdoc.hashing import FeatureScheme
from hushdoc_training import table_checkpoint
from hushdoc_training.crf import corpus
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.crf.private_fitting import Settings
from hushdoc_training.invented import clause_contracts
from hushdoc_training.labelled_texts import Contract
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.hashed import crf, private_runs, private_tables
from hushdoc_training.recipes.hashed.public_texts import PublicText
from hushdoc_training.recipes.hashed.settings import CRFSettings
from hushdoc_training.recipes.hashed.table_tasks import Clauses
from hushdoc_training.runs.run_folder import Run
from hushdoc_training.runs.step_log import last_charge, read_log
from hushdoc_training.table_checkpoint import TableCheckpoint

LAW = "Governing Law"
WORDS = FeatureScheme(rows=5_003, bigrams=False, skip_grams=False)
"""Of a number of rows that is no power of two."""


def contract(text: str, *labels: str) -> Contract:
    spans = tuple((label, 0, len(text)) for label in labels)
    return Contract(name="c", group="c", text=text, spans=spans)


def document_run(documents: Corpus, out: Path, **words: Any) -> TableCheckpoint:
    plan = PrivacyPlan.calibrated(
        epsilon=8, sampling_rate=1.0, steps=4, clipping_norm=1.0, expected_records=80
    )
    make = corpus.token_corpus if documents.level == "token" else corpus.sentence_corpus
    scheme = words.pop("scheme", WORDS)
    public = make(clause_contracts.contracts(20, seed=1), []).features(scheme)
    return private_runs.protect_documents(
        Clauses(corpus=documents, scheme=scheme),
        plan,
        public=PublicText(features=public, data=(crf._word_clusters(),)),
        out=out,
        name="contracts",
        settings=Settings(total_learning_rate=200.0),
        audited=False,
    )


def term_run(documents: Corpus, out: Path) -> TableCheckpoint:
    task = Clauses(corpus=documents, scheme=WORDS)
    return private_runs.protect_terms(task, epsilon=8, out=out, name="contracts", audited=False)


RUNS = {"document": document_run, "term": term_run}


# One release of noise on every row finds .7 of them, with a deviation of .2; fifty are looked at.
# Of labels that were shuffled it finds .05.
@pytest.mark.parametrize(("run", "number", "least"), [("document", 1, 0.8), ("term", 50, 0.45)])
def test_clauses_are_found_in_other_contracts(
    run: str, number: int, least: float, tmp_path: Path
) -> None:
    sides = (clause_contracts.contracts(count, seed=count) for count in (120, 40))
    train, test = (corpus.sentence_corpus(side, [LAW]) for side in sides)
    table = RUNS[run](train, tmp_path / "run")
    found = private_runs.score(table, test)
    assert found.items == (test.labels > 0).sum() > 20
    more = (RUNS[run](train, tmp_path / str(again)) for again in range(1, number))
    scores = [found.f1, *(private_runs.score(other, test).f1 for other in more)]
    assert np.mean(scores) > least
    back = table_checkpoint.load(tmp_path / "run")
    assert np.array_equal(back.weights, table.weights)
    assert private_runs.score(back, test) == found
    with pytest.raises(OutputExistsError):
        RUNS[run](train, tmp_path / "run")


STRANGE = {
    "one document": [contract("The laws of Utah govern. Headings say nothing.", LAW)],
    "one document of one sentence": [contract("The laws of Utah govern.", LAW)],
    "labels that nothing carries": [contract("Headings say nothing."), contract("Nor this.")],
    "nothing but the label": [contract("The laws of Utah govern.", LAW)] * 3,
    "empty documents among others": [contract(""), contract(" \n"), contract("Laws.", LAW)],
    "NULs": [contract("\x00laws\x00 \x00", LAW), contract("a\x00b")],
    "lone surrogates": [contract("\ud800laws \udfff.", LAW), contract("b")],
    "right to left": [contract("تخضع هذه الاتفاقية لقوانين ولاية يوتا.", LAW), contract("عنوان")],
    "emoji": [contract("👩‍👩‍👧 laws 🇩🇪", LAW), contract("☂")],
    "letters without blanks": [contract("本合同适用法律。", LAW), contract("标题。")],
}


@pytest.mark.parametrize("run", [*RUNS, "paper-fill", "noisy-fill", "none"])
@pytest.mark.parametrize("name", STRANGE)
def test_strange_documents_make_a_table_or_a_typed_error(
    name: str, run: str, tmp_path: Path
) -> None:
    documents = corpus.sentence_corpus(STRANGE[name], [LAW])
    if run in RUNS:
        table = RUNS[run](documents, tmp_path / "run")
    else:
        settings = CRFSettings(fill=run, iterations=3, min_document_frequency=1)
        refusal: HushdocError | None = None
        try:
            crf.train(documents, WORDS, settings, out=tmp_path / "run", name="contracts")
        except HushdocError as error:
            refusal = error
        if refusal is not None:
            # Too little was learned to fill a table.
            assert refusal.code in ("TOO_FEW_ROWS", "BAD_ANNOTATION")
            assert not (tmp_path / "run").exists()
            return
        table = table_checkpoint.load(tmp_path / "run")
    assert np.isfinite(table.weights).all()
    assert table.weights.any(axis=1).all() or run == "none"
    score = private_runs.score(table, documents)
    assert 0 <= score.f1 <= 1


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    "texts", [[], [contract("")], [contract("\n")]], ids=["no", "empty", "blank"]
)
def test_nothing_to_learn_from_is_an_error(run: str, texts: list[Contract], tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="no sentences"):
        RUNS[run](corpus.sentence_corpus(texts, [LAW]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_disk_without_room_for_the_table_costs_no_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = corpus.sentence_corpus(clause_contracts.contracts(20, seed=1), [LAW])
    full = shutil.disk_usage(tmp_path)._replace(free=10_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: full)
    with pytest.raises(OutputWriteError, match="nothing was charged"):
        document_run(documents, tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()


def test_tokens_are_protected_too(tmp_path: Path) -> None:
    texts = clause_contracts.contracts(20)
    labelled = [
        Contract(
            name=text.name,
            group=text.group,
            text=text.text,
            spans=tuple(("clause", start, start + 4) for _, start, _ in text.spans),
        )
        for text in texts
    ]
    scheme = FeatureScheme(rows=1000, level="token", bigrams=False, skip_grams=False)
    documents = corpus.token_corpus(labelled, ["clause"])
    table = document_run(documents, tmp_path / "run", scheme=scheme)
    assert table.tags == ("O", "B-clause", "I-clause")
    (guarantee,) = table.claim.guarantees
    assert (guarantee.kind, guarantee.unit) == ("dp", "document")
    # All steps are charged in the format of every run, which an audit of its ledger reads.
    assert last_charge(read_log(tmp_path / "run" / "steps.jsonl")) == 4
    assert Run.read(tmp_path / "run").settings["mode"] == "dp-sgd"
    with pytest.raises(ValueError, match="bounded number of rows"):
        private_runs.protect_terms(
            Clauses(corpus=documents, scheme=scheme),
            epsilon=8,
            out=tmp_path / "terms",
            name="contracts",
        )


class TestDigest:
    def test_order_does_not_count_and_all_else_does(self) -> None:
        texts = clause_contracts.contracts(4)

        def digest(texts: list[Contract], *labels: str, make: Any = corpus.sentence_corpus) -> str:
            return private_tables.corpus_digest(make(texts, labels))

        first = digest(texts, LAW)
        assert digest(texts[::-1], LAW) == first
        assert digest(texts[:3], LAW) != first
        assert digest([*texts, texts[0]], LAW) != first
        assert digest(texts, "License Grant") != first
        assert digest(texts, LAW, make=corpus.token_corpus) != first
        changed = [*texts[:3], contract(texts[3].text + " More.")]
        assert digest(changed, LAW) != first
