"""The clients of a witnessed simulation: their documents, and the entropy that they are given."""

from __future__ import annotations

import argparse
import hashlib
import math
from dataclasses import dataclass, replace
from typing import Self

from hushdoc_training import duplicates
from hushdoc_training.data import dataset
from hushdoc_training.federated import partition
from hushdoc_training.witness.claimed import Claimed
from hushdoc_training.witness.entropy import KEY_BYTES, Entropy
from hushdoc_training.witness.forms_witness import Asked, Forms

NOISE, OTHER_NOISE = 1, 2


@dataclass(frozen=True, kw_only=True)
class Federation:
    """Who has which documents.

    Attributes:
        forms: All documents.
        clients: How many there are.
        client: Which has the canary, as its last record.
        before: How many records it has before that.
        keys: How many keys each client asks the operating system for, that of its coins first.
    """

    forms: Forms
    clients: int
    client: int
    before: int
    keys: int

    @classmethod
    def of(cls, options: argparse.Namespace, forms: Forms, *, keys: int = 1) -> Self:
        """Divides the documents as the command will."""
        documents = dataset.read(
            dataset.Source(location=str(forms.all), documents=None, seed=options.seed)
        )
        words = [
            [word.text for page in labelled.document.pages for word in page.words]
            for labelled in documents
        ]
        held = partition.apart(
            [duplicates.key_of(duplicates.words_of(texts)) for texts in words],
            [[1.0] * options.clients] * len(documents),
            seed=options.seed,
        )
        last = len(documents) - 1
        (client,) = [number for number, share in enumerate(held) if last in share]
        return cls(
            forms=forms,
            clients=options.clients,
            client=client,
            before=len(held[client]) - 1,
            keys=keys,
        )

    def coins(self, asked: Asked, *, drawn: bool) -> bytes:
        """Returns a key of coins for the client that has the canary; see `Forms.key`."""
        return replace(self.forms, count=self.before).key(asked, drawn=drawn)

    def entropy(self, coins: bytes, seed: int) -> Entropy:
        """Returns entropy by which this client has these coins; others' are always the same."""
        fixed = {self.keys * number: _filler(number) for number in range(self.clients)}
        return Entropy(seed, {**fixed, self.keys * self.client: coins})


@dataclass(frozen=True, kw_only=True)
class Alone:
    """One holder of all documents, whose first two keys are those of coins and of noise."""

    forms: Forms

    def coins(self, asked: Asked, *, drawn: bool) -> bytes:
        """Returns a key of coins; see `Forms.key`."""
        return self.forms.key(asked, drawn=drawn)

    def entropy(self, coins: bytes, seed: int) -> Entropy:
        """Returns entropy by which these are the coins, and the seed chooses the noise."""
        return Entropy(NOISE, {0: coins, 1: bytes([seed]) * KEY_BYTES})


def overhead(claim: Claimed) -> float:
    """Returns how much more noise a sum has, where all clients take part, than is counted on."""
    run = claim.settings.get("federated")
    if run is None:
        return 1.0
    counted = run["perRound"] - run["silent"] - run["colluding"]
    return math.sqrt(run["perRound"] / counted)


def _filler(number: int) -> bytes:
    return hashlib.sha256(f"coins of client {number}".encode()).digest()
