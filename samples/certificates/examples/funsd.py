"""What the three methods of PrIeD-KIE (Saifullah et al., 2023) have in common on FUNSD.

Settings are those of the paper's sections 4.3 to 4.5 and its table 6. It gives the target of the
noise (epsilon 8 by Renyi accounting, delta of one over the number of windows), not the noise.
"""

from __future__ import annotations

from typing import Any

from examples import parts
from hushdoc.accounting.mechanism import Composed, Gaussian, Mechanism, PoissonSampled
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Claim, DataAccess, ProtectedData, ProtectedUnit, PublicData

DATA = "FUNSD training forms"
NUM_FORMS, NUM_WINDOWS = 149, 389
DELTA = 1 / NUM_WINDOWS
SAMPLING_RATE, STEPS, CLIPPING_NORM = 1 / 7, 350, 0.1
NOISE_MULTIPLIER = 1.5013
"""Renyi accounting gives epsilon 8.0 at DELTA for it."""

WINDOW = "one window of 128 tokens of a form, with its labels and the page's image"
FORM = "one form: all of its windows"
PROTECTED = ProtectedData(
    name=DATA,
    units=(
        ProtectedUnit(unit="sequence", count=NUM_WINDOWS, count_is_public=True),
        ProtectedUnit(unit="document", count=NUM_FORMS, count_is_public=True),
    ),
    contribution_bound=(
        f"The gradient of a window is clipped to {CLIPPING_NORM:g} in the Euclidean norm. Nothing "
        "bounds how many windows a form contributes."
    ),
)
START = PublicData(
    name="LayoutLMv3 base",
    uses=("starting weights", "tokenizer"),
    privacy_status="public weights, pretrained on scans of IIT-CDIP",
    overlap_with_protected="contained",
)
OVERLAP = (
    "The forms of FUNSD were drawn from RVL-CDIP, which is a part of IIT-CDIP, so the starting "
    "weights had seen their pages before; no guarantee covers that."
)
TUNED = (
    "Learning rate, batch size, clipping norm, window length and dropout were chosen by results on "
    "the same forms, which is not part of any epsilon here."
)
LARGE_DELTA = (
    "delta is one over the number of windows, as published. Such a delta would allow a method that "
    "publishes one random window."
)
PUBLISHED: dict[str, Any] = {
    "composition": "one training run; what is released comes from it alone",
    "sampling_as_implemented": "poisson",
    "floating_point": "not given in the paper",
}
ACCESSES = (
    parts.access(DATA, "names of the labels", "declared-public"),
    parts.access(DATA, "number of windows: sampling rate, steps and delta", "declared-public"),
    parts.access(DATA, "choice of the settings by scores on these forms", "unaccounted"),
)


def one_step(noise_multiplier: float, sampling_rate: float = SAMPLING_RATE) -> PoissonSampled:
    """Returns one step as one window sees it."""
    return PoissonSampled(
        sampling_rate=sampling_rate, event=Gaussian(noise_multiplier=noise_multiplier)
    )


def steps(step: Mechanism) -> Composed:
    """Returns all steps of a run."""
    return Composed(event=step, count=STEPS)


def certify(
    name: str, *, accesses: tuple[DataAccess, ...], caveats: tuple[str, ...], **rest: Any
) -> Certificate:
    """Returns the certificate of one of the three; `rest` are the claim's other fields."""
    claim = Claim(
        protected_data=(PROTECTED,),
        public_data=(START,),
        data_accesses=accesses,
        audits=(),
        utility={},
        caveats=(parts.NOT_A_MODEL, *caveats, TUNED, OVERLAP),
        **rest,
    )
    return parts.certify(name, claim, task="kie")
