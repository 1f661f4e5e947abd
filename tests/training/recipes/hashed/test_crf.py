from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import hushdoc_builders
import numpy as np
import pytest

from hushdoc.certificate.audit_reports import Audit
from hushdoc.errors import CheckpointError, InputError, OutputExistsError
from hushdoc.hashing import Features, FeatureScheme
from hushdoc.runtime.hashed.chains import viterbi
from hushdoc.runtime.hashed.table import HashedTable, item_scores
from hushdoc_training import table_checkpoint
from hushdoc_training.crf import corpus
from hushdoc_training.crf.clusters import from_vectors
from hushdoc_training.crf.fitting import FittedTable
from hushdoc_training.labelled_texts import Contract
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed import crf
from hushdoc_training.recipes.hashed.crf import Trained
from hushdoc_training.recipes.hashed.settings import CRFSettings

SCHEME = FeatureScheme(rows=2**14, seed=5)
STATES = ("Utah", "Ohio", "Texas", "Maine", "Iowa")
ENDS = ("thirty", "sixty", "ninety")
FILLER = (
    "The parties meet in the first week of every quarter",
    "Each party keeps its own books and pays its own staff",
    "Deliveries leave the warehouse before noon",
    "The schedule lists all goods with their prices",
    "Headings are for reading only and change nothing",
    "This agreement has a schedule of the goods, which either side may end",
    "A party with its seat in another State keeps the laws of trade",
    "Goods are returned within thirty days of written notice by either side",
    "Company staff may end it with a note on the laws where the goods are stored",
)


