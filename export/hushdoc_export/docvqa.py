"""A model that answers questions becomes a sealed artifact for `hushdoc.DocVQAModel`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hushdoc.certificate.claim import Claim
from hushdoc.errors import CheckpointError
from hushdoc.runtime.docvqa import TASK
from hushdoc.runtime.questions import Asking
from hushdoc_export import graph, probes
from hushdoc_export.probes import Inputs, Traceable
from hushdoc_export.release import LOADED, Release, Seen, origin_of, seal, unseen
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint

if TYPE_CHECKING:
    from hushdoc_training.models.pointer import Pointer

OUTPUT = "spans"


def export(checkpoint_folder: Path, out: Path, release: Release, *, seen: Seen = unseen) -> Path:
    """Returns the folder of the artifact that was made from a checkpoint.

    Args:
        checkpoint_folder: What training wrote, or the run folder around it.
        out: Where the artifact shall stand; nothing may be there yet.
        release: Who releases it, and as what.
        seen: Is told how much is done, of 100.

    Raises:
        CheckpointError: The checkpoint is damaged, or of an architecture that has no graph yet.
        HushdocError: What `release.seal` raises.
    """
    checkpoint = DocVQACheckpoint.load(checkpoint_folder)
    if checkpoint.architecture != "pointer":
        raise CheckpointError(
            f"The checkpoint '{checkpoint.folder}' holds a model of the architecture "
            f"'{checkpoint.architecture}', and only pointers can be exported. Train one with "
            "`hushdoc train docvqa --architecture pointer`."
        )
    graph.require_packages()
    from hushdoc_training.models import pointer

    with graph.silence():
        model = pointer.load(checkpoint.folder)
    seen(LOADED, 100)
    return export_pointer(
        model,
        out,
        release,
        asking=checkpoint.asking,
        tokenizer_json=checkpoint.tokenizer_json,
        claim=checkpoint.claim,
        origin=origin_of(checkpoint.folder, model.architecture),
        seen=seen,
    )


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
    return seal(
        out,
        traceable(model, asking),
        release,
        task=TASK,
        claim=claim,
        preprocessing=asking.to_dict(),
        contents={"tokenizer.json": tokenizer_json.encode("utf-8")},
        origin=origin,
        seen=seen,
    )


def traceable(model: Pointer, asking: Asking) -> Traceable:
    """Returns a pointer with probes that begin with questions of several lengths."""
    made = probes.of_text(
        model,
        replace(asking.of_pages, max_tokens=asking.max_tokens, overlap=0),
        vocab_size=model.word_embeddings.shape[0],
        output=OUTPUT,
        boxes=True,
        per_token=True,
        logits=False,
    )
    return replace(
        made,
        free={**made.free, "token_type_ids": made.free["input_ids"]},
        probes=tuple(map(_with_types, made.probes)),
    )


def _with_types(probe: Inputs) -> Inputs:
    """Returns a probe whose first third is a question."""
    mask = probe["attention_mask"]
    words = np.arange(mask.shape[1]) >= mask.sum(axis=1, keepdims=True) // 3
    return {**probe, "token_type_ids": words * mask}
