"""A classifier's folder in transformers' format becomes a sealed artifact.

config.json and model.safetensors; beside them tokenizer.json for models of text and layout, or
preprocessor_config.json for models of images. It was trained elsewhere, so the
certificate declares no guarantee for the documents it was trained on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hushdoc.certificate.claim import Claim
from hushdoc.document.page import BOX_SCALE
from hushdoc.errors import CheckpointError
from hushdoc.runtime.encoding import Encoder, Preprocessing
from hushdoc_export import claims, graph
from hushdoc_export.classification import (
    export_image_classifier,
    export_text_classifier,
    image_preprocessing,
)
from hushdoc_export.embedding import unlimited
from hushdoc_export.release import Release

CONFIG, WEIGHTS = "config.json", "model.safetensors"
TOKENIZER, PROCESSOR = "tokenizer.json", "preprocessor_config.json"
TEXT, IMAGE = "ForSequenceClassification", "ForImageClassification"
LAYOUT_TYPES = frozenset({"layoutlm", "layoutlmv3", "lilt"})
"""Models that read boxes beside the words."""

OTHER_PROBLEMS = ("regression", "multi_label_classification")
"""What transformers calls models whose outputs are numbers, or labels that each hold or not."""

_TEXTS = (
    "Invoice No. 4711: TOTAL due 1,234.50 EUR",
    "Größe, café & naïve Œuvre",
    "ACME's e-mail (2026) isn't for Łódź",
    "東京 請求書 Счёт",
    "Payable  within\n30 days",
)
"""Invented texts in which tokenizers differ: by case, accents, punctuation, scripts and blanks."""

_OURS = ("checkpoint.json", "claim.json", "labels.json", "asking.json", "classes.json")
"""Files of checkpoints, of which a damaged one may lack some."""

_LOCAL: dict[str, Any] = {"local_files_only": True, "use_safetensors": True}


def holds_classifier(folder: Path) -> bool:
    """Returns whether a folder declares a classifier in transformers' format."""
    try:
        return _architecture(folder).endswith((TEXT, IMAGE))
    except CheckpointError:
        return False


def is_published(folder: Path) -> bool:
    """Returns whether a folder holds a model of transformers that no training here has written."""
    return (folder / CONFIG).is_file() and not any((folder / name).exists() for name in _OURS)


