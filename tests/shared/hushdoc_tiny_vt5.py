"""A tiny VT5 with random weights and rows of it; and one that has learned a few answers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import hushdoc_tiny
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch.nn.utils import rnn
from transformers import PreTrainedTokenizerFast

from hushdoc.document.document import Document
from hushdoc.runtime.questions import VT5_PROMPT, Asking, QuestionEncoder, QuestionRow
from hushdoc_export import docvqa, question_agreement
from hushdoc_training.models import vt5_start
from hushdoc_training.models.vt5 import IGNORED, VT5, VT5Config
from hushdoc_training.models.vt5_start import TINY, TINY_IMAGE, VT5Start

WORDS = "total due invoice number date 2026-11-23 amount 1,234.56 tax no. sender receiver a.b@c.de"


@functools.cache
def tokenizer_json() -> str:
    """Returns a tokenizer that was learned from a few words."""
    return vt5_start.tokenizer([WORDS] * 3, vocab_size=120)


def start(*, image: bool = True) -> VT5Start:
    """Returns a random model, in eval mode, that answers differently from page to page."""
    torch.manual_seed(1)
    made = vt5_start.from_nothing(tokenizer_json(), size=TINY, vision="tiny" if image else None)
    made.model.eval()
    return made


def rows(
    lengths: Sequence[int], *, answers: Sequence[int] = (3, 5), image: bool = True, seed: int = 2
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Returns inputs of invented rows with so many tokens, padded, and answers for them."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(lengths)
    at = torch.arange(longest)
    mask = (at < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(3, 60, (len(lengths), longest), generator=generator)
    corners = torch.randint(0, 1001, (len(lengths), longest, 2, 2), generator=generator)
    inputs = {
        "input_ids": ids * mask,
        "bbox": corners.sort(2).values.flatten(2) * mask[..., None],
        "attention_mask": mask,
    }
    if image:
        side = TINY_IMAGE["image_size"]
        inputs["pixel_values"] = torch.randn(len(lengths), 3, side, side, generator=generator)
    targets = torch.randint(3, 60, (len(lengths), max(answers)), generator=generator)
    for row in range(len(lengths)):
        end = answers[row % len(answers)]
        targets[row, end - 1] = 1
        targets[row, end:] = IGNORED
    return inputs, targets


def write_t5(start: VT5Start, folder: Path) -> Path:
    """Returns a folder with a model's T5 and tokenizer as transformers publishes them."""
    start.model.t5.save_pretrained(folder)
    made = Tokenizer.from_str(start.tokenizer_json)
    PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(folder)
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """Returns the weights in a folder, by their names there."""
    return load_file(folder / "model.safetensors")


PUBLISHED = {
    "spatial_embedding.x_position_embeddings.": "boxes.x.",
    "spatial_embedding.y_position_embeddings.": "boxes.y.",
    "spatial_embedding.LayerNorm.": "boxes.norm.",
    "spatial_embedding.spatial_emb_matcher.layers.0.": "boxes.linear.",
    "visual_embedding.visual_emb_matcher.layers.0.": "projection.",
}
"""Names of the paper's published code, written down here too, and ours."""


def write_reference(
    start: VT5Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, torch.Tensor]:
    """Returns what a folder has then: a model's weights by the names of the paper's code.

    From then on the paper's image encoder is as small as this model's.
    """
    config = VT5Config(t5=start.model.config.t5, vision=TINY_IMAGE)
    monkeypatch.setattr(VT5Config, "base", classmethod(lambda cls: config))
    write_t5(start, folder)
    start.model.vision.save_pretrained(folder / "image")
    published = weights(folder) | {
        f"visual_embedding.image_model.{name}": value
        for name, value in weights(folder / "image").items()
    }
    for theirs, ours in PUBLISHED.items():
        published |= {
            theirs + name.removeprefix(ours): value
            for name, value in start.model.state_dict().items()
            if name.startswith(ours)
        }
    save_file(published, folder / "model.safetensors")
    return published


