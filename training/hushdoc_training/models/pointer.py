"""Pointer: a layout encoder that answers questions by the two ends of a run of words on the page.

A window of the page is encoded once, each question by the same encoder as a text without places. A
small reader lets the question's tokens attend to the window, and points: it gives each token of the
window two scores, that the answer begins with it and that it ends with it. Both at the first token
mean that the window has no answer. It can say nothing that is not on the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hushdoc.errors import CheckpointError
from hushdoc_training.models import layout
from hushdoc_training.models.layout import LayoutModel, TokenClassifier

IGNORED = -100
"""The target of a question that a row does not have."""

LAYERS = 1
"""Of the reader."""


class Pointer(LayoutModel):
    """A transformers encoder of pages and questions, with a reader that finds answers."""

    OUTPUT = "reader."

    def __init__(self, inner: nn.Module, architecture: str) -> None:
        """Puts a fresh reader on an encoder."""
        super().__init__(inner, architecture)
        config: Any = inner.config
        self.reader = Reader(config.hidden_size, config.num_attention_heads)

    def forward(
        self,
        input_ids: torch.Tensor,
        bbox: torch.Tensor,
        attention_mask: torch.Tensor,
        question_ids: torch.Tensor,
        question_mask: torch.Tensor,
    ) -> torch.Tensor:
        """Returns scores of start and end, shape [batch, sequence, questions, 2].

        Windows are int64 of shape [batch, sequence], their boxes [batch, sequence, 4] from 0 to
        1000, their questions [batch, questions, length]. Masks are 1 for tokens and 0 for padding.
        """
        page, asked = self.encoded(input_ids, bbox, attention_mask, question_ids, question_mask)
        scores: torch.Tensor = self.reader(page, attention_mask, asked, question_mask)
        return scores

    def encoded(
        self,
        input_ids: torch.Tensor,
        bbox: torch.Tensor,
        attention_mask: torch.Tensor,
        question_ids: torch.Tensor,
        question_mask: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns what the reader reads of the inputs of `forward`.

        States of windows, shape [batch, sequence, hidden], and of questions, [batch, questions,
        length, hidden].
        """
        page = self.states(input_ids, bbox, attention_mask)
        batch, questions, length = question_ids.shape
        flat = question_ids.reshape(batch * questions, length)
        nowhere = (flat * 0)[..., None].expand(-1, -1, 4)
        asked = self.states(flat, nowhere, question_mask.reshape(batch * questions, length))
        return page, asked.reshape(batch, questions, length, page.shape[2])

    def states(
        self, input_ids: torch.Tensor, bbox: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Returns the encoder's last states, shape [rows, tokens, hidden]."""
        states: torch.Tensor = self.inner(
            input_ids=input_ids,
            **self.boxes_for(bbox),
            attention_mask=attention_mask,
            token_type_ids=input_ids * 0,  # of the very examples, as private training must know
        )[0]
        return states

    def losses(self, inputs: Mapping[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
        """Returns each window's loss, shape [batch]; see `losses_of_scores`.

        Inputs are those of `forward` by their names.
        """
        return losses_of_scores(self(**inputs), inputs["attention_mask"], targets)

    def probe(self, length: int) -> list[torch.Tensor]:
        """Returns inputs of two windows of so many tokens, each with a question of as many."""
        windows = super().probe(length)
        return [*windows, windows[0][:, None], windows[2][:, None]]

    def save(self, folder: Path) -> None:
        """Writes model.safetensors and config.json."""
        from safetensors.torch import save_model

        save_model(self, str(folder / "model.safetensors"))
        inner: Any = self.inner
        inner.config.save_pretrained(folder)


class Reader(nn.Module):
    """Finds the ends of answers: from states of a window and of its questions' tokens.

    States of questions are standardised by what `standardise` measured: an encoder that has learned
    fields leaves them almost alike, and a reader would hardly learn from what little is between.
    """

    centre: torch.Tensor
    spread: torch.Tensor

    def __init__(self, hidden: int, heads: int) -> None:
        """Makes its layers, and one of two vectors for each question."""
        super().__init__()
        self.register_buffer("centre", torch.zeros(hidden))
        self.register_buffer("spread", torch.ones(1))
        self.layers = nn.ModuleList(ReaderLayer(hidden, heads) for _ in range(LAYERS))
        self.ends = nn.Linear(hidden, 2 * hidden)

    def forward(
        self, page: torch.Tensor, mask: torch.Tensor, asked: torch.Tensor, asked_mask: torch.Tensor
    ) -> torch.Tensor:
        """Returns scores, shape [batch, sequence, questions, 2], of states and their masks.

        Those of the page are [batch, sequence, hidden], of the questions [batch, questions, length,
        hidden].
        """
        return self.scores(page, self.read(page, mask, asked, asked_mask))

    def read(
        self, page: torch.Tensor, mask: torch.Tensor, asked: torch.Tensor, asked_mask: torch.Tensor
    ) -> torch.Tensor:
        """Returns a state of each question beside its page, shape [batch, questions, hidden]."""
        batch, questions, length, hidden = asked.shape
        tokens = asked.reshape(batch, questions * length, hidden)
        tokens = (tokens - self.centre) / self.spread
        for layer in self.layers:
            tokens = layer(tokens, page, mask)
        weights = asked_mask[..., None].to(tokens.dtype)
        return (tokens.reshape(asked.shape) * weights).sum(2) / weights.sum(2).clamp(min=1)

    def scores(self, page: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        """Returns scores, shape [batch, sequence, questions, 2], of what `read` returns."""
        batch, questions, hidden = read.shape
        ends = self.ends(read).reshape(batch, questions * 2, hidden) / hidden**0.5
        return (page @ ends.transpose(1, 2)).reshape(batch, -1, questions, 2)


class ReaderLayer(nn.Module):
    """Cross-attention and a feed-forward part, each with what it read added and normalised."""

    def __init__(self, hidden: int, heads: int) -> None:
        """Makes a layer of as many heads as the encoder's have."""
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(hidden, hidden) for _ in range(4))
        self.up, self.down = nn.Linear(hidden, 2 * hidden), nn.Linear(2 * hidden, hidden)
        self.after_attention, self.after_all = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def forward(self, tokens: torch.Tensor, page: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Returns the tokens' new states, shape [batch, tokens, hidden]."""
        batch, count, hidden = tokens.shape
        query, key, value = (
            states.reshape(batch, -1, self.heads, hidden // self.heads).transpose(1, 2)
            for states in (self.query(tokens), self.key(page), self.value(page))
        )
        seen = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask[:, None, None, :].bool()
        )
        seen = self.out(seen.transpose(1, 2).reshape(batch, count, hidden))
        tokens = self.after_attention(tokens + seen)
        found: torch.Tensor = self.after_all(tokens + self.down(functional.gelu(self.up(tokens))))
        return found


def losses_of_scores(
    scores: torch.Tensor, attention_mask: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """Returns each window's loss, shape [batch]: the mean over its questions.

    That of a question is the mean of two cross-entropies. Probabilities are over the first token
    and the words of the page, as at run time. Targets, shape [batch, questions, 2], are the first
    and last token of the answer in the window; 0 and 0 for none, and IGNORED where a window has no
    further question.
    """
    allowed = choices(attention_mask)[..., None, None]
    each = functional.cross_entropy(
        scores.float().masked_fill(~allowed, -torch.inf),
        targets,
        ignore_index=IGNORED,
        reduction="none",
    ).mean(2)
    return each.sum(1) / (targets[..., 0] != IGNORED).sum(1)


def choices(attention_mask: torch.Tensor) -> torch.Tensor:
    """Returns which tokens of a window ends may be, shape [batch, sequence]: all but the last."""
    return functional.pad(attention_mask[:, 1:], (0, 1)) > 0


def pointer_on(encoder: TokenClassifier) -> Pointer:
    """Returns a pointer with a fresh reader on the encoder of a token classifier."""
    inner: Any = encoder.inner.base_model
    return Pointer(inner, encoder.architecture).train(encoder.training)


def standardise(model: Pointer, questions: Sequence[torch.Tensor]) -> None:
    """Lets the reader expect questions to have the states that public ones have now.

    Each is int64 of shape [tokens], its special ones included.
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        each = [
            model.states(ids, torch.zeros(*ids.shape, 4).long(), torch.ones_like(ids))[0]
            for ids in (question[None] for question in questions)
        ]
    states = torch.cat(each)
    model.reader.centre.copy_(states.mean(0))
    model.reader.spread.copy_((states - states.mean(0)).square().mean().sqrt().clamp(min=1e-6))
    model.train(was_training)


freeze = layout.freeze


def load(folder: Path) -> Pointer:
    """Returns the pointer of a checkpoint folder, in eval mode; a CheckpointError names damage."""
    from safetensors import SafetensorError
    from safetensors.torch import load_model
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        model = pointer_on(layout.untrained(config))
        load_model(model, folder / "model.safetensors")
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"The weights in '{folder}' can't be read: {error}. Train again, or restore the folder."
        ) from error
    return model.eval()
