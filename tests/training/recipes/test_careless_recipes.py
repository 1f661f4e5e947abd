"""Recipes that do otherwise than they say get no certificate, whatever their plan promises.

Each stands for a mistake in good faith: it hands the engine or the fit another plan than the run
has, a stream that somebody knows, or records of another unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kie_training import OUTPUT, train_private

from hushdoc.errors import PrivacyError
from hushdoc.hashing import FeatureScheme
from hushdoc.labels import LabelledDocument
from hushdoc_training.crf import corpus, private_fitting, term_release, whole_texts
from hushdoc_training.crf.chain import Grouping
from hushdoc_training.crf.private_fitting import PrivateTable, Settings, Start
from hushdoc_training.invented import clause_contracts
from hushdoc_training.labelled_texts import Message
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed import private_runs, private_tables, table_tasks
from hushdoc_training.recipes.hashed.public_texts import PublicText
from hushdoc_training.recipes.hashed.table_tasks import Charge, Clauses, TableTask, WholeTexts
from hushdoc_training.recipes.kie import private, training
from hushdoc_training.recipes.kie.start import Start as KieStart
from hushdoc_training.runs.private_run import PrivateRun

PLAN = PrivacyPlan.calibrated(
    epsilon=1, sampling_rate=0.3, steps=3, clipping_norm=1.0, expected_records=4, accountant="rdp"
)
WORDS = FeatureScheme(rows=301, bigrams=False, skip_grams=False)


def other(**changed: Any) -> PrivacyPlan:
    """Returns a plan that differs from PLAN in what is given, whatever it spends."""
    return replace(PLAN, epsilon=1e9, **changed)


OTHERWISE = {
    "a tenth of the noise": (
        {"noise_multiplier": PLAN.noise_multiplier / 10},
        rf"noise multiplier .* {PLAN.noise_multiplier / 10:.6g}\d*, .* {PLAN.noise_multiplier:.6g}",
    ),
    "half the noise": ({"noise_multiplier": PLAN.noise_multiplier / 2}, "noise multiplier"),
    "twice the rate": ({"sampling_rate": 0.6}, "sampling rate .* is 0.6, the plan has 0.3"),
    "twice the norm": ({"clipping_norm": 2.0}, "clipping norm .* is 2, the plan has 1"),
    "another divisor": ({"expected_records": 8}, "divisor .* is 8, the plan has 4"),
    "more steps": ({"steps": 6}, "number of steps .* is 6, the plan has 3"),
}
every_mistake = pytest.mark.parametrize(("changed", "says"), OTHERWISE.values(), ids=OTHERWISE)


@contextmanager
def refused(says: str, out: Path, code: str = "NOT_AS_PLANNED") -> Iterator[None]:
    """Expects a refusal by its code, and that nothing was left to be sealed."""
    with pytest.raises(PrivacyError, match=says) as error:
        yield
    assert error.value.code == code
    assert not (out / "checkpoint").exists()


@pytest.fixture
def train(
    small_start: KieStart, receipts: list[LabelledDocument], tmp_path: Path
) -> Callable[[], Any]:
    return lambda: train_private(
        small_start, receipts[:6], tmp_path / "run", plan=PLAN, settings=OUTPUT
    )


def own_loop(run: PrivateRun, made: PrivateTraining[Any], **_: Any) -> bool:
    """Takes the steps without asking whether the training follows the run's plan."""
    for number in range(1, made.plan.steps + 1):
        assert made.step().number == number
    return True


