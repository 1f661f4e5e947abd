"""When averages of clients that train privately fall behind, and when not: figure 1 of PrIeD-KIE.

    python benchmarks/federated_averages.py            a minute
    python benchmarks/federated_averages.py --quick

Invented records of two classes, which a linear model tells apart, are dealt out to clients. Each
trains on its own by DP-Adam at epsilon 8 for each record (FedAVG-DP, the functions of a real run),
from random weights, which know nothing, and from weights that know much; central training has all
records. The last line is JSON, of means over the repetitions:

    accuracy_nothing_central, accuracy_nothing_k2, ..., accuracy_much_k16
                             on other records of the same kind
    accuracy_nothing_start, accuracy_much_start
                             before training
    moved_nothing_k2, ...    how far (L2) training moved the weights
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

import machine
import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from hushdoc_training.federated.plan import FEDAVG_DP, FederatedPlan
from hushdoc_training.federated.server_steps import MeanUpdate
from hushdoc_training.federated.updates import ALONE, FedAvgDp
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.records import Records
from hushdoc_training.privacy.trained_tensors import Weights
from hushdoc_training.recipes.federated_updates import own_plan

EPSILON, DELTA = 8.0, 1e-5
RECORDS, FEATURES, OTHERS = 512, 40, 4000
ROUNDS, LOCAL_STEPS = 10, 4
SAMPLING_RATE, CLIPPING_NORM, LEARNING_RATE = 0.25, 0.1, 0.03
CLIENTS = (1, 2, 4, 8, 16)
KNOWN = {"nothing": (0.0, 2.0), "much": (3.0, 4.0)}
"""How much of the true weights is in those at first, beside random ones, and their norm."""

Example = tuple[torch.Tensor, torch.Tensor]


def main() -> int:
    """Trains all, and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="(default: 3)")
    parser.add_argument("--quick", action="store_true", help="one repetition, of two clients")
    options = parser.parse_args()
    began = time.monotonic()
    found: dict[str, list[float]] = {}
    for seed in range(1 if options.quick else options.repeats):
        for clients in CLIENTS[:2] if options.quick else CLIENTS:
            for known in KNOWN:
                for key, value in trained(known, clients, seed).items():
                    found.setdefault(key, []).append(value)
    means = {key: round(float(np.mean(values)), 4) for key, values in found.items()}
    print(json.dumps(means | {"quick": options.quick, **machine.stamp(began, "torch")}))
    return 0


def trained(known: str, clients: int, seed: int) -> dict[str, float]:
    """Returns the accuracy before and after FedAVG-DP; with one client that is central training."""
    generator = np.random.default_rng(seed)
    true = generator.normal(size=FEATURES)
    examples, others = (drawn(true, count, generator) for count in (RECORDS, OTHERS))
    share, norm = KNOWN[known]
    learned = share * true + generator.normal(size=FEATURES)
    begin = (norm * learned / np.linalg.norm(learned)).astype(np.float32)
    plan = plan_for(clients)
    parties = [client(examples[number::clients], plan) for number in range(clients)]
    server = MeanUpdate(lattice_step=plan.lattice_step, divisor=clients)
    weights = begin
    for number in range(1, ROUNDS + 1):
        total = sum((party.compute(weights, number) for party in parties), np.int64(0))
        weights = server.apply(weights, np.asarray(total), number)
    for party in parties:
        plan.require_executed(party.receipt)
    name = "central" if clients == 1 else f"k{clients}"
    return {
        f"accuracy_{known}_start": accuracy(begin, others),
        f"accuracy_{known}_{name}": accuracy(weights, others),
        f"moved_{known}_{name}": float(np.linalg.norm(weights - begin)),
    }


def plan_for(clients: int) -> FederatedPlan:
    """Returns the plan of so many clients, each with its own epsilon."""
    return FederatedPlan.calibrated(
        epsilon=EPSILON,
        delta=DELTA,
        algorithm=FEDAVG_DP,
        clients=clients,
        clients_per_round=clients,
        rounds=ROUNDS,
        local_steps=LOCAL_STEPS,
        sampling_rate=SAMPLING_RATE,
        clipping_norm=CLIPPING_NORM,
        expected_records=round(RECORDS * SAMPLING_RATE),
        privacy_unit="document",
        accountant="rdp",
        numbers=FEATURES,
    )


def client(examples: Sequence[Example], plan: FederatedPlan) -> FedAvgDp[Example]:
    """Returns what a client computes of its records."""
    model = nn.Linear(FEATURES, 1, bias=False)

    def losses(some: Sequence[Example]) -> torch.Tensor:
        rows = torch.stack([features for features, _ in some])
        signs = torch.stack([sign for _, sign in some])
        return nn.functional.softplus(-signs * model(rows)[:, 0])

    training = PrivateTraining(
        own_plan(plan),
        model,
        torch.optim.Adam(model.parameters(), lr=LEARNING_RATE),
        records=Records([(example,) for example in examples], unit="document"),
        losses=losses,
        backend=ALONE,
    )
    return FedAvgDp(
        training, steps_per_round=LOCAL_STEPS, weight=1.0, lattice_step=plan.lattice_step
    )


def drawn(
    true: npt.NDArray[np.float64], count: int, generator: np.random.Generator
) -> list[Example]:
    """Returns records whose class the true weights tell, up to noise."""
    features = generator.normal(size=(count, FEATURES))
    scores = features @ true / np.linalg.norm(true) + 0.3 * generator.normal(size=count)
    signs = np.sign(scores)
    return [
        (torch.tensor(row, dtype=torch.float32), torch.tensor(sign, dtype=torch.float32))
        for row, sign in zip(features, signs, strict=True)
    ]


def accuracy(weights: Weights, others: Sequence[Example]) -> float:
    """Returns how many records a model of these weights tells apart."""
    rows = torch.stack([features for features, _ in others]).numpy()
    signs = torch.stack([sign for _, sign in others]).numpy()
    return float(np.mean((rows @ weights > 0) == (signs > 0)))


if __name__ == "__main__":
    sys.exit(main())
