"""Start: the pointer that training starts from, with its tokenizer, settings and history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hushdoc.certificate.claim import Claim
from hushdoc.errors import CheckpointError
from hushdoc.labels import LabelSet
from hushdoc.runtime.questions import Asking, QuestionEncoder
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint, holds_questions
from hushdoc_training.models import fitting, pointer
from hushdoc_training.models.pointer import Pointer
from hushdoc_training.recipes.kie import start as kie

MAX_TOKENS, MAX_QUESTION = 256, 64
"""Tokens of a row and of the longest question, where nobody says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where training starts: a model with its tokenizer, settings and history."""

    model: Pointer
    tokenizer_json: str
    asking: Asking
    claim: Claim | None
    name: str

    @property
    def encoder(self) -> QuestionEncoder:
        """The tokenizer with its settings."""
        return QuestionEncoder(self.tokenizer_json, self.asking)


def start_from(
    source: str,  # minilm, small, a checkpoint or run of any task, or a folder or hub id
    *,
    max_tokens: int = MAX_TOKENS,
    max_question: int = MAX_QUESTION,
    box_level: str = "word",
    vocabulary: Callable[[], Sequence[str]] | None = None,
    resumed: Path | None = None,
    seed: int = 0,  # of fresh weights
) -> Start:
    """Returns the pointer that training starts from.

    A checkpoint of this task keeps all its settings; of one that finds fields the encoder is taken,
    with its box level and word order.

    Raises:
        CheckpointError: There is nothing to start from, or it does not fit rows of so many tokens.
    """
    if holds_questions(Path(source)):
        stored = DocVQACheckpoint.load(Path(source))
        return Start(
            model=pointer.load(stored.folder),
            tokenizer_json=stored.tokenizer_json,
            asking=stored.asking,
            claim=stored.claim,
            name=f"checkpoint of a {stored.architecture}",
        )
    labels = None if kie.is_checkpoint(source) else LabelSet(fields=())
    begun = kie.start_from(
        source,
        labels,
        box_level=box_level,
        vocabulary=vocabulary,
        resumed=resumed,
        seed=seed,
    )
    words = begun.preprocessing
    if words.box_level == "none" or words.image is not None:
        raise CheckpointError(
            f"The start '{source}' reads {'no boxes' if words.image is None else 'images'}; "
            "expected an encoder of words and boxes. Choose minilm, small, or such a checkpoint."
        )
    fitting.require_window(begun.model.inner.config, max_tokens=max_tokens)
    return Start(
        model=pointer.pointer_on(begun.model),
        tokenizer_json=begun.tokenizer_json,
        asking=Asking(
            kind="pointer",
            max_tokens=max_tokens,
            overlap=(max_tokens - max_question) // 4,
            max_question=max_question,
            box_level=words.box_level,
            word_order=words.word_order,
            cls_id=words.cls_id,
            sep_id=words.sep_id,
            pad_id=words.pad_id,
        ),
        claim=begun.claim,
        name=begun.name,
    )
