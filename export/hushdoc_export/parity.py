"""Parity: an exported graph must answer like the model it was traced from.

Both answer the same probes. A difference is an error, never a note; that of a variant, which was
rounded on purpose, is measured and recorded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hushdoc.errors import ParityError
from hushdoc.runtime.session import Session
from hushdoc_export.probes import Answer, Inputs, Traceable, shapes_of

TOLERANCE = 1e-4
"""Largest absolute difference between two outputs that is still rounding in float32, where outputs
are of the size of one; of larger ones it is relative to the largest."""

_INPUTS = {"input_ids": "tokens", "bbox": "boxes", "pixel_values": "pixels"}
EXPORT_AGAIN = "Nothing was written; export again with the versions in constraints.txt."


def compare(
    traceable: Traceable, session: Session, *, tolerance: float | None = TOLERANCE
) -> dict[str, Any]:
    """Returns how close a graph is to its model, for the certificate's derivation.

    Of logits it counts how many have the same largest; those that lie closer together than the
    tolerance count as the same. Without a tolerance, as for variants, it only measures.

    Raises:
        ParityError: They differ, or an answer is not finite; names the shapes and the figure.
        CheckpointError: The model can't read a probe.
    """
    worst, agreed, total = 0.0, 0, 0
    for probe in traceable.probes:
        expected, answered = _answers(traceable, session, probe)
        size = max(1.0, float(np.abs(expected).max(initial=0)))
        difference = float(np.abs(answered - expected).max(initial=0)) / size
        limit = float(np.finfo(np.float32).max) if tolerance is None else tolerance
        if not difference <= limit:  # written so that NaN fails
            raise ParityError(
                f"For inputs of the shapes {shapes_of(probe)} graph and model differ by "
                f"{difference:.3g}; at most {limit:g} is rounding. {EXPORT_AGAIN}"
            )
        worst = max(worst, difference)
        if traceable.logits:
            agreed += _same_label(probe, expected, answered, size, tolerance)
            total += len(expected)
    parts = [name for key, name in _INPUTS.items() if key in traceable.probes[0]]
    return {
        "shapes": [list(next(iter(probe.values())).shape) for probe in traceable.probes],
        "maxDifference": worst,
        "tolerance": tolerance,
        **({"answers": total, "argmaxAgreement": agreed / total} if total else {}),
        "inputs": f"invented {', '.join(parts)}",
    }


def _answers(traceable: Traceable, session: Session, probe: Inputs) -> tuple[Answer, Answer]:
    """Returns what the model and the graph answer, without what stands on padding."""
    expected, answered = traceable.answer(probe), session.run(probe)[0]
    if answered.shape != expected.shape:
        raise ParityError(
            f"For inputs of the shapes {shapes_of(probe)} the graph answers {answered.shape} and "
            f"the model {expected.shape}. Expected the same. {EXPORT_AGAIN}"
        )
    if traceable.per_token:
        tokens = probe["attention_mask"].astype(bool)
        return expected[tokens], answered[tokens]
    return expected, answered


def _same_label(
    probe: Inputs, expected: Answer, answered: Answer, size: float, tolerance: float | None
) -> int:
    """Returns for how many answers both choose the same label.

    It refuses different ones where the model's margin exceeds the tolerance.
    """
    same = answered.argmax(axis=-1) == expected.argmax(axis=-1)
    if tolerance is None:
        return int(same.sum())
    clear = _margins(expected) > tolerance * size
    if not same[clear].all():
        raise ParityError(
            f"For inputs of the shapes {shapes_of(probe)} graph and model choose another label for "
            f"{int((~same[clear]).sum())} answers although the model's margin exceeds "
            f"{tolerance * size:g}. {EXPORT_AGAIN}"
        )
    return int((same | ~clear).sum())


def _margins(logits: Answer) -> Answer:
    """Returns by how much the best label leads the next; 0 if there is but one."""
    if logits.shape[-1] == 1:
        return np.zeros(len(logits), dtype=logits.dtype)
    ordered = np.sort(logits, axis=-1)
    return ordered[:, -1] - ordered[:, -2]
