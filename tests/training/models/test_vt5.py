"""VT5: its size, its order of tokens, its losses, and whose gradients they give."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hushdoc_tiny_vt5 as tiny
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import nn
from transformers import BeitConfig, BeitModel

from hushdoc.errors import CheckpointError, InputError, PrivacyError
from hushdoc_training.models import adapters, vt5, vt5_start
from hushdoc_training.models.trained import Trained
from hushdoc_training.models.vt5 import IGNORED, VT5, VT5Config
from hushdoc_training.privacy import clipping, trial
from hushdoc_training.recipes.docvqa.start import start_from


def test_the_base_model_has_as_many_parameters_as_the_papers() -> None:
    with torch.device("meta"):
        model = VT5(VT5Config.base())
    sizes = [(value.numel(), value.requires_grad) for value in model.parameters()]
    assert sum(size for size, _ in sizes) == 311_465_472
    assert sum(size for size, trained in sizes if trained) == 225_659_136
    parts = (model.t5, model.boxes, model.vision, model.projection)
    assert [sum(value.numel() for value in part.parameters()) for part in parts] == [
        222_903_552,
        2_164_992,
        85_806_336,
        590_592,
    ]


def as_published(model: VT5, inputs: dict[str, torch.Tensor], targets: torch.Tensor) -> Any:
    """Returns transformers' output where visual tokens follow the padded words."""
    embedded = model.t5.shared(inputs["input_ids"]) + model.boxes(inputs["bbox"])
    visual = model.projection(model.vision(inputs["pixel_values"]).last_hidden_state)
    mask = inputs["attention_mask"]
    return model.t5(
        inputs_embeds=torch.cat([embedded, visual], 1),
        attention_mask=torch.cat([mask, mask.new_ones(visual.shape[:2])], 1),
        labels=targets,
    )


def test_a_row_alone_is_read_as_transformers_reads_it() -> None:
    model = tiny.start().model
    inputs, targets = tiny.rows([9], answers=[4])
    expected = as_published(model, inputs, targets)
    torch.testing.assert_close(model(**inputs, targets=targets), expected.logits)
    torch.testing.assert_close(model.losses(inputs, targets), expected.loss[None])


@pytest.mark.parametrize("image", [True, False])
def test_a_row_is_read_alike_whatever_stands_beside_it(image: bool) -> None:
    model = tiny.start(image=image).model
    inputs, targets = tiny.rows([9, 4, 30, 1], image=image)
    together = model.losses(inputs, targets)
    for row, length in enumerate((9, 4, 30, 1)):
        alone = {
            name: value[row : row + 1] if name == "pixel_values" else value[row : row + 1, :length]
            for name, value in inputs.items()
        }
        end = int((targets[row] != IGNORED).sum())
        found = model.losses(alone, targets[row : row + 1, :end])
        torch.testing.assert_close(found, together[row : row + 1])


def examples(lengths: Sequence[int]) -> list[tuple[dict[str, torch.Tensor], torch.Tensor]]:
    return [tiny.rows([length], answers=[3], seed=length) for length in lengths]


def batch(rows: Sequence[Any]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Returns rows of different lengths as one batch, padding last."""
    inputs = {
        name: nn.utils.rnn.pad_sequence([row[name][0] for row, _ in rows], batch_first=True)
        for name in rows[0][0]
    }
    return inputs, torch.cat([targets for _, targets in rows])


def self_tested(model: VT5, losses: Any) -> None:
    clipper = clipping.BookKeeping(model, clipping_norm=1.0)
    trial.require_exact(clipper, [[row] for row in examples((5, 9, 7))], losses, tolerance=1e-3)


def test_the_clipper_sees_gradients_of_single_rows() -> None:
    model = tiny.start().model
    self_tested(model, lambda rows: model.losses(*batch(rows)))


def test_the_published_order_of_tokens_is_refused() -> None:
    """docs/papers.md: there a row's loss depends on the longest row of its batch."""
    model = tiny.start().model

    def losses(rows: Sequence[Any]) -> torch.Tensor:
        inputs, targets = batch(rows)
        logits = as_published(model, inputs, targets).logits
        return nn.functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean(
            1
        )

    with pytest.raises(PrivacyError, match="among"):
        self_tested(model, losses)


def test_answers_are_those_of_transformers() -> None:
    model = tiny.start().model
    inputs, targets = tiny.rows([9, 4, 30])
    states, mask = model.encode(
        inputs["input_ids"],
        inputs["bbox"],
        inputs["attention_mask"],
        model.visual(inputs["pixel_values"]),
    )
    expected = model.t5.generate(
        encoder_outputs=vt5_outputs(states),
        attention_mask=mask,
        max_new_tokens=6,
        do_sample=False,
    )
    found = model.answer(inputs, targets, max_answer=6)
    assert [[token for token in row if token not in (0, 1)] for row in expected.tolist()] == [
        [token for token in row if token not in (0, 1)] for row in found.tokens
    ]
    assert all(0 < value < 1 for value in found.confidence)
    with torch.no_grad():
        nothing = torch.full_like(targets[:, :1], 1)  # the end alone
        assert found.losses == pytest.approx(model.losses(inputs, targets).tolist(), rel=1e-4)
        assert found.empty == pytest.approx(
            (-model.losses(inputs, nothing)).exp().tolist(), rel=1e-4
        )
    unwritten = model.answer(inputs, targets, max_answer=0)
    assert (unwritten.tokens, unwritten.confidence) == ([[]] * 3, [1.0] * 3)
    assert unwritten.losses == found.losses


def vt5_outputs(states: torch.Tensor) -> Any:
    from transformers.modeling_outputs import BaseModelOutput

    return BaseModelOutput(last_hidden_state=states)


def test_a_saved_model_answers_alike(tmp_path: Path) -> None:
    model = tiny.start().model
    model.save(tmp_path)
    inputs, targets = tiny.rows([9, 4])
    loaded = vt5.load(tmp_path)
    assert torch.equal(loaded(**inputs, targets=targets), model(**inputs, targets=targets))
    assert not any(value.requires_grad for value in loaded.vision.parameters())
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="restore the folder"):
        vt5.load(tmp_path)


