"""PrIeD-KIE's federated averaging without differential privacy: no guarantee against anybody."""

from __future__ import annotations

from typing import Any

from examples import funsd, parts
from hushdoc.certificate.certificate import Certificate

NUM_CLIENTS, CLIENT_RATE = 16, 0.5


def fedavg() -> Certificate:
    """Returns what holds for plain federated averaging: no guarantee against anybody."""
    terms: dict[str, Any] = {
        "knows": parts.ALL_BUT_ONE,
        "unit": "document",
        "unit_definition": funsd.FORM,
        "adjacency": "add-remove",
        **funsd.PUBLISHED,
        "sampling_as_implemented": "shuffled",
        "cluster_sampling_as_implemented": "each-round",
        "floating_point": "no noise was drawn",
    }
    guarantees = (
        parts.no_privacy(
            "No noise was drawn: the final weights are an average of what each client's forms "
            "made of them, and may hold any part of any form.",
            observes="the final weights",
            aggregation="secure-sum",
            **terms,
        ),
        parts.no_privacy(
            "The server sees the update of each client, without noise; forms can be rebuilt from "
            "such updates.",
            adversary="server",
            observes="the update of each client in every round it takes part in",
            aggregation="individual-updates",
            **terms,
        ),
        parts.no_privacy(
            "Every round's model carries the sum of all updates, without noise. A client knows its "
            "own, and where two take part it knows the other's as well.",
            adversary="co-client",
            observes=parts.SUMS,
            aggregation="secure-sum",
            **terms,
        ),
    )
    return funsd.certify(
        "fedavg",
        guarantees=guarantees,
        transcripts={},
        accesses=(parts.access(funsd.DATA, "training", "unaccounted"), *funsd.ACCESSES),
        releases=("final-weights", "round-updates"),
        training={
            "source": "PrIeD-KIE, section 4.4 and table 6",
            "clients": NUM_CLIENTS,
            "clientRate": CLIENT_RATE,
            "epochs": 40,
        },
        caveats=(
            "That data stay with their clients is no privacy guarantee: whatever training learned "
            "from them is in the updates and in the model.",
        ),
    )
