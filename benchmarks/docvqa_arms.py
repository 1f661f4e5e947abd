"""Models that answer questions, trained and attacked: an arm and a seed at a time, in a folder.

Providers are in two halves of as many, and every arm trains two models, one on each half: what one
is asked about the other half's providers is about providers that it was not trained on, and the
other one is its twin. All figures are means over both models. The documents that are asked about
were trained on by neither. Public providers, which are on no side, have the model that all arms of
an architecture start from, and its tokenizer.

Questions are of KEYS, one of each on a document, and all have an answer, as in PFL-DocVQA.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from hushdoc.labels import LabelledDocument
from hushdoc.system import atomic_files
from hushdoc_training.audit import memorization, provider_membership
from hushdoc_training.audit.memorization import Memorised
from hushdoc_training.audit.provider_membership import ABLATION, METHODS, Providers, Result
from hushdoc_training.data import dataset, providers
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.federated.updates import LocalTraining
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.question_scores import QuestionScore
from hushdoc_training.recipes.docvqa.scores import Scorer
from hushdoc_training.recipes.docvqa.start import Start, start_from
from hushdoc_training.recipes.docvqa.training import described, history, train_plain, train_private
from hushdoc_training.recipes.kie.private import set_dropout
from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings
from hushdoc_training.runs import continued

KEYS = (*memorization.KEYS, "phone", "iban", "registration_number")
"""What is the same on all documents of a provider."""

EPSILONS = (1.0, 4.0, 8.0)
DELTA = 1e-5
CPU = torch.device("cpu")
TYPE = "receipt"
PUBLIC_FROM = 2000
"""The first public provider's number; those that are trained on begin at 0."""

ARCHITECTURES = ("pointer", "vt5")
TRAININGS = (
    "start",
    "nonprivate",
    *(f"{unit}_eps{epsilon:g}" for unit in ("provider", "document") for epsilon in EPSILONS),
    "local_eps8",
)
ARMS = tuple(
    f"{architecture}_{training}" for architecture in ARCHITECTURES for training in TRAININGS
)

PAPER = LocalTraining(batch_size=8, learning_rate=2e-4)
"""Of table 12 of the paper, whose clipping norm is 5."""

NOT_RUN = {
    "federated_eps8": "federated training and its simulation take models of fields alone as yet",
    "tax numbers on pages without one": "every question here has an answer",
}
"""What of the paper is not measured here, with the reason."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much work.

    Attributes:
        providers: In each half.
        documents: Of each provider that are trained on.
        asked: Others of each provider, that are asked about.
        public: Public documents that a start is trained on.
        public_epochs: Of that training.
        epochs: Of a training without privacy, by architecture.
        last: Further ones, without dropout.
        trained: What is trained without privacy, and with it, by architecture.
        size: Of a model from nothing, by architecture.
        rate: The peak of the learning rate without privacy, by architecture.
        steps: Of private training.
        sampling_rate: Of providers; documents have the same.
        canaries: In every training that protects providers.
        draws: Settings of each forest that are tried.
        seeds: Of the attacks.
    """

    providers: int = 16
    documents: int = 8
    asked: int = 3
    public: int = 240
    public_epochs: float = 2
    epochs: tuple[tuple[str, float], ...] = (("pointer", 10), ("vt5", 30))
    last: float = 15
    trained: tuple[tuple[str, tuple[str, str]], ...] = (
        ("pointer", ("output", "output")),
        ("vt5", ("all", "encoder")),
    )
    size: tuple[tuple[str, str], ...] = (("pointer", "small"), ("vt5", "tiny"))
    rate: tuple[tuple[str, float], ...] = (("pointer", 1e-3), ("vt5", 3e-3))
    steps: int = 10
    sampling_rate: float = 0.5
    canaries: int = 100
    draws: int = 1
    seeds: tuple[int, ...] = provider_membership.SEEDS


QUICK = Scale(
    providers=5,
    documents=1,
    asked=1,
    public=8,
    public_epochs=1,
    epochs=(("pointer", 1), ("vt5", 1)),
    last=1,
    steps=2,
    canaries=16,
    seeds=provider_membership.SEEDS[:1],
)

