"""Receipts of federated clients, written by a meter that real draws and real noise are noted in."""

from __future__ import annotations

from typing import Any

import numpy as np

from hushdoc_training.federated.plan import SHARING, FederatedPlan
from hushdoc_training.metering import Meter
from hushdoc_training.randomness.sampling import poisson_sample
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.receipt import Receipt


def receipt_of(
    plan: FederatedPlan,
    *,
    rate: float | None = None,
    norm: float | None = None,
    steps: int | None = None,
    unit: str | None = "document",
    reads: tuple[str, ...] = (),
    key: bytes | None = None,
) -> Receipt:
    """What a client executes in one round of a plan, or of something else where that is asked for.

    Noise is the plan's always: other noise is another plan's.
    """
    rate = plan.client_sampling_rate if rate is None else rate
    steps = plan.cap * plan.local_steps if steps is None else steps
    meter, stream = Meter(planned_steps=steps, privacy_unit=unit), SecretStream(key=key)
    if rate < 1:
        poisson_sample(20, rate, SecretStream())
        meter.drawn(rate, stream.origin)
    else:
        meter.whole_batch()
    meter.clipped(plan.clipping_norm if norm is None else norm)
    meter.divided(plan.expected_records)
    for what in reads:
        meter.read(what)
    total = np.zeros(3, dtype=np.int64)
    if plan.algorithm in SHARING:
        plan.grid.noised(total, stream, meter)
    else:
        meter.noised(
            std=plan.noise_multiplier * plan.clipping_norm,
            sensitivity=plan.clipping_norm,
            origin=stream.origin,
            distribution="discrete-gaussian",
        )
    return meter.receipt()


def settings(**change: Any) -> dict[str, Any]:
    """Of a plan for a hundred forms at four clients, with one that may collude."""
    return {
        "algorithm": "feam-dp",
        "clients": 4,
        "clients_per_round": 4,
        "rounds": 20,
        "sampling_rate": 0.2,
        "colluding": 1,
        "clipping_norm": 0.1,
        "expected_records": 20,
        "privacy_unit": "document",
        "numbers": 1000,
        **change,
    }
