"""A LayoutLMv3 of base size, as it is published but for its weights, takes a private step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import hushdoc_published as published
import pytest
import torch
from kie_training import PLAN
from transformers import LayoutLMv3Config, LayoutLMv3ForTokenClassification

from hushdoc import labelled_files
from hushdoc.labels import LabelSet
from hushdoc.runtime.encoding import Preprocessing
from hushdoc_training import invented
from hushdoc_training.models import layout
from hushdoc_training.recipes.kie.private import private_training
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("images", [False, True])
def test_a_layoutlmv3_of_base_size_takes_a_private_step(tmp_path: Path, images: bool) -> None:
    config = invented.InventedConfig(document_types=("till-receipt",), labels="fields")
    written = invented.write(tmp_path / "data", seed=5, count=2, config=config, images=images)
    documents = [labelled_files.read_one(path) for path in written]
    labels = LabelSet.from_documents(documents)
    torch.manual_seed(0)
    sizes = LayoutLMv3Config(num_labels=len(labels.tags), max_position_embeddings=514)
    model = layout.TokenClassifier(LayoutLMv3ForTokenClassification(sizes), "layoutlmv3")
    assert sum(value.numel() for value in model.parameters()) > 125e6
    words = [word.text for item in documents for word in item.document.pages[0].words]
    image = layout.image_preprocessing(model) if images else None
    start = Start(
        model=model,
        tokenizer_json=published.byte_level(words).to_str(),
        preprocessing=Preprocessing(cls_id=0, sep_id=2, pad_id=1, image=image),
        labels=labels,
        claim=None,
        name="base",
    )
    before = {name: value.detach().double().sum() for name, value in model.named_parameters()}
    steps: list[int] = []
    plan = replace(PLAN, sampling_rate=1.0, steps=1)
    with private_training(
        start, documents, plan, PrivateSettings(), charge=steps.append, device=torch.device("cpu")
    ) as training:
        training.step()
        trained = {name for name, value in model.named_parameters() if value.requires_grad}
    moved = {
        name
        for name, value in model.named_parameters()
        if not torch.equal(value.detach().double().sum(), before[name])
    }
    assert steps == [1]
    assert moved == trained
    assert len([name for name in moved if ".layer." in name]) == 12 * 16
    assert ("inner.layoutlmv3.patch_embed.proj.weight" in moved) is images
    assert all(bool(value.isfinite().all()) for value in model.parameters())
