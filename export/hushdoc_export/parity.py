"""Parity: the exported graph must answer like the checkpoint it came from.

Both are asked over shapes that catch what exporters get wrong: a batch of one, sequences that
are shorter and longer than the example it was traced with, rows that end in padding, and the
longest window. A difference is an error, never a note; of a variant that was rounded on purpose
it is measured and stated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.document.page import BOX_SCALE
from hushdoc.errors import CheckpointError, ParityError
from hushdoc.runtime.encoding import Batch, Preprocessing
from hushdoc.runtime.images import ImagePreprocessing, Pixels
from hushdoc.runtime.session import Session

TOLERANCE = 1e-4
"""Largest absolute difference between two logits that is still rounding in float32."""

SHAPES = ((1, 3), (2, 12), (5, 2), (3, 33))
"""(batch, sequence); the longest window is added."""

_SEED = 20261121
Logits = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class ParityResult:
    """How close graph and checkpoint were.

    Attributes:
        shapes: The (batch, sequence) shapes that were asked.
        max_difference: Largest absolute difference of two logits.
        tolerance: What was allowed; None where any finite difference was.
        num_tokens: Tokens compared, padding left out.
        argmax_agreement: Share of tokens with the same best tag; tags that lie closer together
            than the tolerance count as the same.
        images: Whether they read images too.
    """

    shapes: tuple[tuple[int, int], ...]
    max_difference: float
    tolerance: float | None
    num_tokens: int
    argmax_agreement: float
    images: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the certificate's derivation."""
        return {
            "shapes": [list(shape) for shape in self.shapes],
            "maxDifference": self.max_difference,
            "tolerance": self.tolerance,
            "numTokens": self.num_tokens,
            "argmaxAgreement": self.argmax_agreement,
            "inputs": "invented tokens" + (", boxes and pixels" if self.images else " and boxes"),
        }


def compare(
    model: Any,
    session: Session,
    *,
    preprocessing: Preprocessing,
    vocab_size: int,
    tolerance: float | None = TOLERANCE,
) -> ParityResult:
    """Returns how close a graph is to its model on invented inputs, read from no data set.

    Args:
        model: The torch model, forward(input_ids, bbox, attention_mask) -> logits; pixel_values
            too where the preprocessing says so.
        session: The exported graph, loaded.
        preprocessing: Gives the longest window and the special tokens.
        vocab_size: Token ids are drawn below it.
        tolerance: Largest difference allowed; None for a variant, of which it is only measured.

    Raises:
        ParityError: They differ, or an answer is not finite; the message names the shape and the
            figure.
        CheckpointError: The model can't read a window of the length its preprocessing names.
    """
    shapes = tuple(dict.fromkeys((*_fitting(preprocessing), (1, preprocessing.max_tokens))))
    generator = np.random.default_rng(_SEED)
    worst, agreed, total = 0.0, 0, 0
    for shape in shapes:
        batch = invent(shape, preprocessing, vocab_size=vocab_size, generator=generator)
        expected = _ask_torch(model, batch, preprocessing)
        found = session.run(batch.to_inputs())[0]
        if found.shape != expected.shape:
            raise ParityError(
                f"For inputs of shape {shape} the graph answers {found.shape} and the checkpoint "
                f"{expected.shape}. Expected the same; export again with the versions in "
                "constraints.txt."
            )
        told = batch.attention_mask.astype(bool)
        difference, same = _compare_logits(found[told], expected[told], shape, tolerance)
        worst, agreed, total = max(worst, difference), agreed + same, total + int(told.sum())
    return ParityResult(
        shapes=shapes,
        max_difference=worst,
        tolerance=tolerance,
        num_tokens=total,
        argmax_agreement=agreed / total,
        images=preprocessing.image is not None,
    )


def invent(
    shape: tuple[int, int],
    preprocessing: Preprocessing,
    *,
    vocab_size: int,
    generator: np.random.Generator,
) -> Batch:
    """Returns inputs of a shape whose rows, but for the first, end in padding."""
    rows, length = shape
    mask = np.ones(shape, dtype=np.int64)
    for row in range(1, rows):
        mask[row, int(generator.integers(1, length + 1)) :] = 0
    ids = generator.integers(0, vocab_size, size=shape, dtype=np.int64)
    ids[:, 0] = preprocessing.cls_id
    ids[mask == 0] = preprocessing.pad_id
    corners = generator.integers(0, BOX_SCALE + 1, size=(*shape, 2, 2), dtype=np.int64)
    boxes = np.sort(corners, axis=2).reshape(*shape, 4)
    boxes[:, 0] = 0
    boxes[mask == 0] = 0
    return Batch(
        input_ids=ids,
        bbox=boxes,
        attention_mask=mask,
        pixel_values=_noise(rows, preprocessing.image, generator),
    )


def _noise(
    rows: int, image: ImagePreprocessing | None, generator: np.random.Generator
) -> Pixels | None:
    """Returns images of noise in a model's range, None where it reads none."""
    if image is None:
        return None
    colours = generator.random((rows, image.height, image.width, 3), dtype=np.float32)
    mean, std = (np.asarray(told, dtype=np.float32) for told in (image.mean, image.std))
    return np.ascontiguousarray(((colours - mean) / std).transpose(0, 3, 1, 2))


def _fitting(preprocessing: Preprocessing) -> Iterable[tuple[int, int]]:
    return (shape for shape in SHAPES if shape[1] <= preprocessing.max_tokens)


def _ask_torch(model: Any, batch: Batch, preprocessing: Preprocessing) -> Logits:
    import torch

    try:
        with torch.no_grad():
            inputs = {name: torch.from_numpy(value) for name, value in batch.to_inputs().items()}
            logits: Logits = model(**inputs).float().numpy()
    except (IndexError, RuntimeError) as error:
        raise CheckpointError(
            f"The model fails on a window of {batch.input_ids.shape[1]} tokens: {error}. Its "
            f"preprocessing promises windows of up to {preprocessing.max_tokens}; train it with "
            "windows that its position table can hold."
        ) from error
    return logits


def _compare_logits(
    found: Logits, expected: Logits, shape: tuple[int, int], tolerance: float | None
) -> tuple[float, int]:
    """Returns the largest difference and on how many tokens both choose the same tag."""
    difference = float(np.abs(found - expected).max())
    limit = np.finfo(np.float32).max if tolerance is None else tolerance
    if not difference <= limit:  # written so that NaN fails
        raise ParityError(
            f"For inputs of shape {shape} graph and checkpoint differ by {difference:.3g}; at most "
            f"{limit:g} is rounding. Nothing was written; export again with the versions in "
            "constraints.txt."
        )
    same = found.argmax(axis=-1) == expected.argmax(axis=-1)
    if tolerance is None:
        return difference, int(same.sum())
    clear = _margins(expected) > tolerance
    if not same[clear].all():
        raise ParityError(
            f"For inputs of shape {shape} graph and checkpoint choose another tag for "
            f"{int((~same[clear]).sum())} tokens although the checkpoint's margin exceeds "
            f"{tolerance:g}. Nothing was written; export again with the versions in "
            "constraints.txt."
        )
    return difference, int((same | ~clear).sum())


def _margins(logits: Logits) -> Logits:
    """Returns by how much the best tag leads the next, for each token; 0 if there is but one."""
    if logits.shape[-1] == 1:
        return np.zeros(len(logits), dtype=logits.dtype)
    ordered = np.sort(logits, axis=-1)
    lead: Logits = ordered[:, -1] - ordered[:, -2]
    return lead