def test_images_are_there_where_they_are_read_and_nowhere_else() -> None:
    inputs, targets = tiny.rows([4])
    with pytest.raises(CheckpointError, match="was given images"):
        tiny.start(image=False).model(**inputs, targets=targets)
    del inputs["pixel_values"]
    with pytest.raises(CheckpointError, match="was given none"):
        tiny.start().model(**inputs, targets=targets)


@pytest.mark.parametrize("mode", [True, False])
def test_the_image_encoder_never_drops_anything(mode: bool) -> None:
    model = tiny.start().model.train(mode)
    assert model.t5.training is mode
    assert not any(part.training for part in model.vision.modules())


@pytest.mark.parametrize(
    ("word", "some", "none"),
    [
        ("all", "t5.shared.weight", "vision."),
        ("encoder", "boxes.x.weight", "t5.shared.weight"),
        ("biases", "projection.bias", "boxes.x.weight"),
        ("top:1", "t5.decoder.block.1.layer.2.DenseReluDense.wo.weight", "t5.encoder.block.0."),
        ("output", "t5.decoder.final_layer_norm.weight", "t5.encoder."),
        ("lora:2", "t5.encoder.block.0.layer.0.SelfAttention.q.down.weight", "boxes."),
    ],
)
def test_what_is_trained(word: str, some: str, none: str) -> None:
    model = tiny.start().model
    before = copy.deepcopy(model)
    inputs, targets = tiny.rows([6, 4])
    with adapters.merging(model):
        vt5.freeze(model, trained=Trained.of(word))
        chosen = [name for name, value in model.named_parameters() if value.requires_grad]
        assert some in chosen
        assert "t5.decoder.final_layer_norm.weight" in chosen
        assert not any(name.startswith(("vision.", none)) for name in chosen)
        torch.testing.assert_close(model.losses(inputs, targets), before.losses(inputs, targets))
    assert list(model.state_dict()) == list(before.state_dict())


def test_more_layers_or_rank_than_there_is() -> None:
    for word in ("top:3", "lora:65"):
        with pytest.raises(InputError, match=r"Choose (top:2|lora:64)"):
            vt5.freeze(tiny.start().model, trained=Trained.of(word))


