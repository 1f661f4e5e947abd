"""Tables that are trained further after they were released, and what is certified of them.

Whoever receives the next table holds the first one too. So nothing that the first gave away is
taken back, and a guarantee holds for both together, for a document that was in both. A filled
update (Hash the Universe, claim 3) changes every row: rows that training left alone by made-up
amounts. Whoever holds both tables sees the amounts, so it is these that are attacked.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hushdoc.accounting import gdp, pld
from hushdoc.accounting.mechanism import Mechanism, Sequence
from hushdoc.certificate.audit_reports import Audit
from hushdoc.certificate.claim import Claim, Guarantee
from hushdoc.errors import AnnotationError, CheckpointError
from hushdoc_training import table_checkpoint
from hushdoc_training.crf import filling, linear, whole_texts
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.crf.filling import Update
from hushdoc_training.crf.fitting import FittedTable
from hushdoc_training.privacy import claims
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed.crf import Trained
from hushdoc_training.recipes.hashed.settings import CRFSettings
from hushdoc_training.table_checkpoint import TableCheckpoint

Item = TypeVar("Item")

BEFORE = "earlier table: "
"""Begins the method of an audit that was of the table that training went on from."""

_TUNINGS = ("accounted", "public-data", "none", "unaccounted")
"""From what says most of how settings were chosen to what says least."""

FAMILY = "joint-normal"
"""The paper's distribution of an update: weight and amount belong together."""

Floats = npt.NDArray[np.float32]


def added(claim: Claim, before: Claim) -> Claim:
    """Returns the claim of DP-SGD that went on from a table of DP-SGD: both are added up.

    `claim` is of the further training alone, or of all runs in its ledger. Where a ledger of the
    same documents holds the earlier run as well, it is counted there and not again; a ledger that
    was set back does not.
    """
    (earlier,), (new,) = _one_guarantee(before), _one_guarantee(claim)
    units = earlier.unit_definition == new.unit_definition and earlier.adjacency == new.adjacency
    if earlier.kind != "dp" or earlier.unit != new.unit or not units:
        raise CheckpointError(
            f"The released table has a guarantee of kind {earlier.kind}, unit {earlier.unit}; "
            f"expected dp for each {new.unit}, or the next one could not have that either. Update "
            "it by the mode that it was made by, or train anew."
        )
    commitment = claim.protected_data[0].commitment
    same = commitment is not None and commitment == before.protected_data[0].commitment
    known = same and _holds(_transcript(claim, new), _transcript(before, earlier))
    both = _listed_together(claim, before)
    if known:
        return replace(both, guarantees=(new,))
    return replace(
        both,
        guarantees=(_composed(new, earlier, claim, before),),
        transcripts={claims.TRANSCRIPT: _mechanism(before, earlier, claim, new)},
    )


def beside(claim: Claim, before: Claim) -> Claim:
    """Returns the claim of a filled table that was trained further: no guarantee, both measured."""
    require_filled(before)
    (earlier,), (new,) = _one_guarantee(before), _one_guarantee(claim)
    guarantee = replace(
        new,
        composition="two releases: the table that training went on from, and this one; whoever "
        "holds both sees by how much each row changed",
        assumes=_both(earlier.assumes, new.assumes),
    )
    if earlier.kind == "none" and new.kind != "none":
        guarantee = replace(
            guarantee,
            kind="none",
            transcript=None,
            assumes=(),
            reason=f"The table that training went on from had no guarantee: {earlier.reason}",
        )
    both = _listed_together(claim, before)
    caveat = (
        "Attacks on this table were attacks on what changed, by somebody who holds the "
        f"earlier table as well; those marked '{BEFORE.strip()}' were on that one."
    )
    return replace(both, guarantees=(guarantee,), caveats=_both(both.caveats, (caveat,)))


def _listed_together(claim: Claim, before: Claim) -> Claim:
    """Returns a claim with the data, audits and caveats of the table it went on from."""
    return replace(
        claim,
        protected_data=_both(before.protected_data, claim.protected_data),
        public_data=_both(before.public_data, claim.public_data),
        data_accesses=_both(before.data_accesses, claim.data_accesses),
        audits=_audits(claim, before),
        training={**claim.training, "startedFrom": dict(before.training)},
        caveats=_both(before.caveats, claim.caveats),
    )


def require_filled(before: Claim) -> None:
    """Refuses a table with a guarantee, which a filled update of it would not keep."""
    (earlier,) = _one_guarantee(before)
    if earlier.kind not in ("empirical", "none") or earlier.unit != "token-term":
        raise CheckpointError(
            f"The released table has a guarantee of kind {earlier.kind}, unit {earlier.unit}; "
            "expected a filled table, for a filled update guarantees less. Update it by the mode "
            "that it was made by."
        )


def _one_guarantee(claim: Claim) -> tuple[Guarantee]:
    if len(claim.guarantees) != 1:
        raise CheckpointError(
            f"The claim of a table has {len(claim.guarantees)} guarantees; expected one. Train it "
            "again with this version."
        )
    return (claim.guarantees[0],)


