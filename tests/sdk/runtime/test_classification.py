"""Classification of text, layout and images: what torch answers, whole documents, abstention."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_tiny as tiny
import numpy as np
import pytest
import torch
import transformers
from hushdoc_documents import document, page
from hushdoc_tiny_models import IMAGES, image_classifier, text_classifier
from PIL import Image

from hushdoc.document.document import Document
from hushdoc.document.page import Box, Word
from hushdoc.errors import (
    ArtifactError,
    BoxError,
    CheckpointError,
    EmptyDocumentError,
    InputError,
    LabelMismatchError,
)
from hushdoc.policy.policy import Policy
from hushdoc.runtime import images
from hushdoc.runtime.classification import ClassificationModel
from hushdoc.runtime.encoding import Encoder
from hushdoc.runtime.extraction import Failure
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc.runtime.label_scores import Classification
from hushdoc.runtime.scoring import Scoring
from hushdoc.runtime.session import Runtime
from hushdoc_export.classification import (
    export_image_classifier,
    export_text_classifier,
    image_preprocessing,
)
from hushdoc_export.release import Release

LABELS = list(tiny.CLASSES)


def exported(out: Path, architecture: str, **change: Any) -> Path:
    release = Release(key=tiny.KEY, name="tiny-classifier", issuer="the tests")
    settings: dict[str, Any] = {"labels": LABELS, "claim": tiny.claim()}
    if architecture in ("resnet", "convnext", "beit"):
        settings |= {"preprocessing": IMAGES, **change}
        return export_image_classifier(image_classifier(architecture), out, release, **settings)
    settings |= {
        "preprocessing": tiny.preprocessing(overlap=0),
        "tokenizer_json": tiny.tokenizer_json(),
        "layout": architecture != "bert",
        **change,
    }
    return export_text_classifier(text_classifier(architecture), out, release, **settings)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return tiny.policy()


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Returns what exports an architecture and loads it."""

    def load(architecture: str) -> ClassificationModel:
        folder = exported(tmp_path_factory.mktemp("models") / architecture, architecture)
        return ClassificationModel.load(folder, policy=tiny.policy(), runtime=Runtime(threads=1))

    return load


@pytest.fixture(scope="module")
def text(load: Any) -> ClassificationModel:
    return load("bert")


@pytest.fixture(scope="module")
def image(load: Any) -> ClassificationModel:
    return load("resnet")


def by_label(answer: Classification) -> list[float]:
    found = {item.label: item.score for item in answer.scores}
    return [found[label] for label in LABELS]


def probabilities(logits: Any) -> Any:
    return torch.as_tensor(logits).double().softmax(-1).numpy()


SLOW = [
    pytest.param(architecture, marks=pytest.mark.slow) for architecture in ("layoutlmv3", "lilt")
]


@pytest.mark.parametrize("architecture", ["bert", "layoutlm", *SLOW])
def test_models_of_text_and_layout_answer_like_torch(
    policy: Policy, tmp_path: Path, architecture: str
) -> None:
    folder = exported(tmp_path / "artifact", architecture)
    loaded = ClassificationModel.load(folder, policy=policy)
    assert loaded.modality == ("text" if architecture == "bert" else "layout")
    asked = document(9)
    encoder = Encoder(tiny.tokenizer_json(), tiny.preprocessing(overlap=0))
    encoded = encoder.encode(asked.pages[0])
    inputs = encoder.batch([(encoded, 0, len(encoded.ids))])
    if architecture == "bert":
        del inputs["bbox"]
    with torch.no_grad():
        tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}
        expected = probabilities(text_classifier(architecture)(**tensors).logits[0])
    answer = loaded.classify(asked, top_k=9)
    assert by_label(answer) == pytest.approx(list(expected), abs=1e-5)
    assert answer.label == LABELS[int(expected.argmax())]
    assert (answer.coverage, answer.warnings, answer.below_threshold) == (1, (), False)
    assert max(expected) - min(expected) > 0.05


