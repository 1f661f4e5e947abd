"""Seals a tiny, untrained model whose certificate is in order, for the bare installation."""

from __future__ import annotations

import sys
from pathlib import Path

from hushdoc.__main__ import main
from hushdoc.labels import LabelSet
from hushdoc_training import checkpoint
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.kie import start as kie_start

out = Path(sys.argv[1])
start = kie_start.start_from(
    "small", LabelSet(fields=("total",)), vocabulary=lambda: ["Total 12.50"]
)
plan = PrivacyPlan.calibrated(epsilon=8, sampling_rate=0.1, steps=10)
checkpoint.save(
    out / "checkpoint",
    architecture=start.model.architecture,
    labels=start.labels,
    preprocessing=start.preprocessing,
    claim=claims.private(plan, "nothing", (), training={}),
    tokenizer_json=start.tokenizer_json,
    save_weights=start.model.save,
)
for command in (
    ["keygen", "--out", str(out / "key")],
    ["export", str(out / "checkpoint"), "--out", str(out / "model"), "--key", str(out / "key.key")],
):
    if main(command) != 0:
        sys.exit(f"hushdoc {' '.join(command)} failed.")
