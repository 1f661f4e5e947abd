"""Tiny models with random weights, and their exports; needs what trains and exports.

`python tests/shared/hushdoc_tiny_models.py DIR` writes the artifacts of `hushdoc_tiny`, for tests
in an installation that can't export, with HUSHDOC_TEST_ARTIFACTS=DIR.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hushdoc_tiny as tiny
import hushdoc_tiny_vt5
import numpy as np
import onnx
import torch
import transformers
from hushdoc_tiny import CLASSES, LABELS, claim, preprocessing, release, tokenizer_json
from tokenizers import Tokenizer
from torch.onnx._internal.exporter._registration import ONNXRegistry

from hushdoc.document.page import Page
from hushdoc.labels import LabelSet, spans_from_tags
from hushdoc.runtime.decoding import viterbi
from hushdoc.runtime.encoding import Encoder, Preprocessing
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc_export import docvqa, kie, probes
from hushdoc_export.classification import export_image_classifier, export_text_classifier
from hushdoc_export.embedding import export_embedding
from hushdoc_export.release import Release
from hushdoc_training import checkpoint
from hushdoc_training.models import fitting, layout
from hushdoc_training.models.layout import TokenClassifier
from hushdoc_training.models.pointer import Pointer, pointer_on

_SIZES = {
    "hidden_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 40,
    "max_2d_position_embeddings": 1024,
    "pad_token_id": 0,
}

SMALL = {
    "hidden_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": 70,
    "initializer_range": 0.5,
    "vocab_size": 90,
    "num_labels": len(CLASSES),
}
"""The sizes of a transformer that is exported in a moment."""


def model(
    architecture: str, *, labels: LabelSet = LABELS, positions: int = 70, **change: Any
) -> TokenClassifier:
    """Returns a random model whose answers differ clearly from word to word."""
    torch.manual_seed(3)
    sizes = {
        **_SIZES,
        "vocab_size": Tokenizer.from_str(tokenizer_json()).get_vocab_size(),
        "num_labels": len(labels.tags),
        "max_position_embeddings": positions,
        "initializer_range": 0.5 if architecture == "roberta" else 0.3,
        **change,
    }
    if architecture == "layoutlm":
        config = transformers.LayoutLMConfig(**sizes)
        inner = transformers.LayoutLMForTokenClassification(config)
    elif architecture == "lilt":
        inner = transformers.LiltForTokenClassification(transformers.LiltConfig(**sizes))
    elif architecture in fitting.WITHOUT_BOXES:
        sizes.pop("max_2d_position_embeddings")
        made = layout._class(architecture)
        inner = made(made.config_class(**sizes))
    else:
        config = transformers.LayoutLMv3Config(coordinate_size=8, shape_size=8, **sizes)
        inner = transformers.LayoutLMv3ForTokenClassification(config)
    return TokenClassifier(inner.eval(), architecture).eval()


def image_model() -> TokenClassifier:
    """Returns a random LayoutLMv3 that reads pages of 32 x 32 pixels in patches of 8."""
    made = model("layoutlmv3", input_size=32, patch_size=8)
    embedding: Any = made.inner.layoutlmv3
    with torch.no_grad():
        # As transformers makes them these are zeros, so that nothing would tell whether they count.
        embedding.cls_token.normal_()
        embedding.pos_embed.normal_()
    return made


def _remembered(trace: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what traces a model once in a process, which is the most that an export costs.

    The same model gives the same graph, byte for byte: `test_graph` traces twice.
    """
    graphs: dict[str, bytes] = {}

    @functools.wraps(trace)
    def traced(asked: probes.Traceable, *, fused: bool = True) -> Any:
        model, probe = asked.model, asked.probes[0]
        if not type(model).__module__.startswith(("hushdoc_", "transformers.")):
            return trace(asked, fused=fused)
        told = (str(model), asked.free, asked.output, fused, list(probe))
        digest = hashlib.sha256(repr((*told, *map(_plain, model.modules()))).encode())
        tensors = (*model.state_dict().items(), *model.named_buffers(), *probe.items())
        for name, value in tensors:
            digest.update(name.encode() + np.ascontiguousarray(value).tobytes())
        key = digest.hexdigest()
        if key not in graphs:
            graphs[key] = trace(asked, fused=fused).SerializeToString()
        return onnx.load_model_from_string(graphs[key])

    return traced


