"""PrIeD-KIE's FeAm-DP, against adversaries that see sums, sums less one share, or updates."""

from __future__ import annotations

from typing import Any

from examples import funsd, parts
from hushdoc.accounting.mechanism import Mechanism
from hushdoc.certificate.certificate import Certificate
from hushdoc_training.federated.participation import Participation

NUM_CLIENTS, CLIENT_RATE = 16, 0.5


def feam_dp() -> Certificate:
    """Returns what holds for FeAm-DP, against adversaries that see sums, shares or updates."""
    transcripts = feam_transcripts(NUM_CLIENTS, CLIENT_RATE)
    terms: dict[str, Any] = {
        "delta": funsd.DELTA,
        "unit": "sequence",
        "unit_definition": funsd.WINDOW,
        "adjacency": "add-remove",
        "knows": parts.ALL_BUT_ONE + ", and who took part in which round",
        "cluster_sampling_as_implemented": "each-round",
        **funsd.PUBLISHED,
    }
    guarantees = parts.federated(
        transcripts,
        "less-one-share",
        subtracts=" in every round",
        assumes=(
            "the server draws half of the clients anew in every round, whatever their data are; "
            "who was drawn is public",
            "a drawn client draws each of its windows independently, with probability 2/7",
            "sums are divided by expected sizes; how many windows a client has is public",
        ),
        shares_arrive="every drawn client adds its share of the noise, and its update arrives",
        co_client_assumes=("one client listens, and no two of them together",),
        **terms,
    )
    return funsd.certify(
        "feam-dp",
        guarantees=guarantees,
        transcripts=transcripts,
        accesses=(
            parts.access(funsd.DATA, "training", "accounted", *transcripts),
            parts.access(
                funsd.DATA, "windows of each client: weights of the sum", "declared-public"
            ),
            *funsd.ACCESSES,
        ),
        releases=("final-weights", "round-updates"),
        training={
            "source": "PrIeD-KIE, section 4.5, algorithm 1, table 6",
            "published": "epsilon 8 (Renyi), 7.01 (PRV) per window, as if windows were drawn "
            "independently of one another",
            "clients": NUM_CLIENTS,
            "clientRate": CLIENT_RATE,
            "rounds": funsd.STEPS,
            "samplingRateOfAClient": funsd.SAMPLING_RATE / CLIENT_RATE,
            "noiseMultiplier": funsd.NOISE_MULTIPLIER,
        },
        caveats=(
            "The paper treats a window as drawn with probability 1/7. All windows of a client are "
            "in or out of a round together, and who is in is public, so that is less than what "
            "holds.",
            "With secure aggregation the server would see sums alone, and the first guarantee's "
            "numbers would hold against it.",
            "A client that drops out after its noise was counted on leaves less noise than "
            "declared; the published method keeps no margin for that.",
            funsd.LARGE_DELTA,
        ),
    )


def feam_transcripts(
    num_clients: int, client_rate: float, noise_multiplier: float = funsd.NOISE_MULTIPLIER
) -> dict[str, Mechanism]:
    """Returns FeAm-DP as its adversaries see it: sums, sums less one share of noise, one share."""
    drawn = round(num_clients * client_rate)
    turns = Participation(
        how="drawn", clients=num_clients, clients_per_round=drawn, rounds=funsd.STEPS
    )
    return parts.as_seen(
        {"released": "model-recipient", "less-one-share": "co-client", "one-share": "server"},
        turns,
        rate=turns.client_rate(funsd.SAMPLING_RATE),
        noise_multiplier=noise_multiplier,
    )