@pytest.mark.parametrize(
    "architecture", ["resnet", "beit", pytest.param("convnext", marks=pytest.mark.slow)]
)
def test_models_of_images_answer_like_torch(
    policy: Policy, tmp_path: Path, architecture: str
) -> None:
    folder = exported(tmp_path / "artifact", architecture)
    loaded = ClassificationModel.load(folder, policy=policy)
    assert loaded.modality == "image"
    paths = [scan(tmp_path / f"{number}.png", number) for number in range(3)]
    tensors = []
    for path in paths:
        with Image.open(path) as image:
            small = np.asarray(image.convert("RGB").resize((32, 32), Image.Resampling.BILINEAR))
        scaled = (small / 255 - np.array(IMAGES.mean)) / np.array(IMAGES.std)
        tensors.append(scaled.transpose(2, 0, 1))
    with torch.no_grad():
        batch = torch.as_tensor(np.stack(tensors), dtype=torch.float32)
        expected = image_classifier(architecture)(batch).logits.numpy()
    for path, logits in zip(paths, expected, strict=True):
        answer = loaded.classify(images.with_image(path), top_k=4)
        assert by_label(answer) == pytest.approx(list(probabilities(logits)), abs=1e-4)
    # Several pages: the mean of what each of them says.
    pages = tuple(images.with_image(path).pages[0] for path in paths * 2)
    together = loaded.classify(Document(id="d", pages=pages), top_k=4)
    assert by_label(together) == pytest.approx(list(probabilities(expected.mean(axis=0))), abs=1e-4)


def scan(path: Path, seed: int) -> Path:
    noise = np.random.default_rng(seed).integers(0, 256, size=(6, 5, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((100, 140), Image.Resampling.NEAREST).save(path)
    return path


def test_long_documents_are_read_whole(text: ClassificationModel) -> None:
    encoder = Encoder(tiny.tokenizer_json(), tiny.preprocessing(overlap=0))
    one, other = document(8), document(9)
    both = Document(id="d", pages=(*one.pages, *other.pages))
    logs = [np.log(by_label(text.classify(item, top_k=4))) for item in (one, other)]
    weights = [
        len(encoder.encode_text(" ".join(w.text for w in item.pages[0].words)).ids) + 2
        for item in (one, other)
    ]
    mean = sum(weight * log for weight, log in zip(weights, logs, strict=True)) / sum(weights)
    expected = np.exp(mean) / np.exp(mean).sum()
    assert by_label(text.classify(both, top_k=4)) == pytest.approx(list(expected), abs=1e-5)
    # The end of a long text counts.
    start = "total " * 100
    answers = [
        text.classify(Document.from_text(start + more)) for more in ("", "acme from 2026 " * 90)
    ]
    assert answers[0].scores[0].score != pytest.approx(answers[1].scores[0].score, abs=1e-4)
    assert answers[1].coverage == 1


def test_labels_come_best_first(text: ClassificationModel) -> None:
    answer = text.classify(document(9), top_k=4)
    scores = [item.score for item in answer.scores]
    assert scores == sorted(scores, reverse=True)
    assert sum(scores) == pytest.approx(1)
    assert text.classify(document(9)).scores == answer.scores[:1]
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="top_k is"):
            text.classify(document(9), top_k=wrong)  # type: ignore[arg-type]


SCORING = Scoring(
    temperature=2.0,
    raw=(0.2, 0.9),
    calibrated=(0.1, 0.5),
    threshold=0.45,
    fitted_on="invented pages",
    num_answers=100,
)


def test_scores_are_calibrated_and_the_unsure_abstains(
    policy: Policy, tmp_path: Path, text: ClassificationModel
) -> None:
    settings = tiny.preprocessing(overlap=0, scores=SCORING)
    folder = exported(tmp_path / "artifact", "bert", preprocessing=settings)
    loaded = ClassificationModel.load(folder, policy=policy)
    raw = text.classify(document(9), top_k=4)
    answer = loaded.classify(document(9), top_k=4)
    logits = np.log([item.score for item in raw.scores]) / 2
    cooled = np.exp(logits) / np.exp(logits).sum()
    best, *others = cooled
    on_curve = np.interp(best, SCORING.raw, SCORING.calibrated)
    left = np.minimum(on_curve, (1 - on_curve) * np.asarray(others) / sum(others))
    assert [item.score for item in answer.scores] == pytest.approx([on_curve, *left], abs=1e-6)
    assert [item.label for item in answer.scores] == [item.label for item in raw.scores]
    assert answer.scores[0].score < 0.45
    assert answer.below_threshold
    assert answer.label is None
    data = json.loads(answer.to_json())
    assert (data["label"], data["below_threshold"], len(data["scores"])) == (None, True, 4)
    manifest = json.loads((folder / "hushdoc.json").read_text())
    assert manifest["preprocessing"]["scores"]["threshold"] == 0.45


def test_bad_input_is_a_typed_error_and_the_next_call_unaffected(
    text: ClassificationModel, image: ClassificationModel, tmp_path: Path
) -> None:
    before = text.classify(document(9))
    with pytest.raises(EmptyDocumentError):
        text.classify(Document(id="d", pages=()))
    with pytest.raises(BoxError):
        text.classify(Document(id="d", pages=(replace(page(9), width=3),)))
    with pytest.raises(EmptyDocumentError):
        image.classify(Document(id="d", pages=()))
    with_image = images.with_image(scan(tmp_path / "a.png", 1)).pages[0]
    with pytest.raises(InputError, match="Page 1 of document 'd' has no image"):
        image.classify(Document(id="d", pages=(with_image, page(3))))
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:60])
    with pytest.raises(InputError):
        image.classify(Document(id="d", pages=(replace(with_image, image=tmp_path / "b.png"),)))
    with pytest.raises(InputError, match="can't be read"):
        images.with_image(tmp_path / "gone.png")
    assert text.classify(document(9)) == before


