"""Canary providers: invented ones in a training, each by a coin, for a lower bound of its epsilon.

Every canary is a provider of one document, a page of a few words with one question, and so one
record whether providers or documents are protected. It is trained on or left out by a fair coin of
the operating system, which nobody else sees. Whoever has the start and the released weights guesses
the coins; so many right guesses refute every smaller epsilon (`hushdoc_training.audit.one_run`),
which two fixed groups of providers never do. Canaries are independent of all other documents, so
that the bound tells nothing about these.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from hushdoc.certificate.claim import Claim
from hushdoc.document.document import Document
from hushdoc.errors import CheckpointError, InputError
from hushdoc.labels import LabelledDocument, Question
from hushdoc.system import atomic_files
from hushdoc_training import audited_claims
from hushdoc_training.audit import first_order, twins
from hushdoc_training.audit.twins import Coins
from hushdoc_training.audited_claims import AuditedRun
from hushdoc_training.models import whitening
from hushdoc_training.models.whitening import Whitened
from hushdoc_training.recipes.docvqa.private import batch_of
from hushdoc_training.recipes.docvqa.rows import Example, examples_of
from hushdoc_training.recipes.docvqa.start import Start
from hushdoc_training.recipes.kie.audits import known_words
from hushdoc_training.recipes.kie.records import in_order

METHOD = "one-run audit: canary providers of one document each"

CAVEAT = (
    "{count} invented canary providers of one document each took part in the training, each by a "
    "coin, beside the protected documents: epsilonLower is of this very run. With so many canaries "
    "it can be {ceiling:.2f} at most, so it refutes no larger epsilon."
)

FILE = "canaries.json"
"""In the run's folder: the coins, as text of 0 and 1, so that a resumed run goes on with them."""

WORDS = 4
"""Words of a canary's page, one of which answers its question."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Canaries:
    """Invented providers, and whether each is trained on: to be kept by whoever trains.

    Attributes:
        documents: One for each canary provider.
        included: Its coin, shape [canaries].
    """

    documents: tuple[LabelledDocument, ...]
    included: Coins

    @property
    def planted(self) -> list[LabelledDocument]:
        """Those that are to be trained on, beside all other documents."""
        pairs = zip(self.documents, self.included, strict=True)
        return [document for document, there in pairs if there]

    def audited(
        self,
        start: Start,
        end: nn.Module,
        claim: Claim,
        *,
        device: torch.device,
        spent: float = math.inf,
        layers: Mapping[str, Whitened] | None = None,
    ) -> AuditedRun:
        """Returns what released weights reveal of the coins, beside what the training claims.

        Args:
            start: With the weights that training began with; they stay as they are.
            end: The model that was trained on `planted`, with the released weights.
            claim: What that training claims.
            device: Where losses are computed.
            spent: Epsilon of that training, where the claim may be of others besides.
            layers: What that training had beside layers that learned whitened, by their names.
        """
        begun = replace(start, model=copy.deepcopy(start.model).to(device).eval())
        last = {name: value.detach().to(device) for name, value in end.named_parameters()}
        moved = {
            name: value.detach() - last[name]
            for name, value in begun.model.named_parameters()
            if not torch.equal(value.detach(), last[name])
        }
        examples: list[Example] = []
        for document in self.documents:
            [example] = examples_of([document], start.encoder)
            examples.append(example)

        def losses(numbers: Sequence[int]) -> torch.Tensor:
            chosen = [examples[number] for number in numbers]
            return begun.model.losses(*batch_of(begun, chosen, device=device))

        moves = partial(whitening.moves, layers=layers or {})
        scores = first_order.scores(
            begun.model, losses, count=len(examples), moved=moved, moves=moves
        )
        return twins.audited(
            scores,
            self.included,
            claim,
            method=METHOD,
            spent=spent,
            details={"canaries": len(examples), "planted": int(self.included.sum())},
        )


def added_to(claim: Claim, run: AuditedRun) -> Claim:
    """Returns a claim with what was found, and a caveat about what can be."""
    claim = audited_claims.with_audits(claim, [run])
    caveat = CAVEAT.format(count=run.audit.canaries, ceiling=run.ceiling)
    return replace(claim, caveats=(*claim.caveats, caveat))


def of_run(start: Start, count: int, *, resumed_in: Path | None) -> Canaries:
    """Returns so many canaries of words that the tokenizer knows; a resumed run keeps its coins.

    Raises:
        CheckpointError: The coins of the run that is resumed are not there.
        InputError: The model reads images, which canaries don't have.
    """
    if start.asking.image is not None:
        raise InputError(
            "The model reads images of pages, and canaries are pages of words alone. Train without "
            "images, or leave canaries out."
        )
    made = drawn(start, count, known_words(start.tokenizer_json))
    if resumed_in is None or not resumed_in.exists():  # which the run itself says
        return made
    return resumed(made, resumed_in)


def keep(folder: Path, canaries: Canaries) -> None:
    """Writes the coins of a run that begins; those of a run that goes on stay."""
    if not (folder / FILE).exists():
        text = "".join(str(int(there)) for there in canaries.included)
        atomic_files.write_file(folder / FILE, json.dumps(text).encode(), mode=0o600)


def resumed(canaries: Canaries, folder: Path) -> Canaries:
    """Returns the same canaries with the coins of the run in a folder.

    Raises:
        CheckpointError: The coins are not there, or not as many.
    """
    try:
        text = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        text = None
    if not isinstance(text, str) or len(text) != len(canaries.included) or set(text) - {*"01"}:
        raise CheckpointError(
            f"'{folder / FILE}' does not hold the coins of {len(canaries.included)} canaries; a "
            "run goes on with the coins that it began with. Start a new run."
        )
    return replace(canaries, included=np.array([there == "1" for there in text], dtype=np.bool_))


def drawn(start: Start, count: int, words: Sequence[str], *, seed: int = 1) -> Canaries:
    """Returns so many canary providers of these words, and a fresh coin for each.

    What they say is drawn by the seed and no secret; their coins are.

    Raises:
        ValueError: A canary's question has no row: its words are none that the tokenizer knows.
    """
    draws = np.random.default_rng(seed)
    made = [_canary(number, words, draws) for number in range(count)]
    documents = tuple(in_order(made, start.asking.of_pages))
    unread = sum(len(examples_of([document], start.encoder)) != 1 for document in documents)
    if unread or not count:
        raise ValueError(
            f"{unread} of {count} canaries have no row; expected words that the tokenizer knows, "
            "and at least one canary."
        )
    return Canaries(documents=documents, included=twins.coins(count))


def _canary(number: int, words: Sequence[str], draws: np.random.Generator) -> LabelledDocument:
    name = f"canary provider {number}"
    corners = np.sort(draws.integers(0, 1001, (WORDS, 2, 2)), axis=1).reshape(WORDS, 4)
    chosen = [words[place] for place in draws.integers(0, len(words), WORDS)]
    document = Document.from_words(chosen, corners.tolist(), width=1000, height=1000, id=name)
    answer = int(draws.integers(WORDS))
    asked = " ".join(words[place] for place in draws.integers(0, len(words), 2))
    question = Question(text=asked, answers=(chosen[answer],), word_ids=(answer,))
    return LabelledDocument(document=document, spans=(), questions=(question,), provider=name)
