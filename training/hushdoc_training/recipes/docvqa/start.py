"""Start: the model that training starts from, with its tokenizer, settings and history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

import torch

from hushdoc.certificate.claim import Claim
from hushdoc.errors import CheckpointError, HushdocError
from hushdoc.labels import LabelSet
from hushdoc.runtime.questions import VT5_PROMPT, Asking, QuestionEncoder
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint, holds_questions
from hushdoc_training.invented import stream
from hushdoc_training.invented.settings import InventedConfig
from hushdoc_training.models import fitting, layout, pointer, vt5, vt5_start
from hushdoc_training.models.pointer import Pointer
from hushdoc_training.models.vt5 import VT5
from hushdoc_training.privacy import earlier_steps
from hushdoc_training.recipes import starts
from hushdoc_training.recipes.docvqa.settings import DEFAULTS
from hushdoc_training.recipes.kie import start as kie

MAX_QUESTION = 64
"""Tokens of the longest question, where nobody says otherwise."""

PUBLIC_DOCUMENTS = 6
"""Invented documents by whose questions a new pointer's reader is standardised."""

ROOMS: Mapping[str, ModuleType] = {"pointer": pointer, "vt5": vt5}
"""The module of each kind of model."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where training starts: a model with its tokenizer, settings and history."""

    model: Pointer | VT5
    tokenizer_json: str
    asking: Asking
    claim: Claim | None
    name: str

    @cached_property
    def encoder(self) -> QuestionEncoder:
        """The tokenizer with its settings; reading it takes a while."""
        return QuestionEncoder(self.tokenizer_json, self.asking)

    @property
    def room(self) -> ModuleType:
        """The module of the model's kind, which freezes and loads it."""
        return ROOMS[self.asking.kind]

    def unreached(self) -> list[str]:
        """Returns the names of parameters that no gradient reaches, the model in eval mode."""
        model = self.model.eval()
        return layout.unreached(model) if isinstance(model, Pointer) else []


