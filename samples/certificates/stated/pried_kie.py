"""PrIeD-KIE (Saifullah et al., 2023): DP-Adam, FedAVG and FeAm-DP on FUNSD.

Settings are those of the paper's sections 4.3 to 4.5 and its table 6. It gives the target of the
noise (epsilon 8 by Renyi accounting, delta of one over the number of windows), not the noise.
"""

from __future__ import annotations

import math
from typing import Any

from hushdoc.accounting.mechanism import (
    ClusterSampled,
    Composed,
    Gaussian,
    Grouped,
    Mechanism,
    PoissonSampled,
)
from hushdoc.certificate import Certificate
from hushdoc.claim import Claim, ProtectedData, ProtectedUnit, PublicData
from stated import parts

DATA = "FUNSD training forms"
NUM_FORMS, NUM_WINDOWS = 149, 389
DELTA = 1 / NUM_WINDOWS
SAMPLING_RATE, STEPS, CLIPPING_NORM = 1 / 7, 350, 0.1
NOISE_MULTIPLIER = 1.5013
"""Renyi accounting gives epsilon 8.0 at DELTA for it."""

MOST_WINDOWS = 8
NUM_CLIENTS, CLIENT_RATE, CLIENTS_IN_A_ROUND = 16, 0.5, 8

_WINDOW = "one window of 128 tokens of a form, with its labels and the page's image"
_FORM = "one form: all of its windows"
_PROTECTED = ProtectedData(
    name=DATA,
    units=(
        ProtectedUnit(unit="sequence", count=NUM_WINDOWS, count_is_public=True),
        ProtectedUnit(unit="document", count=NUM_FORMS, count_is_public=True),
    ),
    contribution_bound=(
        f"The gradient of a window is clipped to {CLIPPING_NORM:g} in the Euclidean norm. Nothing "
        "bounds how many windows a form contributes."
    ),
    commitment=None,
)
_START = PublicData(
    name="LayoutLMv3 base",
    uses=("starting weights", "tokenizer"),
    uri=None,
    digest=None,
    privacy_status="public weights, pretrained on scans of IIT-CDIP",
    overlap_with_protected="contained",
)
_OVERLAP = (
    "The forms of FUNSD were drawn from RVL-CDIP, which is a part of IIT-CDIP, so the starting "
    "weights had seen their pages before; no promise covers that."
)
_TUNED = (
    "Learning rate, batch size, clipping norm, window length and dropout were chosen by results on "
    "the same forms, which is not part of any epsilon here."
)
_LARGE_DELTA = (
    "delta is one over the number of windows, as published. Such a delta would allow a method that "
    "publishes one random window."
)
_PUBLISHED: dict[str, Any] = {
    "composition": "one training run; what is released comes from it alone",
    "covers_all_private_accesses": False,
    "sampling_as_implemented": "poisson",
    "hyperparameter_tuning": "unaccounted",
    "rng": "unknown",
    "floating_point": "not stated in the paper",
}
_ACCESSES = (
    parts.access(DATA, "names of the labels", "declared-public"),
    parts.access(DATA, "number of windows: sampling rate, steps and delta", "declared-public"),
    parts.access(DATA, "choice of the settings by scores on these forms", "unaccounted"),
)


