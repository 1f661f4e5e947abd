"""Training on words with the images of their pages: what is fed, what learns, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from kie_training import train_plain, train_private
from PIL import Image

from hushdoc import labelled_files
from hushdoc.document.page import Page
from hushdoc.errors import CheckpointError, InputError, PrivacyError
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc.runtime.images import pixels
from hushdoc_training import invented
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.data import dataset, funsd
from hushdoc_training.models import layout
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.recipes.kie.examples import examples_of, losses_of, trial_records
from hushdoc_training.recipes.kie.identity import documents_digest, images_digest
from hushdoc_training.recipes.kie.private import _example_tokens
from hushdoc_training.recipes.kie.records import collate, predict, windows_of

PLAN = PrivacyPlan.calibrated(epsilon=8, sampling_rate=0.4, steps=3, expected_records=4)
CPU = torch.device("cpu")
SEES = ("cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[LabelledDocument]:
    """Invented receipts with the images of their pages beside them."""
    folder = tmp_path_factory.mktemp("shown") / "pages"
    config = invented.InventedConfig(document_types=("receipt",), labels="fields")
    return [
        labelled_files.read_one(path)
        for path in invented.write(folder, seed=5, count=8, config=config)
    ]


Starter = Callable[..., kie_start.Start]


@pytest.fixture
def start_with(layoutlmv3_folder: Path, shown: list[LabelledDocument]) -> Starter:
    labels = LabelSet.from_documents(shown)
    return lambda **change: kie_start.start_from(
        str(layoutlmv3_folder), labels, **{"max_tokens": 64, "images": True, **change}
    )


private = partial(train_private, plan=PLAN)


def with_pages(labelled: LabelledDocument, *pages: Page) -> LabelledDocument:
    return replace(labelled, document=replace(labelled.document, pages=pages))


def test_private_training_moves_what_reads_the_image_and_the_checkpoint_says_so(
    tmp_path: Path, start_with: Starter, shown: list[LabelledDocument]
) -> None:
    start = start_with()
    before = {name: value.detach().clone() for name, value in start.model.named_parameters()}
    private(start, shown, tmp_path / "run")
    moved = {
        name
        for name, value in start.model.named_parameters()
        if not torch.equal(value, before[name])
    }
    for part in SEES:
        assert f"inner.layoutlmv3.{part}" in moved
    stored = Checkpoint.load(tmp_path / "run")
    assert stored.preprocessing.image == layout.image_preprocessing(start.model)
    assert stored.claim.training["images"] is True
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["images"] == images_digest(shown)
    assert run["documents"] == documents_digest(shown)
    back = kie_start.start_from(str(tmp_path / "run"), start.labels)
    documents = shown[:3]
    start.model.eval()
    assert predict(back.model, back.encoder, back.labels, documents, device=CPU) == predict(
        start.model, start.encoder, start.labels, documents, device=CPU
    )


def test_without_images_nothing_of_them_is_written_or_trained(
    tmp_path: Path, start_with: Starter, shown: list[LabelledDocument]
) -> None:
    start = start_with(images=False)
    assert _example_tokens(start) == 64
    private(start, shown, tmp_path / "run")
    stored = Checkpoint.load(tmp_path / "run")
    told = json.loads((stored.folder / "preprocessing.json").read_text())
    assert "image" not in told
    assert "images" not in stored.claim.training
    assert "images" not in json.loads((tmp_path / "run" / "run.json").read_text())
    frozen = {name for name, value in start.model.named_parameters() if not value.requires_grad}
    assert {f"inner.layoutlmv3.{part}" for part in SEES} <= frozen


def test_a_batch_holds_each_windows_own_page_and_draws_it_once(
    start_with: Starter, shown: list[LabelledDocument], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hushdoc import reading

    start = start_with()
    of_first, of_second = (windows_of(item, start.encoder, start.labels) for item in shown[:2])
    assert len(of_first) > 1
    drawn = []
    draw = reading.page_image
    monkeypatch.setattr(reading, "page_image", lambda page: drawn.append(page.image) or draw(page))
    batch = collate(start.encoder, [*of_first, of_second[0]])
    assert drawn == [item.document.pages[0].image for item in shown[:2]]
    assert batch.pixel_values is not None
    for example, item in enumerate([*[shown[0]] * len(of_first), shown[1]]):
        with Image.open(item.document.pages[0].image) as opened:
            assert start.preprocessing.image is not None
            expected = pixels(opened, start.preprocessing.image)
        assert np.array_equal(batch.pixel_values[example].numpy(), expected)
    assert not torch.equal(batch.pixel_values[0], batch.pixel_values[-1])


def test_a_rows_loss_depends_on_its_image_and_on_no_other_row(
    start_with: Starter, shown: list[LabelledDocument]
) -> None:
    start = start_with()
    with torch.no_grad():
        for name, value in start.model.named_parameters():
            if "patch_embed" in name or "query" in name or "key" in name:
                value.mul_(20)  # weights of 0.02 hardly let an image be seen
    start.model.eval()
    examples = examples_of(tuple(windows_of(shown[0], start.encoder, start.labels)))
    other = examples_of(tuple(windows_of(shown[1], start.encoder, start.labels)))

    def losses(asked: list[object]) -> torch.Tensor:
        return losses_of(start.model, start.encoder, asked, device=CPU).detach()  # type: ignore[arg-type]

    alone = losses([examples[0]])
    assert losses([examples[0], *other])[0] == pytest.approx(float(alone[0]), rel=2e-2)
    swapped = replace(examples[0], window=replace(examples[0].window, image=other[0].window.image))
    assert float(losses([swapped])[0]) != float(alone[0])


def test_the_clipper_is_tried_on_images_of_noise(start_with: Starter) -> None:
    image = start_with().preprocessing.image
    assert image is not None
    for examples in trial_records(vocabulary=50, tags=5, image=image):
        drawn = [example.window.image() for example in examples if example.window.image is not None]
        assert len(drawn) == len(examples)
        assert {found.shape for found in drawn} == {(3, 32, 32)}
        assert drawn[0].std() > 0.5
    for examples in trial_records(vocabulary=50, tags=5):
        assert all(example.window.image is None for example in examples)


def test_patches_count_where_rows_are_put_into_one_batch(start_with: Starter) -> None:
    assert _example_tokens(start_with()) == 64 + 4 * 4 + 1


def test_a_missing_image_is_refused_before_a_step_is_charged(
    tmp_path: Path, start_with: Starter, shown: list[LabelledDocument]
) -> None:
    page = replace(shown[2].document.pages[0], image=None)
    bare = with_pages(shown[2], page)
    documents = [*shown[:2], bare, *shown[3:]]
    with pytest.raises(InputError, match=bare.document.id) as raised:
        private(start_with(), documents, tmp_path / "run")
    assert raised.value.code == "NO_IMAGE"
    with pytest.raises(InputError, match="no image"):
        train_plain(start_with(), documents, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_model_that_reads_no_image_is_never_given_one(
    tmp_path: Path, start_with: Starter, shown: list[LabelledDocument]
) -> None:
    labels = LabelSet.from_documents(shown)
    texts = [word.text for item in shown for word in item.document.pages[0].words]
    with pytest.raises(CheckpointError, match="reads no images"):
        kie_start.start_from("small", labels, images=True, vocabulary=lambda: texts)
    private(start_with(images=False), shown, tmp_path / "run")
    with pytest.raises(CheckpointError, match="trained without images"):
        kie_start.start_from(str(tmp_path / "run"), labels, images=True)


def test_other_images_are_another_run(
    tmp_path: Path, start_with: Starter, shown: list[LabelledDocument]
) -> None:
    private(start_with(), shown, tmp_path / "run")
    first = shown[0].document.pages[0]
    other = replace(first, image=shown[1].document.pages[0].image)
    changed = with_pages(shown[0], other)
    assert documents_digest([changed, *shown[1:]]) == documents_digest(shown)
    with pytest.raises(CheckpointError, match="other settings: images"):
        private(start_with(), [changed, *shown[1:]], tmp_path / "run", resume=True)


def test_a_window_alone_is_no_unit_where_its_page_is_seen_beside_all_others(
    tmp_path: Path, start_with: Starter, shown: list[LabelledDocument]
) -> None:
    plan = replace(PLAN, privacy_unit="sequence")
    with pytest.raises(PrivacyError, match="Choose the unit 'document'"):
        train_private(start_with(), shown, tmp_path / "run", plan=plan)
    assert not (tmp_path / "run").exists()


def test_pages_without_words_need_no_image(
    tmp_path: Path, start_with: Starter, shown: list[LabelledDocument]
) -> None:
    empty = replace(shown[0].document.pages[0], words=(), image=Path("gone.png"))
    longer = with_pages(shown[0], *shown[0].document.pages, empty)
    private(start_with(), [longer, *shown[1:]], tmp_path / "run")
    assert (tmp_path / "run" / "checkpoint").is_dir()


def test_funsd_brings_its_images(tmp_path: Path, start_with: Starter) -> None:
    for name in ("annotations", "images"):
        (tmp_path / "forms" / name).mkdir(parents=True)
    words = [{"text": "Date:", "box": [10, 10, 40, 20]}]
    form = {"form": [{"id": 0, "label": "question", "words": words, "linking": []}]}
    (tmp_path / "forms/annotations/a.json").write_text(json.dumps(form))
    Image.new("L", (100, 80), 51).save(tmp_path / "forms/images/a.png")
    (found,) = dataset.read(dataset.Source(location=str(tmp_path / "forms")))
    start = start_with()
    batch = collate(start.encoder, windows_of(found, start.encoder, funsd.LABELS))
    assert batch.pixel_values is not None
    assert batch.pixel_values.shape == (1, 3, 32, 32)
    assert torch.allclose(batch.pixel_values, torch.tensor(51 / 255 * 2 - 1))
