"""Training of key information extraction as tests ask for it: quiet, and of a small plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hushdoc.labels import LabelledDocument
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.kie import training
from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings
from hushdoc_training.recipes.kie.start import Start
from hushdoc_training.runs.loop import Outcome

PLAN = PrivacyPlan.calibrated(epsilon=8, sampling_rate=0.3, steps=6, expected_records=6)
PRIVATE, PLAIN = PrivateSettings(), PlainSettings()
OUTPUT = PrivateSettings(trained="output")


def train_private(
    start: Start,
    documents: list[LabelledDocument],
    out: Path,
    *,
    plan: PrivacyPlan = PLAN,
    settings: PrivateSettings = PRIVATE,
    **options: Any,
) -> Outcome:
    options = {"name": "receipts", "quiet": True} | options
    return training.train_private(start, documents, plan, settings, out=out, **options)


def train_plain(
    start: Start,
    documents: list[LabelledDocument],
    out: Path,
    *,
    settings: PlainSettings = PLAIN,
    **options: Any,
) -> Outcome:
    options = {"claim": claims.public((), training={}), "quiet": True} | options
    return training.train_plain(start, documents, settings, out=out, **options)
