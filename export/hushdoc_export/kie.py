"""A checkpoint of key information extraction becomes a sealed artifact for `hushdoc.KIEModel`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.certificate.certificate import Certificate
from hushdoc.errors import LabelMismatchError
from hushdoc.runtime.kie import KIEModel
from hushdoc.runtime.session import Session
from hushdoc_export import field_agreement, graph, probes, sealing
from hushdoc_export.release import LOADED, Release, Seen, origin_of, seal, unseen
from hushdoc_training.checkpoint import Checkpoint

if TYPE_CHECKING:
    from hushdoc_training.models.layout import TokenClassifier

OUTPUT = "logits"


def export(checkpoint_folder: Path, out: Path, release: Release, *, seen: Seen = unseen) -> Path:
    """Returns the folder of the artifact that was made from a checkpoint.

    Args:
        checkpoint_folder: What training wrote, or the run folder around it.
        out: Where the artifact shall stand; nothing may be there yet.
        release: Who releases it, and as what.
        seen: Is told how much is done, of 100.

    Raises:
        CheckpointError: The checkpoint is damaged, or its parts do not fit one another.
        HushdocError: What `release.seal` raises.
    """
    checkpoint = Checkpoint.load(checkpoint_folder)
    model = _model(checkpoint)
    seen(LOADED, 100)
    return seal(
        out,
        traceable(model, checkpoint),
        release,
        task=checkpoint.task,
        claim=checkpoint.claim,
        preprocessing=checkpoint.preprocessing.to_dict(),
        contents={
            "labels.json": sealing.dump({"fields": list(checkpoint.labels.fields)}),
            "tokenizer.json": checkpoint.tokenizer_json.encode("utf-8"),
        },
        labels=checkpoint.labels,
        origin=origin_of(checkpoint.folder, checkpoint.architecture),
        measure=field_agreement.of_fields(
            checkpoint.labels,
            lambda certificate, session: _reader(checkpoint, certificate, session),
            images=checkpoint.preprocessing.image is not None,
            max_f1_loss=release.max_f1_loss,
        ),
        seen=seen,
    )


def traceable(model: TokenClassifier, checkpoint: Checkpoint) -> probes.Traceable:
    """Returns a model of words and, where its preprocessing has them, boxes and images to trace."""
    from hushdoc_training.models import layout

    return probes.of_text(
        model if model.reads_boxes else layout.TextClassifier(model),
        checkpoint.preprocessing,
        vocab_size=model.word_embeddings.shape[0],
        output=OUTPUT,
        boxes=model.reads_boxes,
        per_token=True,
    )


def _model(checkpoint: Checkpoint) -> TokenClassifier:
    """Returns the checkpoint's model, whose labels and images are those of its other files."""
    graph.require_packages()
    from hushdoc_training.models import fitting, layout

    with graph.silence():
        model = layout.load(checkpoint.folder, checkpoint.architecture).eval()
    config: Any = model.inner.config
    if config.num_labels != len(checkpoint.labels.tags):
        raise LabelMismatchError(
            f"The model answers {config.num_labels} tags and the checkpoint's labels.json with "
            f"{len(checkpoint.labels.fields)} fields needs {len(checkpoint.labels.tags)}. Train "
            "again, or restore the folder."
        )
    settings = checkpoint.preprocessing
    fitting.require_boxes(
        checkpoint.architecture, box_level=settings.box_level, word_order=settings.word_order
    )
    if settings.image is not None:
        layout.require_size(model, settings.image)
    return model


def _reader(checkpoint: Checkpoint, certificate: Certificate, session: Session) -> KIEModel:
    """Returns a graph as an application will use it."""
    return KIEModel(
        certificate=certificate,
        labels=checkpoint.labels,
        encoder=checkpoint.encoder(),
        session=session,
    )