def dp_adam() -> Certificate:
    """Returns what holds for DP-Adam: the published number per window, and the one per form."""
    transcripts: dict[str, Mechanism] = {
        "windows": steps(one_step(NOISE_MULTIPLIER)),
        "forms": Grouped(size=MOST_WINDOWS, event=steps(one_step(NOISE_MULTIPLIER))),
    }
    words: dict[str, Any] = {
        "adversary": "model-recipient",
        "observes": "the weights after every step, the final ones included",
        "knows": parts.ALL_BUT_ONE,
        "assumes": (
            "every window enters a batch independently, with probability 1/7",
            "sums are divided by the expected batch size, not by the drawn one",
        ),
        "aggregation": "central",
        "adjacency": "add-remove",
        **_PUBLISHED,
    }
    guarantees = (
        parts.promised(
            transcripts,
            "windows",
            delta=DELTA,
            profile=(1e-4, 1e-5, 1e-6),
            unit="sequence",
            unit_definition=_WINDOW,
            **words,
        ),
        parts.promised(
            transcripts,
            "forms",
            delta=DELTA,
            unit="document",
            unit_definition=_FORM,
            **{
                **words,
                "kind": "dp-conditional",
                "condition": f"no form is longer than {MOST_WINDOWS} windows; nothing in the "
                "published training enforces that",
            },
        ),
    )
    return _certify(
        "dp-adam",
        guarantees=guarantees,
        transcripts=transcripts,
        accesses=(parts.access(DATA, "training", "accounted", "windows"), *_ACCESSES),
        releases=("final-weights",),
        training={
            "source": "PrIeD-KIE, sections 4.3 and 5, table 6",
            "published": "epsilon 8 (Renyi), 7.01 (PRV), 6.96 (GDP) per window",
            "samplingRate": SAMPLING_RATE,
            "steps": STEPS,
            "clippingNorm": CLIPPING_NORM,
            "noiseMultiplier": NOISE_MULTIPLIER,
        },
        caveats=(
            "The published epsilon is about one window of 128 tokens. A form is several windows, "
            "each drawn and clipped alone, and is protected as the second guarantee says.",
            _LARGE_DELTA,
            "The paper's value by the central limit theorem lies below what holds; no guarantee "
            "here rests on it.",
        ),
    )


def fedavg() -> Certificate:
    """Returns what holds for plain federated averaging: nothing, against anybody."""
    words: dict[str, Any] = {
        "knows": parts.ALL_BUT_ONE,
        "assumes": (),
        "unit": "document",
        "unit_definition": _FORM,
        "adjacency": "add-remove",
        **_PUBLISHED,
        "sampling_as_implemented": "shuffled",
        "floating_point": "no noise was drawn",
    }
    guarantees = (
        parts.nothing(
            "No noise was drawn: the final weights are an average of what each client's forms "
            "made of them, and may hold any part of any form.",
            adversary="model-recipient",
            observes="the final weights",
            aggregation="secure-sum",
            **words,
        ),
        parts.nothing(
            "The server sees the update of each client, without noise; forms can be rebuilt from "
            "such updates.",
            adversary="server",
            observes="the update of each client in every round it takes part in",
            aggregation="individual-updates",
            **words,
        ),
        parts.nothing(
            "Every round's model carries the sum of all updates, without noise. A client knows its "
            "own, and where two take part it knows the other's as well.",
            adversary="co-client",
            observes=parts.SUMS,
            aggregation="secure-sum",
            **words,
        ),
    )
    return _certify(
        "fedavg",
        guarantees=guarantees,
        transcripts={},
        accesses=(parts.access(DATA, "training", "unaccounted"), *_ACCESSES),
        releases=("final-weights", "round-updates"),
        training={
            "source": "PrIeD-KIE, section 4.4 and table 6",
            "clients": NUM_CLIENTS,
            "clientRate": CLIENT_RATE,
            "epochs": 40,
        },
        caveats=(
            "That data stay with their clients is not a promise of privacy: whatever training "
            "learned from them is in the updates and in the model.",
        ),
    )


