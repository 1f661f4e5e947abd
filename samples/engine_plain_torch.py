"""Trains a plain torch model with differential privacy and prints what may be claimed."""

import torch
from torch import nn

from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.runs import receipts

inputs, answers = torch.randn(3000, 20), torch.randint(0, 2, (3000,))
inputs[:, 0] += 2.0 * answers  # something to learn
model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 2))


def losses(examples):
    return nn.functional.cross_entropy(model(inputs[examples]), answers[examples], reduction="none")


plan = PrivacyPlan.calibrated(
    epsilon=3, privacy_unit="user", sampling_rate=0.1, steps=60, expected_records=100
)
adam = torch.optim.Adam(model.parameters(), lr=1e-2)
users = Records([[i, i + 1, i + 2] for i in range(0, 3000, 3)], unit="user")
with PrivateTraining(plan, model, adam, records=users, losses=losses) as training:
    for step in training:
        print(f"step {step.number} of {plan.steps}")
guarantee = receipts.claim_of(training, "invented users").guarantees[0]
accuracy = (model(inputs).argmax(1) == answers).float().mean()
print(f"epsilon {guarantee.epsilon:.2f} for each {guarantee.unit}; accuracy {accuracy:.2f}")
