"""Models that answer questions, trained and attacked: an arm and a seed at a time, in a folder.

Providers are in two halves. For a VT5 they are of as many, and every arm trains two models, one on
each half: what one is asked about the other half's providers is about providers that it was not
trained on, and the other one is its twin. All figures are means over both models. A pointer is
trained on the first half alone, and its twin is its start. The documents that are asked about were
trained on by neither. Public providers, which are on no side, have the model that all arms of an
architecture start from, and its tokenizer.

A VT5 is asked questions of KEYS, one of each on a document, and all have an answer, as in
PFL-DocVQA. A pointer is asked all questions that have a key, of which some have no answer. What its
public start learned is PUBLIC_KEYS alone, in a few wordings: the others are what its private
providers teach. Its encoder stays as it is, so that a window is encoded once for all arms.
Privately it learns as `hushdoc train docvqa` has it where nobody says otherwise (`scaled`).
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import torch
from torch.nn import functional

from hushdoc.labels import LabelledDocument
from hushdoc.system import atomic_files
from hushdoc_training.audit import memorization, provider_membership
from hushdoc_training.audit.memorization import Memorised
from hushdoc_training.audit.provider_membership import ABLATION, METHODS, Providers, Result
from hushdoc_training.data import dataset, providers
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.federated import standing
from hushdoc_training.federated.partition import by_provider
from hushdoc_training.federated.plan import FEAM, FederatedPlan
from hushdoc_training.federated.roster import COORDINATOR
from hushdoc_training.federated.updates import LocalTraining
from hushdoc_training.invented.settings import NUM_PROVIDERS
from hushdoc_training.models.pointer import Pointer
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.question_scores import Answering, QuestionScore
from hushdoc_training.recipes import federated_parties, federated_simulation
from hushdoc_training.recipes.docvqa.scores import Scorer
from hushdoc_training.recipes.docvqa.settings import (
    ADAM_RATE,
    ADAM_RATE_OF_MANY,
    SCALED,
    Private,
    private_rate,
    scaled_for,
)
from hushdoc_training.recipes.docvqa.start import Start, start_from
from hushdoc_training.recipes.docvqa.training import described, history, train_plain, train_private
from hushdoc_training.recipes.federated_parties import FederatedSettings
from hushdoc_training.recipes.kie.private import set_dropout
from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings
from hushdoc_training.runs import continued

KEYS = (*memorization.KEYS, "phone", "iban", "registration_number")
"""What is the same on all documents of a provider."""

PUBLIC_KEYS = ("date", "email", "iban", "provider_name", "total")
"""What a pointer's start was asked for, in PUBLIC_WORDINGS, as that of `make demo-docvqa` is."""

PUBLIC_WORDINGS = "0:4"

EPSILONS = (1.0, 4.0, 8.0)
DELTA = 1e-5
CLIPPING_NORM = 0.1
CPU = torch.device("cpu")
TYPE = "receipt"
PUBLIC_FROM, PUBLIC_TO = 2000, 2400
"""Numbers of public providers; those that are trained on begin at 0 or beyond."""

ARCHITECTURES = ("pointer", "vt5")
ASKS = {"pointer": "wordings=0:15", "vt5": "unanswerable=0"}
TRAININGS = (
    "start",
    "nonprivate",
    *(f"{unit}_eps{epsilon:g}" for unit in ("provider", "document") for epsilon in EPSILONS),
    "local_eps8",
    "federated_eps8",
)
ARMS = tuple(
    f"{architecture}_{training}" for architecture in ARCHITECTURES for training in TRAININGS
)

PAPER = LocalTraining(batch_size=8, learning_rate=2e-4)
"""Of table 12 of the paper. The clipping norm of 5 there is for T5's 280 million numbers; what such
steps move of two million, noise that is sized for 5 would drown: here it is CLIPPING_NORM."""

CLIENTS = 4
"""Of federated training, each with whole providers."""