def contracts(count: int, seed: int) -> list[Contract]:
    """Invented contracts: a governing law, a term and other sentences in any order."""
    generator = np.random.default_rng(seed)
    made = []
    for number in range(count):
        home = f"where Company{generator.integers(10**6)} has its seat"
        law = f"This agreement is governed by the laws of {generator.choice(STATES)} {home}"
        term = f"Either side may end it with {generator.choice(ENDS)} days of written notice"
        parts = [*generator.permutation(FILLER)[:5].tolist(), law, term]
        text, spans = "", []
        for place in generator.permutation(len(parts)):
            start = len(text)
            text += parts[place] + ". "
            if parts[place] in (law, term):
                label = "law" if parts[place] == law else "term"
                spans.append((label, start, len(text) - 1))
        made.append(
            Contract(name=str(number), group=str(number // 2), text=text, spans=tuple(spans))
        )
    return made


@pytest.fixture(scope="module")
def training() -> corpus.Corpus:
    return corpus.sentence_corpus(contracts(60, seed=0), ("law", "term"))


def span(text: str, label: str) -> tuple[int, int]:
    """Where the sentence of a label stands."""
    start = text.index("This agreement is gov" if label == "law" else "Either side may end it")
    return start, text.index(".", start)


def decoded(documents: corpus.Corpus, weights: Any, table: Any) -> Any:
    """The labels that a table gives to all sentences."""
    transitions = table.transitions.astype(np.float64)
    read = HashedTable(weights=weights, transitions=transitions)
    scores = item_scores(features_of(documents), read)
    return viterbi(scores, documents.documents, transitions)


@cache
def features_of(documents: corpus.Corpus) -> Features:
    return documents.features(SCHEME)


@cache
def held_out() -> corpus.Corpus:
    return corpus.sentence_corpus(contracts(30, seed=1), ("law", "term"))


def f1(weights: Any, fitted: FittedTable) -> float:
    labels = held_out().labels
    found = decoded(held_out(), weights, fitted)
    correct = ((found == labels) & (found > 0)).sum()
    return float(2 * correct / ((found > 0).sum() + (labels > 0).sum()))


class TestFitAndFill:
    def test_clauses_are_found_and_noise_costs_little(self, training: corpus.Corpus) -> None:
        settings = CRFSettings(iterations=10, noise=0.5)
        fitted = crf.fit_and_fill(training, SCHEME, settings).fitted
        plain = f1(fitted.unfilled(), fitted)
        assert plain > 0.95
        streams = (SecretStream(key=number.to_bytes(32, "big")) for number in range(200))
        fills = [crf.fill(fitted, settings, stream=stream) for stream in streams]
        # Four times the noise costs .05 of what was learned, the noise that is there .0002.
        learned = [f1(np.where(fitted.genuine[:, None], fill, 0.0), fitted) for fill in fills]
        assert np.mean(learned) > plain - 0.03
        # So few documents leave few features, and the rest is noise: .13 less, with a deviation of
        # .06 in one fill and of .005 in the mean. Learned rows that stand elsewhere leave nothing.
        assert np.mean([f1(fill, fitted) for fill in fills]) > plain - 0.18

    def test_the_paper_fill_keeps_what_was_learned(self, training: corpus.Corpus) -> None:
        settings = CRFSettings(fill="paper-fill", iterations=10)
        found = crf.fit_and_fill(training, SCHEME, settings)
        there = ~np.isnan(found.fitted.weights)
        assert np.array_equal(found.weights[there], found.fitted.weights[there])
        assert found.weights.any(axis=1).all()

    def test_names_of_few_contracts_leave_no_trace_in_a_table_with_noisy_fill(self) -> None:
        def renamed(change: int) -> corpus.Corpus:
            texts = [
                replace(
                    item, text=re.sub(r"Company\d+", f"Company{7 * number + change}", item.text)
                )
                for number, item in enumerate(contracts(60, seed=0))
            ]
            spans = [
                tuple((label, *span(item.text, label)) for label, _, _ in item.spans)
                for item in texts
            ]
            moved = [replace(item, spans=own) for item, own in zip(texts, spans, strict=True)]
            return corpus.sentence_corpus(moved, ("law", "term"))

        def learned(change: int, settings: CRFSettings) -> FittedTable:
            return crf.fit_and_fill(renamed(change), SCHEME, settings).fitted

        for least, same in ((10, True), (1, False)):
            settings = CRFSettings(min_document_frequency=least, iterations=5, algorithm="lbfgs")
            first, second = (learned(change, settings) for change in (10_000, 50_000))
            assert np.array_equal(first.weights, second.weights, equal_nan=True) == same

    def test_too_few_documents_for_the_threshold_say_so(self) -> None:
        few = corpus.sentence_corpus(contracts(3, seed=0), ("law", "term"))
        with pytest.raises(InputError, match="more documents"):
            crf.fit_and_fill(few, SCHEME, CRFSettings(iterations=3))
        settings = CRFSettings(iterations=3, min_document_frequency=1)
        assert np.isfinite(crf.fit_and_fill(few, SCHEME, settings).weights).all()

    @pytest.mark.parametrize("name", ["algorithm", "fill", "family"])
    def test_unknown_words_are_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="expected one of"):
            replace(CRFSettings(), **{name: "other"})

    def test_batches_need_public_sentences_and_a_fill_that_scales(
        self, training: corpus.Corpus
    ) -> None:
        with pytest.raises(ValueError, match="public sentences"):
            crf.fit_and_fill(training, SCHEME, CRFSettings(algorithm="batch"))

    @pytest.mark.parametrize(
        ("given", "iterations", "noise", "least"),
        [
            ({}, 30, 0.5, 10),
            ({"algorithm": "batch"}, 24, 1.0, 10),
            ({"iterations": 3, "noise": 2.0, "min_document_frequency": 4}, 3, 2.0, 4),
        ],
    )
    def test_the_certificate_states_what_was_used(
        self, given: dict[str, Any], iterations: int, noise: float, least: int
    ) -> None:
        found = CRFSettings(**given).reported()
        stated = (found["iterations"], found["noise"], found["min_document_frequency"])
        assert stated == (iterations, noise, least)
        if "algorithm" in given:
            assert found["top_features_per_label"] == 128
            assert found["batch"]["total_learning_rate"] == 750.0
            assert found["batch"]["emphasis"] == 8.0
        else:
            assert not {"batch", "top_features_per_label"} & {*found}

    def test_batches_find_clauses_after_a_full_spread_of_noise(
        self, training: corpus.Corpus
    ) -> None:
        scheme = replace(SCHEME, bigrams=False, skip_grams=False)
        public = corpus.sentence_corpus(contracts(60, seed=5), ()).features(scheme)
        made = crf.fit_and_fill(training, scheme, CRFSettings(algorithm="batch"), public=public)
        assert made.scales is not None
        assert np.array_equal(made.even_weights, (made.weights / made.scales[:, None]).astype("f4"))
        spread = made.even_weights[~made.fitted.genuine].std()
        assert made.even_weights[made.fitted.genuine].std() == pytest.approx(spread, rel=0.3)

    def test_smaller_steps_learn_smaller_weights(self) -> None:
        made = corpus.sentence_corpus(contracts(60, seed=0), ("law", "term"))

        def largest(c: float) -> float:
            settings = CRFSettings(iterations=3, c=c)
            return float(np.nanmax(crf.fit_and_fill(made, SCHEME, settings).fitted.weights))

        assert 0 < largest(0.001) < 0.2 * largest(1.0)

    @pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
    def test_steps_of_no_size_are_refused(self, value: float) -> None:
        with pytest.raises(ValueError, match="above 0"):
            CRFSettings(c=value)

    def test_other_algorithms_have_no_such_step(self) -> None:
        with pytest.raises(ValueError, match="'lbfgs' has no such step"):
            CRFSettings(c=0.1, algorithm="lbfgs")


class TestTrain:
    def train(self, training: corpus.Corpus, out: Path, **words: Any) -> Trained:
        settings = words.pop("settings", CRFSettings(iterations=3))
        return crf.train(training, SCHEME, settings, out=out, name="contracts", **words)

    def test_the_checkpoint_is_what_was_made(self, training: corpus.Corpus, tmp_path: Path) -> None:
        trained = self.train(training, tmp_path / "run")
        for folder in (tmp_path / "run", tmp_path / "run" / "checkpoint"):
            found = table_checkpoint.load(folder)
            assert np.array_equal(found.weights, trained.weights)
            assert np.array_equal(found.transitions, trained.fitted.transitions)
            assert found.tags == ("O", "law", "term")
            assert found.scheme == SCHEME
            assert found.clusters is None
        with pytest.raises(OutputExistsError):
            self.train(training, tmp_path / "run")

    def test_only_an_attacked_table_is_called_empirical(
        self, training: corpus.Corpus, tmp_path: Path
    ) -> None:
        seen = []

        def attack(trained: Trained) -> list[Audit]:
            seen.append(trained)
            return [hushdoc_builders.audit(unit="token-term")]

        for number, (fill, attacked, kind) in enumerate(
            (
                ("noisy-fill", True, "empirical"),
                ("paper-fill", True, "empirical"),
                ("noisy-fill", False, "none"),
                ("none", True, "none"),
            )
        ):
            trained = self.train(
                training,
                tmp_path / str(number),
                settings=CRFSettings(fill=fill, iterations=3),
                attack=attack if attacked else None,
            )
            claim = table_checkpoint.load(tmp_path / str(number)).claim
            (guarantee,) = claim.guarantees
            assert guarantee.kind == kind
            assert guarantee.epsilon is None
            assert len(claim.audits) == attacked
            assert not attacked or seen[-1] is trained
            assert bool(claim.transcripts) == (fill != "none")
            assert claim.releases == ("hash-table",)
            treatments = {access.treatment for access in claim.data_accesses}
            assert treatments == {"unaccounted"}

    def test_costs_are_stated_as_what_they_are(self, tmp_path: Path) -> None:
        training = corpus.sentence_corpus(contracts(60, seed=0), ("law",))
        settings = CRFSettings(fill="paper-fill", iterations=10)
        trained = self.train(training, tmp_path / "run", settings=settings, with_costs=True)
        claim = table_checkpoint.load(tmp_path / "run").claim
        assert "not differential privacy" in claim.utility["termCost"]
        stated = claim.utility["byFrequencyRank"]
        costs = crf.costs(trained)
        assert [item["rank"] for item in stated] == list(costs) == [1, 10, 100]
        for item, cost in zip(stated, costs.values(), strict=True):
            for name, value in (("without", cost.without_term), ("with", cost.with_term)):
                assert item[f"{name}TermFirst"] == (value if np.isfinite(value) else None)
        assert costs[100].without_term < costs[1].without_term
        assert any(np.isfinite(cost.without_term) for cost in costs.values())
        assert any(access.purpose == "measured cost of terms" for access in claim.data_accesses)

    def test_clusters_travel_along_and_are_declared(
        self, training: corpus.Corpus, tmp_path: Path
    ) -> None:
        scheme = replace(SCHEME, clusters=2)
        vectors = np.eye(4, dtype=np.float32)[[0, 0, 1, 1]]
        clusters = from_vectors(("laws", "state", "days", "notice"), vectors, scheme)
        crf.train(
            training, scheme, CRFSettings(iterations=3), out=tmp_path / "run", name="contracts",
            clusters=clusters,
        )  # fmt: skip
        found = table_checkpoint.load(tmp_path / "run")
        assert found.clusters is not None
        assert np.array_equal(found.clusters.hashes, clusters.hashes)
        assert [data.name for data in found.claim.public_data] == [crf.CLUSTERS_NAME]


class TestCheckpoint:
    def test_damage_is_named(self, training: corpus.Corpus, tmp_path: Path) -> None:
        crf.train(
            training, SCHEME, CRFSettings(iterations=2), out=tmp_path / "run", name="contracts"
        )
        folder = tmp_path / "run" / "checkpoint"
        for name in ("table.safetensors", "scheme.json", "labels.json", "claim.json"):
            content = (folder / name).read_bytes()
            for damaged in (content[: len(content) // 2], b"[]"):
                (folder / name).write_bytes(damaged)
                with pytest.raises(CheckpointError, match="train again"):
                    table_checkpoint.load(folder)
            (folder / name).write_bytes(content)
        table_checkpoint.load(folder)

    def test_gaps_are_never_written(self) -> None:
        with pytest.raises(CheckpointError, match="Fill it"):
            table_checkpoint.TableCheckpoint(
                weights=np.full((SCHEME.rows, 2), np.nan, np.float32),
                transitions=np.zeros((2, 2), np.float32),
                tags=("O", "law"),
                scheme=SCHEME,
                claim=None,  # type: ignore[arg-type]
            )
