"""What every recipe asks of the model that training starts from, whichever kind it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.errors import CheckpointError, PrivacyError
from hushdoc.system import atomic_files
from hushdoc_training import inherited_claims
from hushdoc_training.privacy import earlier_steps
from hushdoc_training.privacy.ownership import some
from hushdoc_training.runs import continued, start_weights

TOKENIZER = "tokenizer.json"
"""Kept in the run folder, so that a resumed run spells words as it did before."""


class Claimed(Protocol):
    """A start of any kind: its name and history."""

    @property
    def claim(self) -> Claim | None: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102


class Modelled(Claimed, Protocol):
    """A start of one model, with its history."""

    @property
    def model(self) -> nn.Module: ...  # noqa: D102


class Begun(Modelled, Protocol):
    """A start that reads words: a model with its tokenizer and history."""

    @property
    def tokenizer_json(self) -> str: ...  # noqa: D102


def history(start: Claimed) -> tuple[PublicData, ...]:
    """Returns the public data that the start's own claim lists."""
    return start.claim.public_data if start.claim is not None else ()


def with_overlap(start: Any, overlap: str) -> Any:
    """Returns a start for private training, with what its public data may hold of the documents."""
    if start.claim is None:
        return start
    return replace(start, claim=inherited_claims.with_overlap(start.claim, overlap))


def added_to(start: Modelled) -> Claim | None:
    """Returns the start's claim that private training adds itself to; a PrivacyError refuses one.

    It is that of a start that was trained on synthetic documents; none of one of public documents.
    """
    inherited = inherited_claims.is_inherited(start.claim)
    # What private steps have left beside no claim to add to, a ledger may count.
    require_told(start, private=inherited)
    if inherited:
        return start.claim
    require_public(start)
    return None


def require_told(start: Modelled, *, private: bool = True) -> None:
    """Raises where a start's model was trained since, in this process: no claim tells of that."""
    found = earlier_steps.untold(start.model, claimed=start.claim is not None, private=private)
    if found:
        raise PrivacyError(
            f"The start '{start.name}' holds what an earlier training in this process had left "
            f"({some(found)}), of which its own claim says nothing, so that no claim of what is "
            "trained further would. Load or make the start anew for every training; what was "
            "trained has its claim in the checkpoint that it left.",
            code="TRAINED_BEFORE",
        )


def require_public(start: Claimed) -> None:
    """Raises if the start's claim would be lost, whatever it says of its documents."""
    if start.claim is not None and start.claim.protected_data:
        raise PrivacyError(
            f"The start '{start.name}' was itself trained on protected documents, and what several "
            "trainings spend or leak is not yet added up. Start from public weights."
        )


def require_carried(start: Modelled, claim: Claim) -> None:
    """Raises unless the claim of training without noise says all that the start's claim says."""
    require_told(start)
    if not continued.carries(claim, start.claim):
        require_public(start)


def identity(start: Begun, documents: str, claim: str) -> dict[str, Any]:
    """Returns what a resumed run must share with the run that began; the two are digests."""
    return {
        "start": start.name,
        "tokenizer": hashlib.sha256(start.tokenizer_json.encode("utf-8")).hexdigest(),
        "weights": start_weights.digest(start.model),
        "claim": claim,
        "documents": documents,
    }


def keep_tokenizer(folder: Path, start: Begun) -> None:
    """Keeps the start's tokenizer in the run folder, unless it is there."""
    if not (folder / TOKENIZER).is_file():
        atomic_files.write_file(folder / TOKENIZER, start.tokenizer_json.encode("utf-8"))


def learned_tokenizer(
    learn: Callable[[Sequence[str]], str],
    texts: Callable[[], Sequence[str]] | None,  # public ones
    resumed: Path | None,
) -> str:
    """Returns the tokenizer of a model from nothing, as its run folder has it or learned anew."""
    if resumed is not None and (resumed / TOKENIZER).is_file():
        return (resumed / TOKENIZER).read_text(encoding="utf-8")
    found = texts() if texts else ()
    if not found:
        raise CheckpointError(
            "A model from nothing learns its vocabulary from public documents, and none are given. "
            "Train it on --data invented:... --public first."
        )
    return learn(found)
