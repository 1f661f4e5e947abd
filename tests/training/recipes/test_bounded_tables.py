"""Bounded tables with noise: what is promised of rows, and what canary rows show of it."""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from hushdoc.accounting import calibration
from hushdoc.certificate.recompute import reproduce
from hushdoc.errors import AnnotationError
from hushdoc.hashing import FeatureScheme
from hushdoc_training.crf import corpus
from hushdoc_training.invented import clause_contracts
from hushdoc_training.recipes import bounded_tables
from hushdoc_training.recipes.hashed import crf, private_audits

SCHEME = FeatureScheme(rows=30_011)
SETTINGS = bounded_tables.settings_of(bound=0.1, passes=1)


def contracts(count: int, *names: str) -> corpus.Corpus:
    return corpus.sentence_corpus(clause_contracts.contracts(count), names)


def attacked(noise_std: float, neighbouring_rows: int) -> list[crf.Attack]:
    return private_audits.attacks_on_rows(
        SCHEME,
        lambda invented: bounded_tables.fit(invented, SCHEME, SETTINGS),
        noise_std=noise_std,
        neighbouring_rows=neighbouring_rows,
    )


@pytest.mark.parametrize("neighbouring_rows", [1, 4])
def test_canary_rows_are_seen_as_much_as_the_noise_allows_and_no_more(
    neighbouring_rows: int,
) -> None:
    multiplier = calibration.noise_multiplier(
        epsilon=8, delta=1e-5, sampling_rate=1.0, steps=1, accountant="pld"
    )
    [canary, *others] = attacked(
        2 * SETTINGS.bound * neighbouring_rows**0.5 * multiplier, neighbouring_rows
    )
    assert canary.method == "canary rows"
    # Canaries are as far apart as rows can be, so the curve of the mechanism itself is reached.
    most = NormalDist().cdf(1 / multiplier / 2**0.5)
    assert canary.auc_interval[0] <= most <= canary.auc_interval[1]
    assert len(others) == 5
    for attack in others:
        assert attack.auc < 0.75, attack.method


def test_a_release_without_noise_fails_its_audit() -> None:
    [canary, *_] = attacked(1e-6, 1)
    assert canary.auc > 0.99


def test_the_promise_is_conditional_and_recomputes(tmp_path: Path) -> None:
    made = bounded_tables.protect_rows(
        contracts(20, "Governing Law"),
        SCHEME,
        epsilon=2,
        delta=1e-6,
        neighbouring_rows=9,
        settings=SETTINGS,
        out=tmp_path,
        name="contracts",
        audited=False,
    )
    [guarantee] = made.claim.guarantees
    assert guarantee.kind == "dp-conditional"
    assert guarantee.condition is not None
    assert "at most 9 row(s)" in guarantee.condition
    assert guarantee.epsilon is not None
    assert 1.95 < guarantee.epsilon <= 2
    assert all(found.code is None for found in reproduce(made.claim))
    # Nine rows together ask for three times the noise of one.
    multiplier = calibration.noise_multiplier(
        epsilon=2, delta=1e-6, sampling_rate=1.0, steps=1, accountant="pld"
    )
    assert np.isclose(np.std(made.weights), 2 * 0.1 * 3 * multiplier, rtol=0.02)


def test_documents_without_a_label_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="two labels"):
        bounded_tables.protect_rows(
            contracts(5, "Nothing of the kind"), SCHEME, epsilon=2, delta=1e-6, settings=SETTINGS,
            out=tmp_path / "run", name="contracts",
        )  # fmt: skip
    assert not (tmp_path / "run").exists()