NOT_RUN = {
    "tax numbers on pages without one": "all questions to a VT5 here have an answer; see "
    "`hushdoc audit memorization`",
}
"""What of the paper is not measured here, with the reason."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much work.

    Attributes:
        first: Number of the first provider that a half can have.
        providers: In each half that is trained on.
        known: Of each half's, those that are asked about and attacked.
        documents: Of each provider that are trained on.
        asked: Others of each provider, that are asked about.
        public: Public documents that a start is trained on.
        public_epochs: Of that training.
        epochs: Of a training without privacy.
        last: Further ones, without dropout.
        trained: What is trained without privacy, with it, and by the paper's own mechanism.
        size: Of a model from nothing.
        rate: The peak of the learning rate without privacy.
        private_rate: That of private training; it, `steps` and `sampling_rate` are of a VT5 and, of
            pointers, of the paper's mechanism alone: all else is `SCALED`.
        steps: Of private training.
        sampling_rate: Of providers; documents have the same.
        canaries: In every private training.
        draws: Settings of each forest that are tried.
        seeds: Of the attacks.
    """

    first: int = 0
    providers: int = 16
    known: int = 16
    documents: int = 8
    asked: int = 3
    public: int = 240
    public_epochs: float = 2
    epochs: float = 30
    last: float = 15
    trained: tuple[str, str, str] = ("all", "encoder", "all")
    size: str = "tiny"
    rate: float = 3e-3
    private_rate: float = 5e-4
    steps: int = 10
    sampling_rate: float = 0.5
    canaries: int = 100
    draws: int = 1
    seeds: tuple[int, ...] = provider_membership.SEEDS

    def of(self, many: int) -> Scale:
        """Returns the same for so many providers; where all are attacked, all still are.

        They are numbered from lower on where three seeds would have no room.
        """
        known = many if self.known == self.providers else min(many, self.known)
        first = self.first if self.first + SEEDS_APART * many <= NUM_PROVIDERS else PUBLIC_TO
        return replace(self, first=first, providers=many, known=known)


MOST_SCORED = 1000
"""Documents that a model was trained on whose loss is measured afterwards."""

SEEDS_APART = 8
"""How many times the providers of a half are numbered for the seeds 0 to 3."""

Scales = Mapping[str, Scale]
"""By architecture."""

SCALES: Scales = {
    "pointer": Scale(
        first=20000,
        providers=1000,
        known=20,
        documents=1,
        asked=2,
        public=320,
        public_epochs=12,
        epochs=10,
        last=0,
        trained=("output", "output", "output"),
        size="small",
        rate=1e-3,
        private_rate=1e-3,
        steps=40,
        sampling_rate=0.25,
    ),
    "vt5": Scale(size="small", rate=1e-3),
}

RECEIPTS: Scales = {
    "pointer": replace(SCALES["pointer"], providers=110, known=110, documents=2, epochs=20),
    "vt5": replace(SCALES["vt5"], providers=110, known=110, documents=2, epochs=20, last=10),
}
"""On SROIE, of whose companies and receipts a half has about as many."""

QUICK: Scales = {
    name: replace(
        scale,
        size="tiny" if name == "vt5" else scale.size,
        providers=5,
        known=5,
        documents=1,
        asked=1,
        public=8,
        public_epochs=1,
        epochs=1,
        last=min(1, scale.last),
        steps=2,
        canaries=16,
        seeds=provider_membership.SEEDS[:1],
    )
    for name, scale in SCALES.items()
}

Documents = Sequence[LabelledDocument]


@dataclass(frozen=True, kw_only=True)
class Data:
    """Documents of halves of the providers.

    Attributes:
        train: That a half's model is trained on, by half.
        asked: Of the same providers, trained on by nobody, by half.
    """

    train: tuple[Documents, Documents]
    asked: tuple[Documents, Documents]

    @classmethod
    def invented(cls, scale: Scale, architecture: str, *, seed: int) -> Data:
        """Returns invented documents; a seed's providers are its own."""
        first = scale.first + 2 * scale.providers * seed
        each = scale.documents + scale.asked
        groups = []
        for half in (0, 1):
            begin = first + half * scale.providers
            many = scale.providers if half in trained_halves(architecture) else scale.known
            some = _some(architecture, (begin, begin + many), each, seed=2 * seed + half)
            groups.append(list(some.values()))
        train = [[item for items in half for item in items[: scale.documents]] for half in groups]
        asked = [
            [item for items in half[: scale.known] for item in items[scale.documents :]]
            for half in groups
        ]
        return cls(train=(train[0], train[1]), asked=(asked[0], asked[1]))

    @classmethod
    def parted(cls, documents: Documents, *, seed: int) -> Data:
        """Returns halves of the providers; of those with several a quarter is asked about."""
        halves = providers.split(documents, valid=0, seed=seed)
        train, asked = list[LabelledDocument](), list[LabelledDocument]()
        for items in providers.grouped(halves.non_members).values():
            many = min(len(items) - 1, max(1, round(len(items) / 4)))
            asked += items[:many]
            train += items[many:]
        return cls(train=(halves.train, train), asked=(halves.members, asked))

    def sizes(self) -> dict[str, int]:
        """Returns how many there are of what, for a table like 5 of the paper."""
        return {
            "providers_a_half": len(providers.grouped(self.train[0])),
            "trained_documents_a_half": len(self.train[0]),
            "trained_questions_a_half": _questions(self.train[0]),
            "asked_documents": sum(map(len, self.asked)),
            "asked_questions": sum(map(_questions, self.asked)),
        }


