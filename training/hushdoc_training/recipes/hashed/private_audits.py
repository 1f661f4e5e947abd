"""Audits of private tables, for which no protected document is read.

What is audited is the recipe: it runs once more, as a twin of epsilon 1, on invented documents with
canaries among them, each put there by a coin of its own. What the twin's table reveals of the
coins is held against what the twin claims, before a step on protected documents is charged; it is
written into the certificate. Nothing is learned about the protected documents, so it costs no
privacy.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hushdoc.certificate.audit_reports import Audit
from hushdoc.certificate.claim import Claim
from hushdoc.hashing import FeatureScheme
from hushdoc_training import audited_claims
from hushdoc_training.audit import twins
from hushdoc_training.audit.roc import Attack
from hushdoc_training.audited_claims import AuditedRun
from hushdoc_training.crf.chain import Floats
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.recipes.hashed import canary_corpora
from hushdoc_training.recipes.hashed.table_attacks import LEAST_ROWS, ROW_ATTACKS
from hushdoc_training.table_checkpoint import TableCheckpoint

CANARIES, LEAST = 1000, 100
"""Canaries, where the table has rows for them; below LEAST they could refute no epsilon of 1."""

METHOD_OF_DOCUMENTS = "one-run audit of a twin: canary documents"
METHOD_OF_TERMS = "one-run audit of a twin: canary terms"

CAVEAT = (
    "The audits are of a twin: a training under the same settings on invented documents, with the "
    "noise of epsilon 1 or less. They test how this table was made, and read none of the protected "
    "documents."
)

Recipe = Callable[[Corpus, Path], TableCheckpoint]
"""Runs the recipe that is audited, under a twin's plan, and writes its run into a folder."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What audits of one table measured: of its twin's claim, and of anything else."""

    runs: tuple[AuditedRun, ...] = ()
    others: tuple[Audit, ...] = ()

    def require_unrefuted(self) -> None:
        """Raises PrivacyError if the twin reveals more than it claims."""
        for run in self.runs:
            run.require_unrefuted()

    def added_to(self, claim: Claim) -> Claim:
        """Returns a claim with what was measured; without any the same claim."""
        if not self.runs:
            return claim
        claim = audited_claims.with_audits(claim, self.runs)
        return replace(
            claim, audits=(*claim.audits, *self.others), caveats=(*claim.caveats, CAVEAT)
        )


def of_documents(
    base: Corpus, scheme: FeatureScheme, scales: Floats, recipe: Recipe, *, whole: bool
) -> Found:
    """Returns what the recipe for documents gives away of canaries among invented documents.

    `whole` has a text labelled as a whole. A table too small for canaries has no audit.
    """
    found = canary_corpora.canaries(base, scheme, CANARIES)
    if len(found.words) < LEAST:
        return Found()
    included = twins.coins(len(found.words))
    planted = [word for word, there in zip(found.words, included, strict=True) if there]
    corpus = canary_corpora.with_texts(base, planted, whole=whole)
    table = _made(recipe, corpus)
    run = twins.audited(
        found.scores(table.weights, scales),
        included,
        table.claim,
        method=METHOD_OF_DOCUMENTS,
        details={"documents": len(base.records) - 1 + len(planted)},
    )
    rows = (table.weights / scales[:, None]).astype(np.float32)
    others = tuple(attack.audit() for attack in _on_rows(rows, _had(corpus, scheme)))
    return Found(runs=(run,), others=others)


def of_terms(scheme: FeatureScheme, recipe: Recipe) -> Found:
    """Returns what the recipe for terms gives away of canaries; see `of_documents`."""
    headings = canary_corpora.with_terms([], np.zeros(0, dtype=np.bool_))
    found = canary_corpora.canaries(headings, scheme, CANARIES)
    if len(found.words) < LEAST:
        return Found()
    included = twins.coins(len(found.words))
    corpus = canary_corpora.with_terms(found.words, included)
    table = _made(recipe, corpus)
    attacks = list(_on_rows(table.weights, _had(corpus, scheme)))
    # All of them are about terms, so all bounds together are wrong no more often than one may be.
    error = (1 - twins.CONFIDENCE) / (1 + len(attacks))
    run = twins.audited(
        found.scores(table.weights, np.ones(scheme.rows)),
        included,
        table.claim,
        method=METHOD_OF_TERMS,
        error=error,
        details={"places of each term": canary_corpora.COPIES},
    )
    return Found(runs=(run, *(_held_against(attack, run, error) for attack in attacks)))


def _held_against(attack: Attack, canary: AuditedRun, error: float) -> AuditedRun:
    """Returns another attack on the run that canaries were in, with a bound of two rates."""
    best = replace(attack, tpr=1.0, fpr=0.0)
    delta = canary.audit.delta or 0.0
    return AuditedRun(
        audit=attack.audit(delta=delta, error=error),
        claimed=canary.claimed,
        ceiling=best.epsilon_lower(delta, error),
    )


def _made(recipe: Recipe, corpus: Corpus) -> TableCheckpoint:
    with tempfile.TemporaryDirectory(prefix="hushdoc-audit-") as folder:
        return recipe(corpus, Path(folder) / "twin")


def _had(corpus: Corpus, scheme: FeatureScheme) -> npt.NDArray[np.bool_]:
    """Returns which rows some item has."""
    return np.bincount(corpus.features(scheme).indices, minlength=scheme.rows) > 0


def _on_rows(weights: npt.NDArray[np.floating], had: npt.NDArray[np.bool_]) -> Iterator[Attack]:
    """Yields how well rows that documents had are distinguished from the others."""
    if min(had.sum(), (~had).sum()) >= LEAST_ROWS:
        for attack in ROW_ATTACKS:
            yield attack(weights, had)
