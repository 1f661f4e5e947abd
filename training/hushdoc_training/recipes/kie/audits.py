"""Audits of private key information extraction, for which no protected document is read.

What is audited is the recipe: it trains the run's own model once more, as a twin of epsilon 1, on
invented forms. Canaries among them are of a few words, so that a thousand cost little; each is
there or not by a coin of its own. What the twin's checkpoint reveals of the coins is held against
what it claims, before a step on protected documents is charged.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional

from hushdoc.certificate.claim import Claim
from hushdoc.document.document import Document
from hushdoc.errors import InputError
from hushdoc.labels import LabelledDocument, LabelSet, Span
from hushdoc_training import audited_claims
from hushdoc_training.audit import first_order, twins
from hushdoc_training.audit.binomial import Floats
from hushdoc_training.audited_claims import AuditedRun
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.models import layout, whitening
from hushdoc_training.models.layout import TokenClassifier
from hushdoc_training.models.whitening import Whitened
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.kie.records import IGNORED, collate, windows_of
from hushdoc_training.recipes.kie.start import Start

METHOD = "one-run audit of a twin: canary forms"

CANARIES = 1000

STEPS = 20
"""Most steps of a twin: as each canary has as much of the noise, few steps show as much as many,
and the further the weights go, the less their start says about canaries."""

WORDS, LONG, LONG_WINDOWS = 1, 4, 2
"""Words of a canary; forms of several windows beside the canaries, and about how many."""

CAVEAT = (
    "The audit is of a twin: a training of the same model under the same settings on invented "
    "forms, with the noise of epsilon 1 or less and {steps} steps. It tests how this model was "
    "made, and read none of the protected documents."
)

Recipe = Callable[[Start, Sequence[LabelledDocument], PrivacyPlan, Path], object]
"""Runs the recipe that is audited, under a twin's plan, and writes its run into a folder."""


@dataclass(frozen=True, kw_only=True)
class Audited:
    """What the audit of one training found, and the steps of its twin."""

    run: AuditedRun
    steps: int

    def added_to(self, claim: Claim) -> Claim:
        """Returns a claim with what was found."""
        claim = audited_claims.with_audits(claim, [self.run])
        return replace(claim, caveats=(*claim.caveats, CAVEAT.format(steps=self.steps)))


def audit(
    start: Start,
    plan: PrivacyPlan,
    recipe: Recipe,
    *,
    device: torch.device,
    layers: Mapping[str, Whitened] | None = None,
) -> Audited:
    """Returns what the recipe gives away of canaries; the start's model stays as it is.

    `layers` are what the recipe has beside layers that learn whitened, by the layers' names. A
    model that reads images is an InputError: a thousand canaries of a page each are no small run.
    """
    if start.preprocessing.image is not None:
        raise InputError(
            "The model reads images of pages, and the audit is of models that read words and boxes "
            "alone. Train without images, or leave the audit out."
        )
    twin = twins.twin_of(plan, most_steps=STEPS)
    made = _forms(start, CANARIES, WORDS, seed=1)
    filling = _forms(start, LONG, LONG_WINDOWS * start.preprocessing.max_tokens, seed=2)
    included = twins.coins(CANARIES)
    documents = [form for form, there in zip(made, included, strict=True) if there]
    with tempfile.TemporaryDirectory(prefix="hushdoc-audit-") as folder:
        out = Path(folder) / "twin"
        recipe(_copied(start), [*documents, *filling], twin, out)
        stored = Checkpoint.load(out)
        end = layout.load(stored.folder, stored.architecture)
    run = twins.audited(
        _scores(start, made, end, device, layers or {}),
        included,
        stored.claim,
        method=METHOD,
        spent=twin.epsilon_after(twin.steps),
        details={"documents": len(documents) + len(filling), "steps": twin.steps},
    )
    return Audited(run=run, steps=twin.steps)


def _copied(start: Start) -> Start:
    return replace(start, model=copy.deepcopy(start.model))


def _scores(
    start: Start,
    forms: Sequence[LabelledDocument],
    end: TokenClassifier,
    device: torch.device,
    layers: Mapping[str, Whitened],
) -> Floats:
    """Returns how much of each form's gradient at the start is in the weights at the end."""
    begun = _copied(start).model
    if end.read_layers:  # as training had it before its first step
        layout.read_more(begun, len(end.read_layers))
    model = begun.to(device).eval()
    last = {name: value.detach().to(device) for name, value in end.named_parameters()}
    moved = {
        name: value.detach() - last[name]
        for name, value in model.named_parameters()
        if not torch.equal(value.detach(), last[name])
    }
    windows = [windows_of(form, start.encoder, start.labels)[0] for form in forms]

    def losses(numbers: Sequence[int]) -> torch.Tensor:
        batch = collate(start.encoder, [windows[number] for number in numbers])
        targets = batch.targets.to(device)
        each = functional.cross_entropy(
            model(*batch.inputs(device)).float().transpose(1, 2),
            targets,
            ignore_index=IGNORED,
            reduction="none",
        )
        return each.sum(1) / (targets != IGNORED).sum(1).clamp(min=1)

    moves = partial(whitening.moves, layers=layers)
    return first_order.scores(model, losses, count=len(windows), moved=moved, moves=moves)


def _forms(start: Start, count: int, length: int, *, seed: int) -> list[LabelledDocument]:
    """Returns forms of so many words at random places, with random labels.

    They are an audit's choice, and no secret.
    """
    draws = np.random.default_rng(seed)
    words = known_words(start.tokenizer_json)
    return [
        _form(f"canary-{seed}-{number}", words, length, start.labels, draws)
        for number in range(count)
    ]


def _form(
    name: str,
    words: Sequence[str],
    length: int,
    labels: LabelSet,
    draws: np.random.Generator,
) -> LabelledDocument:
    corners = np.sort(draws.integers(0, 1001, (length, 2, 2)), axis=1).reshape(length, 4)
    document = Document.from_words(
        [words[number] for number in draws.integers(0, len(words), length)],
        corners.tolist(),
        width=1000,
        height=1000,
        id=name,
    )
    chosen = draws.integers(0, len(labels.fields) + 1, length).tolist()
    spans = tuple(
        Span(page=0, start=place, stop=place + 1, label=labels.fields[number])
        for place, number in enumerate(chosen)
        if number < len(labels.fields)
    )
    return LabelledDocument(document=document, spans=spans)


def known_words(tokenizer_json: str) -> list[str]:
    """Returns words that the tokenizer has whole, as far as there are."""
    known = sorted(Tokenizer.from_str(tokenizer_json).get_vocab())
    stripped = (token.lstrip("\u0120\u2581") for token in known)
    found = [token for token in stripped if token.isascii() and token.isalpha()]
    return found or ["page"]
