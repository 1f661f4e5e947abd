"""A model that answers questions becomes a sealed artifact for `hushdoc.DocVQAModel`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Claim
from hushdoc.errors import CheckpointError
from hushdoc.runtime.docvqa import TASK, DocVQAModel
from hushdoc.runtime.pointing import AT_ONCE
from hushdoc.runtime.pointing import Pointer as PointerReader
from hushdoc.runtime.questions import Asking, QuestionEncoder
from hushdoc.runtime.writing import Writer
from hushdoc_export import graph, probes, question_agreement, vt5
from hushdoc_export.probes import Inputs, Traceable
from hushdoc_export.quantize import MODEL
from hushdoc_export.release import (
    LOADED,
    Alone,
    Release,
    Seen,
    Sessions,
    origin_of,
    seal_graphs,
    unseen,
)
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint

if TYPE_CHECKING:
    from hushdoc_training.models.pointer import Pointer
    from hushdoc_training.models.vt5 import VT5

OUTPUT = "spans"


def export(checkpoint_folder: Path, out: Path, release: Release, *, seen: Seen = unseen) -> Path:
    """Returns the folder of the artifact that was made from a checkpoint.

    Args:
        checkpoint_folder: What training wrote, or the run folder around it.
        out: Where the artifact shall stand; nothing may be there yet.
        release: Who releases it, and as what.
        seen: Is told how much is done, of 100.

    Raises:
        CheckpointError: The checkpoint is damaged, or its parts do not fit one another.
        HushdocError: What `release.seal_graphs` raises.
    """
    checkpoint = DocVQACheckpoint.load(checkpoint_folder)
    graph.require_packages()
    from hushdoc_training.models import pointer
    from hushdoc_training.models import vt5 as writing

    model: Pointer | VT5
    points = checkpoint.architecture == "pointer"
    with graph.silence():
        model = (pointer if points else writing).load(checkpoint.folder)
    seen(LOADED, 100)
    export_model: Any = export_pointer if points else export_vt5
    made: Path = export_model(
        model,
        out,
        release,
        asking=checkpoint.asking,
        tokenizer_json=checkpoint.tokenizer_json,
        claim=checkpoint.claim,
        origin=origin_of(checkpoint.folder, model.architecture),
        seen=seen,
    )
    return made


def export_pointer(
    model: Pointer,
    out: Path,
    release: Release,
    *,
    asking: Asking,
    tokenizer_json: str,
    claim: Claim,
    origin: Mapping[str, str] | None = None,
    seen: Seen = unseen,
) -> Path:
    """Returns the folder of the artifact that was made from a pointer.

    Args:
        model: The trained pointer, in eval mode.
        out: Where the artifact shall stand; nothing may be there yet.
        release: Who releases it, and as what.
        asking: How questions and words became its inputs.
        tokenizer_json: Hugging Face tokenizer.
        claim: What training declares about privacy.
        origin: Where the weights come from; their digest by default.
        seen: Is told how much is done, of 100.

    Raises:
        CheckpointError: The model reads no boxes.
        HushdocError: What `release.seal` raises.
    """
    if not model.reads_boxes:
        raise CheckpointError(
            f"The pointer's encoder is {model.architecture}, which reads no boxes. Train one on "
            "layoutlm, layoutlmv3 or lilt."
        )
    encoder = QuestionEncoder(tokenizer_json, asking)

    def reader(certificate: Certificate, graphs: Sessions) -> DocVQAModel:
        points = PointerReader(encoder, graphs[MODEL])
        return DocVQAModel(certificate=certificate, encoder=encoder, reader=points, device="cpu")

    return seal_graphs(
        out,
        Alone(traceable=traceable(model, asking)),
        release,
        measure=question_agreement.of_questions(
            encoder, reader, max_anls_loss=release.max_anls_loss
        ),
        **_parts(asking, tokenizer_json, claim, origin, seen),
    )


def export_vt5(
    model: VT5,
    out: Path,
    release: Release,
    *,
    asking: Asking,
    tokenizer_json: str,
    claim: Claim,
    origin: Mapping[str, str] | None = None,
    seen: Seen = unseen,
) -> Path:
    """Returns the folder of the artifact that was made from a VT5, of two graphs or three.

    Args:
        model: The trained model, in eval mode. It computes attention in several steps from here on.
        out: Where the artifact shall stand; nothing may be there yet.
        release: Who releases it, and as what.
        asking: How questions, words and images became its inputs.
        tokenizer_json: Hugging Face tokenizer.
        claim: What training declares about privacy.
        origin: Where the weights come from; their digest by default.
        seen: Is told how much is done, of 100.

    Raises:
        CheckpointError: The settings are not the model's.
        HushdocError: What `release.seal_graphs` raises.
    """
    encoder = QuestionEncoder(tokenizer_json, asking)
    vt5.require_settings(model, encoder)

    def reader(certificate: Certificate, graphs: Sessions) -> DocVQAModel:
        writes = Writer(encoder, graphs)
        return DocVQAModel(certificate=certificate, encoder=encoder, reader=writes, device="cpu")

    return seal_graphs(
        out,
        vt5.Writing(model=model, encoder=encoder),
        release,
        measure=question_agreement.of_questions(
            encoder, reader, max_anls_loss=release.max_anls_loss
        ),
        **_parts(asking, tokenizer_json, claim, origin, seen),
    )


def _parts(
    asking: Asking,
    tokenizer_json: str,
    claim: Claim,
    origin: Mapping[str, str] | None,
    seen: Seen,
) -> dict[str, Any]:
    """Returns what `seal_graphs` is told of any model that answers questions."""
    return {
        "task": TASK,
        "claim": claim,
        "preprocessing": asking.to_dict(),
        "contents": {"tokenizer.json": tokenizer_json.encode("utf-8")},
        "origin": origin,
        "seen": seen,
    }


def traceable(model: Pointer, asking: Asking) -> Traceable:
    """Returns a pointer with probes whose windows have questions of several lengths."""
    made = probes.of_text(
        model,
        replace(asking.of_pages, overlap=0),
        vocab_size=model.word_embeddings.shape[0],
        output=OUTPUT,
        boxes=True,
        per_token=True,
        logits=False,
    )
    questions = graph.Free(name="questions", minimum=1, maximum=AT_ONCE)
    length = graph.Free(name="length", minimum=2, maximum=asking.max_question + 2)
    axes = {0: graph.BATCH, 1: questions, 2: length}
    return replace(
        made,
        free={**made.free, "question_ids": axes, "question_mask": axes},
        probes=tuple(
            _with_questions(probe, number, longest=asking.max_question + 2, pad=asking.pad_id)
            for number, probe in enumerate(made.probes)
        ),
    )


def _with_questions(probe: Inputs, number: int, *, longest: int, pad: int) -> Inputs:
    """Returns a probe with questions made of its windows' own tokens; number 0 is traced."""
    rows, tokens = probe["input_ids"].shape
    shape = (rows, number or 3, min(longest, tokens))
    ids = np.resize(probe["input_ids"], shape)
    ends = 1 + np.arange(rows * shape[1]).reshape(rows, -1, 1) % shape[2]
    mask = (np.arange(shape[2]) < ends).astype(np.int64)
    return {**probe, "question_ids": np.where(mask == 1, ids, pad), "question_mask": mask}