def test_a_text_without_any_token_says_so(text: ClassificationModel) -> None:
    answer = text.classify(Document.from_text("\u200b"))
    assert answer.coverage == 0
    assert "can read nothing" in answer.warnings[-1]


def test_many_images_are_opened_without_reading_their_words(
    image: ClassificationModel, tmp_path: Path
) -> None:
    paths = [scan(tmp_path / f"{number}.png", number) for number in range(5)]
    paths.insert(2, tmp_path / "gone.png")
    found = list(image.classify_many(paths, workers=2, on_error="collect"))
    assert [type(item) for item in found].index(Failure) == 2
    alone = [image.classify(images.with_image(path)) for path in paths if path.exists()]
    assert [item for item in found if isinstance(item, Classification)] == alone


@pytest.mark.parametrize("reader", ["here", "process"])
def test_a_document_s_json_is_classified_by_the_images_that_it_names(
    image: ClassificationModel, tmp_path: Path, reader: str
) -> None:
    pages = images.with_image(scan(tmp_path / "a.png", 3)).pages
    word = Word(text="a", box=Box(x0=0, y0=0, x1=1, y1=1))
    document = Document(id="own", pages=tuple(replace(item, words=(word,)) for item in pages))
    (tmp_path / "a.json").write_text(json.dumps(document.to_dict(folder=tmp_path)))
    (found,) = image.classify_many([tmp_path / "a.json"], reader=reader)
    assert found == image.classify(document)
    assert found.document_id == "own"


def test_several_pages_of_a_tiff_are_several_images(
    image: ClassificationModel, tmp_path: Path
) -> None:
    parts = [Image.open(scan(tmp_path / f"{number}.png", number)) for number in range(2)]
    parts[0].save(tmp_path / "both.tiff", save_all=True, append_images=parts[1:])
    pages = images.with_image(tmp_path / "both.tiff").pages
    assert [item.frame for item in pages] == [0, 1]
    apart = [by_label(image.classify(Document(id="d", pages=(item,)), top_k=4)) for item in pages]
    whole = by_label(image.classify(images.with_image(tmp_path / "both.tiff"), top_k=4))
    mean = np.exp(np.log(apart).mean(axis=0))
    assert whole == pytest.approx(list(mean / mean.sum()), abs=1e-5)


def test_other_labels_are_refused(tmp_path: Path) -> None:
    for wrong in (LABELS[:3], [*LABELS[:3], LABELS[0]]):
        with pytest.raises(LabelMismatchError, match="answers with 4 numbers"):
            exported(tmp_path / "artifact", "resnet", labels=wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"labels": ["a", "b", "c"]}', "3 labels"),
        (b'{"labels": ["a", "a", "b", "c"]}', "each once"),
        (b'{"labels": [1, 2, 3, 4]}', "list of names"),
        (b"{", "can't be read"),
    ],
)
def test_a_wrong_export_is_refused(
    policy: Policy, tmp_path: Path, monkeypatch: Any, content: bytes, told: str
) -> None:
    monkeypatch.setattr("hushdoc_export.classification._named", lambda labels: content)
    folder = exported(tmp_path / "artifact", "resnet")
    with pytest.raises(ArtifactError, match=told):
        ClassificationModel.load(folder, policy=policy)


