"""Claimed: the numbers of a claim that a witness compares with what it saw."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.accounting.mechanism import Composed, Gaussian, Mechanism, PoissonSampled
from hushdoc.certificate.claim import Claim
from hushdoc.errors import PrivacyError


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """What a claim of kind dp says of one run.

    Attributes:
        unit: What one record is.
        noise_multiplier: Standard deviation of the noise / clipping_norm.
        sampling_rate: Probability of each record to be in a step.
        steps: How many there were.
        settings: What the claim says of training, for people.
    """

    unit: str
    noise_multiplier: float
    sampling_rate: float
    steps: int
    settings: dict[str, Any]

    def number(self, *names: str) -> float:
        """Returns a number that the claim says of training under one of some names."""
        parts = (self.settings, self.settings.get("receipt"), self.settings.get("plan"))
        for part in parts:
            for name in names:
                if isinstance(part, dict) and isinstance(part.get(name), int | float):
                    return float(part[name])
        raise PrivacyError(
            f"The claim does not say '{names[0]}', which the witness has to know to compare noise "
            "with what a record may move. Give `training` of the claim this number."
        )

    @property
    def divisor(self) -> float:
        """What the noised sum was divided by."""
        return self.number("divisor", "expected_records")


def of_run(out: Path) -> Claimed:
    """Returns what the claim in a run folder says."""
    claim = Claim.from_json((out / "checkpoint" / "claim.json").read_bytes())
    guarantees = [found for found in claim.guarantees if found.kind == "dp"]
    if len(guarantees) != 1:
        kinds = ", ".join(guarantee.kind for guarantee in claim.guarantees)
        raise PrivacyError(
            f"The run claims guarantees of kind {kinds or 'none'} from {len(claim.transcripts)} "
            "transcripts; expected one of kind dp. Witness a command that trains one "
            "model privately, without a ledger."
        )
    rate, noise, steps = _numbers(claim.transcripts[guarantees[0].transcript or ""])
    return Claimed(
        unit=guarantees[0].unit,
        noise_multiplier=noise,
        sampling_rate=rate,
        steps=steps,
        settings=dict(claim.training),
    )


def _numbers(mechanism: Mechanism) -> tuple[float, float, int]:
    """Returns sampling rate, noise multiplier and count of equal steps."""
    match mechanism:
        case Composed(event=event, count=count):
            rate, noise, steps = _numbers(event)
            return rate, noise, steps * count
        case PoissonSampled(sampling_rate=rate, event=Gaussian(noise_multiplier=noise)):
            return rate, noise, 1
        case Gaussian(noise_multiplier=noise):
            return 1.0, noise, 1
    raise PrivacyError(
        f"The claim's transcript is a {type(mechanism).__name__}; the witness knows equal steps of "
        "the subsampled Gaussian mechanism. Teach `witness.claimed` this one."
    )
