"""How much less noise banded matrices would leave in the weights, at the same epsilon.

    python benchmarks/correlated_noise.py           a minute on a core
    python benchmarks/correlated_noise.py --quick   a few bands

With b bands, step t releases C x + z for the sums x so far, where C is lower triangular, b numbers
wide, and its columns have length 1; the optimizer steps by C^-1 (C x + z), so that noise of one
step is taken off again in later ones. Each record is in one of b groups, drawn beforehand, and a
step draws from the group whose turn it is, at b times the sampling rate: what all steps spend is
what T / b sampled Gaussians spend (Choquette-Choo et al.: (Amplified) Banded Matrix Factorization
for Private Training, 2023), which the SDK recomputes. For each recipe at epsilon 8 and delta 1e-5,
C is chosen to leave the least noise in the last weights, with a step size that goes down to zero as
recipes have it, or in the weights of all steps on average. Beside it stands what independent noise
leaves where all records are in every step, in as many fewer steps as take the same time. The last
line is JSON: the deviation of that noise over the one of the recipe, where documents add as much.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import machine
import torch

from hushdoc.accounting import calibration
from hushdoc_training.recipes.kie import recipe

EPSILON, DELTA = 8.0, 1e-5
BANDS = (2, 4, 10, 50)
ITERATIONS = 60


def main() -> int:
    """Computes every ratio and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few bands")
    options = parser.parse_args()
    began = time.monotonic()
    chosen = recipe.RECIPES[1:2] if options.quick else recipe.RECIPES
    ratios: dict[str, Any] = {}
    for each in chosen:
        alone = noise_multiplier(each, 1)
        ratios[f"{each.name}, full batches"] = {"last": round(of_full_batches(each, alone), 3)}
        print(f"{each.name:10} full batches  {ratios[f'{each.name}, full batches']}")
        for bands in [one for one in BANDS if one * each.sampling_rate <= 1]:
            more = noise_multiplier(each, bands) / alone
            found = {
                name: round(more * relative_noise(workload, bands), 3)
                for name, workload in workloads(each.steps).items()
            }
            ratios[f"{each.name}, {bands} bands"] = {"noise_multiplier": round(more, 3), **found}
            print(f"{each.name:10} {bands:3} bands  {ratios[f'{each.name}, {bands} bands']}")
    result = {
        "over_independent_noise": ratios,
        "epsilon": EPSILON,
        "delta": DELTA,
        "quick": options.quick,
        **machine.stamp(began),
    }
    print(json.dumps(result))
    return 0


def of_full_batches(each: recipe.Recipe, alone: float) -> float:
    """Returns the noise in the last weights of few steps of all records, over the recipe's."""
    few = max(1, round(each.sampling_rate * each.steps))
    noise = calibration.noise_multiplier(epsilon=EPSILON, delta=DELTA, sampling_rate=1.0, steps=few)
    rates, more = workloads(few)["last"], workloads(each.steps)["last"]
    own = alone * float(more.norm() / more.sum()) / each.sampling_rate
    return noise * float(rates.norm() / rates.sum()) / own


def noise_multiplier(each: recipe.Recipe, bands: int) -> float:
    """Returns what a budget needs where a record may be in every `bands`-th step alone."""
    return calibration.noise_multiplier(
        epsilon=EPSILON,
        delta=DELTA,
        sampling_rate=bands * each.sampling_rate,
        steps=-(-each.steps // bands),
    )


def workloads(steps: int) -> dict[str, torch.Tensor]:
    """Returns how much each step's gradient counts in the weights that are looked at, [n, T]."""
    rates = 1 - torch.arange(steps, dtype=torch.float64) / steps
    return {"last": rates[None], "all": torch.tril(rates.expand(steps, steps))}


def relative_noise(workload: torch.Tensor, bands: int) -> float:
    """Returns the least noise that a Toeplitz matrix of so many bands leaves, over independent."""
    steps = workload.shape[1]
    numbers = torch.zeros(bands - 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([numbers], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def left() -> torch.Tensor:
        column = torch.cat([torch.ones(1, dtype=torch.float64), numbers])
        matrix = sum(
            (torch.diag(one.expand(steps - place), -place) for place, one in enumerate(column)),
            start=torch.zeros(steps, steps, dtype=torch.float64),
        )
        matrix = matrix / matrix.norm(dim=0)
        solved = torch.linalg.solve_triangular(matrix, workload, upper=False, left=False)
        found: torch.Tensor = solved.square().sum() / workload.square().sum()
        return found

    def closure() -> float:
        optimizer.zero_grad()
        loss = left()
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return min(1.0, float(left().detach().sqrt()))


if __name__ == "__main__":
    sys.exit(main())
