"""Privacy-Aware DocVQA (Tito et al., 2024): FL-PROVIDER-DP at the paper's epsilon of 8.

The settings are those of the paper's table 12, run as its algorithm 1 says. Its published code does
something else (see the caveats), so this is a certificate for an implementation of the algorithm.
"""

from __future__ import annotations

from typing import Any

from examples import parts
from hushdoc.accounting.mechanism import Mechanism
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Claim, ProtectedData, ProtectedUnit, PublicData
from hushdoc_training.federated.participation import Participation

DATA = "invoices of ten clients"
NUM_CLIENTS, CLIENTS_IN_A_ROUND = 10, 2
CLIENT_RATE = CLIENTS_IN_A_ROUND / NUM_CLIENTS
ROUNDS, DELTA = 10, 1e-5
NOISE_MULTIPLIER = 0.771484375


def fl_provider_dp() -> Certificate:
    """Returns what holds for FL-PROVIDER-DP, about all invoices of one provider."""
    transcripts = provider_transcripts()
    terms: dict[str, Any] = {
        "delta": DELTA,
        "profile": (1e-4, 1e-6),
        "knows": parts.ALL_BUT_ONE + ", and who took part in which round",
        "unit": "provider",
        "unit_definition": "all invoices of one provider, with their questions and answers",
        "adjacency": "add-remove",
        "composition": "one training run; what is released comes from it alone",
        "covers_all_private_accesses": True,
        "sampling_as_implemented": "full-batch",
        "cluster_sampling_as_implemented": "each-round",
        "hyperparameter_tuning": "public-data",
        "rng": "csprng",
        "floating_point": "noise is drawn in double precision and rounded with the sum",
    }
    guarantees = parts.federated(
        transcripts,
        "one-share",
        subtracts="",
        assumes=(
            "the server draws two of the ten clients anew in every round, whatever their data are; "
            "who was drawn is public",
            "all invoices of a provider are at one client",
            "every provider of a drawn client takes part, and its update is clipped before the sum",
            "the sum is divided by a public constant",
        ),
        shares_arrive="both drawn clients add their share of the noise, and both updates arrive",
        **terms,
    )
    claim = Claim(
        protected_data=(_protected(),),
        public_data=(_start(),),
        data_accesses=(
            parts.access(DATA, "training", "accounted", *transcripts),
            parts.access(DATA, "smallest number of providers of a client", "declared-public"),
            parts.access(DATA, "training logs", "not-released"),
        ),
        releases=("final-weights", "round-updates"),
        guarantees=guarantees,
        transcripts=transcripts,
        audits=(),
        training={
            "source": "Privacy-Aware DocVQA, algorithm 1 and table 12",
            "published": "epsilon 8 at delta 1e-5 per provider, as if providers were drawn "
            "independently of one another",
            "clients": NUM_CLIENTS,
            "clientRate": CLIENT_RATE,
            "rounds": ROUNDS,
            "noiseMultiplier": NOISE_MULTIPLIER,
        },
        utility={},
        caveats=_CAVEATS,
    )
    return parts.certify("fl-provider-dp", claim, task="docvqa")


def provider_transcripts(noise_multiplier: float = NOISE_MULTIPLIER) -> dict[str, Mechanism]:
    """Returns FL-PROVIDER-DP as its adversaries see it: sums of clients, or one client's share."""
    turns = Participation(
        how="drawn", clients=NUM_CLIENTS, clients_per_round=CLIENTS_IN_A_ROUND, rounds=ROUNDS
    )
    return parts.as_seen(
        {"released": "model-recipient", "one-share": "server"},
        turns,
        rate=turns.client_rate(CLIENT_RATE),
        noise_multiplier=noise_multiplier,
    )


def _protected() -> ProtectedData:
    return ProtectedData(
        name=DATA,
        units=(
            ProtectedUnit(unit="provider", count=None, count_is_public=False),
            ProtectedUnit(unit="client", count=NUM_CLIENTS, count_is_public=True),
        ),
        contribution_bound=(
            "The update made from all invoices of a provider is clipped to a fixed Euclidean norm "
            "before it is summed."
        ),
    )


def _start() -> PublicData:
    return PublicData(
        name="VT5 starting weights",
        uses=("starting weights", "tokenizer"),
        privacy_status="public weights, pretrained on public pages; in this example the issuer "
        "declares that no invoice of the ten clients is among them",
        overlap_with_protected="none",
    )


_CAVEATS = (
    parts.NOT_A_MODEL,
    "The paper treats a provider as drawn with probability 0.2, which gives 7.98. All providers of "
    "a client are in or out of a round together, and who is in is public, so that is less than "
    "what holds.",
    "This does not apply to models made with the paper's published code: there each client draws "
    "the whole noise from the seed 42, which anybody can reproduce and subtract; batches of a "
    "fixed size are drawn, and sums are divided by the number that was drawn.",
    "Nor does it apply to the paper's own data: its settings were chosen by results on them, which "
    "is not part of its epsilon. They are fixed beforehand for other data.",
    "Without secure aggregation the server sees single updates, so the third guarantee is the one "
    "that holds against it.",
    "A client that drops out after its noise was counted on leaves less noise than declared.",
    "A provider whose invoices are at two clients is protected less than declared.",
)