def _composed(new: Guarantee, earlier: Guarantee, claim: Claim, before: Claim) -> Guarantee:
    mechanism = _mechanism(before, earlier, claim, new)
    if new.delta is None:
        raise ValueError("The guarantee of the further training has no delta.")
    return replace(
        new,
        assumes=_both(earlier.assumes, new.assumes),
        epsilon=pld.epsilon(mechanism, new.delta),
        profile=tuple((pld.epsilon(mechanism, delta), delta) for _, delta in new.profile),
        gdp_mu=gdp.mu(mechanism),
        composition=f"two trainings, the second went on from the released table of the first, and "
        f"both are added up for a document that was in both; the first: {earlier.composition}; the "
        f"second: {new.composition}",
        hyperparameter_tuning=max(
            earlier.hyperparameter_tuning, new.hyperparameter_tuning, key=_TUNINGS.index
        ),
    )


def _holds(ledger: Mechanism, earlier: Mechanism) -> bool:
    """Returns whether a ledger counts earlier events and more; a copy set back would not."""
    left = list(_events(ledger))
    for event in _events(earlier):
        if event not in left:
            return False
        left.remove(event)
    return bool(left)


def _transcript(claim: Claim, guarantee: Guarantee) -> Mechanism:
    return claim.transcripts[str(guarantee.transcript)]


def _mechanism(before: Claim, earlier: Guarantee, claim: Claim, new: Guarantee) -> Sequence:
    both = _transcript(before, earlier), _transcript(claim, new)
    return Sequence(events=tuple(event for made in both for event in _events(made)))


def _events(mechanism: Mechanism) -> tuple[Mechanism, ...]:
    return mechanism.events if isinstance(mechanism, Sequence) else (mechanism,)


def _audits(claim: Claim, before: Claim) -> tuple[Audit, ...]:
    earlier = tuple(
        replace(audit, method=BEFORE + audit.method.removeprefix(BEFORE)) for audit in before.audits
    )
    return (*claim.audits, *earlier)


def _both(first: tuple[Item, ...], second: tuple[Item, ...]) -> tuple[Item, ...]:
    """Returns the items of both, each once: equal ones are listed once."""
    return (*first, *(item for item in second if item not in first))


def released(folder: Path) -> TableCheckpoint:
    """Returns a table of classes of whole texts, to be trained further."""
    found = table_checkpoint.load(folder)
    fits = found.scheme.level == "sentence" and not (
        found.scheme.bigrams or found.scheme.skip_grams or found.scheme.clusters
    )
    if not fits or not np.array_equal(found.transitions, whole_texts.one_class(found.tags)):
        raise CheckpointError(
            f"The table in '{folder}' does not classify whole documents by their words; "
            "expected what `hushdoc train classifier` wrote. Give its run folder."
        )
    return found


def fit_and_fill(
    corpus: Corpus,
    before: TableCheckpoint,
    settings: CRFSettings,
    *,
    stream: SecretStream | None = None,
) -> tuple[Trained, Floats]:
    """Returns by how much each row changes, filled, and the next table."""
    if corpus.names != before.tags:
        raise AnnotationError(
            f"The documents are of the classes {', '.join(corpus.names)}, the released table knows "
            f"{', '.join(before.tags)}; expected the same, in the same order. Train a new table."
        )
    features = corpus.features(before.scheme, min_document_frequency=settings.threshold)
    old = _lean(before.weights)
    update = Update(
        released=old,
        amounts=linear.amounts(
            linear.counted(whole_texts.whole(features, corpus), before.scheme.rows),
            whole_texts.classes(corpus),
            old,
        ),
    )
    stream = stream or SecretStream()
    if settings.fill == "paper-fill":
        made = filling.updated_paper_fill(update, stream=stream, family=settings.family)
    else:
        made = filling.updated_noisy_fill(update, stream=stream, noise=settings.spreads)
    trained = Trained(
        fitted=FittedTable(
            weights=update.amounts,
            seen=~np.isnan(update.amounts),
            transitions=np.zeros((old.shape[1],) * 2, dtype=np.float32),
            labels=corpus.names[-old.shape[1] :],
        ),
        settings=settings,
        weights=_full(made - old, corpus),
        features=features,
        corpus=corpus,
        scheme=before.scheme,
        clusters=None,
    )
    return trained, _full(made, corpus)


def as_update(settings: CRFSettings) -> CRFSettings:
    """Returns how an update is filled where a first table is filled so."""
    return replace(settings, family=FAMILY)


def _lean(weights: Floats) -> Floats:
    """Returns one column of two classes, which differ in nothing else."""
    return weights[:, 1:] - weights[:, :1] if weights.shape[1] == 2 else weights


def _full(weights: Floats, corpus: Corpus) -> Floats:
    model = linear.LinearModel(
        classes=corpus.names, weights=weights, intercepts=np.zeros(weights.shape[1])
    )
    return model.columns()