@pytest.mark.parametrize("mistake", ["a tenth of the noise", "twice the rate", "more steps"])
def test_a_field_recipe_that_trains_by_another_plan_gets_no_certificate(
    train: Callable[[], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mistake: str,
) -> None:
    changed, says = OTHERWISE[mistake]
    begin = private.private_training

    def careless(start: Any, documents: Any, plan: Any, *given: Any, **named: Any) -> Any:
        named["charge"] = lambda step: None
        return begin(start, documents, other(**changed), *given, **named)

    monkeypatch.setattr(training, "private_training", careless)
    with pytest.raises(ValueError, match="another plan"):  # the run's own loop asks
        train()
    monkeypatch.setattr(PrivateRun, "train", own_loop)
    monkeypatch.setattr(PrivateRun, "open", _again(PrivateRun.open, tmp_path / "again"))
    with refused(says, tmp_path / "again"):
        train()


def _again(begin: Callable[..., PrivateRun], folder: Path) -> Callable[..., PrivateRun]:
    return lambda _, *given, **named: begin(folder, *given, **named)


@pytest.mark.parametrize("stream", ["coins", "noise"])
def test_a_field_recipe_whose_stream_somebody_knows_gets_no_certificate(
    train: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    known = SecretStream(key=bytes(32))
    pair = (known, SecretStream()) if stream == "coins" else (SecretStream(), known)
    monkeypatch.setattr(PrivateTraining, "_streams", lambda made: pair)
    with refused("somebody knows", tmp_path / "run", "KNOWN_RANDOMNESS"):
        train()


def test_windows_are_not_certified_as_documents(
    train: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = private.records_of
    monkeypatch.setattr(private, "records_of", lambda *given, unit: cut(*given, unit="sequence"))
    with pytest.raises(PrivacyError, match="One of the records is a sequence"):
        train()
    assert not (tmp_path / "run").exists()


def test_records_of_which_nobody_says_what_they_are_get_no_certificate(
    train: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Records, "each", lambda records, change: [change(one) for one in records])
    with refused("what one record is", tmp_path / "run", "NO_UNIT"):
        train()


class _Careless:
    """A task of tables that fits by another plan, or other records, than it is asked to."""

    changed: dict[str, Any] = {}

    def fit(
        self, plan: PrivacyPlan, public: PublicText, settings: Settings, charge: Charge
    ) -> PrivateTable:
        charge(plan.steps)
        done: PrivateTable = super().fit(  # type: ignore[misc]
            other(**self.changed), public, settings, None
        )
        return done


class CarelessClauses(_Careless, Clauses):
    pass


class CarelessWholeTexts(_Careless, WholeTexts):
    pass


class ClausesBySentence(Clauses):
    """Clips each sentence, and says so."""

    def fit(
        self, plan: PrivacyPlan, public: PublicText, settings: Settings, charge: Charge
    ) -> PrivateTable:
        each = np.arange(len(self.corpus.labels) + 1)
        tags = self.corpus.names
        return private_fitting.fit_private(
            self.corpus.features(self.scheme),
            self.corpus.labels,
            sequences=each,
            records=Grouping(ends=each, unit="sequence"),
            start=Start(
                tags=tags,
                scales=np.ones(self.scheme.rows),
                transitions=private_fitting.transitions_of(tags),
            ),
            plan=plan,
            settings=settings,
            stream=SecretStream(),
            charge=charge,
        )


class ClausesUncharged(Clauses):
    """Fits beside the run's account."""

    def fit(
        self, plan: PrivacyPlan, public: PublicText, settings: Settings, charge: Charge
    ) -> PrivateTable:
        return super().fit(plan, public, settings, lambda step: None)


class BestOfTwo(Clauses):
    """Fits twice, and releases the table that it likes better."""

    def fit(
        self, plan: PrivacyPlan, public: PublicText, settings: Settings, charge: Charge
    ) -> PrivateTable:
        both = [super(BestOfTwo, self).fit(plan, public, settings, charge) for _ in range(2)]
        return max(both, key=lambda table: float(table.weights.max()))


def clauses(kind: type[Clauses] = Clauses) -> Clauses:
    made = corpus.sentence_corpus(clause_contracts.contracts(20, seed=2), ["Governing Law"])
    return kind(corpus=made, scheme=WORDS)


def texts(kind: type[WholeTexts] = WholeTexts) -> WholeTexts:
    both = [
        Message(name=str(n), text=f"the {'sea' if n % 2 else 'land'}", label="ab"[n % 2])
        for n in range(20)
    ]
    return kind(corpus=whole_texts.class_corpus(both, ["a", "b"], wordless=True), scheme=WORDS)


def protect(task: TableTask, out: Path) -> Any:
    public = corpus.sentence_corpus(clause_contracts.contracts(5, seed=1), [])
    return private_runs.protect_documents(
        task,
        PLAN,
        public=PublicText(features=public.features(WORDS), data=()),
        out=out,
        name="contracts",
        settings=Settings(transition_scale=0.0),
        audited=False,
    )


@pytest.mark.parametrize("make", [clauses, texts], ids=["clauses", "classifier"])
def test_tables_that_are_fitted_by_the_plan_are_certified(make: Any, tmp_path: Path) -> None:
    [guarantee] = protect(make(), tmp_path / "run").claim.guarantees
    assert (guarantee.kind, guarantee.unit) == ("dp", "document")
    assert guarantee.epsilon == pytest.approx(PLAN.epsilon_after(3), rel=1e-9)


@pytest.mark.parametrize(
    ("make", "careless"),
    [(clauses, CarelessClauses), (texts, CarelessWholeTexts)],
    ids=["clauses", "classifier"],
)
@every_mistake
def test_a_table_that_is_fitted_by_another_plan_gets_no_certificate(
    make: Any, careless: Any, tmp_path: Path, changed: dict[str, Any], says: str
) -> None:
    task = make(type("Task", (careless,), {"changed": changed}))
    with refused(says, tmp_path / "run"):
        protect(task, tmp_path / "run")


@pytest.mark.parametrize(
    ("make", "module"),
    [(clauses, private_tables), (texts, table_tasks)],
    ids=["clauses", "classifier"],
)
def test_a_table_whose_stream_somebody_knows_gets_no_certificate(
    make: Any, module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SecretStream", lambda: SecretStream(key=bytes(32)))
    with refused("somebody knows", tmp_path / "run", "KNOWN_RANDOMNESS"):
        protect(make(), tmp_path / "run")


def test_sentences_are_not_certified_as_documents(tmp_path: Path) -> None:
    with refused("is sequence, the plan has document", tmp_path / "run"):
        protect(clauses(ClausesBySentence), tmp_path / "run")


def test_a_table_whose_steps_nobody_charged_gets_no_certificate(tmp_path: Path) -> None:
    with refused("3 steps were drawn, .* has charged 0", tmp_path / "run", "NOT_CHARGED"):
        protect(clauses(ClausesUncharged), tmp_path / "run")


def test_the_better_of_two_fits_of_one_run_gets_no_certificate(tmp_path: Path) -> None:
    with refused("has charged step 3 of 3", tmp_path / "run", "NOT_RESERVED"):
        protect(clauses(BestOfTwo), tmp_path / "run")


def term_run(out: Path) -> Any:
    return private_runs.protect_terms(
        clauses(), epsilon=2, out=out, name="contracts", audited=False
    )


def test_a_release_of_terms_with_half_the_noise_gets_no_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert term_run(tmp_path / "sound").claim.guarantees[0].epsilon == pytest.approx(2, rel=1e-4)
    released = term_release.released

    def careless(table: Any, *, noise_std: float, stream: SecretStream) -> Any:
        return released(table, noise_std=noise_std / 2, stream=stream)

    monkeypatch.setattr(private_tables, "released", careless)
    with refused("spends epsilon .*; 2 was asked for", tmp_path / "run"):
        term_run(tmp_path / "run")


def test_a_release_of_terms_whose_stream_somebody_knows_gets_no_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_tables, "SecretStream", lambda: SecretStream(key=bytes(32)))
    with refused("somebody knows", tmp_path / "run", "KNOWN_RANDOMNESS"):
        term_run(tmp_path / "run")