Documents = Sequence[LabelledDocument]


@dataclass(frozen=True, kw_only=True)
class Data:
    """Documents of both halves, and public ones.

    Attributes:
        train: That a half's model is trained on, by half.
        asked: Of the same providers, trained on by nobody, by half.
        public: Of other providers.
    """

    train: tuple[Documents, Documents]
    asked: tuple[Documents, Documents]
    public: Documents

    @classmethod
    def invented(cls, scale: Scale, *, seed: int) -> Data:
        """Returns invented documents; a seed's providers are its own."""
        first = 2 * scale.providers * seed
        halves = [
            (first + number * scale.providers, first + (number + 1) * scale.providers)
            for number in (0, 1)
        ]
        groups = [
            list(_some(half, scale.documents + scale.asked, seed=2 * seed + number).values())
            for number, half in enumerate(halves)
        ]
        train, asked = (
            [[item for items in half for item in items[part]] for half in groups]
            for part in (slice(scale.documents), slice(scale.documents, None))
        )
        public = _read((PUBLIC_FROM, PUBLIC_FROM + 400), scale.public, seed=3)
        return cls(train=(train[0], train[1]), asked=(asked[0], asked[1]), public=public)

    def sizes(self) -> dict[str, int]:
        """Returns how many there are of what, for a table like 5 of the paper."""
        return {
            "providers_a_half": len(providers.grouped(self.train[0])),
            "trained_documents_a_half": len(self.train[0]),
            "trained_questions_a_half": _questions(self.train[0]),
            "asked_documents": sum(map(len, self.asked)),
            "asked_questions": sum(map(_questions, self.asked)),
            "public_documents": len(self.public),
            "public_questions": _questions(self.public),
        }