def start_from(
    source: str,  # minilm, tiny, small, a checkpoint or run of any task, or a folder or hub id
    *,
    architecture: str | None = None,  # one of ROOMS; None: that of a checkpoint, else "pointer"
    max_tokens: int | None = None,  # None: that of `settings.DEFAULTS`
    max_question: int = MAX_QUESTION,
    box_level: str = "word",
    image_encoder: str | None = None,  # of a VT5: "tiny", or DiT's folder or hub id
    vocabulary: Callable[[], Sequence[str]] | None = None,
    resumed: Path | None = None,
    seed: int = 0,  # of fresh weights
) -> Start:
    """Returns the model that training starts from.

    A checkpoint of this task keeps all its settings. A pointer takes the encoder of one that finds
    fields, with its box level and word order. A VT5 begins from nothing, "tiny" or "small", with a
    tokenizer that it learns from public texts, or from T5's or the paper's own weights, by folder
    or hub id. It reads images of pages where it is given an image encoder, which stays
    frozen; the paper's weights have theirs.

    Raises:
        CheckpointError: There is nothing to start from, no public text to learn tokens from, or it
            does not fit the architecture or rows of so many tokens.
    """
    if holds_questions(Path(source)):
        stored = DocVQACheckpoint.load(Path(source))
        if architecture not in (None, stored.architecture):
            raise CheckpointError(
                f"The start '{source}' is a {stored.architecture}; expected a {architecture}. "
                "Choose the --architecture of the start, or a start that fits."
            )
        if image_encoder is not None:
            raise CheckpointError(
                f"The start '{source}' {'has' if stored.asking.image else 'was trained without'} "
                "an image encoder and keeps to that. Leave the image encoder out here."
            )
        model = ROOMS[stored.architecture].load(stored.folder)
        earlier_steps.read(model, stored.claim)
        return Start(
            model=model,
            tokenizer_json=stored.tokenizer_json,
            asking=stored.asking,
            claim=stored.claim,
            name=f"checkpoint of a {stored.architecture}",
        )
    if max_tokens is None:
        max_tokens = DEFAULTS[architecture or "pointer"].max_tokens
    if architecture == "vt5":
        return _vt5(
            source,
            vocabulary,
            image_encoder,
            max_tokens=max_tokens,
            max_question=max_question,
            box_level=box_level,
            resumed=resumed,
            seed=seed,
        )
    if image_encoder is not None:
        raise CheckpointError(
            "A pointer reads words and boxes alone, and an image encoder was named. Leave it out, "
            "or choose the architecture vt5."
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
    longest = max(max_tokens, max_question + 2)
    fitting.require_window(begun.model.inner.config, max_tokens=longest)
    made = Start(
        model=pointer.pointer_on(begun.model),
        tokenizer_json=begun.tokenizer_json,
        asking=Asking(
            kind="pointer",
            max_tokens=max_tokens,
            overlap=max_tokens // 4,
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
    if made.claim is not None:
        earlier_steps.read(made.model, made.claim)
    if (questions := _public_questions(made)) and isinstance(made.model, Pointer):
        pointer.standardise(made.model, questions)
    return made


def architecture_of(source: str | None) -> str:
    """Returns the architecture that a start has where nobody names one."""
    stored = source is not None and holds_questions(Path(source))
    return DocVQACheckpoint.load(Path(str(source))).architecture if stored else "pointer"


def reads_images(source: str) -> bool:
    """Returns whether a start is the paper's weights, or a run of this task, and reads images."""
    folder = Path(source)
    if holds_questions(folder):
        return DocVQACheckpoint.load(folder).asking.image is not None
    return vt5_start.is_reference(source)


def _public_questions(start: Start) -> list[torch.Tensor]:
    """Returns the tokens of our generator's questions that a pointer can read, special ones too."""
    encoder, asking = start.encoder, start.asking
    config = InventedConfig(questions="keyed")
    found = []
    for labelled in stream.documents(seed=0, count=PUBLIC_DOCUMENTS, config=config):
        for asked in labelled.questions:
            with suppress(HushdocError):  # of no token that it knows, or too long
                ids = encoder.question(asked.text).tolist()
                found.append(torch.tensor([asking.cls_id, *ids, asking.sep_id]))
    return found


def _vt5(
    source: str,
    vocabulary: Callable[[], Sequence[str]] | None,
    image_encoder: str | None,
    *,
    max_tokens: int,
    max_question: int,
    box_level: str,
    resumed: Path | None,
    seed: int,
) -> Start:
    """Returns the VT5 that training starts from."""
    torch.manual_seed(seed)
    if source in vt5_start.SIZES:
        learned = starts.learned_tokenizer(vt5_start.tokenizer, vocabulary, resumed)
        made = vt5_start.from_nothing(learned, size=vt5_start.SIZES[source], vision=image_encoder)
    elif vt5_start.is_reference(source):
        if image_encoder is not None:
            raise CheckpointError(
                f"The weights in '{source}' have an image encoder of their own. Leave the image "
                "encoder out here."
            )
        made = vt5_start.reference(source)
    else:
        made = vt5_start.pretrained(source, image_encoder)
    return Start(
        model=made.model,
        tokenizer_json=made.tokenizer_json,
        asking=Asking(
            kind="vt5",
            prompt=VT5_PROMPT,
            lowercase=True,
            # As the paper's code has it. Our own tokenizers make all of a text lower-case.
            lowercase_questions=None if source in vt5_start.SIZES else False,
            box_scale=made.box_scale,
            max_tokens=max_tokens,
            overlap=(max_tokens - max_question) // 4,
            max_question=max_question,
            box_level=box_level,
            eos_id=made.eos_id,
            pad_id=made.pad_id,
            image=made.model.image_preprocessing(),
        ),
        claim=None,
        name=source,
    )
