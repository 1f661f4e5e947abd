"""Pretraining on public pages without labels: masked words, and boxes that are hidden.

Of some words the text is masked and is to be told from the words and boxes around it, as in BERT
(Devlin et al. 2019) and LayoutLM (Xu et al. 2020); of others the box is hidden and is to be told
from the words and the boxes around them. A word that the vocabulary lacks is never to be told, so
pages whose words are unknown, of which only boxes are given, teach about boxes alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional

from hushdoc.certificate.claim import Claim
from hushdoc.errors import CheckpointError
from hushdoc.labels import LabelledDocument
from hushdoc.runtime.encoding import Encoder
from hushdoc_training.models.layout import TokenClassifier
from hushdoc_training.recipes import starts
from hushdoc_training.recipes.kie import epochs, training
from hushdoc_training.recipes.kie.epochs import shuffled_windows
from hushdoc_training.recipes.kie.identity import documents_digest, identity
from hushdoc_training.recipes.kie.records import (
    IGNORED,
    BoolArray,
    TensorBatch,
    Window,
    collate,
    mixed_precision,
)
from hushdoc_training.recipes.kie.start import Start
from hushdoc_training.runs.loop import Outcome
from hushdoc_training.runs.run_folder import Run, keep_notes

BINS = 64
"""Into how many places each edge of a hidden box is sorted."""

_SIDE = 1001
"""Edges of boxes are integers from 0 to 1000."""

_MASKS = ("[MASK]", "<mask>")
_UNKNOWN = ("[UNK]", "<unk>")


@dataclass(frozen=True, kw_only=True)
class MaskedSettings:
    """How pages without labels are learned from."""

    epochs: float = 1.0  # passes over the pages
    batch_size: int = 16  # windows in one step
    learning_rate: float = 3e-4  # peak of AdamW's, after 6 % warm-up and before linear decay
    masked_words: float = 0.15  # share of the words whose text is to be told
    hidden_boxes: float = 0.15  # share of the words whose box is to be told
    segment_shuffling: float = 0.0  # share of pages whose segments are put into another order
    seed: int = 0  # of the order of windows, and of what is masked; no secret


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedBatch:
    """Model inputs, and what is to be told: ids [batch, sequence], bins [batch, sequence, 4]."""

    inputs: TensorBatch
    ids: torch.Tensor
    bins: torch.Tensor


class MaskedModel(nn.Module):
    """A layout encoder with what tells masked words and hidden boxes; only the encoder is kept."""

    def __init__(self, encoder: TokenClassifier) -> None:
        """Wraps an encoder, whose word embeddings tell the words too."""
        super().__init__()
        vocabulary, hidden = encoder.word_embeddings.shape
        self.encoder = encoder
        self.words = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.LayerNorm(hidden))
        self.word_bias = nn.Parameter(torch.zeros(vocabulary))
        self.boxes = nn.Sequential(
            nn.Linear(hidden, hidden), nn.GELU(), nn.LayerNorm(hidden), nn.Linear(hidden, 4 * BINS)
        )

    def loss(self, batch: MaskedBatch, *, device: torch.device) -> torch.Tensor:
        """Returns the mean cross-entropy of masked words plus that of the edges of hidden boxes."""
        with mixed_precision(device):
            states = self.encoder.hidden(*batch.inputs.inputs(device))
        ids, bins = batch.ids.to(device), batch.bins.to(device)
        asked, hidden = ids != IGNORED, bins[..., 0] != IGNORED
        words = self.words(states[asked].float())
        scores = words @ self.encoder.word_embeddings.float().T + self.word_bias
        edges = self.boxes(states[hidden].float()).unflatten(1, (4, BINS))
        return _mean(scores, ids[asked]) + _mean(edges.flatten(0, 1), bins[hidden].flatten())


def train_masked(
    start: Start,  # its model is changed
    documents: Sequence[LabelledDocument],
    settings: MaskedSettings,
    *,
    out: Path,
    claim: Claim,  # `claims.public`
    resume: bool = False,
    quiet: bool = False,
    notes: Mapping[str, str] | None = None,  # texts to keep in `out`, by their names
) -> Outcome:
    """Trains on pages whose labels are not read, and writes `out/checkpoint`.

    The output layer stays as it is. Images are not read. No box is hidden from a model that reads
    words alone.

    Raises:
        CheckpointError: The model reads images, or its tokenizer has no token for masked words.
        PrivacyError: The start has seen protected documents.
    """
    if start.preprocessing.image is not None:
        raise CheckpointError(
            "The model reads images of pages, and masked words and boxes are learned without. "
            "Train without images first, or leave this step out."
        )
    if not start.model.reads_boxes:
        settings = replace(settings, hidden_boxes=0.0)
    device = training.best_device()
    training.require_readable(documents, start)
    starts.require_public(start)
    starts.require_told(start)
    masking = Masking.of(start.tokenizer_json, settings)
    encoder = start.encoder
    windows = shuffled_windows(
        [LabelledDocument(document=item.document, spans=()) for item in documents],
        encoder,
        start.labels,
        share=settings.segment_shuffling,
        generator=np.random.default_rng(settings.seed),
    )
    same = identity(start, documents_digest(documents), hashlib.sha256(claim.to_json()).hexdigest())
    run = Run.open(out, {"mode": "masked", **asdict(settings), **same}, resume=resume)
    starts.keep_tokenizer(run.folder, start)
    keep_notes(run.folder, notes or {})
    torch.manual_seed(settings.seed)
    model = MaskedModel(start.model).to(device).train()

    def loss(parts: list[Window], epoch: int, step: int) -> torch.Tensor:
        generator = np.random.default_rng((settings.seed, epoch, step))
        return model.loss(masking.batch(encoder, parts, generator), device=device)

    return epochs.train(
        run,
        windows,
        settings,
        model=model,
        loss=loss,
        save=lambda folder: training.save(folder, start, claim),
        title=f"{start.name}: masked words and boxes",
        quiet=quiet,
    )


@dataclass(frozen=True, kw_only=True)
class Masking:
    """What is masked: shares of the words, and the ids of special tokens."""

    settings: MaskedSettings
    mask: int
    unknown: int | None
    vocabulary: int

    @classmethod
    def of(cls, tokenizer_json: str, settings: MaskedSettings) -> Masking:
        """Returns it for a tokenizer; one without a token to mask by is a CheckpointError."""
        tokenizer = Tokenizer.from_str(tokenizer_json)
        ids = [tokenizer.token_to_id(token) for token in _MASKS]
        unknown = [tokenizer.token_to_id(token) for token in _UNKNOWN]
        found = next((number for number in (*ids, *unknown) if number is not None), None)
        if found is None:
            raise CheckpointError(
                "The tokenizer has neither a token for masked words nor one for unknown words; "
                f"expected one of {', '.join((*_MASKS, *_UNKNOWN))}. Choose another start."
            )
        return cls(
            settings=settings,
            mask=found,
            unknown=next((number for number in unknown if number is not None), None),
            vocabulary=tokenizer.get_vocab_size(),
        )

    def batch(
        self, encoder: Encoder, parts: Sequence[Window], generator: np.random.Generator
    ) -> MaskedBatch:
        """Returns windows as a batch, with what is to be told of them taken out."""
        batch = collate(encoder, parts)
        ids, boxes = batch.input_ids.numpy().copy(), batch.bbox.numpy().copy()
        asked = np.full(ids.shape, IGNORED, dtype=np.int64)
        bins = np.full(boxes.shape, IGNORED, dtype=np.int64)
        for row, part in enumerate(parts):
            inside = slice(1, 1 + part.stop - part.start)
            words = part.page.words[part.start : part.stop]
            masked = _some(words[:, None], self.settings.masked_words, generator)
            # Words of a segment may share its box, which is to be told from other boxes.
            hidden = _some(boxes[row, inside], self.settings.hidden_boxes, generator)
            masked &= ~hidden & (ids[row, inside] != self.unknown)
            asked[row, inside][masked] = ids[row, inside][masked]
            bins[row, inside][hidden] = boxes[row, inside][hidden] * BINS // _SIDE
            ids[row, inside][masked] = self._instead(ids[row, inside][masked], generator)
            boxes[row, inside][hidden] = 0
        inputs = TensorBatch(
            input_ids=torch.from_numpy(ids),
            bbox=torch.from_numpy(boxes),
            attention_mask=batch.attention_mask,
            targets=batch.targets,
        )
        return MaskedBatch(inputs=inputs, ids=torch.from_numpy(asked), bins=torch.from_numpy(bins))

    def _instead(
        self, ids: np.ndarray[tuple[int, ...], np.dtype[np.int64]], generator: np.random.Generator
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """Returns what stands for masked tokens: in a tenth a random one, in a tenth themselves."""
        manner = generator.random(len(ids))
        random = generator.integers(0, self.vocabulary, len(ids))
        return np.where(manner < 0.8, self.mask, np.where(manner < 0.9, random, ids))


def _some(
    rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    share: float,
    generator: np.random.Generator,
) -> BoolArray:
    """Draws some of the different rows, and returns which of all rows are equal to one of them."""
    _, number = np.unique(rows, axis=0, return_inverse=True)
    number = number.reshape(-1)
    drawn: BoolArray = (generator.random(number.max() + 1) < share)[number]
    return drawn


def _mean(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, targets, reduction="sum") / max(1, len(targets))
