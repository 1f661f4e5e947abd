"""Pointer: a layout encoder that answers a question by two ends of a run of words on the page.

It reads [CLS] question [SEP] window [SEP], as BERT does for SQuAD (Devlin et al. 2019, section
4.2), and gives each token two scores: that the answer begins with it, and that it ends with it.
Both at [CLS] mean that the window has no answer. It can say nothing that is not on the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hushdoc_training import checkpoint
from hushdoc_training.models import layout
from hushdoc_training.models.layout import LayoutModel, TokenClassifier
from hushdoc_training.models.trained import Trained

TOKEN_TYPES = 2
"""0 for the question and special tokens, 1 for words of the page."""


class Pointer(LayoutModel):
    """A transformers token classifier of two outputs that knows question and page apart."""

    def forward(
        self,
        input_ids: torch.Tensor,
        bbox: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Returns scores of start and end, shape [batch, sequence, 2].

        All inputs are int64 of shape [batch, sequence], boxes [batch, sequence, 4] from 0 to 1000.
        The mask is 1 for tokens and 0 for padding; types are 0 for the question, special tokens and
        padding and 1 for words of the page, which all are where no types are given.
        """
        if token_type_ids is None:
            token_type_ids = torch.ones_like(input_ids)
        scores: torch.Tensor = self.inner(
            input_ids=input_ids,
            **self.boxes_for(bbox),
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
        ).logits
        return scores

    def losses(self, inputs: Mapping[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
        """Returns each row's loss, the mean of its two cross-entropies, shape [batch].

        Inputs are those of `forward` by their names. Probabilities are over the first token and the
        words of the page, as at run time. Targets, shape [batch, 2], are the row's first and last
        token of the answer; 0 and 0 for none.
        """
        allowed = choices(inputs["token_type_ids"])[..., None]
        scores = self(**inputs).float().masked_fill(~allowed, -torch.inf)
        return functional.cross_entropy(scores, targets, reduction="none").mean(1)


def choices(token_type_ids: torch.Tensor) -> torch.Tensor:
    """Returns which tokens a row's ends may be, shape [batch, sequence]: the first, and words."""
    allowed = token_type_ids > 0
    allowed[:, 0] = True
    return allowed


def pointer_on(encoder: TokenClassifier) -> Pointer:
    """Returns a pointer on an encoder, which is changed: fresh output layer, one more token type.

    The types begin alike, so that the pointer reads words as the encoder did.
    """
    model = Pointer(encoder.inner, encoder.architecture).train(encoder.training)
    layout.fresh_output_layer(model, 2)
    inner: Any = model.inner
    embeddings = inner.base_model.embeddings
    known = embeddings.token_type_embeddings.weight
    table = nn.Embedding(TOKEN_TYPES, known.shape[1])
    with torch.no_grad():
        table.weight.copy_(known[:1].expand_as(table.weight))
    embeddings.token_type_embeddings = table
    inner.config.type_vocab_size = TOKEN_TYPES
    return model


def freeze(model: Pointer, *, trained: Trained) -> None:
    """Freezes all parameters but the chosen ones, and the output layer's bias in any case.

    What is added to all scores of a row changes no probability, so a bias would collect noise
    without ever learning.
    """
    layout.freeze(model, trained=trained)
    inner: Any = model.inner
    inner.classifier.bias.requires_grad_(False)


def load(folder: Path) -> Pointer:
    """Returns the pointer of a checkpoint folder, in eval mode; a CheckpointError names damage."""
    architecture = str(checkpoint.read_object(folder, "config.json").get("model_type"))
    stored = layout.load(folder, architecture)
    return Pointer(stored.inner, architecture).eval()
