"""PrIeD-KIE's DP-Adam: the published number per window, and the one per form."""

from __future__ import annotations

from typing import Any

from examples import funsd, parts
from hushdoc.accounting.mechanism import Grouped, Mechanism
from hushdoc.certificate import guarantees
from hushdoc.certificate.certificate import Certificate

MOST_WINDOWS = 8


def dp_adam() -> Certificate:
    """Returns what holds for DP-Adam: the published number per window, and the one per form."""
    transcripts: dict[str, Mechanism] = {
        "windows": funsd.steps(funsd.one_step(funsd.NOISE_MULTIPLIER)),
        "forms": Grouped(
            size=MOST_WINDOWS, event=funsd.steps(funsd.one_step(funsd.NOISE_MULTIPLIER))
        ),
    }
    terms: dict[str, Any] = {
        "observes": "the weights after every step, the final ones included",
        "knows": parts.ALL_BUT_ONE,
        "assumes": (
            "every window enters a batch independently, with probability 1/7",
            "sums are divided by the expected batch size, not by the drawn one",
        ),
        "adjacency": "add-remove",
        **funsd.PUBLISHED,
    }
    both = (
        parts.differential_privacy(
            transcripts,
            "windows",
            delta=funsd.DELTA,
            profile=(1e-4, 1e-5, 1e-6),
            unit="sequence",
            unit_definition=funsd.WINDOW,
            **terms,
        ),
        guarantees.conditional(
            parts.differential_privacy(
                transcripts,
                "forms",
                delta=funsd.DELTA,
                unit="document",
                unit_definition=funsd.FORM,
                **terms,
            ),
            f"no form is longer than {MOST_WINDOWS} windows; nothing in the published training "
            "enforces that",
        ),
    )
    return funsd.certify(
        "dp-adam",
        guarantees=both,
        transcripts=transcripts,
        accesses=(parts.access(funsd.DATA, "training", "accounted", *transcripts), *funsd.ACCESSES),
        releases=("final-weights",),
        training={
            "source": "PrIeD-KIE, sections 4.3 and 5, table 6",
            "published": "epsilon 8 (Renyi), 7.01 (PRV), 6.96 (GDP) per window",
            "samplingRate": funsd.SAMPLING_RATE,
            "steps": funsd.STEPS,
            "clippingNorm": funsd.CLIPPING_NORM,
            "noiseMultiplier": funsd.NOISE_MULTIPLIER,
        },
        caveats=(
            "The published epsilon is about one window of 128 tokens. A form is several windows, "
            "each drawn and clipped alone, and is protected as the second guarantee says.",
            funsd.LARGE_DELTA,
            "The paper's value by the central limit theorem lies below what holds; no guarantee "
            "here rests on it.",
        ),
    )