class KeptStates(dict[tuple[bool, bytes, bytes], torch.Tensor]):
    """States of windows and questions, of an encoder that no arm trains."""

    def __deepcopy__(self, memo: dict[int, Any]) -> KeptStates:
        """Returns itself: copies of a model have the same encoder."""
        return self


class FrozenPointer(Pointer):
    """A pointer whose encoder is never trained: it reads a window or question once.

    Where a gradient is asked for, it reads it anew.
    """

    kept: KeptStates

    @classmethod
    def of(cls, model: Pointer, kept: KeptStates) -> FrozenPointer:
        """Returns the very model, which shares what others with its encoder keep."""
        model.__class__ = cls
        frozen = cast(FrozenPointer, model)
        frozen.kept = kept
        return frozen

    def states(
        self, input_ids: torch.Tensor, bbox: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Returns what a pointer does, of each row alone, and zeros for padding."""
        if torch.is_grad_enabled():
            return super().states(input_ids, bbox, attention_mask)
        rows = [
            self._row(*(each[None, : int(mask.sum())] for each in (ids, boxes, mask)))
            for ids, boxes, mask in zip(input_ids, bbox, attention_mask, strict=True)
        ]
        most = input_ids.shape[1]
        return torch.stack([functional.pad(row, (0, 0, 0, most - len(row))) for row in rows])

    def _row(self, ids: torch.Tensor, bbox: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        told = (each.contiguous().cpu().numpy().tobytes() for each in (ids, bbox))
        key = (torch.is_autocast_enabled(ids.device.type), *told)
        if key not in self.kept:
            with torch.inference_mode(False), torch.no_grad():
                inputs = (each.clone() for each in (ids, bbox, mask))
                self.kept[key] = super().states(*inputs)[0].clone()
        return self.kept[key]


class Arms:
    """Trains and attacks, and keeps every result in a folder, so that a later call goes on."""

    def __init__(
        self,
        work: Path,
        scales: Scales,
        starts: Mapping[str, str],
        *,
        receipts: Documents | None = None,
        device: torch.device = CPU,
    ) -> None:
        """Keeps where to work.

        Args:
            work: The folder; runs and results stay there.
            scales: How much work.
            starts: By architecture, a public run that replaces the one that is trained here.
            receipts: Of SROIE, whose companies are the providers; None: invented ones.
            device: Where is computed.
        """
        self._work, self._scales, self._starts, self._device = work, scales, starts, device
        self._receipts = receipts
        self._tuning = "none" if receipts is None else "unaccounted"
        self._states = KeptStates()
        work.mkdir(parents=True, exist_ok=True)
        scale = {name: asdict(each) for name, each in scales.items()}
        on = {} if receipts is None else {"on": "sroie"}
        self._same({"scale": scale, "starts": dict(starts), **on})

    def result(self, arm: str, seed: int) -> dict[str, Any]:
        """Returns what an arm is worth and tells, from the folder if it is there."""
        with self._kept(self._work / f"{arm}-{seed}.json") as found:
            if not found:
                found.update(self._measured(arm, seed))
        return found

    def nearest(self, architecture: str, seed: int, answering: Answering) -> dict[str, Any]:
        """Returns what answers without training are worth, to what an arm's others are asked."""
        with self._kept(self._work / f"nearest-{architecture}-{seed}.json") as found:
            if not found:
                asked = self._data(architecture, seed).asked
                others = [asked[1 - half] for half in trained_halves(architecture)]
                found.update(_utility([answering.score(each) for each in others]))
        return found

    def kept(self, arms: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """Returns the results that are there of each arm, one for each seed."""
        found = {arm: sorted(self._work.glob(f"{arm}-*.json")) for arm in arms}
        return {
            arm: [json.loads(path.read_text()) for path in paths]
            for arm, paths in found.items()
            if paths
        }

    def _measured(self, arm: str, seed: int) -> dict[str, Any]:
        architecture, training = arm.split("_", maxsplit=1)
        data = self._data(architecture, seed)
        start = self.start(architecture)
        models = [
            start if training == "start" else self._trained(arm, half, data, seed, start)
            for half in trained_halves(architecture)
        ]
        scorers = [Scorer(start=model, device=self._device) for model in models]
        before = Scorer(start=start, device=self._device)
        images = start.asking.image is not None
        sides = [each if images else memorization.without_images(each) for each in data.asked]
        documents = [*sides[0], *sides[1]]
        begun = before.score(documents)
        hidden = [memorization.hidden(asked) for asked in sides]
        views: list[dict[str, Any]] = []
        for half, scorer in enumerate(scorers):
            names = set(providers.grouped(data.asked[half]))
            scores = scorer.score(documents)
            told = [scorer.score(hidden[half]), scorer.score(hidden[1 - half])]
            features = provider_membership.providers_of(
                scores, begun, names, memory=memorization.memory_of(scorer, documents)
            )
            views.append(
                {
                    "scores": _sides(scores, names),
                    "told": told,
                    "trained_loss": fmean(
                        score.loss
                        for score in replace(scorer, longest=0).score(
                            data.train[half][:MOST_SCORED]
                        )
                    ),
                    **self._attacked(features, self._scales[architecture]),
                }
            )
        claims_of = [model.claim for model in models if training not in ("start", "nonprivate")]
        guarantees = [each for claim in claims_of if claim for each in claim.guarantees]
        bounds = [each.audit_lower_bound for each in guarantees]
        twins = [view["told"][1] for view in reversed(views)]
        if len(views) == 1:
            twins = [before.score(hidden[0])]
        compared = [
            memorization.compared(view["told"][0], twin)
            for view, twin in zip(views, twins, strict=True)
        ]
        return {
            "data": data.sizes(),
            "trained_loss": fmean(view["trained_loss"] for view in views),
            "members": _utility([view["scores"][0] for view in views]),
            "others": _utility([view["scores"][1] for view in views]),
            "hidden": {
                key: {
                    side: _hidden([view["told"][number] for view in views], key)
                    for number, side in enumerate(("members", "others"))
                }
                for key in memorization.KEYS
            },
            "memorised": _added(compared),
            "attacks": _mean([view["attacks"] for view in views]),
            "ablation": _mean([view["ablation"] for view in views]),
            "epsilon": max((each.epsilon or 0.0 for each in guarantees), default=None),
            "epsilon_lower": max((each for each in bounds if each is not None), default=None),
            "unit": guarantees[0].unit if guarantees else None,
            "communication_mb": communicated(sorted(self._work.glob(f"{arm}-{seed}-?"))),
        }

    def _data(self, architecture: str, seed: int) -> Data:
        """Returns the documents of a seed."""
        if self._receipts is None:
            return Data.invented(self._scales[architecture], architecture, seed=seed)
        return Data.parted(self._receipts, seed=seed)

    def start(self, architecture: str) -> Start:
        """Returns the public start of an architecture, trained once."""
        if architecture in self._starts:
            return self._from(self._starts[architecture], architecture)
        out = self._work / f"{architecture}-public"
        if not (out / "checkpoint").exists():
            scale = self._scales[architecture]
            public = _public(architecture, scale.public)
            texts = [text for item in public for text in _texts(item)]
            begun = start_from(scale.size, architecture=architecture, vocabulary=lambda: texts)
            settings = PlainSettings(
                epochs=scale.public_epochs, batch_size=8, learning_rate=scale.rate, seed=0
            )
            claim = claims.public((), training=described(begun))
            train_plain(
                begun, public, settings, out=out, claim=claim, resume=out.exists(), quiet=True,
                device=self._device,
            ).require_finished()  # fmt: skip
        return self._from(str(out), architecture)

    def _from(self, run: str, architecture: str) -> Start:
        """Returns a run's model; all pointers have one encoder, whose states are kept."""
        start = start_from(run, architecture=architecture)
        if isinstance(start.model, Pointer):
            FrozenPointer.of(start.model, self._states)
        return start

    def _trained(self, arm: str, half: int, data: Data, seed: int, start: Start) -> Start:
        architecture, training = arm.split("_", maxsplit=1)
        out = self._work / f"{arm}-{seed}-{half}"
        if not (out / "checkpoint").exists():
            scale, resume = self._scales[architecture], out.exists()
            documents = data.train[half]
            start = replace(start, model=copy.deepcopy(start.model))
            if training == "nonprivate":
                self._fitted(start, documents, architecture, out, seed=seed)
            elif training.startswith("federated"):
                self._federated(start, documents, architecture, out, epsilon=8.0)
            else:
                kind, epsilon = training.split("_eps")
                unit = "document" if kind == "document" else "provider"
                local = PAPER if kind == "local" else None
                records = scale.providers * (scale.documents if unit == "document" else 1)
                records += scale.canaries // 2
                if architecture == "pointer" and not local:
                    plan, settings = scaled(unit, float(epsilon), records=records)
                else:
                    plan = PrivacyPlan.calibrated(
                        epsilon=float(epsilon),
                        delta=DELTA,
                        privacy_unit=unit,
                        sampling_rate=scale.sampling_rate,
                        steps=scale.steps,
                        expected_records=round(scale.sampling_rate * records),
                        clipping_norm=CLIPPING_NORM,
                    )
                    settings = (
                        PrivateSettings(trained=scale.trained[2])
                        if local
                        else PrivateSettings(
                            trained=scale.trained[1], learning_rate=scale.private_rate
                        )
                    )
                train_private(
                    start, documents, plan, settings, out=out, name="receipts", resume=resume,
                    quiet=True, device=self._device, num_canaries=scale.canaries, local=local,
                    hyperparameter_tuning=self._tuning,
                ).require_finished()  # fmt: skip
        made = self._from(str(out), architecture)
        return replace(made, claim=DocVQACheckpoint.load(out).claim)

    def _fitted(
        self, start: Start, documents: Documents, architecture: str, out: Path, *, seed: int
    ) -> None:
        """Trains without privacy, first with dropout and then without, into `out`."""
        scale = self._scales[architecture]
        stages = [(Path(f"{out}-first"), scale.epochs, 0.1), (out, scale.last, 0.0)]
        if not scale.last:
            stages = [(out, scale.epochs, 0.0)]
        for folder, epochs, dropout in stages:
            if not (folder / "checkpoint").exists():
                set_dropout(start.model, dropout)
                settings = PlainSettings(
                    epochs=epochs,
                    batch_size=8,
                    learning_rate=scale.rate,
                    seed=seed,
                )
                claim = claims.not_private("receipts", history(start), training=described(start))
                train_plain(
                    start, documents, settings, out=folder, resume=folder.exists(), quiet=True,
                    claim=continued.without_privacy(claim, start.claim), device=self._device,
                    trained=scale.trained[0],
                ).require_finished()  # fmt: skip
            start = self._from(str(folder), architecture)

    def _federated(
        self, start: Start, documents: Documents, architecture: str, out: Path, *, epsilon: float
    ) -> None:
        """Trains at provider unit by sums of clipped gradients of clients, in one process."""
        scale = self._scales[architecture]
        how, learning_rate = for_clients(scale.providers, epsilon)
        if architecture == "vt5":
            how = Private(
                trained=scale.trained[1],
                steps=scale.steps,
                sampling_rate=scale.sampling_rate,
                clipping_norm=CLIPPING_NORM,
            )
            learning_rate = scale.private_rate
        federate(
            start, documents, out, epsilon=epsilon, records=scale.providers + scale.canaries // 2,
            name="receipts", device=self._device, how=how, learning_rate=learning_rate,
            hyperparameter_tuning=self._tuning, num_canaries=scale.canaries,
        )  # fmt: skip

    def _attacked(self, features: Providers, scale: Scale) -> dict[str, list[Result]]:
        """Returns the rows of tables 4 and 11, whose forests are partly the same."""
        found = provider_membership.attacked(
            features, methods=(*METHODS, *ABLATION), seeds=scale.seeds, draws=scale.draws
        )
        return {
            name: [row for row in found if row.method in methods]
            for name, methods in (("attacks", METHODS), ("ablation", ABLATION))
        }

    def _same(self, settings: dict[str, Any]) -> None:
        """Refuses a folder of other settings."""
        with self._kept(self._work / "settings.json") as found:
            asked = json.loads(json.dumps(settings))
            if found and found != asked:
                raise SystemExit(f"'{self._work}' holds results of other settings; name another.")
            found.update(asked)

    @contextmanager
    def _kept(self, path: Path) -> Iterator[dict[str, Any]]:
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        yield found
        if not path.exists():
            atomic_files.write_file(path, json.dumps(found, indent=1).encode())


def scaled(unit: str, epsilon: float, *, records: int) -> tuple[PrivacyPlan, PrivateSettings]:
    """Returns how `hushdoc train docvqa` trains a pointer where nobody says otherwise.

    `records` is how many there are about, by the unit; all of them are in each step.
    """
    how = scaled_for(records, epsilon)
    plan = PrivacyPlan.calibrated(
        epsilon=epsilon,
        delta=DELTA,
        privacy_unit=unit,
        sampling_rate=how.sampling_rate,
        steps=how.steps,
        expected_records=records,
        clipping_norm=how.clipping_norm,
    )
    settings = PrivateSettings(
        trained=how.trained,
        scaling=how.scaling,
        directions=how.directions,
        optimizer="sgd" if how.algorithm == "dp-sgd" else "adam",
        decay=how.algorithm != "dp-sgd",
        learning_rate=private_rate(
            plan, algorithm=how.algorithm, scaling=how.scaling, many=how != SCALED
        ),
    )
    return plan, settings


def for_clients(records: int, epsilon: float) -> tuple[Private, float]:
    """Returns how a pointer learns centrally from so many, and the step size of DP-Adam so."""
    how = scaled_for(records, epsilon)
    return how, ADAM_RATE if how == SCALED else ADAM_RATE_OF_MANY


def federate(
    start: Start,
    documents: Documents,
    out: Path,
    *,
    epsilon: float,
    records: int,
    name: str,
    device: torch.device,
    how: Private,
    learning_rate: float,
    hyperparameter_tuning: str,
    num_canaries: int = 0,
) -> None:
    """Trains at provider unit by sums of clipped gradients of clients, in one process, into `out`.

    `records` is about how many providers there are, canaries too, of which a step has a share.
    Whatever `how` says of the algorithm, it is DP-Adam of the sums.
    """
    settings = FederatedSettings(
        training=PrivateSettings(
            trained=how.trained,
            scaling=how.scaling,
            directions=how.directions,
            learning_rate=learning_rate,
        )
    )
    plan = FederatedPlan.calibrated(
        algorithm=FEAM,
        epsilon=epsilon,
        delta=DELTA,
        privacy_unit="provider",
        clients=CLIENTS,
        clients_per_round=CLIENTS,
        rounds=how.steps,
        sampling_rate=how.sampling_rate,
        expected_records=round(how.sampling_rate * records),
        clipping_norm=how.clipping_norm,
        numbers=federated_parties.numbers_of(start, settings, FEAM),
    )
    held = by_provider([item.provider for item in documents], CLIENTS, seed=0)
    federated_simulation.simulate(
        start, federated_simulation.divided(documents, held), plan, settings,
        out=out, name=name, resume=out.exists(), quiet=True, device=device,
        hyperparameter_tuning=hyperparameter_tuning, num_canaries=num_canaries,
    ).require_finished()  # fmt: skip


def communicated(runs: Sequence[Path]) -> float | None:
    """Returns how many megabytes clients and coordinator sent each other; None without clients.

    All frames of all rounds count, as their logs have them, and of several runs the mean.
    """
    logs = [log for run in runs if (log := run / COORDINATOR / standing.LOG).exists()]
    rounds = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    sent = sum(one["sent"] + one["received"] for one in rounds)
    return round(sent / len(logs) / 1e6, 3) if logs else None


def trained_halves(architecture: str) -> tuple[int, ...]:
    """Returns which halves of the providers models are trained on."""
    return (0,) if architecture == "pointer" else (0, 1)


def _public(architecture: str, count: int) -> list[LabelledDocument]:
    numbers = (PUBLIC_FROM, PUBLIC_TO)
    if architecture == "vt5":
        return [_first_of_keys(item) for item in _read(numbers, count, ASKS[architecture], seed=3)]
    found = _read(numbers, count, f"wordings={PUBLIC_WORDINGS}", seed=3)
    return [_keyed(item, PUBLIC_KEYS) for item in found]


def _read(numbers: tuple[int, int], count: int, asks: str, *, seed: int) -> list[LabelledDocument]:
    where = f"invented:{TYPE},questions=keyed,{asks},providers={numbers[0]}:{numbers[1]}"
    return list(dataset.read(dataset.Source(location=where, documents=count, seed=seed)))


def _some(
    architecture: str, numbers: tuple[int, int], each: int, *, seed: int
) -> dict[str, Documents]:
    """Returns so many documents of each provider, the shortest of about twice as many."""
    count = 2 * each * (numbers[1] - numbers[0])
    asked = _first_of_keys if architecture == "vt5" else _keyed
    found = [asked(item) for item in _read(numbers, count, ASKS[architecture], seed=seed)]
    groups = providers.grouped(found)
    return {
        name: random.Random(seed).sample(
            sorted(items, key=lambda item: item.document.num_words)[:each], min(each, len(items))
        )
        for name, items in groups.items()
    }


def _keyed(item: LabelledDocument, keys: Collection[str] | None = None) -> LabelledDocument:
    """Returns a document with its questions of these keys; None: of any key."""
    chosen = (
        asked
        for asked in item.questions
        if asked.key is not None and (keys is None or asked.key in keys)
    )
    return replace(item, questions=tuple(chosen))


def _first_of_keys(item: LabelledDocument) -> LabelledDocument:
    """Returns a document with its first question of each of KEYS."""
    first = {asked.key: asked for asked in reversed(item.questions) if asked.answers}
    return replace(item, questions=tuple(first[key] for key in KEYS if key in first))


def _questions(documents: Documents) -> int:
    return sum(len(item.questions) for item in documents)


def _texts(item: LabelledDocument) -> Iterator[str]:
    for page in item.document.pages:
        yield from (word.text for word in page.words)
    yield from (asked.text for asked in item.questions)


def _sides(
    scores: Sequence[QuestionScore], names: set[str]
) -> tuple[list[QuestionScore], list[QuestionScore]]:
    """Returns the scores about members, and about others."""
    inside = [providers.folded(score.provider or "") in names for score in scores]
    return (
        [score for score, there in zip(scores, inside, strict=True) if there],
        [score for score, there in zip(scores, inside, strict=True) if not there],
    )


def _utility(views: Sequence[Sequence[QuestionScore]]) -> dict[str, float]:
    scores = [score for view in views for score in view]
    return {
        "questions": len(scores),
        "accuracy": fmean(score.exact_match for score in scores),
        "anls": fmean(score.nls for score in scores),
    }


def _hidden(views: Sequence[Sequence[QuestionScore]], key: str) -> dict[str, Any]:
    """Returns accuracy and ANLS where the answer was hidden, of all and of the sure ones."""
    scores = [score for view in views for score in view if score.key == key]
    sure = [score for score in scores if score.confidence >= memorization.CONFIDENT]
    return {
        name: None if not some else _utility([some])
        for name, some in (("all", scores), ("sure", sure))
    }


def _added(found: Sequence[Memorised]) -> dict[str, float]:
    """Returns the sums of counts, and the means of similarities."""
    each = [one.to_dict() for one in found]
    return {
        name: fmean(one[name] for one in each) if "nls" in name else sum(one[name] for one in each)
        for name in each[0]
    }


def _mean(views: Sequence[Sequence[Result]]) -> list[dict[str, Any]]:
    """Returns each row's mean over both models."""
    rows = []
    for both in zip(*views, strict=True):
        one = both[0]
        rows.append(
            {
                "method": one.method.name,
                "features": list(one.method.features),
                "least_questions": one.least_questions,
                "members": one.members,
                "others": one.others,
                "accuracy": fmean(row.accuracy for row in both),
                "accuracy_deviation": fmean(row.accuracy_deviation for row in both),
                "auc": fmean(row.auc for row in both),
                "tpr_at_fpr": {
                    f"{rate:g}": fmean(row.tpr_at_fpr[rate] for row in both)
                    for rate in provider_membership.FALSE_POSITIVE_RATES
                },
            }
        )
    return rows
