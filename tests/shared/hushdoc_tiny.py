"""Tiny checkpoints with random weights and a sound claim; what the tests export, load and run."""

from __future__ import annotations

import functools
import string
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_builders
import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from hushdoc.accounting import rdp
from hushdoc.artifact import artifact
from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.commands.command_line import build_parser
from hushdoc.document.page import Page
from hushdoc.hashing import FeatureScheme
from hushdoc.labels import LabelSet, spans_from_tags
from hushdoc.policy.policy import Policy
from hushdoc.runtime.decoding import viterbi
from hushdoc.runtime.encoding import Encoder, Preprocessing
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc.signing import keys
from hushdoc.signing.trust_store import TrustedKey, TrustStore
from hushdoc_export import kie, probes, sealing
from hushdoc_export.classification import export_image_classifier, export_text_classifier
from hushdoc_export.embedding import export_embedding
from hushdoc_export.release import Release
from hushdoc_export.table import seal_table
from hushdoc_training import checkpoint, table_checkpoint
from hushdoc_training.models.layout import TokenClassifier
from hushdoc_training.table_checkpoint import TableCheckpoint

LABELS = LabelSet(fields=("date", "supplier", "total"))
DELTA = 1e-5
ARCHITECTURES = ("layoutlm", "layoutlmv3", "lilt")

_SIZES = {
    "hidden_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 40,
    "max_2d_position_embeddings": 1024,
    "pad_token_id": 0,
}


def tokenizer_json() -> str:
    """Returns a WordPiece tokenizer that spells every word in letters and digits."""
    letters = string.ascii_lowercase + string.digits + ".,:/-"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer.to_str()


def preprocessing(**change: Any) -> Preprocessing:
    settings = {"max_tokens": 64, "overlap": 16, "cls_id": 2, "sep_id": 3, "pad_id": 0, **change}
    return Preprocessing(**settings)


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
        "initializer_range": 0.3,
        **change,
    }
    if architecture == "layoutlm":
        config = transformers.LayoutLMConfig(**sizes)
        inner = transformers.LayoutLMForTokenClassification(config)
    elif architecture == "lilt":
        inner = transformers.LiltForTokenClassification(transformers.LiltConfig(**sizes))
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


def image_preprocessing(**change: Any) -> Preprocessing:
    image = ImagePreprocessing(
        height=32, width=32, resample="bilinear", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)
    )
    return preprocessing(image=image, **change)


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


def claim() -> Claim:
    """Returns a claim whose epsilon follows from its transcript."""
    transcript = hushdoc_builders.run_of(0.1, 2.0, 20)
    epsilon = rdp.epsilon(transcript, DELTA) * 1.001
    return hushdoc_builders.claim(
        hushdoc_builders.guarantee(epsilon=epsilon, profile=()),
        public_data=(),
        transcripts={"training": transcript},
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
    return checkpoint.save(
        folder,
        architecture=architecture,
        labels=labels,
        preprocessing=settings or preprocessing(),
        claim=claim(),
        tokenizer_json=tokenizer_json(),
        save_weights=classifier.save,
    )


KEY = keys.generate_key()
TRUST = TrustStore(keys=(TrustedKey(name="tests", public_key=keys.public_key_of(KEY)),))


def release(**change: Any) -> Release:
    """Returns who releases what the tests export."""
    return Release(**{"key": KEY, "name": "tiny-kie", "issuer": "the tests", **change})


_home = tempfile.TemporaryDirectory(prefix="hushdoc-tests-")


def policy(**change: Any) -> Policy:
    limits = {"max_epsilon": 8, "max_delta": 1e-5, "privacy_units": {"document"}, **change}
    return Policy(trust=TRUST, **limits)


def sealed(architecture: str = "layoutlm") -> Path:
    """Returns an artifact that was exported once for all tests; nobody changes it."""
    return _sealed(architecture)


@functools.cache
def _sealed(architecture: str) -> Path:
    folder = Path(_home.name) / architecture
    save_checkpoint(folder / "checkpoint", architecture)
    return kie.export(folder / "checkpoint", folder / "artifact", release())


@functools.cache
def sealed_with_images() -> Path:
    """Returns an artifact that reads images beside words, exported once for all tests."""
    folder = Path(_home.name) / "images"
    save_checkpoint(
        folder / "checkpoint",
        "layoutlmv3",
        classifier=image_model(),
        settings=image_preprocessing(),
    )
    return kie.export(folder / "checkpoint", folder / "artifact", release())


@functools.cache
def sealed_variant(variant: str) -> Path:
    """Returns an artifact of a variant that was exported once for all tests."""
    # A model of random weights loses much; that it may is named.
    return kie.export(
        sealed().parent / "checkpoint",
        Path(_home.name) / variant,
        release(variant=variant, max_f1_loss=100),
    )


CLASSES = ("form", "invoice", "letter")
"""What the classifiers below know, in the order of their outputs."""

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


def export_classifier(out: Path, modality: str, release: Release, **settings: Any) -> Path:
    """Exports a random classifier of text, layout or images; `settings` are its preprocessing's."""
    torch.manual_seed(21)
    given = {"labels": CLASSES, "claim": claim()}
    if modality == "image":
        resnet = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8], depths=[1], num_labels=len(CLASSES)
        )
        half = (0.5, 0.5, 0.5)
        return export_image_classifier(
            transformers.ResNetForImageClassification(resnet).eval(),
            out,
            release,
            preprocessing=ImagePreprocessing(height=16, width=16, mean=half, std=half),
            **given,
        )
    layout = modality == "layout"
    inner = (
        transformers.LayoutLMForSequenceClassification(
            transformers.LayoutLMConfig(max_2d_position_embeddings=1024, **SMALL)
        )
        if layout
        else transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL))
    )
    return export_text_classifier(
        inner.eval(),
        out,
        release,
        layout=layout,
        tokenizer_json=tokenizer_json(),
        preprocessing=preprocessing(**settings),
        **given,
    )