@pytest.mark.parametrize(
    ("processor", "size"),
    [
        (transformers.ConvNextImageProcessor(size={"shortest_edge": 32}, crop_pct=0.875), 32),
        (transformers.ConvNextImageProcessor(size={"shortest_edge": 384}), 384),
        (
            transformers.BeitImageProcessor(
                size={"height": 32, "width": 32}, do_center_crop=False, resample=3
            ),
            32,
        ),
        (transformers.ViTImageProcessor(size={"height": 24, "width": 32}), 32),
    ],
)
def test_published_processors_are_followed(processor: Any, size: int, tmp_path: Path) -> None:
    settings = image_preprocessing(processor)
    assert settings.width == size
    image = Image.open(scan(tmp_path / "a.png", 3))
    expected = processor(image.convert("RGB"), return_tensors="np")["pixel_values"][0]
    found = images.pixels(image, settings)
    assert found.shape == expected.shape
    # Resizing rounds to whole steps of 1/255; libraries may differ by one of them.
    step = 1 / 255 / min(settings.std)
    assert np.abs(found - expected).max() <= 1.01 * step
    assert np.abs(found - expected).mean() < 0.1 * step


@pytest.mark.parametrize(
    "processor",
    [
        transformers.EfficientNetImageProcessor(),  # divides by the deviation twice
        transformers.EfficientNetImageProcessor(rescale_offset=True, include_top=False),
        transformers.MobileViTImageProcessor(  # reads blue first
            do_center_crop=False, size={"height": 32, "width": 32}
        ),
        transformers.DonutImageProcessor(size={"height": 32, "width": 32}),  # pads
        transformers.BitImageProcessor(do_center_crop=False),  # keeps the proportions
    ],
    ids=lambda processor: type(processor).__name__,
)
def test_processors_that_make_something_else_are_refused(processor: Any) -> None:
    with pytest.raises(CheckpointError, match="in a way that the runtime does not know"):
        image_preprocessing(processor)
    other = transformers.EfficientNetImageProcessor(include_top=False)
    assert image_preprocessing(other).height == 346


def test_a_cropped_image_of_any_size_is_what_a_published_processor_makes() -> None:
    processor = transformers.ConvNextImageProcessor(size={"shortest_edge": 49}, crop_pct=0.875)
    settings = image_preprocessing(processor)
    generator = np.random.default_rng(6)
    for side in range(57, 120):
        for size in ((side + 11, side, 3), (side, side + 24, 3)):
            image = Image.fromarray(generator.integers(0, 256, size=size, dtype=np.uint8))
            expected = processor(image, return_tensors="np")["pixel_values"][0]
            step = 1 / 255 / min(settings.std)
            assert np.abs(images.pixels(image, settings) - expected).max() <= 1.01 * step, size


@pytest.mark.parametrize(
    "change",
    [
        {"height": 0},
        {"width": 1.5},
        {"fit": "pad"},
        {"resample": "box"},
        {"mean": (0.5, 0.5)},
        {"std": (0.0, 1.0, 1.0)},
        {"std": (float("nan"), 1.0, 1.0)},
        {"crop_share": 0.0},
    ],
)
def test_settings_no_image_satisfies_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        replace(IMAGES, **change)
    with pytest.raises(ArtifactError, match="preprocessing contract"):
        ImagePreprocessing.from_dict({**IMAGES.to_dict(), **change})


def test_settings_round_trip() -> None:
    for settings in (IMAGES, replace(IMAGES, scores=SCORING, fit="crop", crop_share=0.9)):
        told = json.loads(json.dumps(settings.to_dict()))
        assert ImagePreprocessing.from_dict(told) == settings
    with pytest.raises(ArtifactError, match="preprocessing contract"):
        ImagePreprocessing.from_dict({**IMAGES.to_dict(), "pad": 1})


@pytest.mark.parametrize("size", [(1, 1), (1, 900), (900, 1), (33, 31)])
@pytest.mark.parametrize("mode", ["L", "CMYK", "RGBA", "1", "P"])
def test_any_image_becomes_an_input(size: tuple[int, int], mode: str) -> None:
    for settings in (IMAGES, replace(IMAGES, fit="crop", crop_share=0.5, width=20)):
        values = images.pixels(Image.new(mode, size), settings)
        assert values.shape == (3, settings.height, settings.width)
        assert np.isfinite(values).all()
