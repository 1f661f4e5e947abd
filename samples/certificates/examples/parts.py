"""What the example certificates have in common: guarantees, accesses to data, identities."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from typing import Any

from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Mechanism
from hushdoc.certificate import dp_guarantee, guarantees
from hushdoc.certificate.certificate import Certificate, ModelIdentity
from hushdoc.certificate.claim import Claim, DataAccess, Guarantee
from hushdoc_training.federated.adversaries import Exposure
from hushdoc_training.federated.participation import Participation
from hushdoc_training.federated.shares import Shares

VERSION = "0.1.0"
"""Of the hushdoc that the examples were first made with; they stay as they are in later ones."""

ISSUED_AT = "2026-11-21T08:00:00Z"
ISSUER = "hushdoc examples (invented; nobody vouches for anything here)"

NOT_A_MODEL = (
    "An example of what a certificate says. Nothing was trained: the model in this folder is a "
    "placeholder, and everybody has the private key that signed it."
)
ALL_BUT_ONE = "all other records, all settings, and how training works"
SUMS = "the global model after every round, the last one included"


def least_hundredth(mechanism: Mechanism, delta: float, adjacency: str) -> float:
    """Returns the least hundredth that is proven as epsilon; it depends on no engine's grid."""
    count = math.ceil(pld.epsilon(mechanism, delta, adjacency=adjacency) * 100)
    while pld.holds(mechanism, (count - 1) / 100, delta, adjacency=adjacency):
        count -= 1
    return count / 100


def differential_privacy(
    transcripts: Mapping[str, Mechanism],
    transcript: str,
    *,
    delta: float,
    profile: tuple[float, ...] = (),
    **terms: Any,
) -> Guarantee:
    """Returns a guarantee of kind dp whose numbers follow from its transcript.

    `transcript` names one of the claim's `transcripts`; `terms` are the guarantee's other fields.
    """
    mechanism = transcripts[transcript]
    found = dp_guarantee.differential_privacy(
        mechanism,
        lambda point: least_hundredth(mechanism, point, terms["adjacency"]),
        delta,
        accountant="pld",
        transcript=transcript,
        profile=profile,
        version=VERSION,
        **terms,
    )
    mu = found.gdp_mu
    return dataclasses.replace(found, gdp_mu=None if mu is None else round(mu, 4))


def as_seen(
    names: Mapping[str, str],
    turns: Participation,
    *,
    rate: float,
    noise_multiplier: float,
) -> dict[str, Mechanism]:
    """Returns a published method as adversaries see it, by the names of their transcripts.

    Its clients share the noise without a margin, the server sees single updates, and draws clients
    by chance, which counts against it as well, as published.
    """
    shown = Exposure(
        participation=turns,
        client_rate=rate,
        noise_multiplier=noise_multiplier,
        shares=Shares(clients=turns.clients_per_round),
        aggregation="individual-updates",
        server_draws_by_chance=True,
    )
    return {name: shown.event(adversary) for name, adversary in names.items()}


def federated(
    transcripts: Mapping[str, Mechanism],
    co_client: str,
    *,
    subtracts: str,
    assumes: tuple[str, ...],
    shares_arrive: str,
    co_client_assumes: tuple[str, ...] = (),
    **terms: Any,
) -> tuple[Guarantee, ...]:
    """Returns the guarantees against recipients of the sums, another client and the server.

    The transcripts are `released`, that of `co_client`, and `one-share`, which the server sees.
    """
    return (
        differential_privacy(
            transcripts,
            "released",
            observes=SUMS,
            aggregation="secure-sum",
            assumes=(*assumes, shares_arrive),
            **terms,
        ),
        differential_privacy(
            transcripts,
            co_client,
            adversary="co-client",
            observes=f"{SUMS}; it subtracts its own update and noise{subtracts}",
            aggregation="secure-sum",
            assumes=(*assumes, shares_arrive, *co_client_assumes),
            **terms,
        ),
        differential_privacy(
            transcripts,
            "one-share",
            adversary="server",
            observes="the update of each client, with that client's share of the noise alone",
            aggregation="individual-updates",
            assumes=assumes,
            **terms,
        ),
    )


def no_privacy(reason: str, **terms: Any) -> Guarantee:
    """Returns a guarantee of kind none; `terms` are its other fields."""
    return guarantees.no_privacy(reason, version=VERSION, **terms)


def access(data: str, purpose: str, treatment: str, *accounted_in: str) -> DataAccess:
    """Returns one access to protected data."""
    return DataAccess(data=data, purpose=purpose, accounted_in=accounted_in, treatment=treatment)


def certificate_id(name: str) -> str:
    """Returns the fixed id of an example; a real one is 128 random bits."""
    return hashlib.sha256(f"hushdoc example certificate {name}".encode()).hexdigest()[:32]


def certify(
    name: str,
    claim: Claim,
    *,
    task: str,
    file_format: str = "onnx",
    entry: str = "onnx/model.onnx",
    step: str = "a placeholder replaced the model",
) -> Certificate:
    """Returns the certificate of an example; `step` is what was done to the weights."""
    return Certificate(
        certificate_id=certificate_id(name),
        issued_at=ISSUED_AT,
        expires_at=None,
        issuer=ISSUER,
        assurance="self-attested",
        model=ModelIdentity(
            name=f"example-{name}", version=1, task=task, format=file_format, entry=entry
        ),
        claim=claim,
        derivation=({"step": step, "dataDependent": False},),
    )
