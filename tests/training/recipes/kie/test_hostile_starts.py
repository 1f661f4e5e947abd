"""Starts whose weights were chosen so that one document would move the gradients of others."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

import pytest
import torch
import transformers
from private_simulator import CLIP, Silent, known_streams, make_plan

from hushdoc.labels import LabelledDocument
from hushdoc_training.models import layout
from hushdoc_training.models.layout import TokenClassifier
from hushdoc_training.privacy.physical import by_itself, pack
from hushdoc_training.recipes.kie import private
from hushdoc_training.recipes.kie.examples import batch_of, examples_of
from hushdoc_training.recipes.kie.records import records_of
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start

CPU = torch.device("cpu")
WIDTH, TOKENS = 48, 30
LATE = 14
"""The first place of a token in a window that no trial window of the self-test reaches."""


def lilt(start: Start, word: int) -> TokenClassifier:
    """Returns a LiLT that reads late tokens by their mask alone: their scores are -inf.

    Of finite scores there are those of padding, which a mask lowers to the least float, and of one
    word. Early tokens read the first token, and so do all of the self-test.
    """
    torch.manual_seed(0)
    settings = start.preprocessing
    config = transformers.LiltConfig(
        vocab_size=len(start.model.word_embeddings),
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=1,
        intermediate_size=32,
        max_position_embeddings=80,
        max_2d_position_embeddings=1024,
        pad_token_id=settings.pad_id,
        num_labels=len(start.labels.tags),
    )
    model = layout.untrained(config)
    embeddings = model.inner.lilt.embeddings
    layer = model.inner.lilt.encoder.layer[0]
    attention = layer.attention.self
    words, places = embeddings.word_embeddings.weight, embeddings.position_embeddings.weight
    large = 1.3e20
    with torch.no_grad():
        words.copy_(torch.randint(-3, 4, words.shape))
        words[:, :10], words[:, 29:] = 0, -words[:, 10:29]
        places.zero_()
        embeddings.token_type_embeddings.weight.zero_()
        embeddings.LayerNorm.bias[0] = 1e-3
        places[LATE + settings.pad_id :, :2] = torch.tensor([8.0, -8.0])
        for axis, token in ((2, settings.pad_id), (4, settings.cls_id), (6, word)):
            words[token] = 0
            words[token, axis : axis + 2] = torch.tensor([8.0, -8.0])
        for part in ("query", "key", "value", "layout_query", "layout_key"):
            getattr(attention, part).weight.zero_()
            getattr(attention, part).bias.zero_()
        attention.query.weight[0, 0], attention.query.bias[1] = 1e19, 100
        attention.key.bias[0], attention.key.weight[1, 4] = -large, 20
        attention.key.weight[0, 2] = 1.03 * large / 4.9  # 8 after normalisation, early
        attention.key.weight[0, 4] = 0.1 * large / 4.9
        attention.key.weight[0, 6] = 1.03 * large / 3.46  # and late
        attention.value.weight[8, 4], attention.value.weight[8, 2] = 100, -100
        layer.attention.output.dense.weight.copy_(torch.eye(WIDTH))
    return model


def of_tokens(
    documents: Iterable[LabelledDocument], start: Start, tokens: int
) -> Iterator[LabelledDocument]:
    """Yields the beginnings, of so many tokens, of the documents that have such a one."""
    for item in documents:
        page = item.document.pages[0]
        for stop in range(1, tokens + 1):
            cut = replace(
                item,
                document=replace(item.document, pages=(replace(page, words=page.words[:stop]),)),
                spans=tuple(span for span in item.spans if not span.page and span.stop <= stop),
            )
            (record,) = records_of([cut], start.encoder, start.labels, unit="document")
            if len(record) == 1 and record[0].stop - record[0].start == tokens:
                yield cut


def summed(start: Start, documents: list[LabelledDocument], backend: str) -> torch.Tensor:
    """Returns the clipped sum over all documents, as Adam's first moment holds it."""
    own = replace(start, model=copy.deepcopy(start.model))
    plan = make_plan(sampling_rate=1.0, steps=1, expected_records=1)
    how = {"charge": lambda step: None, "device": CPU}
    with (
        known_streams(noise=Silent()),
        private.private_training(
            own, documents, plan, PrivateSettings(backend=backend), **how
        ) as training,
    ):
        training.step()
        moments = training.optimizer.state.values()
        return torch.cat([value["exp_avg"].flatten() for value in moments]) / 0.1


@pytest.mark.parametrize("backend", ["book-keeping", "one-by-one"])
def test_a_longer_document_moves_no_other_whatever_the_start(
    small_start: Start, receipts: list[LabelledDocument], backend: str
) -> None:
    """Padded for the longer one, the others had finite gradients; alone they had none."""
    alike = list(islice(of_tokens(receipts, small_start, TOKENS), 6))
    longer = next(of_tokens(receipts[::-1], small_start, TOKENS + 8))
    *others, own = (
        record[0].page.ids.tolist()
        for record in records_of(
            [*alike, longer], small_start.encoder, small_start.labels, unit="document"
        )
    )
    tried = (
        example.window.page.ids.tolist()
        for record in private.invented_records(small_start)
        for example in record
    )
    word = next(iter({*own[LATE:]} - {*own[:LATE]}.union(*tried, *others)))
    start = replace(small_start, model=lilt(small_start, word))
    moved = summed(start, [*alike, longer], backend) - summed(start, alike, backend)
    assert 0 < float(moved.norm()) <= 1.01 * CLIP


@pytest.mark.parametrize("unit", ["document", "sequence"])
def test_what_fills_a_record_up_is_told_by_itself(
    small_start: Start, receipts: list[LabelledDocument], unit: str
) -> None:
    encoder, how = small_start.encoder, private.how_to_sum(small_start, PrivateSettings())
    records = records_of(receipts, encoder, small_start.labels, unit=unit).each(examples_of)
    packed = pack(records, max_examples=32, length=how["length"])
    assert len(packed.batches) < len(records) / 2  # and records share passes
    for batch in packed.batches:
        found = []
        for one in (batch, *by_itself(batch)):
            inputs = batch_of(encoder, one.examples)
            found.append((inputs.input_ids.shape[1], bool(inputs.attention_mask.all())))
        assert len(set(found)) == 1