@functools.cache
def sealed_classifier(modality: str) -> Path:
    """Returns a classifier of text, layout or images that was exported once for all tests."""
    return export_classifier(Path(_home.name) / f"{modality}-classifier", modality, release())


def export_encoder(out: Path, **settings: Any) -> Path:
    """Exports a random model of embeddings; `settings` are its preprocessing's."""
    torch.manual_seed(21)
    bert = transformers.BertModel(transformers.BertConfig(**SMALL), add_pooling_layer=False)
    return export_embedding(
        bert.eval(),
        out,
        release(),
        pooling="mean",
        tokenizer_json=tokenizer_json(),
        preprocessing=preprocessing(**settings),
        claim=claim(),
    )


@functools.cache
def sealed_embedding() -> Path:
    """Returns a model of embeddings that was exported once for all tests."""
    return export_encoder(Path(_home.name) / "embedding")


@functools.cache
def sealed_table(task: str) -> Path:
    """Returns a table for clauses ("kie") or classes ("classification"), sealed once."""
    tags = ("O", "distribution") if task == "kie" else CLASSES
    stay = np.eye(len(tags), dtype=bool)
    weights = np.full((1009, len(tags)), 1e-3, dtype=np.float32)
    weights[::3, 1] = 1.0
    table = TableCheckpoint(
        weights=weights,
        transitions=np.zeros(stay.shape) if task == "kie" else np.where(stay, 0.0, -1e6),
        tags=tags,
        scheme=FeatureScheme(rows=1009, level="sentence", seed=9),
        claim=claim(),
    )
    return seal_table(Path(_home.name) / f"{task}-table", table, release(name="tiny-table"))


ARTIFACTS = {
    "fields": ("KIEModel", sealed),
    "fields beside images": ("KIEModel", sealed_with_images),
    "clauses": ("HashedCRFModel", lambda: sealed_table("kie")),
    "classes": ("ClassificationModel", lambda: sealed_classifier("text")),
    "layouts": ("ClassificationModel", lambda: sealed_classifier("layout")),
    "images": ("ClassificationModel", lambda: sealed_classifier("image")),
    "table of classes": ("ClassificationModel", lambda: sealed_table("classification")),
    "vectors": ("EmbeddingModel", sealed_embedding),
}
"""What is sealed for each task: the class that runs it, and its folder, exported once."""


def artifact_of(name: str) -> Path:
    """Returns the folder of one of ARTIFACTS."""
    return ARTIFACTS[name][1]()


def save_table(folder: Path, **parts: Any) -> Path:
    """Writes a checkpoint of a table as training does."""
    table_checkpoint.save(folder, TableCheckpoint(**{"claim": claim(), **parts}))
    return folder


def export_command(home: Path, *arguments: object) -> int:
    """Runs `hushdoc export` with the release key, which is written into a folder."""
    if not (home / "release.key").exists():
        keys.write_private_key(KEY, home / "release.key")
    command = ["export", *map(str, arguments), "--key", str(home / "release.key")]
    options = build_parser().parse_args(command)
    code: int = options.run(options)
    return code


def calibration_data(name: str) -> PublicData:
    """Returns what a certificate says of invented data that scores are calibrated on."""
    return PublicData(
        name=name,
        uses=("calibration of scores",),
        privacy_status="invented",
        overlap_with_protected="none",
    )


def resealed(
    out: Path,
    *,
    task: str = "kie",
    origin: Path | None = None,
    labels: LabelSet = LABELS,
    settings: Preprocessing | None = None,
    tokenizer: bytes | None = None,
    inputs: tuple[str, ...] = ("input_ids", "bbox", "attention_mask", "pixel_values"),
) -> Path:
    """Returns a copy of the artifact with other parts, soundly signed: a wrong export."""
    opened = artifact.open_artifact(origin or sealed(), policy())
    certificate = opened.certificate
    certificate = replace(certificate, model=replace(certificate.model, task=task))
    contents = {
        "onnx/model.onnx": opened.read("onnx/model.onnx"),
        "hushdoc.json": sealing.manifest(
            certificate,
            inputs=[port for port in opened.manifest["inputs"] if port["name"] in inputs],
            outputs=opened.manifest["outputs"],
            preprocessing=(settings or preprocessing()).to_dict(),
        ),
        "labels.json": sealing.dump({"fields": list(labels.fields)}),
        "tokenizer.json": tokenizer or opened.read("tokenizer.json"),
    }
    return sealing.seal(out, contents, certificate, labels=labels, key=KEY)