def _plain(part: torch.nn.Module) -> list[tuple[str, object]]:
    """Returns the settings of a layer, without what saving notes in its configuration."""
    files = dict.fromkeys(("architectures", "_name_or_path", "dtype"))
    found: list[tuple[str, object]] = [("", type(part).__qualname__)]
    for name, value in sorted(vars(part).items()):
        if name.startswith("_") or name == "name_or_path":
            continue
        if isinstance(value, (bool, int, float, str, tuple)):
            found.append((name, value))
        elif isinstance(value, transformers.PreTrainedConfig):
            found.append((name, sorted({**value.to_dict(), **files}.items())))
    return found


setattr(probes.Traceable, "traced", _remembered(probes.Traceable.traced))  # noqa: B010

# The operators' translations, which torch collects anew for each graph: a sixth of its time.
setattr(ONNXRegistry, "from_torchlib", staticmethod(functools.cache(ONNXRegistry.from_torchlib)))  # noqa: B010


def traceable(traced: Any, settings: Preprocessing | None = None) -> probes.Traceable:
    """Returns a model of words and boxes with its probes, as `kie.export` traces it."""
    return probes.of_text(
        traced,
        settings or preprocessing(),
        vocab_size=Tokenizer.from_str(tokenizer_json()).get_vocab_size(),
        output="logits",
        boxes=True,
        per_token=True,
    )


def fields_by_torch(classifier: TokenClassifier, asked: Page, **pixels: Any) -> list[Any]:
    """Returns (label, words, score) of a page of one window, by torch and the best path of tags."""
    encoder = Encoder(tokenizer_json(), preprocessing())
    encoded = encoder.encode(asked)
    batch = encoder.batch([(encoded, 0, len(encoded.ids))], **pixels)
    tensors = {name: torch.from_numpy(value) for name, value in batch.items()}
    with torch.no_grad():
        probabilities = classifier(**tensors)[0].double().softmax(-1).numpy()
    scores = probabilities[1 + np.flatnonzero(encoded.first)]
    path = viterbi(scores)
    chosen = scores[np.arange(len(path)), path]
    return [
        (span.label, tuple(range(span.start, span.stop)), chosen[span.start : span.stop].mean())
        for span in spans_from_tags([LABELS.tags[tag] for tag in path])
    ]


def save_checkpoint(
    folder: Path,
    architecture: str = "layoutlm",
    *,
    labels: LabelSet = LABELS,
    classifier: TokenClassifier | None = None,
    settings: Preprocessing | None = None,
) -> checkpoint.Checkpoint:
    """Writes a checkpoint as training does."""
    classifier = classifier or model(architecture, labels=labels)
    if settings is None and not classifier.reads_boxes:
        settings = preprocessing(box_level="none")
    return checkpoint.save(
        folder,
        architecture=architecture,
        labels=labels,
        preprocessing=settings or preprocessing(),
        claim=claim(),
        tokenizer_json=tokenizer_json(),
        save_weights=classifier.save,
    )


def text_classifier(architecture: str) -> Any:
    """Returns a random classifier of words, or of words and boxes."""
    torch.manual_seed(11)
    sizes = {**SMALL, "max_2d_position_embeddings": 1024, "pad_token_id": 0}
    if architecture == "bert":
        inner = transformers.BertForSequenceClassification(transformers.BertConfig(**sizes))
    elif architecture == "layoutlm":
        config = transformers.LayoutLMConfig(**sizes)
        inner = transformers.LayoutLMForSequenceClassification(config)
    elif architecture == "lilt":
        inner = transformers.LiltForSequenceClassification(transformers.LiltConfig(**sizes))
    else:
        config = transformers.LayoutLMv3Config(coordinate_size=8, shape_size=8, **sizes)
        inner = transformers.LayoutLMv3ForSequenceClassification(config)
    return inner.eval()