class TestStarts:
    def test_from_published_parts(self, tmp_path: Path) -> None:
        made = tiny.start()
        t5 = tiny.write_t5(made, tmp_path / "t5")
        made.model.vision.save_pretrained(tmp_path / "dit")
        start = vt5_start.pretrained(str(t5), str(tmp_path / "dit"))
        assert (start.pad_id, start.eos_id, start.box_scale) == (0, 1, 1000)
        for name, value in start.model.state_dict().items():
            if name.startswith(("t5.", "vision.")):
                assert torch.equal(value, made.model.state_dict()[name]), name
        inputs, targets = tiny.rows([6], answers=[3])
        assert not start.model.boxes(inputs["bbox"]).any()
        assert start.model.losses(inputs, targets).isfinite().all()
        del inputs["pixel_values"]
        assert vt5_start.pretrained(str(t5)).model.encode(**inputs)[0].shape == (1, 6, 64)
        asking = start_from(str(t5), architecture="vt5").asking
        assert (asking.lowercase, asking.lowercase_questions) == (True, False)

    def test_from_the_papers_weights(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made = tiny.start()
        published = tiny.write_reference(made, tmp_path, monkeypatch)
        assert vt5_start.is_reference(str(tmp_path))
        start = vt5_start.reference(str(tmp_path))
        assert start.box_scale == 1
        state = made.model.state_dict()
        assert all(
            torch.equal(value, state[name]) for name, value in start.model.state_dict().items()
        )

        inputs, targets = tiny.rows([6], answers=[3])
        expected = made.model.losses(inputs, targets)
        torch.testing.assert_close(start.model.eval().losses(inputs, targets), expected)

        for change, said in (
            ({"spatial_embedding.LayerNorm.weight": None}, r"boxes\.norm\.weight"),
            ({"visual_embedding.image_model.more": torch.ones(1)}, "another model beside it: more"),
            ({"language_backbone.more": torch.ones(1)}, "beside it: language_backbone"),
        ):
            kept = {
                name: value for name, value in (published | change).items() if value is not None
            }
            save_file(kept, tmp_path / "model.safetensors")
            with pytest.raises(CheckpointError, match=said):
                vt5_start.reference(str(tmp_path))

    def test_from_the_papers_weights_of_the_hub(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        cache = tmp_path / "hub"
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
        monkeypatch.setattr("transformers.utils.hub.HF_HUB_CACHE", str(cache), raising=False)
        folder, commit = cache / "models--acme--vt5", "0123456789" * 4
        snapshot = folder / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(commit)
        tiny.write_reference(tiny.start(), snapshot, monkeypatch)
        assert vt5_start.is_reference("acme/vt5")
        made = start_from("acme/vt5", architecture="vt5")
        assert (made.asking.box_scale, made.name) == (1, "acme/vt5")
        assert (made.asking.lowercase, made.asking.lowercase_questions) == (True, False)
        assert not vt5_start.is_reference("acme/other")
        assert not vt5_start.is_reference("tiny")
        (snapshot / "model.safetensors").unlink()
        with pytest.raises(CheckpointError, match=r"no model\.safetensors"):
            vt5_start.reference("acme/vt5")

    def test_weights_beside_those_that_are_read_are_refused_but_for_a_head_of_images(
        self, tmp_path: Path
    ) -> None:
        made = tiny.start()
        t5, dit = tiny.write_t5(made, tmp_path / "t5"), tmp_path / "dit"
        made.model.vision.save_pretrained(dit)
        for folder, name, value in (
            (dit, "lm_head.weight", torch.ones(2)),
            (t5, "boxes.x.weight", torch.ones(2)),
        ):
            more = {**tiny.weights(folder), name: value}
            save_file(more, folder / "model.safetensors", metadata={"format": "pt"})
        assert not vt5_start.is_reference(str(t5))
        with pytest.raises(CheckpointError, match=r"beside it: boxes\.x\.weight"):
            vt5_start.pretrained(str(t5), str(dit))
        tiny.write_t5(made, t5)
        assert vt5_start.pretrained(str(t5), str(dit)).model.config.vision is not None

    def test_a_folder_without_safetensors_is_refused(self, tmp_path: Path) -> None:
        t5 = tiny.write_t5(tiny.start(), tmp_path / "t5")
        (t5 / "model.safetensors").unlink()
        torch.save({}, t5 / "pytorch_model.bin")
        with pytest.raises(CheckpointError, match="convert them to safetensors"):
            vt5_start.pretrained(str(t5))

    def test_a_tokenizer_that_loses_blanks_is_refused(self) -> None:
        broken = tiny.tokenizer_json().replace('"always"', '"never"')
        with pytest.raises(CheckpointError, match="prepend_scheme"):
            vt5_start.from_nothing(broken)

    def test_a_tokenizer_of_another_model_is_refused(self, tmp_path: Path) -> None:
        made = tiny.start()
        t5 = tiny.write_t5(made, tmp_path / "t5")
        other = vt5_start.tokenizer(["some other words " * 9, tiny.WORDS], vocab_size=400)
        (t5 / "tokenizer.json").write_text(other, encoding="utf-8")
        with pytest.raises(CheckpointError, match="Restore the tokenizer"):
            vt5_start.pretrained(str(t5))


def test_words_are_written_with_blanks_and_numbers_digit_by_digit() -> None:
    made = Tokenizer.from_str(tiny.tokenizer_json())
    ids = [token for word in ("Total", "Due:", "1234") for token in made.encode(word).ids]
    assert made.decode(ids).startswith("total due")
    assert made.decode(ids).endswith(" 1234")
    assert made.encode("1234").tokens == ["▁", "1", "2", "3", "4"]


def test_a_beit_without_pooling_ends_without_a_norm() -> None:
    """The raw states of the last layer, as the published code reads DiT."""
    config: Any = BeitConfig(**tiny.TINY_IMAGE)
    assert isinstance(BeitModel(config, add_pooling_layer=False).layernorm, nn.Identity)
