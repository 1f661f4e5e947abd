"""Book-keeping clipping: per-record norms and clipped sums out of one backward pass.

The backward pass computes no parameter gradients. It leaves, for every use of a parameter, the pair
that the gradient would be made of (input, gradient of the output), or the gradient by record where
that is smaller. Norms are taken of the sum of all uses, cross terms included; then every pair
becomes one clipped sum (Bu, Wang, Zha, Karypis: Differentially Private Optimization on Large Model
at Small Cost, 2023, without its assumption that a parameter is used once).
"""

from __future__ import annotations

import torch

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.clipper import (
    Clipper,
    losses_of_examples,
    nothing_but_padding,
    pretended,
)
from hushdoc_training.privacy.clipping.contract import ClippedBatch, Losses
from hushdoc_training.privacy.clipping.gradients import handed_over
from hushdoc_training.privacy.clipping.grouping import Grouping
from hushdoc_training.privacy.clipping.interception import Interception
from hushdoc_training.privacy.clipping.locality import require_local
from hushdoc_training.privacy.clipping.model_inputs import ModelInputs
from hushdoc_training.privacy.clipping.tape import Tape
from hushdoc_training.privacy.clipping.unwrapped_torch import backward


class BookKeeping(Clipper):
    """A clipper that takes one backward pass per batch, without parameter gradients.

    Exact for linear layers, embeddings, layer, group, instance and RMS normalisation, convolutions
    and parameters that are added, multiplied or joined to examples, however often they are used,
    tied or derived from one another. Any other use is refused by name when it happens.
    """

    def _add(self, losses: Losses, grouping: Grouping) -> ClippedBatch:
        idle = grouping.empty
        tape = Tape(pretended(grouping) if idle else grouping, self.placement)
        by_example = self._run(tape, losses)
        with torch.no_grad():
            squares = tape.squares()
            total = torch.stack(list(squares.values())).sum(0)
            if idle:
                nothing = dict.fromkeys(squares, torch.full_like(total, torch.inf))
                tape.clip_into(self.sums, nothing, self.clipping)
                return nothing_but_padding(self.placement.parameters, grouping)
            tape.clip_into(self.sums, grouping.counted(squares, total), self.clipping)
        return ClippedBatch(
            norms=total.sqrt(),
            losses=by_example,
            nonfinite=int((~torch.isfinite(total)).sum()),
            squares=squares,
        )

    def _run(self, tape: Tape, losses: Losses) -> torch.Tensor:
        # Forward and backward. A parameter that gets a gradient the ordinary way was used where
        # nobody watched: by a compiled function, say.
        leaked: list[str] = []
        interception = Interception(tape, self.model, self.placement)
        with (
            handed_over(self.placement.parameters, lambda name, _: leaked.append(name)),
            ModelInputs(self.model, interception.enter) as inputs,
            interception,
        ):
            with inputs.watched():
                by_example = losses_of_examples(losses, tape.grouping.examples)
            if interception.is_scattered(by_example):
                with tape.deaf():
                    require_local(by_example, interception.moved)
            interception.moved.clear()
            if by_example.requires_grad:
                backward(tape.grouping.total(by_example))
        if leaked:
            raise PrivacyError(
                f"{len(leaked)} trainable parameters, '{leaked[0]}' among them, got a gradient "
                "past the book-keeping: they are used inside a compiled or custom function, apart "
                "from any example, or on examples that no module was handed. Call the model or its "
                "modules with the examples, don't compile it, freeze the parameters, or choose the "
                "backend one-by-one."
            )
        return by_example.detach()
