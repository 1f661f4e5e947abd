"""Meter: notes what private training executes, where it executes it, and writes its receipt.

It is told each value by the line that uses it: the threshold beside the comparison with it, the
standard deviation beside the addition of the noise. A value that changes from one step to the next
is refused at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_FLOOR, Context
from typing import Any

from hushdoc.accounting.calibration import DIGITS
from hushdoc.errors import PrivacyError
from hushdoc_training import receipt as receipts
from hushdoc_training.receipt import Held, Origin, Receipt

_DOWNWARDS = Context(prec=DIGITS, rounding=ROUND_FLOOR)


class Meter:
    """What one training has executed up to now."""

    def __init__(self, *, planned_steps: int, privacy_unit: str | None) -> None:
        """Begins with nothing drawn.

        Args:
            planned_steps: Most steps that the training will draw.
            privacy_unit: What one record is, as those who grouped the records declared.
        """
        self._planned_steps, self._privacy_unit = planned_steps, privacy_unit
        self._noted: dict[str, Any] = {}
        self._reads: dict[str, None] = {}
        self._steps = 0
        self._begun_with: Held = ()
        self._declared: dict[str, tuple[tuple[str, str], ...]] = {}
        self._earlier: Receipt | None = None

    def drawn(self, rate: float, coins: Origin) -> None:
        """Notes a draw of records: what uniforms from a stream were compared with."""
        self._note("sampling_rate", float(rate))
        self._note("coins", coins)
        self._steps += 1

    def whole_batch(self) -> None:
        """Notes a step that every record takes part in."""
        self._note("sampling_rate", 1.0)
        self._steps += 1

    def clipped(self, norm: float) -> None:
        """Notes how far (L2) one record can move the sum of a step."""
        self._note("clipping_norm", float(norm))

    def noised(self, *, std: float, sensitivity: float, origin: Origin, distribution: str) -> None:
        """Notes the noise that is added to a sum.

        Args:
            std: Its standard deviation.
            sensitivity: How far (L2) one record can move the sum as it is noised: at least as far
                as clipping lets it, and what rounding adds.
            origin: Where it is from.
            distribution: One of NOISE_DISTRIBUTIONS.
        """
        self._note("std", float(std))
        self._note("sensitivity", float(sensitivity))
        self._note("noise", origin)
        self._note("noise_distribution", distribution)

    def divided(self, divisor: float) -> None:
        """Notes what a noised sum is divided by."""
        self._note("divisor", float(divisor))

    def read(self, purpose: str) -> None:
        """Notes that an un-noised private number was read, and what for."""
        self._reads[purpose] = None

    def declare(self, source: str, declared: Iterable[tuple[str, str]]) -> None:
        """Notes what a claim has to say besides, as `Receipt.declared`, instead of what was said.

        `source` is who says it.
        """
        self._declared[source] = tuple(declared)

    def begin_with(self, held: Held) -> None:
        """Notes what the weights hold of other private trainings, instead of what was noted."""
        self._begun_with = receipts.held_in_all(held)

    @property
    def begun_with(self) -> Held:
        """What the start held of other private trainings, that of an earlier part included."""
        earlier = () if self._earlier is None else self._earlier.begun_with
        return receipts.held_in_all(earlier, self._begun_with)

    def go_on(self, earlier: Receipt) -> None:
        """Notes that the training goes on from weights that an earlier part of it left."""
        self._earlier = earlier

    @property
    def is_empty(self) -> bool:
        """Whether no step was drawn, here or in an earlier part."""
        return not self._steps and self._earlier is None

    def receipt(self) -> Receipt:
        """Returns what was executed up to now, an earlier part included.

        Raises:
            PrivacyError: No step was drawn, something was noted that no receipt can hold, or the
                earlier part was executed otherwise.
        """
        if not self._steps:
            if self._earlier is not None:
                return self._earlier
            raise PrivacyError(
                "No step was drawn, so there is nothing to certify. Take the steps of the plan.",
                code="NO_RECEIPT",
            )
        own = self._own()
        return own if self._earlier is None else receipts.merged((self._earlier, own))

    def _own(self) -> Receipt:
        noted = dict(self._noted)
        try:
            std, sensitivity = noted.pop("std"), noted.pop("sensitivity")
            if sensitivity < noted["clipping_norm"] * (1 - receipts.DIFFERENCE):
                raise ValueError(
                    f"noise was scaled to a sensitivity of {sensitivity:g}, and one record moved "
                    f"sums by up to {noted['clipping_norm']:g}"
                )
            return Receipt.of_meter(
                noise_multiplier=_multiplier(std, sensitivity),
                coins=noted.pop("coins", None),
                steps=self._steps,
                planned_steps=self._planned_steps,
                privacy_unit=self._privacy_unit,
                private_reads=tuple(self._reads),
                begun_with=self._begun_with,
                declared=tuple(one for said in self._declared.values() for one in said),
                **noted,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise PrivacyError(
                f"What was executed has no receipt: {str(error).rstrip('.')}. Nothing is certified "
                "of it.",
                code="NO_RECEIPT",
            ) from error

    def _note(self, name: str, value: float | str | Origin) -> None:
        known = self._noted.setdefault(name, value)
        if known != value:
            raise PrivacyError(
                f"{name} is {value!r} in this step and was {known!r} before; no claim holds for "
                "steps that differ. Begin a new training."
            )


def _multiplier(std: float, sensitivity: float) -> float:
    """Returns std / sensitivity to DIGITS digits, downwards but for what rounding made of it.

    Example:
        >>> _multiplier(1.1 * 0.1, 0.1), _multiplier(2.0, 3.0)
        (1.1, 0.666666666666)
    """
    exact = std / sensitivity
    near = float(f"{exact:.{DIGITS}g}")
    return near if near <= exact * (1 + 1e-15) else float(_DOWNWARDS.create_decimal(exact))
