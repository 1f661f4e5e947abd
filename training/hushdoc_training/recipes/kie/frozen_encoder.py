"""Training of an output layer alone: what the encoder leaves of a window is computed once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from hushdoc.runtime.encoding import Encoder
from hushdoc_training.models.layout import TokenClassifier
from hushdoc_training.recipes.kie.examples import Example, attention
from hushdoc_training.recipes.kie.records import IGNORED, collate, mixed_precision

MOST_KEPT = 1 << 28
"""Numbers of windows that are kept (1 GB); windows beyond are computed whenever they are drawn."""


class FrozenEncoder:
    """An encoder that nothing trains, with the output layer that is.

    Each window is read alone, so that what is kept of it depends on no other.

    Attributes:
        output_layer: The model's own, which takes states of shape [examples, words, in].
        model: The same weights and names as the whole model's, of which the output layer alone
            computes: what is released is watched and saved whole.
    """

    def __init__(self, model: TokenClassifier, encoder: Encoder, *, device: torch.device) -> None:
        """Keeps the model, whose output layer must be all of it that learns, without dropout."""
        self.output_layer = model.inner.get_submodule("classifier")
        self.model = held(model, but=self.output_layer)
        self._model, self._encoder, self._device = model, encoder, device
        self._kept: dict[int, tuple[Example, torch.Tensor, torch.Tensor]] = {}
        self._numbers = 0

    def losses_of(self, examples: Sequence[Example]) -> torch.Tensor:
        """Returns the scaled sum of every example's cross-entropies, shape [examples]."""
        read = [self._read(example) for example in examples]
        states = pad_sequence([states for _, states, _ in read], batch_first=True)
        targets = pad_sequence(
            [targets for _, _, targets in read], batch_first=True, padding_value=IGNORED
        )
        each = functional.cross_entropy(
            self.output_layer(states).float().transpose(1, 2),
            targets,
            ignore_index=IGNORED,
            reduction="none",
        )
        return each.sum(1) * each.new_tensor([example.scale for example in examples])

    def _read(self, example: Example) -> tuple[Example, torch.Tensor, torch.Tensor]:
        """Returns an example, the states of its labelled words, and their targets."""
        if id(example) in self._kept:
            return self._kept[id(example)]
        batch = collate(self._encoder, [example.window])
        with torch.no_grad(), mixed_precision(self._device), attention(self._device):
            states = self._model.states(*batch.inputs(self._device))[0].float()
        targets = batch.targets[0].to(self._device)
        labelled = targets != IGNORED
        read = (example, states[labelled], targets[labelled])
        if self._numbers + read[1].numel() <= MOST_KEPT:
            self._kept[id(example)] = read  # with the example, so that its id stays its own
            self._numbers += read[1].numel()
        return read


def held(module: nn.Module, *, but: nn.Module) -> nn.Module:
    """Returns what holds a module's very tensors by their names, computing in one part alone."""
    if module is but:
        return module
    holder = nn.Module()
    for name, parameter in module.named_parameters(recurse=False):
        holder.register_parameter(name, parameter)
    for name, buffer in module.named_buffers(recurse=False):
        lasting = name not in module._non_persistent_buffers_set
        holder.register_buffer(name, buffer, persistent=lasting)
    for name, child in module.named_children():
        holder.add_module(name, held(child, but=but))
    return holder
