"""Claims of what went on from a release, mostly a model: whoever receives both holds both.

So nothing that the first gave away is taken back, and a guarantee holds for both together, for a
document that was in both. What was trained on synthetic documents is such a model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from hushdoc.accounting import gdp, pld
from hushdoc.accounting.mechanism import Mechanism, Sequence
from hushdoc.certificate import vocabulary
from hushdoc.certificate.audit_reports import Audit
from hushdoc.certificate.claim import Claim, Guarantee
from hushdoc.errors import CheckpointError, PrivacyError
from hushdoc_training import inherited_claims
from hushdoc_training.inherited_claims import LEDGER_RUNS, STARTED_FROM
from hushdoc_training.privacy.claims import TRANSCRIPT
from hushdoc_training.runs import claim_words, document_units

Item = TypeVar("Item")

BEFORE = "earlier table: "
"""Begins the method of an audit that was of the table that training went on from."""

SEVERAL = "several training runs, each of which went on from the model of the one before"
"""How runs without privacy compose: whoever has the last model has what all of them left in it."""

LOOSER_DELTA = (
    "The earlier release has a guarantee at delta {:g}; both together are stated at the larger "
    "{:g}, which nobody compared with the number of its documents: a delta above a tenth of one "
    "over that number leaves room for giving some of them away whole."
)

ACCOUNTANT = "pld"
"""What composes two trainings, whichever accountant either was planned by."""

_TUNINGS = ("accounted", "public-data", "none", "unaccounted")
"""From what says most of how settings were chosen to what says least."""

_AS_ACCOUNTED = ("poisson", "full-batch")
"""How batches are drawn where the accounting is of what ran."""


def added(claim: Claim, before: Claim) -> Claim:
    """Returns the claim of a DP training that went on from a DP model: both are added up.

    `claim` is of the further training alone, or of all runs in its ledger. Where a ledger of the
    same documents holds the earlier runs as well, they are counted there and not again; a ledger
    that was set back, or a copy that went another way, does not, whatever its settings. Where
    copies of a document count otherwise in the two, the guarantee is for one without copies, for
    which both hold.
    """
    (earlier,), (new,) = one_guarantee(before), one_guarantee(claim)
    unit = document_units.common(earlier.unit_definition, new.unit_definition)
    alike = earlier.unit == new.unit and earlier.adjacency == new.adjacency
    if earlier.kind != "dp" or unit is None or not alike:
        raise CheckpointError(
            f"The released model has a guarantee of kind {earlier.kind}, unit {earlier.unit} "
            f"({earlier.unit_definition}); expected dp for each {new.unit} "
            f"({new.unit_definition}), or the next one could not have that either. Update it by "
            "the mode, the privacy unit and the settings that it was made by, or train anew."
        )
    # Of other documents besides, the earlier events are not all of this ledger, however alike.
    of = {data.commitment for data in (*before.protected_data, *claim.protected_data)}
    same = len(of) == 1 and None not in of
    known = same and _holds(_runs(claim, new), _runs(before, earlier))
    both = listed_together(claim, before)
    new = replace(_with_terms_of(earlier, new), unit_definition=unit)
    if earlier.delta is not None and new.delta is not None and earlier.delta < new.delta:
        looser = LOOSER_DELTA.format(earlier.delta, new.delta)
        both = replace(both, caveats=both_of(both.caveats, (looser,)))
    if known:
        return replace(both, guarantees=(new,))
    return replace(
        both,
        guarantees=(_composed(new, earlier, claim, before),),
        training={name: told for name, told in both.training.items() if name != LEDGER_RUNS},
        transcripts={TRANSCRIPT: _mechanism(before, earlier, claim, new)},
    )


def without_privacy(claim: Claim, before: Claim | None) -> Claim:
    """Returns the claim of training without noise that went on from a released model.

    `claim` is of the further training alone: on public, synthetic, or private documents. A
    PrivacyError refuses an earlier model with a guarantee, which a model without any would silently
    lose; one that was trained on synthetic documents keeps it on these and on public ones.
    """
    if before is None or not before.protected_data:
        return claim
    if inherited_claims.is_inherited(before):
        if not claim.protected_data:
            return _kept(claim, before)
        if inherited_claims.is_inherited(claim):
            return _of_both_sets(claim, before)
    if not _has_no_privacy(before):
        raise PrivacyError(
            f"The start has a guarantee of kind {before.guarantees[0].kind} for its protected "
            "documents, and training without privacy can't go on from it. Start from a run without "
            "privacy or from public weights."
        )
    both = listed_together(claim, before)
    guarantees = (claim if claim.protected_data else before).guarantees
    return replace(
        both, guarantees=tuple(replace(each, composition=SEVERAL) for each in guarantees)
    )


def _of_both_sets(claim: Claim, before: Claim) -> Claim:
    """Returns the claim of training on a set after others; a set that is among them adds nothing.

    A release counts once, however often it is read.
    """
    known = inherited_claims.steps_of(before.training)
    if all(step in known for step in inherited_claims.steps_of(claim.training)):
        return _kept(claim, before)
    return added(claim, before)


def _kept(claim: Claim, before: Claim) -> Claim:
    """Returns the claim of training that spent nothing more: the start's guarantee holds."""
    both = listed_together(claim, before)
    return replace(
        both,
        guarantees=before.guarantees,
        transcripts=before.transcripts,
        training={**both.training, **inherited_claims.ledger_runs(before)},
    )