ONE_LAYER = {**TINY, "num_layers": 1}
"""Sizes of a model that is traced in a few seconds."""

PAGES = {
    "a": "Invoice number 4711 Total due 9.50 EUR from Acme Ltd on 2026-11-23",
    "b": "Receipt Total 12.00 Acme Ltd thanks you",
}
LEARNED = (
    ("a", "What is the total?", "9.50 EUR"),
    ("a", "Which number?", "4711"),
    ("a", "Who sent it?", "Acme Ltd"),
    ("a", "What is the tax?", ""),
    ("b", "What is the total?", "12.00"),
    ("b", "Which number?", ""),
    ("b", "Who sent it?", "Acme Ltd"),
    ("b", "What is the tax?", ""),
)
"""Page, question and answer of each row that the model below has learned; "" for none."""


def asking(**change: Any) -> Asking:
    """Returns the settings of a VT5 for questions of up to 40 tokens."""
    sizes = {"max_tokens": 110, "overlap": 16, "max_question": 40, "max_answer": 12}
    settings = {"kind": "vt5", "prompt": VT5_PROMPT, "lowercase": True, "eos_id": 1, "pad_id": 0}
    return Asking(**{**settings, **sizes, **change})


def document(name: str) -> Document:
    """Returns one of PAGES, its words in a row."""
    words = PAGES[name].split()
    boxes = [(10 + 40 * place, 10, 45 + 40 * place, 22) for place in range(len(words))]
    return Document.from_words(words, boxes, width=640, height=100, id=name)


def learned_tokenizer() -> str:
    """Returns a tokenizer that was learned from all that is read and asked."""
    texts = [*PAGES.values(), *(question for _, question, _ in LEARNED), VT5_PROMPT]
    return vt5_start.tokenizer(texts * 3, vocab_size=150)


def taught(*, image: bool = False) -> VT5:
    """Returns a model of one layer, in eval mode, that answers LEARNED."""
    torch.manual_seed(5)
    made = vt5_start.from_nothing(
        learned_tokenizer(), size=ONE_LAYER, vision="tiny" if image else None
    )
    model, encoder = made.model.eval(), QuestionEncoder(made.tokenizer_json, asking())
    pages = {name: encoder.page(document(name).pages[0]) for name in PAGES}
    rows = [
        QuestionRow(
            question=encoder.question(question),
            page=pages[name],
            start=0,
            stop=len(pages[name].ids),
        )
        for name, question, _ in LEARNED
    ]
    inputs = {name: torch.from_numpy(value) for name, value in encoder.batch(rows).items()}
    if image:
        side = TINY_IMAGE["image_size"]
        inputs["pixel_values"] = torch.zeros(len(rows), 3, side, side)
    answers = [torch.from_numpy(encoder.answer(answer)) for *_, answer in LEARNED]
    targets = rnn.pad_sequence(answers, batch_first=True, padding_value=IGNORED)
    chosen = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.Adam(chosen, lr=3e-3)
    for _ in range(600):
        optimizer.zero_grad()
        losses = model.losses(inputs, targets)
        losses.mean().backward()
        optimizer.step()
        if losses.max() < 0.1:
            return model
    raise AssertionError(f"It has not learned all of its answers: {losses.tolist()}.")


def export_vt5(out: Path, *, image: bool = False, questions: int = 6, **change: Any) -> Path:
    """Exports the model above, held to so many questions; `change` is that of its release."""
    model = taught(image=image)
    settings = asking(image=model.image_preprocessing())
    release = hushdoc_tiny.release(**change)
    parts = {"tokenizer_json": learned_tokenizer(), "claim": hushdoc_tiny.claim()}
    with mock.patch.object(question_agreement, "NUM_QUESTIONS", questions):
        return docvqa.export_vt5(model, out, release, asking=settings, **parts)