class Arms:
    """Trains and attacks, and keeps every result in a folder, so that a later call goes on."""

    def __init__(self, work: Path, scale: Scale, starts: Mapping[str, str]) -> None:
        """Keeps where to work.

        Args:
            work: The folder; runs and results stay there.
            scale: How much work.
            starts: By architecture, a public run that replaces the one that is trained here.
        """
        self._work, self._scale, self._starts = work, scale, starts
        work.mkdir(parents=True, exist_ok=True)
        self._same({"scale": asdict(scale), "starts": dict(starts)})

    def result(self, arm: str, seed: int) -> dict[str, Any]:
        """Returns what an arm is worth and tells, from the folder if it is there."""
        with self._kept(self._work / f"{arm}-{seed}.json") as found:
            if not found:
                found.update(self._measured(arm, seed))
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
        data = Data.invented(self._scale, seed=seed)
        architecture, training = arm.split("_", maxsplit=1)
        start = self.start(architecture)
        models = [
            start if training == "start" else self._trained(arm, half, data, seed, start)
            for half in (0, 1)
        ]
        scorers = [Scorer(start=model, device=CPU) for model in models]
        before = Scorer(start=start, device=CPU)
        documents = [*data.asked[0], *data.asked[1]]
        begun = before.score(documents)
        hidden = [memorization.hidden(asked) for asked in data.asked]
        views = []
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
                    "trained_loss": fmean(score.loss for score in scorer.score(data.train[half])),
                    **self._attacked(features),
                }
            )
        claims_of = [model.claim for model in models if training not in ("start", "nonprivate")]
        guarantees = [claim.guarantees[0] for claim in claims_of if claim is not None]
        bounds = [each.audit_lower_bound for each in guarantees]
        compared = [
            memorization.compared(views[half]["told"][0], views[1 - half]["told"][1])
            for half in (0, 1)
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
        }

    def start(self, architecture: str) -> Start:
        """Returns the public start of an architecture, trained once."""
        if architecture in self._starts:
            return start_from(self._starts[architecture], architecture=architecture)
        out = self._work / f"{architecture}-public"
        if not (out / "checkpoint").exists():
            scale = self._scale
            public = Data.invented(scale, seed=0).public
            texts = [text for item in public for text in _texts(item)]
            begun = start_from(
                dict(scale.size)[architecture], architecture=architecture, vocabulary=lambda: texts
            )
            settings = PlainSettings(
                epochs=scale.public_epochs,
                batch_size=8,
                learning_rate=dict(scale.rate)[architecture],
                seed=0,
            )
            claim = claims.public((), training=described(begun))
            train_plain(
                begun, public, settings, out=out, claim=claim, resume=out.exists(), quiet=True,
                device=CPU,
            )  # fmt: skip
        return start_from(str(out), architecture=architecture)

    def _trained(self, arm: str, half: int, data: Data, seed: int, start: Start) -> Start:
        architecture, training = arm.split("_", maxsplit=1)
        out = self._work / f"{arm}-{seed}-{half}"
        if not (out / "checkpoint").exists():
            scale, resume, documents = self._scale, out.exists(), data.train[half]
            start = replace(start, model=copy.deepcopy(start.model))
            if training == "nonprivate":
                self._fitted(start, documents, architecture, out, seed=seed)
            else:
                kind, epsilon = training.split("_eps")
                unit = "document" if kind == "document" else "provider"
                local = PAPER if kind == "local" else None
                learned = dict(scale.trained)[architecture][1]
                settings = PrivateSettings(trained="all" if local else learned)
                canaries = scale.canaries if unit == "provider" else 0
                records = len(documents) if unit == "document" else scale.providers
                expected = scale.sampling_rate * (records + canaries / 2)
                plan = PrivacyPlan.calibrated(
                    epsilon=float(epsilon),
                    delta=DELTA,
                    privacy_unit=unit,
                    sampling_rate=scale.sampling_rate,
                    steps=scale.steps,
                    expected_records=round(expected),
                    clipping_norm=5.0 if local else 0.1,
                )
                train_private(
                    start, documents, plan, settings, out=out, name="receipts", resume=resume,
                    quiet=True, device=CPU, num_canaries=canaries, local=local,
                )  # fmt: skip
        made = start_from(str(out), architecture=architecture)
        return replace(made, claim=DocVQACheckpoint.load(out).claim)

    def _fitted(
        self, start: Start, documents: Documents, architecture: str, out: Path, *, seed: int
    ) -> None:
        """Trains without privacy, first with dropout and then without, into `out`."""
        first, learned = dict(self._scale.epochs)[architecture], dict(self._scale.trained)
        stages = ((Path(f"{out}-first"), first, 0.1), (out, self._scale.last, 0.0))
        for folder, epochs, dropout in stages:
            if not (folder / "checkpoint").exists():
                set_dropout(start.model, dropout)
                settings = PlainSettings(
                    epochs=epochs,
                    batch_size=8,
                    learning_rate=dict(self._scale.rate)[architecture],
                    seed=seed,
                )
                claim = claims.not_private("receipts", history(start), training=described(start))
                train_plain(
                    start, documents, settings, out=folder, resume=folder.exists(), quiet=True,
                    claim=continued.without_privacy(claim, start.claim), device=CPU,
                    trained=learned[architecture][0],
                )  # fmt: skip
            start = start_from(str(folder), architecture=architecture)

    def _attacked(self, features: Providers) -> dict[str, list[Result]]:
        """Returns the rows of tables 4 and 11, whose forests are partly the same."""
        found = provider_membership.attacked(
            features,
            methods=(*METHODS, *ABLATION),
            seeds=self._scale.seeds,
            draws=self._scale.draws,
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


def _read(numbers: tuple[int, int], count: int, *, seed: int) -> list[LabelledDocument]:
    where = f"invented:{TYPE},questions=keyed,unanswerable=0,providers={numbers[0]}:{numbers[1]}"
    found = dataset.read(dataset.Source(location=where, documents=count, seed=seed))
    return [_asked(item) for item in found]


def _some(numbers: tuple[int, int], each: int, *, seed: int) -> dict[str, Documents]:
    """Returns so many documents of each provider, the shortest of about twice as many."""
    count = 2 * each * (numbers[1] - numbers[0])
    groups = providers.grouped(_read(numbers, count, seed=seed))
    return {
        name: random.Random(seed).sample(
            sorted(items, key=lambda item: item.document.num_words)[:each], min(each, len(items))
        )
        for name, items in groups.items()
    }


def _asked(item: LabelledDocument) -> LabelledDocument:
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
