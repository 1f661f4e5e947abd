"""Artifacts of tiny models with random weights and a sound claim; what the tests load and run.

They are exported once, when a test first asks. An installation that can't export reads what
`hushdoc_tiny_models.py` has written elsewhere, from the folder that HUSHDOC_TEST_ARTIFACTS names.
"""

from __future__ import annotations

import functools
import json
import os
import string
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_builders
import hushdoc_command_runs
import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from hushdoc.accounting import rdp
from hushdoc.artifact import artifact
from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.hashing import FeatureScheme
from hushdoc.labels import LabelSet
from hushdoc.policy.policy import Policy
from hushdoc.runtime.encoding import Preprocessing
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc.runtime.questions import Asking
from hushdoc.signing import keys
from hushdoc.signing.trust_store import TrustedKey, TrustStore
from hushdoc_export import sealing
from hushdoc_export.release import Release
from hushdoc_export.table import seal_table
from hushdoc_training import claimed_files, table_checkpoint
from hushdoc_training.checkpoint import HEAD
from hushdoc_training.table_checkpoint import TableCheckpoint

LABELS = LabelSet(fields=("date", "supplier", "total"))
DELTA = 1e-5
ARCHITECTURES = ("layoutlm", "layoutlmv3", "lilt", "bert", "roberta")


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


def image_preprocessing(**change: Any) -> Preprocessing:
    image = ImagePreprocessing(
        height=32, width=32, resample="bilinear", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)
    )
    return preprocessing(image=image, **change)


def asking(**change: Any) -> Asking:
    """Returns the settings of a pointer for questions of up to 32 tokens."""
    sizes = {"max_tokens": 70, "overlap": 8, "max_question": 32, "max_answer": 12}
    ids = {"cls_id": 2, "sep_id": 3, "pad_id": 0}
    return Asking(**{"kind": "pointer", **sizes, **ids, **change})


def claim() -> Claim:
    """Returns a claim whose epsilon follows from its transcript."""
    transcript = hushdoc_builders.run_of(0.1, 2.0, 20)
    epsilon = rdp.epsilon(transcript, DELTA) * 1.001
    return hushdoc_builders.claim(
        hushdoc_builders.guarantee(epsilon=epsilon, profile=()),
        public_data=(),
        transcripts={"training": transcript},
    )


KEY = hushdoc_builders.known_key(7)
TRUST = TrustStore(keys=(TrustedKey(name="tests", public_key=keys.public_key_of(KEY)),))


def release(**change: Any) -> Release:
    """Returns who releases what the tests export."""
    return Release(**{"key": KEY, "name": "tiny-kie", "issuer": "the tests", **change})


_home = tempfile.TemporaryDirectory(prefix="hushdoc-tests-")


def policy(**change: Any) -> Policy:
    limits = {"max_epsilon": 8, "max_delta": 1e-5, "privacy_units": {"document"}, **change}
    return Policy(trust=TRUST, **limits)


def _once(name: str, export: Callable[[Any, Path], Path]) -> Path:
    """Returns an artifact that was written beforehand, or exports it."""
    if prepared := os.environ.get("HUSHDOC_TEST_ARTIFACTS"):
        return Path(prepared) / name
    out = Path(_home.name) / name / "artifact"
    if not out.exists():
        import hushdoc_tiny_models

        export(hushdoc_tiny_models, out)
    return out


def sealed(architecture: str = "layoutlm") -> Path:
    """Returns an artifact that was exported once for all tests; nobody changes it."""
    return _once(architecture, lambda models, out: models.export_fields(out, architecture))


def sealed_with_images() -> Path:
    """Returns an artifact that reads images beside words, exported once for all tests."""
    return _once("with-images", lambda models, out: models.export_fields_with_images(out))


def sealed_variant(variant: str) -> Path:
    """Returns an artifact of a variant that was exported once for all tests."""
    # A model of random weights loses much; that it may is named.
    released = release(variant=variant, max_f1_loss=100)
    return _once(variant, lambda models, out: models.export_fields(out, released=released))


CLASSES = ("letter", "invoice", "form", "email")
"""What the classifiers below know, in the order of their outputs."""


def sealed_classifier(modality: str) -> Path:
    """Returns a classifier of text, layout or images that was exported once for all tests."""
    return _once(
        f"{modality}-classifier",
        lambda models, out: models.export_classifier(out, modality, release()),
    )


def sealed_embedding() -> Path:
    """Returns a model of embeddings that was exported once for all tests."""
    return _once("embedding", lambda models, out: models.export_encoder(out))


def sealed_pointer() -> Path:
    """Returns a model that answers questions, exported once for all tests."""
    return _once("pointer", lambda models, out: models.export_pointer(out))


def sealed_vt5() -> Path:
    """Returns a model of words and boxes that writes answers, exported once for all tests."""
    return _once("vt5", lambda models, out: models.export_vt5(out))


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
    out = Path(_home.name) / f"{task}-table" / "artifact"
    return seal_table(out, table, release(name="tiny-table"))


ARTIFACTS = {
    "fields": ("KIEModel", sealed),
    "fields beside images": ("KIEModel", sealed_with_images),
    "clauses": ("HashedCRFModel", lambda: sealed_table("kie")),
    "classes": ("ClassificationModel", lambda: sealed_classifier("text")),
    "layouts": ("ClassificationModel", lambda: sealed_classifier("layout")),
    "images": ("ClassificationModel", lambda: sealed_classifier("image")),
    "table of classes": ("ClassificationModel", lambda: sealed_table("classification")),
    "vectors": ("EmbeddingModel", sealed_embedding),
    "answers": ("DocVQAModel", sealed_pointer),
}
"""What is sealed for each task: the class that runs it, and its folder, exported once."""


def artifact_of(name: str) -> Path:
    """Returns the folder of one of ARTIFACTS."""
    return ARTIFACTS[name][1]()


def save_table(folder: Path, **parts: Any) -> Path:
    """Writes a checkpoint of a table as training does."""
    table_checkpoint.save(folder, TableCheckpoint(**{"claim": claim(), **parts}))
    return folder


def replace_claim(folder: Path, claim: Claim | Mapping[str, Any]) -> None:
    """Puts another claim into a checkpoint as a dishonest trainer does, who says its digest too."""
    data = claim.to_dict() if isinstance(claim, Claim) else claim
    (folder / claimed_files.CLAIM).write_text(json.dumps(data))
    head = json.loads((folder / HEAD).read_text())
    (folder / HEAD).write_text(
        json.dumps({**head, claimed_files.KEY: claimed_files.digests(folder)})
    )


def export_command(home: Path, *arguments: object) -> int:
    """Runs `hushdoc export` with the release key, which is written into a folder."""
    if not (home / "release.key").exists():
        keys.write_private_key(KEY, home / "release.key")
    command = ["export", *map(str, arguments), "--key", str(home / "release.key")]
    return hushdoc_command_runs.run(*command)


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
