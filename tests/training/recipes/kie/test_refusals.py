"""What can't be trained on is one error, before a folder is taken; what is odd but sound is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from kie_training import OUTPUT, PLAN, train_plain, train_private
from torch import nn

from hushdoc.document.document import Document
from hushdoc.errors import AnnotationError, PrivacyError
from hushdoc.labels import LabelledDocument, LabelSet, Span
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.models import layout
from hushdoc_training.recipes.kie.records import records_of
from hushdoc_training.recipes.kie.start import Start, start_from

ALL = replace(PLAN, sampling_rate=1.0, steps=1)
TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 16,
    "max_position_embeddings": 512,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": 3, "stop": 9}, "On page 0: .* overlaps another span"),
        ({"stop": 10_000}, "On page 0: .* covers words 2 to 10000"),
        ({"stop": 2}, "On page 0: .* covers words 2 to 2"),
        ({"page": 1}, "page 1 of a document with 1 pages"),
        ({"page": -1}, "page -1 of a document with 1 pages"),
    ],
)
@pytest.mark.parametrize("train", [train_private, train_plain])
def test_labels_that_do_not_fit_their_document_are_refused(
    tmp_path: Path,
    small_start: Start,
    receipts: list[LabelledDocument],
    train: Callable[..., Any],
    change: dict[str, int],
    message: str,
) -> None:
    first = Span(**{"page": 0, "start": 2, "stop": 4, "label": small_start.labels.fields[0]})
    spans = (replace(first, stop=5), replace(first, **change))
    bad = replace(receipts[1], spans=spans if "start" in change else spans[1:])
    with pytest.raises(AnnotationError, match=message) as raised:
        train(small_start, [receipts[0], bad, *receipts[2:]], tmp_path / "run")
    assert bad.document.id in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_words_with_two_labels_are_refused(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    spans = [Span(page=0, start=2, stop=4, label=name) for name in small_start.labels.fields[:2]]
    bad = replace(receipts[1], spans=tuple(spans))
    with pytest.raises(AnnotationError, match="overlaps another span") as raised:
        train_private(small_start, [receipts[0], bad], tmp_path / "run")
    assert repr(spans[1].label) in str(raised.value)
    assert not (tmp_path / "run").exists()


def of_words(count: int) -> LabelledDocument:
    document = Document.from_words(
        ["total"] * count, [(1, 1, 9, 9)] * count, width=10, height=10, id=f"{count} words"
    )
    span = Span(page=0, start=0, stop=1, label="total")
    return LabelledDocument(document=document, spans=(span,))


def test_documents_of_one_word_and_of_fifty_thousand_are_one_record_each(tmp_path: Path) -> None:
    labels = LabelSet(fields=("total",))
    start = start_from("small", labels, max_tokens=512, vocabulary=lambda: ["total"])
    start = replace(start, model=layout.small(labels, start.tokenizer_json, size=TINY)[0])
    documents = [of_words(1), of_words(50_000)]
    records = records_of(documents, start.encoder, labels, unit="document")
    assert [len(record) for record in records] == [1, -(-50_000 // 510)]
    train_private(start, documents, tmp_path / "run", plan=ALL, settings=OUTPUT)
    assert Checkpoint.load(tmp_path / "run").claim.guarantees[0].unit == "document"


class OfOthers(nn.Module):
    """A layer that looks across the batch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return (states - states.mean(dim=(0, 1))) * self.scale


class Wrong(torch.autograd.Function):
    """An operation of somebody's own, whose gradient the engine can't take apart by record."""

    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(states, scale)
        return states * scale

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states, scale = ctx.saved_tensors
        return gradients[0] * scale, (gradients[0] * states).sum((0, 1))


class OwnOperation(OfOthers):
    """A layer made of it."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = Wrong.apply(states, self.scale)  # type: ignore[no-untyped-call]
        return made


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (OfOthers, "depends on other examples"),
        (
            OwnOperation,
            "'inner.classifier.0.scale' .* freeze the parameters, or choose the backend",
        ),
    ],
)
def test_an_encoder_that_the_engine_cannot_prove_exact_is_refused(
    tmp_path: Path,
    small_start: Start,
    receipts: list[LabelledDocument],
    layer: type[OfOthers],
    message: str,
) -> None:
    inner: Any = small_start.model.inner
    inner.classifier = nn.Sequential(layer(inner.config.hidden_size), inner.classifier)
    with pytest.raises(PrivacyError, match=message) as raised:
        train_private(small_start, receipts[:4], tmp_path / "run", settings=OUTPUT)
    assert raised.value.code == "GUARANTEE_NOT_KEPT"
    assert not (tmp_path / "run").exists()
