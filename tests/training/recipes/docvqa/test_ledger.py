"""Training on questions that is charged to a ledger of providers, or of documents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hushdoc.errors import CheckpointError, InputError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.invented import stream
from hushdoc_training.invented.settings import InventedConfig
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.docvqa.start import Start, start_from
from hushdoc_training.recipes.docvqa.training import train_private
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.runs.claim_words import READABLE, READING

KEYED = InventedConfig(document_types=("receipt",), providers=(0, 4), questions="keyed")


@pytest.fixture(scope="module")
def bills() -> list[LabelledDocument]:
    return list(stream.documents(seed=3, count=4, config=KEYED))


@pytest.fixture
def start(bills: list[LabelledDocument]) -> Start:
    texts = [word.text for item in bills for page in item.document.pages for word in page.words]
    return start_from("small", max_tokens=64, max_question=40, vocabulary=lambda: texts)


def plan(unit: str = "provider") -> PrivacyPlan:
    return PrivacyPlan.calibrated(
        privacy_unit=unit, epsilon=3, sampling_rate=0.5, steps=2, expected_records=2
    )


def ledger(folder: Path, unit: str = "provider", *, epsilon: float = 4.0) -> Ledger:
    path = folder / f"{unit}s.ledger"
    return Ledger.create(path, data="bills", unit=unit, epsilon=epsilon, delta=1e-5)


def train(start: Start, documents: list[LabelledDocument], out: Path, **how: Any) -> Any:
    settings = PrivateSettings(trained="output")
    given = {"plan": plan(), "out": out, "name": "bills", "quiet": True, **how}
    return train_private(start, documents, given.pop("plan"), settings, **given)


def test_runs_of_providers_are_added_up_and_refused_above_the_cap(
    tmp_path: Path, start: Start, bills: list[LabelledDocument]
) -> None:
    kept = ledger(tmp_path)
    train(start, bills, tmp_path / "first", ledger=kept)
    claim = DocVQACheckpoint.load(tmp_path / "first").claim
    (guarantee,) = claim.guarantees
    assert (guarantee.unit, guarantee.hyperparameter_tuning) == ("provider", "accounted")
    assert "1 training run is in the ledger" in guarantee.composition
    assert any("the same provider in all runs" in assumed for assumed in guarantee.assumes)
    assert READABLE in guarantee.assumes
    assert {*READING} <= {access.purpose for access in claim.data_accesses}
    assert claim.protected_data[0].commitment is not None
    (run,) = kept.runs()
    assert (run.charged, run.reserved, run.closed) == (2, 2, True)
    with pytest.raises(PrivacyError, match="would have spent") as refused:
        train(start, bills, tmp_path / "second", ledger=kept)
    assert refused.value.code == "BUDGET_EXCEEDED"
    moved = [replace(bills[0], provider=bills[-1].provider), *bills[1:]]
    assert moved[0].provider != bills[0].provider
    with pytest.raises(PrivacyError) as refused:
        train(start, moved, tmp_path / "second", ledger=kept)
    assert refused.value.code == "OTHER_DOCUMENTS"
    assert not (tmp_path / "second").exists()
    # What the ledger has closed can't be gone on with, nor without it.
    with pytest.raises(CheckpointError, match="ledger"):
        train(start, bills, tmp_path / "first", resume=True)


@pytest.mark.parametrize(
    ("counted", "planned"), [("document", "provider"), ("provider", "document")]
)
def test_a_ledger_of_one_unit_refuses_runs_of_the_other(
    counted: str, planned: str, tmp_path: Path, start: Start, bills: list[LabelledDocument]
) -> None:
    kept = ledger(tmp_path, counted)
    with pytest.raises(InputError, match=f"counts for each {counted}") as refused:
        train(start, bills, tmp_path / "run", plan=plan(planned), ledger=kept)
    assert refused.value.code == "WRONG_UNIT"
    assert not (tmp_path / "run").exists()
    assert not kept.runs()
