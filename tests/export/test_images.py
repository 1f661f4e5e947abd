"""Models that read images beside words: traced, compared, rounded and calibrated."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import hushdoc_tiny as tiny
import hushdoc_tiny_models as tiny_models
import numpy as np
import pytest

import hushdoc
from hushdoc.artifact.artifact import open_artifact, read_unverified
from hushdoc.errors import CheckpointError
from hushdoc.labels import LabelSet
from hushdoc.runtime.session import Session
from hushdoc_export import calibration, parity, quantize
from hushdoc_export.field_agreement import invented_documents
from hushdoc_export.kie import export
from hushdoc_training.checkpoint import Checkpoint


def test_the_artifact_says_how_a_page_becomes_pixels() -> None:
    folder = tiny.sealed_with_images()
    manifest = json.loads((folder / "hushdoc.json").read_text())
    assert manifest["inputs"][3] == {
        "name": "pixel_values",
        "dtype": "float32",
        "shape": ["batch", 3, 32, 32],
    }
    assert {item["dtype"] for item in manifest["inputs"][:3]} == {"int64"}
    image = manifest["preprocessing"].pop("image")
    assert image == {
        "height": 32,
        "width": 32,
        "fit": "stretch",
        "crop_share": 1.0,
        "resample": "bilinear",
        "mean": [0.5, 0.5, 0.5],
        "std": [0.5, 0.5, 0.5],
    }
    assert manifest["preprocessing"] == tiny.preprocessing().to_dict()
    (step,) = read_unverified(folder).certificate.derivation
    assert step["parity"]["inputs"] == "invented tokens, boxes, pixels"
    assert step["parity"]["maxDifference"] <= parity.TOLERANCE
    assert step["parity"]["argmaxAgreement"] == 1.0


def test_pixels_are_invented_in_the_range_of_the_model() -> None:
    pixels = tiny_models.traceable(None, tiny.image_preprocessing()).probes[0]["pixel_values"]
    assert (pixels.shape, pixels.dtype) == ((2, 3, 32, 32), np.float32)
    assert -1 <= pixels.min() < -0.9
    assert 0.9 < pixels.max() <= 1
    assert not np.array_equal(pixels[0], pixels[1])
    assert "pixel_values" not in tiny_models.traceable(None).probes[0]


def test_documents_are_drawn_for_those_that_look_at_them_and_no_longer() -> None:
    with invented_documents(tiny.LABELS, count=2) as plain:
        assert not any(item.document.pages[0].image for item in plain)
    with invented_documents(tiny.LABELS, images=True, count=2) as drawn:
        images = [item.document.pages[0].image for item in drawn]
        assert all(image is not None and image.is_file() for image in images)
        for item, same in zip(drawn, plain, strict=True):
            page = replace(item.document.pages[0], image=None)
            assert replace(item.document, pages=(page,)) == same.document
            assert item.spans == same.spans
    assert not any(image.exists() for image in images)


def test_int8_keeps_the_convolution_in_floats_and_answers_alike() -> None:
    folder = tiny.sealed_with_images()
    whole = Session(open_artifact(folder, tiny.policy()).read("onnx/model.onnx"))
    import onnx

    proto = onnx.load(str(folder / "onnx/model.onnx"))
    rounded = quantize.int8(proto, per_channel=True)
    assert "Conv" in {node.op_type for node in rounded.graph.node}
    assert not [node for node in rounded.graph.node if "ConvInteger" in node.op_type]
    probe = tiny_models.traceable(None, tiny.image_preprocessing()).probes[3]
    tokens = probe["attention_mask"].astype(bool)
    answered, expected = (
        session.run(probe)[0][tokens].argmax(axis=-1)
        for session in (Session(rounded.SerializeToString()), whole)
    )
    assert (answered == expected).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["int8", "fp16"])
def test_a_variant_is_measured_on_drawn_pages(tmp_path: Path, variant: str) -> None:
    checkpoint = tiny.sealed_with_images().parent / "checkpoint"
    release = tiny.release(variant=variant, max_f1_loss=100)
    folder = export(checkpoint, tmp_path / "artifact", release)
    _, rounded = read_unverified(folder).certificate.derivation
    told = rounded["agreement"]
    assert (told["documents"], told["fields"] > 100) == (60, True)
    # Random weights; the float32 graph is read from the same images.
    assert 90 < told["fieldAgreement"] < 100
    assert rounded["parity"]["inputs"] == "invented tokens, boxes, pixels"
    assert hushdoc.verify(folder, tiny.policy()).passed


def test_scores_are_calibrated_on_drawn_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration.artifacts, "NUM_INVENTED", 6)
    release = tiny.release(name="calibrated")
    # The generator knows no suppliers.
    origin = tiny.resealed(
        tmp_path / "known",
        origin=tiny.sealed_with_images(),
        labels=LabelSet(fields=("date", "document_number", "total")),
        settings=tiny.image_preprocessing(),
    )
    folder = calibration.export_calibrated_on_invented(origin, tmp_path / "out", release)
    before, after = (
        json.loads((place / "hushdoc.json").read_text())["preprocessing"]
        for place in (origin, folder)
    )
    scores = after.pop("scores")
    assert after == before
    assert scores["num_answers"] >= calibration.MIN_ANSWERS
    assert hushdoc.load(folder, policy=tiny.policy()).preprocessing.image is not None


def test_a_checkpoint_whose_images_its_model_cant_read_is_refused(tmp_path: Path) -> None:
    settings = tiny.image_preprocessing()
    tiny_models.save_checkpoint(tmp_path / "words", "layoutlm", settings=settings)
    with pytest.raises(CheckpointError, match="'layoutlm' model reads no images"):
        export(tmp_path / "words", tmp_path / "artifact", tiny.release())
    assert settings.image is not None
    large = replace(settings, image=replace(settings.image, height=64, width=64))
    tiny_models.save_checkpoint(
        tmp_path / "large", "layoutlmv3", classifier=tiny_models.image_model(), settings=large
    )
    with pytest.raises(CheckpointError, match="64 x 64 pixels and the model reads 32 x 32"):
        export(tmp_path / "large", tmp_path / "artifact", tiny.release())
    assert not (tmp_path / "artifact").exists()


def test_a_checkpoint_keeps_its_images() -> None:
    stored = Checkpoint.load(tiny.sealed_with_images().parent)
    assert stored.preprocessing == tiny.image_preprocessing()