def feam_dp() -> Certificate:
    """Returns what holds for FeAm-DP, against whoever sees sums, shares of noise or updates."""
    transcripts = feam_transcripts(NUM_CLIENTS, CLIENT_RATE)
    words: dict[str, Any] = {
        "delta": DELTA,
        "unit": "sequence",
        "unit_definition": _WINDOW,
        "adjacency": "add-remove",
        "knows": parts.ALL_BUT_ONE + ", and who took part in which round",
        **_PUBLISHED,
    }
    assumed = (
        "the server draws half of the clients anew in every round, whatever their data are; who "
        "was drawn is public",
        "a drawn client draws each of its windows independently, with probability 2/7",
        "sums are divided by expected sizes; how many windows a client has is public",
    )
    honest = "every drawn client adds its share of the noise, and its update arrives"
    guarantees = (
        parts.promised(
            transcripts,
            "released",
            adversary="model-recipient",
            observes=parts.SUMS,
            aggregation="secure-sum",
            assumes=(*assumed, honest),
            **words,
        ),
        parts.promised(
            transcripts,
            "less-one-share",
            adversary="co-client",
            observes=parts.SUMS + "; it takes its own update and noise off, in every round",
            aggregation="secure-sum",
            assumes=(*assumed, honest, "one client listens, and no two of them together"),
            **words,
        ),
        parts.promised(
            transcripts,
            "one-share",
            adversary="server",
            observes="the update of each client, with that client's share of the noise alone",
            aggregation="individual-updates",
            assumes=assumed,
            **words,
        ),
    )
    return _certify(
        "feam-dp",
        guarantees=guarantees,
        transcripts=transcripts,
        accesses=(
            parts.access(DATA, "training", "accounted", "released"),
            parts.access(DATA, "windows of each client: weights of the sum", "declared-public"),
            *_ACCESSES,
        ),
        releases=("final-weights", "round-updates"),
        training={
            "source": "PrIeD-KIE, section 4.5, algorithm 1, table 6",
            "published": "epsilon 8 (Renyi), 7.01 (PRV) per window, as if windows were drawn "
            "independently of one another",
            "clients": NUM_CLIENTS,
            "clientRate": CLIENT_RATE,
            "rounds": STEPS,
            "samplingRateOfAClient": SAMPLING_RATE / CLIENT_RATE,
            "noiseMultiplier": NOISE_MULTIPLIER,
        },
        caveats=(
            "The paper counts a window as drawn with probability 1/7. All windows of a client are "
            "in or out of a round together, and who is in is public, so that counts less than "
            "what holds.",
            "With secure aggregation the server would see sums alone, and the first guarantee's "
            "numbers would hold against it.",
            "A client that drops out after its noise was counted on leaves less noise than "
            "stated; the published method keeps no margin for that.",
            _LARGE_DELTA,
        ),
    )


def one_step(noise_multiplier: float, sampling_rate: float = SAMPLING_RATE) -> PoissonSampled:
    """Returns one step as one window sees it."""
    return PoissonSampled(
        sampling_rate=sampling_rate, event=Gaussian(noise_multiplier=noise_multiplier)
    )


def steps(step: Mechanism) -> Composed:
    """Returns all steps of a run."""
    return Composed(event=step, count=STEPS)


def feam_transcripts(
    num_clients: int, client_rate: float, noise_multiplier: float = NOISE_MULTIPLIER
) -> dict[str, Mechanism]:
    """Returns FeAm-DP as its adversaries see it: sums, sums less one share of noise, one share.

    Args:
        num_clients: K in the paper.
        client_rate: C: which part of them is drawn in each round.
        noise_multiplier: Of the sum over all drawn clients.
    """
    drawn = round(num_clients * client_rate)
    left = {"released": 1.0, "less-one-share": (drawn - 1) / drawn, "one-share": 1 / drawn}

    def seen(part: float) -> Mechanism:
        step = one_step(noise_multiplier * math.sqrt(part), SAMPLING_RATE / client_rate)
        return steps(ClusterSampled(sampling_rate=client_rate, event=step))

    return {name: seen(part) for name, part in left.items()}


def _certify(name: str, *, accesses: tuple[Any, ...], caveats: tuple[str, ...], **rest: Any) -> Any:
    claim = Claim(
        protected_data=(_PROTECTED,),
        public_data=(_START,),
        data_accesses=accesses,
        pre_registered_audits=(),
        audits=(),
        utility={},
        caveats=(parts.NOT_A_MODEL, *caveats, _TUNED, _OVERLAP),
        **rest,
    )
    return parts.certify(name, claim, task="kie")