def export_classifier(folder: Path, out: Path, release: Release, *, trained_on: str) -> Path:
    """Returns the folder of the artifact that was made from a classifier of transformers.

    It was written by `save_pretrained`, with weights in safetensors; `trained_on` is what the
    certificate calls the documents that it was trained on.
    """
    architecture = _architecture(folder)
    if not architecture.endswith((TEXT, IMAGE)):
        raise _unusable(folder, f"its architecture is {architecture or 'not declared'}")
    for name in (WEIGHTS, TOKENIZER if architecture.endswith(TEXT) else PROCESSOR):
        if not (folder / name).is_file():
            raise _unusable(folder, f"it has no {name}")
    claim = claims.trained_elsewhere(trained_on, architecture=architecture)
    export = _text if architecture.endswith(TEXT) else _image
    return export(folder, out, release, claim)


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Turns what files of a folder lack into one error."""
    from safetensors import SafetensorError

    try:
        with graph.silence():
            yield
    except (AttributeError, KeyError, OSError, SafetensorError, TypeError, ValueError) as error:
        raise _unusable(folder, f"{type(error).__name__}: {error}") from error


def _text(folder: Path, out: Path, release: Release, claim: Claim) -> Path:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    with _reading(folder):
        model = AutoModelForSequenceClassification.from_pretrained(folder, **_LOCAL).eval().float()
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        labels, windows = _labels(model.config), _windows(tokenizer, model.config)
        tokenizer_json = (folder / TOKENIZER).read_text(encoding="utf-8")
        layout = model.config.model_type in LAYOUT_TYPES
        _require_tokenizer(tokenizer, tokenizer_json, windows, model.config, layout=layout)
    if getattr(model.config, "visual_embed", False):
        raise _unusable(folder, "it reads images beside words, which classifiers here do not")
    return export_text_classifier(
        model,
        out,
        release,
        labels=labels,
        tokenizer_json=tokenizer_json,
        preprocessing=windows,
        claim=claim,
        layout=layout,
    )


def _image(folder: Path, out: Path, release: Release, claim: Claim) -> Path:
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    with _reading(folder):
        model = AutoModelForImageClassification.from_pretrained(folder, **_LOCAL).eval().float()
        processor = AutoImageProcessor.from_pretrained(folder, local_files_only=True)
        labels = _labels(model.config)
    return export_image_classifier(
        model,
        out,
        release,
        labels=labels,
        preprocessing=image_preprocessing(processor),
        claim=claim,
    )


def _windows(tokenizer: Any, config: Any) -> Preprocessing:
    ids = {
        name: getattr(tokenizer, f"{name}_token_id")
        for name in ("cls", "sep", "pad")
        if getattr(tokenizer, f"{name}_token_id") is not None
    }
    if len(ids) < 3:
        raise ValueError("its tokenizer lacks one of the tokens cls, sep and pad")
    from hushdoc_training.models import fitting

    return Preprocessing(
        max_tokens=min(tokenizer.model_max_length, fitting.longest_window(config)),
        overlap=0,
        sep_box=_sep_box(tokenizer),
        **{f"{name}_id": number for name, number in ids.items()},
    )


def _require_tokenizer(
    tokenizer: Any, tokenizer_json: str, windows: Preprocessing, config: Any, *, layout: bool
) -> None:
    """Raises unless the runtime makes of invented texts what the model's own tokenizer does."""
    from hushdoc_training.models import fitting

    fitting.require_vocabulary(config, tokenizer_json)
    encoder = Encoder(unlimited(tokenizer_json), windows)
    for text in _TEXTS:
        words = text.split()
        page = encoder.encode_words(words) if layout else encoder.encode_text(text)
        found = [windows.cls_id, *page.ids.tolist(), windows.sep_id]
        own = _own_tokens(tokenizer, words) if layout else tokenizer(text)
        if own["input_ids"] != found or any(own.get("token_type_ids", ())):
            raise ValueError(
                f"of the text {text!r} AutoTokenizer makes other tokens than {TOKENIZER} with the "
                "token cls before and sep behind; where the model was trained with the first, "
                "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) mends the second"
            )


def _own_tokens(tokenizer: Any, words: list[str]) -> Any:
    """Returns what a model's own tokenizer makes of words, which some take with boxes alone."""
    if getattr(tokenizer, "sep_token_box", None) is not None:
        return tokenizer(words, boxes=[[0] * 4 for _ in words])
    return tokenizer(words, is_split_into_words=True)


def _sep_box(tokenizer: Any) -> int:
    """Returns the coordinate of the box that a tokenizer of boxes gives the token at the end."""
    first, last = (getattr(tokenizer, f"{name}_token_box", None) for name in ("cls", "sep"))
    if first is None and last is None:
        return BOX_SCALE
    if first != [0] * 4 or last not in ([0] * 4, [BOX_SCALE] * 4):
        raise ValueError(f"its tokenizer gives the tokens cls and sep the boxes {first} and {last}")
    return int(last[0])


def _labels(config: Any) -> list[str]:
    """Returns the classes, of which a document has one; ValueError where outputs are not such."""
    if config.problem_type in OTHER_PROBLEMS or config.num_labels < 2:
        raise ValueError(
            f"it has {config.num_labels} outputs and the problem_type {config.problem_type}, which "
            "are not the classes of which a document has one"
        )
    names = [config.id2label[number] for number in range(config.num_labels)]
    if not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"its id2label has the classes {names}, which are not all names")
    return names


def _architecture(folder: Path) -> str:
    try:
        (name,) = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["architectures"]
        return str(name)
    except (KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        raise _unusable(folder, f"{CONFIG} can't be read: {type(error).__name__}") from error


def _unusable(folder: Path, found: str) -> CheckpointError:
    return CheckpointError(
        f"'{folder}' can't be exported as a classifier: {found}. Expected a folder as "
        f"save_pretrained of transformers writes it, of a model named *{TEXT} with {TOKENIZER}, "
        f"or *{IMAGE} with {PROCESSOR}, its weights in {WEIGHTS}. Of other models give `hushdoc "
        "train` the folder as --start, and export that run."
    )