def carries(claim: Claim, before: Claim | None) -> bool:
    """Returns whether the claim of training without noise says all that its start's claim says."""
    if before is None or not before.protected_data:
        return True
    kept = _has_no_privacy(before) and _has_no_privacy(claim)
    if inherited_claims.is_inherited(before) and inherited_claims.is_inherited(claim):
        (earlier,), (new,) = one_guarantee(before), one_guarantee(claim)
        kept = earlier == new or _counts(_transcript(claim, new), _transcript(before, earlier))
    return (
        kept
        and {*before.protected_data} <= {*claim.protected_data}
        and {*before.public_data} <= {*claim.public_data}
        and {*before.data_accesses} <= {*claim.data_accesses}
        and {*before.caveats} <= {*claim.caveats}
    )


def _has_no_privacy(claim: Claim) -> bool:
    return all(guarantee.kind == "none" for guarantee in claim.guarantees)


def listed_together(claim: Claim, before: Claim) -> Claim:
    """Returns a claim with the data, audits and caveats of the table it went on from."""
    return replace(
        claim,
        protected_data=both_of(before.protected_data, claim.protected_data),
        public_data=both_of(before.public_data, claim.public_data),
        data_accesses=both_of(before.data_accesses, claim.data_accesses),
        audits=_audits(claim, before),
        releases=both_of(before.releases, claim.releases),
        training={**claim.training, STARTED_FROM: dict(before.training)},
        caveats=both_of(before.caveats, claim.caveats),
    )


def one_guarantee(claim: Claim) -> tuple[Guarantee]:
    """Returns the guarantee of a claim that has one alone."""
    if len(claim.guarantees) != 1:
        raise CheckpointError(
            f"The model's claim has {len(claim.guarantees)} guarantees; expected one. Train it "
            "again with this version."
        )
    return (claim.guarantees[0],)


def _with_terms_of(earlier: Guarantee, new: Guarantee) -> Guarantee:
    """Returns a guarantee that also needs and lacks what the earlier one does."""
    both = (earlier, new)
    bounds = [each.audit_lower_bound for each in both if each.audit_lower_bound is not None]
    drawn = earlier.sampling_as_implemented
    return replace(
        new,
        assumes=both_of(earlier.assumes, new.assumes),
        covers_all_private_accesses=all(each.covers_all_private_accesses for each in both),
        sampling_as_implemented=(new.sampling_as_implemented if drawn in _AS_ACCOUNTED else drawn),
        cluster_sampling_as_implemented=max(
            (each.cluster_sampling_as_implemented for each in both),
            key=vocabulary.CLUSTER_SAMPLINGS.index,
        ),
        hyperparameter_tuning=max(
            (each.hyperparameter_tuning for each in both), key=_TUNINGS.index
        ),
        rng=max((each.rng for each in both), key=vocabulary.RNGS.index),
        floating_point="; ".join(dict.fromkeys(each.floating_point for each in both)),
        audit_lower_bound=max(bounds, default=None),
    )


def _composed(new: Guarantee, earlier: Guarantee, claim: Claim, before: Claim) -> Guarantee:
    mechanism = _mechanism(before, earlier, claim, new)
    if new.delta is None:
        raise ValueError("The guarantee of the further training has no delta.")
    return replace(
        new,
        accountant=replace(new.accountant, name=ACCOUNTANT),
        epsilon=pld.epsilon(mechanism, new.delta),
        profile=tuple((pld.epsilon(mechanism, delta), delta) for _, delta in new.profile),
        gdp_mu=gdp.mu(mechanism),
        sampling_as_implemented=claim_words.sampling(new.sampling_as_implemented, mechanism),
        composition="two trainings, the second went on from what the first released, and both are "
        f"added up for a document that was in both; the first: {earlier.composition}; the second: "
        f"{new.composition}",
    )


def _runs(claim: Claim, guarantee: Guarantee) -> frozenset[tuple[str, Mechanism]]:
    """Returns the runs that a claim says its ledger counts, by mark, and what each may spend."""
    marks, events = claim.training.get(LEDGER_RUNS), _events(_transcript(claim, guarantee))
    if not isinstance(marks, list | tuple) or len(marks) != len(events):
        return frozenset()
    return frozenset(zip(map(str, marks), events, strict=True))


def _holds(
    ledger: frozenset[tuple[str, Mechanism]], earlier: frozenset[tuple[str, Mechanism]]
) -> bool:
    """Returns whether a ledger counts earlier runs and more; a copy set back would not."""
    return bool(earlier) and earlier < ledger


def _counts(all_events: Mechanism, earlier: Mechanism) -> bool:
    """Returns whether earlier events are among others, each as often."""
    left = list(_events(all_events))
    for event in _events(earlier):
        if event not in left:
            return False
        left.remove(event)
    return True


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


def both_of(first: tuple[Item, ...], second: tuple[Item, ...]) -> tuple[Item, ...]:
    """Returns the items of both, each once: equal ones are listed once."""
    return (*first, *(item for item in second if item not in first))