IMAGES = ImagePreprocessing(
    height=32, width=32, resample="bilinear", mean=(0.5, 0.4, 0.3), std=(0.5, 0.25, 0.2)
)
"""How the classifiers of images below read them."""


def image_classifier(architecture: str) -> Any:
    """Returns a random classifier of images whose answers differ clearly from page to page."""
    torch.manual_seed(12)
    if architecture == "resnet":
        config = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=len(CLASSES)
        )
        inner = transformers.ResNetForImageClassification(config)
    elif architecture == "convnext":
        config = transformers.ConvNextConfig(
            hidden_sizes=[8, 16],
            depths=[1, 1],
            num_stages=2,
            num_labels=len(CLASSES),
            image_size=32,
        )
        inner = transformers.ConvNextForImageClassification(config)
    else:  # DiT (Li et al. 2022) is BEiT
        config = transformers.BeitConfig(
            hidden_size=24,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            image_size=32,
            patch_size=8,
            num_labels=len(CLASSES),
            use_relative_position_bias=True,
        )
        inner = transformers.BeitForImageClassification(config)
    with torch.no_grad():
        for name, value in inner.named_parameters():
            if "classifier" in name:
                value.mul_(20)
    return inner.eval()


def export_classifier(out: Path, modality: str, release: Release, **settings: Any) -> Path:
    """Exports a random classifier of text, layout or images; `settings` are its preprocessing's."""
    given = {"labels": CLASSES, "claim": claim()}
    if modality == "image":
        inner = image_classifier("resnet")
        return export_image_classifier(inner, out, release, preprocessing=IMAGES, **given)
    layout = modality == "layout"
    return export_text_classifier(
        text_classifier("layoutlm" if layout else "bert"),
        out,
        release,
        layout=layout,
        tokenizer_json=tokenizer_json(),
        preprocessing=preprocessing(**settings),
        **given,
    )


def encoder() -> Any:
    """Returns a small BERT whose answers differ clearly from text to text."""
    torch.manual_seed(5)
    config = transformers.BertConfig(**{**SMALL, "initializer_range": 0.3})
    return transformers.BertModel(config, add_pooling_layer=False).eval()


def export_encoder(out: Path, **settings: Any) -> Path:
    """Exports a random model of embeddings; `settings` are its preprocessing's."""
    return export_embedding(
        encoder(),
        out,
        release(),
        pooling="mean",
        tokenizer_json=tokenizer_json(),
        preprocessing=preprocessing(**settings),
        claim=claim(),
    )


def pointer(**change: Any) -> Pointer:
    """Returns a random model that points at answers."""
    return pointer_on(model("layoutlm", **change)).eval()


def export_pointer(out: Path, **settings: Any) -> Path:
    """Exports a random model that answers questions; `settings` are its `Asking`'s."""
    return docvqa.export_pointer(
        pointer(),
        out,
        release(),
        asking=tiny.asking(**settings),
        tokenizer_json=tokenizer_json(),
        claim=claim(),
    )


def export_vt5(out: Path) -> Path:
    """Exports a model that has learned to write a few answers."""
    return hushdoc_tiny_vt5.export_vt5(out)


def export_fields(
    out: Path, architecture: str = "layoutlm", *, released: Release | None = None, **parts: Any
) -> Path:
    """Exports a random model of fields; its checkpoint, made of `parts`, stands beside it."""
    save_checkpoint(out.parent / "checkpoint", architecture, **parts)
    return kie.export(out.parent / "checkpoint", out, released or release())


def export_fields_with_images(out: Path) -> Path:
    """Exports a random model of fields that reads images beside words."""
    return export_fields(
        out, "layoutlmv3", classifier=image_model(), settings=tiny.image_preprocessing()
    )


def main(out: Path) -> None:
    """Writes all artifacts of `hushdoc_tiny`."""
    sealed = [*map(tiny.sealed, tiny.ARCHITECTURES), *map(tiny.artifact_of, tiny.ARTIFACTS)]
    for artifact in {*sealed, tiny.sealed_variant("int8"), tiny.sealed_vt5()}:
        shutil.copytree(artifact, out / artifact.parent.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
