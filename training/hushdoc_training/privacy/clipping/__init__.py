"""Clipped sums of per-record gradients: one contract, three backends.

A clipper takes the losses of a physical batch and adds, for every record in it, the gradient of
that record's weighted loss, scaled down to at most the clipping norm. Noise, divisors, sampling and
accounting stand elsewhere.

    BookKeeping     the default: one backward pass, without parameter gradients
    OpacusHooks     Opacus' hooks: a second implementation, for comparison
    OneByOne        one backward pass for every record: slow, for any architecture; the self-test's
                    truth

`check` holds a clipper to OneByOne before training and refuses a loss that couples examples.

What the losses must keep to:

1. `losses()` runs the forward pass of the clipper's model and returns one loss for every example of
   the physical batch, shape [examples]. The loss of an example depends on that example alone.
2. A tensor that `losses` hands to the model, or to a module of it, is taken to hold one entry for
   every example if its first axis has as many entries as there are examples. All others are
   constants.
3. All examples of a record are in one call of `add`, or in one call of `add_large`.
"""

from hushdoc_training.privacy.clipping.book_keeping import BookKeeping
from hushdoc_training.privacy.clipping.clipper import Clipper
from hushdoc_training.privacy.clipping.contract import ClippedBatch, Losses
from hushdoc_training.privacy.clipping.one_by_one import OneByOne
from hushdoc_training.privacy.clipping.opacus_backend import OpacusHooks
from hushdoc_training.privacy.clipping.self_test import check, check_drawing
from hushdoc_training.privacy.clipping.unwrapped_torch import uncompiled

__all__ = [
    "BookKeeping",
    "ClippedBatch",
    "Clipper",
    "Losses",
    "OneByOne",
    "OpacusHooks",
    "check",
    "check_drawing",
    "uncompiled",
]
