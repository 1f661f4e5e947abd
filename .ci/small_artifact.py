"""Seals a tiny, untrained model whose certificate is in order, for the bare installation."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from hushdoc.__main__ import main
from hushdoc.labels import LabelSet
from hushdoc_training import checkpoint
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.runs import receipts

out = Path(sys.argv[1])
start = kie_start.start_from(
    "small", LabelSet(fields=("total",)), vocabulary=lambda: ["Total 12.50"]
)
plan = PrivacyPlan.calibrated(epsilon=8, sampling_rate=0.1, steps=10, expected_records=4)
# A claim is made of what ran: of another model here, on numbers of nobody.
other = torch.nn.Linear(1, 1)
numbers = Records([[torch.full((1,), float(i))] for i in range(40)], unit="document")
with PrivateTraining(
    plan,
    other,
    torch.optim.SGD(other.parameters(), lr=0.1),
    records=numbers,
    losses=lambda examples: other(torch.stack(examples)).square().sum(1),
) as training:
    list(training)
    claim = receipts.claim_of(training, "nothing")
checkpoint.save(
    out / "checkpoint",
    architecture=start.model.architecture,
    labels=start.labels,
    preprocessing=start.preprocessing,
    claim=claim,
    tokenizer_json=start.tokenizer_json,
    save_weights=start.model.save,
)
for command in (
    ["keygen", "--out", str(out / "key")],
    ["export", str(out / "checkpoint"), "--out", str(out / "model"), "--key", str(out / "key.key")],
):
    if main(command) != 0:
        sys.exit(f"hushdoc {' '.join(command)} failed.")
