"""The claim of a federated run: a guarantee against each adversary, made of what clients executed.

Noise and sampling are taken from the receipts of the clients, never from the plan, which only says
what a share of the noise is a share of. A client whose receipt is missing may have added none: it
counts as one of those that the shares allow to collude, and there may be no more of them. What of
its own units is bounded nobody has testified, so guarantees assume it; and where its noise alone
protects them, as in FedAVG-DP and without a secure sum, its receipt can't be missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from hushdoc.accounting.mechanism import Mechanism
from hushdoc.arguments import counted
from hushdoc.certificate import dp_guarantee, guarantees
from hushdoc.certificate.claim import Claim, Guarantee
from hushdoc.errors import PrivacyError
from hushdoc_training.federated import testimony
from hushdoc_training.federated.adversaries import (
    ADVERSARIES,
    CO_CLIENT,
    INDIVIDUAL,
    OBSERVER,
    RECIPIENT,
    SECURE_SUM,
    SERVER,
    Exposure,
)
from hushdoc_training.federated.frames import Frame
from hushdoc_training.federated.participation import ALL, DRAWN, ROTA
from hushdoc_training.federated.plan import FEDAVG, PROVIDER, SHARING, FederatedPlan
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.claims import ClaimDetails
from hushdoc_training.privacy.plan import not_as_planned
from hushdoc_training.privacy.records import UNIT_DEFINITIONS
from hushdoc_training.privacy.spending import PROFILE_DELTAS, spending_of
from hushdoc_training.randomness.secret_stream import RNG
from hushdoc_training.receipt import NOISE_DISTRIBUTIONS, Receipt
from hushdoc_training.runs import claim_words, receipts
from hushdoc_training.runs.claim_words import Numbers
from hushdoc_training.runs.receipts import Declared

RELEASED = "released"
"""The transcript of what the recipient of the model sees; others are called by their adversary."""

_CLUSTERS = {ALL: "none", ROTA: "schedule", DRAWN: "each-round"}
_WHO = {
    ALL: "every client takes part in every round",
    ROTA: "clients take turns by a schedule that follows from the run's random name, each in no "
    "more than {cap} of the {rounds} rounds",
    DRAWN: "{each} of the {clients} clients are drawn anew in every round, whatever their data "
    "are; no client takes part in more than {cap} rounds",
}
_SUMS = "the model after every round, the last one included"
_OBSERVES = {
    RECIPIENT: _SUMS,
    CO_CLIENT: f"{_SUMS}; and its own updates, noise and keys",
    SERVER: "the sum over all clients of every round, and the messages that it is made of",
}
_CLOCK = (
    "the adversary does not use how long clients take to answer, which grows with the units that "
    "they drew"
)
_ON_TIME = (
    "no document makes a client fail or answer so late that it is not waited for: a round without "
    "that client, or that is aborted, shows in the weights and in the number of aborted rounds"
)
_ALONE = "the update of each client in every round, with that client's noise alone"


@dataclass(frozen=True, kw_only=True)
class Executed:
    """What ran, as its parties report it.

    Attributes:
        receipts: Of the clients, by name.
        took_part: Names of all clients that sent anything that a sum was made of.
        begun: Rounds that were begun, aborted ones included.
        aborted: Those of them that were aborted.
        roster: The roster's digest.
        checks: What clients' self-tests read and assume, by name.
        evidence: Digest of the signed frames that all of it came in; None where there are none.
    """

    receipts: Mapping[str, Receipt]
    took_part: frozenset[str]
    begun: int
    aborted: int
    roster: str
    checks: Mapping[str, ClaimDetails] = field(default_factory=dict)
    evidence: str | None = None

    @classmethod
    def testified(
        cls,
        testified: Mapping[str, Frame],
        *,
        took_part: frozenset[str],
        begun: int,
        aborted: int,
        roster: str,
    ) -> Self:
        """Returns what clients said in signed frames, and the coordinator besides."""
        told = {name: testimony.said(frame) for name, frame in sorted(testified.items())}
        receipts = {name: said.receipt for name, said in told.items()}
        return cls(
            receipts={name: found for name, found in receipts.items() if found is not None},
            took_part=took_part,
            begun=begun,
            aborted=aborted,
            roster=roster,
            checks={name: said.checks for name, said in told.items() if said.checks is not None},
            evidence=testimony.digest_of(testified),
        )

    @property
    def silent(self) -> list[str]:
        """Clients that took part and of which there is no receipt."""
        return sorted(self.took_part - self.receipts.keys())


def claim(plan: FederatedPlan, executed: Executed, declared: Declared) -> Claim:
    """Returns what the certificate says of a federated run.

    Args:
        plan: The roster's.
        executed: What ran.
        declared: What whoever trains says besides.

    Raises:
        PrivacyError: NOT_AS_PLANNED where a client or the coordinator ran otherwise than planned,
            NO_RECEIPT where more receipts are missing than clients may collude, or one where a
            client's units have its own noise alone, KNOWN_RANDOMNESS where draws or noise came
            from a stream that somebody knows, NO_UNIT where nobody said what one record is.
    """
    if not 1 <= executed.begun <= plan.rounds or not 0 <= executed.aborted <= executed.begun:
        begun = f"{executed.begun}, {executed.aborted} of them aborted"
        raise not_as_planned("number of rounds", begun, f"at most {plan.rounds}")
    if plan.algorithm == FEDAVG:
        return _without_privacy(plan, executed, declared)
    found = _executed(plan, executed)
    reads = (access for checks in executed.checks.values() for access in checks.accesses)
    shown = _shown(plan, executed)
    events, guarantees_of = _guarantees(plan, shown, found, executed, declared)
    return Claim(
        protected_data=(
            claims.protected(
                declared.name,
                found.unit,
                declared.contribution_bound or _bound(plan, found),
            ),
        ),
        public_data=declared.public_data,
        data_accesses=(
            claims.accounted(declared.name, "training", *events),
            *claims.unaccounted(declared.name, {"logs of the clients": "not-released"}),
            *claims.label_access(declared.name, declared.labels_from_documents),
            *dict.fromkeys(replace(access, data=declared.name) for access in reads),
            *declared.accesses,
        ),
        releases=("final-weights", "round-updates"),
        guarantees=guarantees_of,
        transcripts=events,
        audits=(),
        training={
            **_tested(executed),
            **declared.training,
            **found.settings,
            "federated": {**_settings(plan, executed), **_by_honest(plan, shown)},
            "noise": RNG,
        },
        utility={},
        caveats=(*claim_words.caveats(found, _tuning(found, declared)), *declared.caveats),
    )


def _executed(plan: FederatedPlan, executed: Executed) -> Numbers:
    """Returns what the guarantees have in common; refuses what was not executed as planned."""
    missing = executed.silent
    if len(missing) > plan.most_unattested or not executed.receipts:
        why = "as many as may add no noise"
        if plan.algorithm not in SHARING or plan.mode == INDIVIDUAL:
            why = "each client's documents have that client's own noise alone"
        raise PrivacyError(
            f"There is no receipt of {', '.join(missing) or 'any client'}, and at most "
            f"{plan.most_unattested} may be missing: {why}. Ask these clients for what they "
            "executed.",
            code="NO_RECEIPT",
        )
    for name, receipt in executed.receipts.items():
        try:
            plan.require_executed(receipt)
            receipts.certifiable_unit(receipt)
        except PrivacyError as error:
            raise PrivacyError(f"The receipt of {name}: {error}", code=error.code) from error
    some, *others = executed.receipts.values()
    for other in others:
        if other.noise_distribution != some.noise_distribution:
            raise not_as_planned(
                "noise distribution", other.noise_distribution, some.noise_distribution
            )
    reads = (read for receipt in executed.receipts.values() for read in receipt.private_reads)
    return Numbers(
        mechanism=plan.mechanism(),
        unit=plan.privacy_unit,
        sampling="full-batch" if some.coins is None else "poisson",
        clipping_norm=some.clipping_norm,
        planned_records=plan.planned_records,
        floating_point=NOISE_DISTRIBUTIONS[some.noise_distribution],
        delta=plan.delta or 0.0,
        accountant=plan.accountant,
        settings={"receipt": some.told()},
        private_reads=tuple(dict.fromkeys(reads)),
    )


def _shown(plan: FederatedPlan, executed: Executed) -> Exposure:
    """Returns what ran as adversaries see it: the least noise, the highest rate."""
    least = min(receipt.noise_multiplier for receipt in executed.receipts.values())
    if plan.algorithm in SHARING:
        least *= math.sqrt(plan.shares.counted)
    rate = max(receipt.sampling_rate for receipt in executed.receipts.values())
    return replace(plan.exposure, noise_multiplier=least, client_rate=rate)


def _guarantees(
    plan: FederatedPlan,
    shown: Exposure,
    found: Numbers,
    executed: Executed,
    declared: Declared,
) -> tuple[dict[str, Mechanism], tuple[Guarantee, ...]]:
    """Returns the transcripts by name, and a guarantee against each adversary."""
    events: dict[str, Mechanism] = {}
    names: dict[Mechanism, str] = {}
    made = []
    for adversary, listening in _adversaries(plan):
        event = shown.event(adversary, listening=listening)
        name = names.setdefault(event, RELEASED if adversary == RECIPIENT else adversary)
        events[name] = event
        made.append(
            dp_guarantee.differential_privacy(
                event,
                spending_of(event, found.accountant, found.adjacency).epsilon,
                found.delta,
                accountant=found.accountant,
                transcript=name,
                profile=PROFILE_DELTAS,
                assumes=(
                    *claim_words.ASSUMES,
                    *_assumes(plan, executed),
                    *(() if adversary == RECIPIENT else (_CLOCK,)),
                    *declared.assumes,
                ),
                adjacency=found.adjacency,
                covers_all_private_accesses=not declared.labels_from_documents,
                sampling_as_implemented=claim_words.sampling(found.sampling, event),
                hyperparameter_tuning=_tuning(found, declared),
                rng="csprng",
                **_terms(plan, adversary, listening, found.floating_point, declared),
            )
        )
    return events, tuple(made)


def _adversaries(plan: FederatedPlan) -> list[tuple[str, int]]:
    """Returns each adversary and how many clients work with it."""
    few = plan.colluding
    pairs = [(RECIPIENT, 0), (SERVER, 0), (SERVER, few), (CO_CLIENT, max(1, few)), (OBSERVER, 0)]
    return list(dict.fromkeys(pairs))


def _terms(
    plan: FederatedPlan, adversary: str, listening: int, floating_point: str, declared: Declared
) -> Any:
    """Returns the words of a guarantee against an adversary."""
    alone = plan.mode == INDIVIDUAL and adversary in (SERVER, OBSERVER)
    observes = _ALONE if alone else _OBSERVES[SERVER if adversary == OBSERVER else adversary]
    if adversary == OBSERVER:
        observes = f"all that is sent, as if nothing but the frames protected it: {observes}"
    knows = f"{claims.KNOWS}, and who took part in which round"
    others = listening - (adversary == CO_CLIENT)
    if others > 0:
        knows += f"; and everything at {counted(others, 'other client')} of the roster"
    return {
        "adversary": adversary,
        "observes": observes,
        "knows": knows,
        "aggregation": INDIVIDUAL if alone else SECURE_SUM,
        "unit": plan.privacy_unit,
        "unit_definition": declared.unit_definition or UNIT_DEFINITIONS[plan.privacy_unit],
        "composition": f"one federated run of {plan.rounds} rounds, aborted ones included; its "
        "models are the only release",
        "cluster_sampling_as_implemented": _CLUSTERS[plan.participation],
        "floating_point": floating_point,
    }


def _assumes(plan: FederatedPlan, executed: Executed) -> tuple[str, ...]:
    """Returns what the guarantees of a federated run rest on."""
    turns = plan.turns
    who = _WHO[plan.participation].format(
        cap=turns.cap, rounds=turns.rounds, each=turns.clients_per_round, clients=turns.clients
    )
    if plan.participation == DRAWN:
        who += "; that they are drawn by chance counts against all but the server"
    found = [
        f"the parties are those of the roster {executed.roster}, no two of them the same",
        f"{who}; who took part is public",
        "every unit is at one place: at one client, and there one record"
        if plan.places == 1
        else f"no unit is at more than {plan.places} places: clients, or records of one",
        "which client has a unit does not depend on other units",
        "no client is set back to an earlier state, from a backup or a snapshot, during the run",
        _ON_TIME,
    ]
    if plan.algorithm in SHARING:
        found.append(
            f"of the {plan.clients_per_round} clients of a round, no more than {plan.silent} are "
            f"silent and no more than {plan.colluding} tell others their noise or leave it out; "
            "all others add their share"
        )
        if plan.mode == INDIVIDUAL:
            found.append("a unit's own client adds its share, which alone is in its update")
    if plan.privacy_unit == "provider":
        found.append(claim_words.PROVIDERS_GIVEN)
    if executed.silent:
        found.append(
            f"{', '.join(executed.silent)}, of which there is no receipt, drew and clipped its own "
            "units as planned, and chose nothing by numbers without noise"
        )
    if (executed.took_part | executed.receipts.keys()) - executed.checks.keys():
        found.append("clipping and losses are right at clients that told of no self-test of them")
    found += dict.fromkeys(words for told in executed.checks.values() for words in told.assumes)
    if plan.mode != INDIVIDUAL:
        found.append("X25519, HKDF-SHA256, AES-256 and Ed25519 hold, for single updates are masked")
    return tuple(found)


def _settings(plan: FederatedPlan, executed: Executed) -> dict[str, Any]:
    return {
        "algorithm": plan.algorithm,
        "clients": plan.clients,
        "perRound": plan.clients_per_round,
        "participation": plan.participation,
        "rounds": plan.rounds,
        "begun": executed.begun,
        "aborted": executed.aborted,
        "mode": plan.mode,
        "silent": plan.silent,
        "colluding": plan.colluding,
        "ringBits": plan.ring_bits,
        "sensitivityInSteps": plan.grid.sensitivity,
        "receipts": len(executed.receipts),
        "withoutReceipt": executed.silent,
        "selfTests": len(executed.checks),
        "rosterDigest": executed.roster,
        "receiptsDigest": executed.evidence,
    }


def _tested(executed: Executed) -> dict[str, Any]:
    """Returns what clients say of settings; refuses where one has other ones, or some alone."""
    told = {name: dict(checks.settings) for name, checks in executed.checks.items()}
    if not told:
        return {}
    (first, common), *others = told.items()
    for name, found in others:
        different = sorted(k for k in {*common, *found} if common.get(k) != found.get(k))
        if different:
            raise PrivacyError(
                f"{name} tells of a self-test with another {', '.join(different)} than {first} "
                "does, so one of them did not train as the others did. Ask both what they ran.",
                code="NOT_AS_PLANNED",
            )
    return common


def _by_honest(plan: FederatedPlan, shown: Exposure) -> dict[str, Any]:
    """Returns epsilon against whoever sees sums, by how many clients of a round are honest."""
    if plan.algorithm not in SHARING:
        return {}
    honest, found = plan.shares.counted, {}
    while honest:
        listening = plan.clients_per_round - plan.silent - honest
        event = shown.event(CO_CLIENT, listening=listening)
        spent = spending_of(event, plan.accountant, "add-remove").epsilon(plan.delta or 0.0)
        found[str(honest)] = float(f"{spent:.6g}") if math.isfinite(spent) else None
        honest //= 2
    return {"epsilonByHonestClients": found}


def _bound(plan: FederatedPlan, found: Numbers) -> str:
    if plan.algorithm != PROVIDER:
        return claim_words.contribution_bound(found)
    return claim_words.change_bound(found.unit, found.clipping_norm)


def _tuning(found: Numbers, declared: Declared) -> str:
    return "unaccounted" if found.private_reads else declared.hyperparameter_tuning


def _without_privacy(plan: FederatedPlan, executed: Executed, declared: Declared) -> Claim:
    reasons = {
        RECIPIENT: "No noise was drawn: the weights are an average of what each client's documents "
        "made of them, and may hold any part of any document.",
        CO_CLIENT: "Every round's model is an average without noise. A client knows its own part, "
        "and where two take part the other's as well.",
        SERVER: "Sums and updates carry no noise; documents can be rebuilt from such updates, and "
        "the weights that the server sends may be chosen for that.",
    }
    return Claim(
        protected_data=(
            claims.protected(declared.name, plan.privacy_unit, "none: training was not private"),
        ),
        public_data=declared.public_data,
        data_accesses=(
            *claims.unaccounted(declared.name, {"training": "unaccounted"}),
            *claims.label_access(declared.name, declared.labels_from_documents),
            *declared.accesses,
        ),
        releases=("final-weights", "round-updates"),
        guarantees=tuple(
            guarantees.no_privacy(
                reasons[SERVER if adversary == OBSERVER else adversary],
                sampling_as_implemented="shuffled",
                **_terms(plan, adversary, 0, "no noise was drawn", declared),
            )
            for adversary in ADVERSARIES
        ),
        transcripts={},
        audits=(),
        training={**declared.training, "federated": _settings(plan, executed)},
        utility={},
        caveats=(
            "That documents stay with their clients is no privacy guarantee: whatever training "
            "learned from them is in the updates and in the model.",
            *declared.caveats,
        ),
    )
