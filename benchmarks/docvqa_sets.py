"""Pointers trained on documents that their start never saw: real receipts, and invented forms.

The private providers are SROIE's companies on the side of members, by `data.providers.split`, and
those asked about are on the other side, or providers of invented forms, a kind of document that the
start was asked nothing about, and others. `inner` parts the private ones once more, so that
settings can be chosen on documents that are trained on, and never on those that are asked about.

Private pointers are trained as `hushdoc train docvqa` does where nobody says otherwise. How many
records there are is declared, a round number. Four clients with whole providers train the same
layer by DP-Adam. Without privacy all of the pointer learns, or its reader alone.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, cast

from docvqa_arms import CPU, EPSILONS, FrozenPointer, KeptStates, federate, for_clients, scaled
from docvqa_tables import measured

from hushdoc.labels import LabelledDocument
from hushdoc.system import atomic_files
from hushdoc_training.data import dataset, providers
from hushdoc_training.models.pointer import Pointer
from hushdoc_training.privacy import claims
from hushdoc_training.recipes.docvqa.scores import Scorer
from hushdoc_training.recipes.docvqa.start import Start, start_from
from hushdoc_training.recipes.docvqa.training import described, history, train_plain, train_private
from hushdoc_training.recipes.kie.settings import PlainSettings
from hushdoc_training.runs import continued

Documents = Sequence[LabelledDocument]

UNITS = ("provider", "document")
PLAIN = {"nonprivate": "all", "nonprivate_reader": "output"}
FEDERATED = "federated_eps8"
ARMS = (
    "start",
    *PLAIN,
    *(f"{unit}_eps{epsilon:g}" for unit in UNITS for epsilon in EPSILONS),
    FEDERATED,
)

SPLIT, INNER = 1, 2
"""Seeds of the providers' sides, and of those of the inner part; arms have seeds of their own."""

FORMS = "invented:form,questions=keyed,wordings=0:15,providers="
NUM_FORMS, ASKED_FORMS = 400, 150


@dataclass(frozen=True, kw_only=True)
class PrivateSet:
    """Documents to train on, and others of providers that are not among them.

    Attributes:
        name: Of the set.
        train: Documents to train on.
        asked: Documents that are asked about.
        records: How many are declared to be trained on, by privacy unit.
        passes: Over the documents without privacy, by what is trained.
        rates: The peak of the learning rate there.
    """

    name: str
    train: Documents
    asked: Documents
    records: Mapping[str, int]
    passes: Mapping[str, float]
    rates: Mapping[str, float]

    def inner(self) -> PrivateSet:
        """Returns the set of documents to train on alone, apart by provider once more."""
        parts = providers.split(self.train, seed=INNER)
        records = {unit: round(count / 2) for unit, count in self.records.items()}
        return replace(self, train=_members(parts), asked=parts.non_members, records=records)

    def trained_by(self, *, passes: float | None, rate: float | None) -> PrivateSet:
        """Returns the set with other settings of training without privacy, where they are given."""
        return replace(
            self,
            passes={name: passes or own for name, own in self.passes.items()},
            rates={name: rate or own for name, own in self.rates.items()},
        )

    def sizes(self) -> dict[str, Any]:
        """Returns how many there are of what."""
        return {
            "train_documents": len(self.train),
            "train_providers": len(providers.grouped(self.train)),
            "asked_documents": len(self.asked),
            "asked_providers": len(providers.grouped(self.asked)),
            "declared_records": dict(self.records),
        }


def sroie(folder: Path) -> PrivateSet:
    """Returns SROIE's receipts, apart by company."""
    parts = providers.split(dataset.read(dataset.Source(location=str(folder))), seed=SPLIT)
    return PrivateSet(
        name="sroie",
        train=_members(parts),
        asked=parts.non_members,
        records={"provider": 120, "document": 250},
        passes={"all": 4, "output": 20},
        rates={"all": 3e-4, "output": 1e-3},
    )


def forms(count: int = NUM_FORMS, asked: int = ASKED_FORMS) -> PrivateSet:
    """Returns invented forms, about one of each provider to train on."""
    read = [
        dataset.read(dataset.Source(location=f"{FORMS}{numbers}", documents=number, seed=1))
        for numbers, number in ((f"20000:{20000 + count}", count), ("800:1600", asked))
    ]
    return PrivateSet(
        name="forms",
        train=read[0],
        asked=read[1],
        records={"provider": round(0.6 * count), "document": count},
        passes={"all": 2, "output": 10},
        rates={"all": 3e-4, "output": 1e-3},
    )


def _members(parts: providers.ProviderSplit) -> Documents:
    return [*parts.train, *parts.valid, *parts.members]


class Pointers:
    """Trains pointers from a public one on a set, and keeps every result in a folder."""

    def __init__(self, start: str, which: PrivateSet, work: Path) -> None:
        """Keeps what to work with; a later call with the same folder goes on."""
        self._source, self._set, self._work = start, which, work
        self._states = KeptStates()
        work.mkdir(parents=True, exist_ok=True)

    def result(self, arm: str, seed: int) -> dict[str, Any]:
        """Returns what an arm's answers are worth, from the folder if it is there."""
        path = self._work / f"{self._set.name}-{arm}-{seed}.json"
        if not path.exists():
            start, told = self._trained(arm, seed)
            worth = measured(Scorer(start=start, device=CPU), self._set.asked)
            atomic_files.write_file(path, json.dumps({**worth, **told}).encode())
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def kept(self) -> dict[str, list[dict[str, Any]]]:
        """Returns the results that are there of each arm, one for each seed."""
        found = {arm: sorted(self._work.glob(f"{self._set.name}-{arm}-*.json")) for arm in ARMS}
        return {
            arm: [json.loads(path.read_text()) for path in paths]
            for arm, paths in found.items()
            if paths
        }

    def _trained(self, arm: str, seed: int) -> tuple[Start, dict[str, Any]]:
        """Returns the model of an arm, and what was decided about its training."""
        out = self._work / f"{self._set.name}-{arm}-{seed}"
        if arm == "start":
            return self._frozen(self._source), {}
        if arm in PLAIN:
            return self._plain(PLAIN[arm], seed, out)
        unit, epsilon = arm.split("_eps")
        begun = self._frozen(self._source)
        begun = replace(begun, model=copy.deepcopy(begun.model))
        if arm == FEDERATED:
            records = self._set.records["provider"]
            how, rate = for_clients(records, float(epsilon))
            federate(
                begun, self._set.train, out, epsilon=float(epsilon), records=records,
                name=self._set.name, device=CPU, how=how, learning_rate=rate,
                hyperparameter_tuning="unaccounted",
            )  # fmt: skip
            return self._frozen(str(out)), {"rate": rate}
        plan, settings = scaled(unit, float(epsilon), records=self._set.records[unit])
        train_private(
            begun, self._set.train, plan, settings, out=out, name=self._set.name, quiet=True,
            resume=out.exists(), device=CPU, hyperparameter_tuning="unaccounted",
        ).require_finished()  # fmt: skip
        return self._frozen(str(out)), {"rate": settings.learning_rate}

    def _plain(self, trained: str, seed: int, out: Path) -> tuple[Start, dict[str, Any]]:
        """Returns a model trained without privacy."""
        own = self._frozen if trained == "output" else start_from
        begun = own(self._source)
        begun = replace(begun, model=copy.deepcopy(begun.model))
        passes, rate = self._set.passes[trained], self._set.rates[trained]
        settings = PlainSettings(epochs=passes, batch_size=4, learning_rate=rate, seed=seed)
        claim = claims.not_private(self._set.name, history(begun), training=described(begun))
        train_plain(
            begun, self._set.train, settings, out=out, quiet=True, resume=out.exists(), device=CPU,
            claim=continued.without_privacy(claim, begun.claim), trained=trained,
        ).require_finished()  # fmt: skip
        return own(str(out)), {"passes": passes, "rate": rate}

    def _frozen(self, run: str) -> Start:
        """Returns a run's model, whose encoder is the start's and reads a window once."""
        start = start_from(run, architecture="pointer")
        FrozenPointer.of(cast(Pointer, start.model), self._states)
        return start


def figures(
    which: PrivateSet, results: Mapping[str, Sequence[Mapping[str, Any]]], nearest: float | None
) -> dict[str, Any]:
    """Returns the figures that are goals, means over seeds; None for what did not run.

    Without privacy the better of both trainings counts.
    """
    found = {arm: [one["anls"] for one in results.get(arm, ())] for arm in ARMS}
    means = {arm: round(fmean(each), 4) if each else None for arm, each in found.items()}
    plain = [mean for arm in PLAIN if (mean := means[arm]) is not None]
    whole, begun = max(plain, default=None), means["start"]

    def share(arm: str, less: float | None) -> float | None:
        mean = means[arm]
        if mean is None or whole is None or less is None or whole <= less:
            return None
        return round((mean - less) / (whole - less), 4)

    private = [arm for arm in ARMS if arm != "start" and arm not in PLAIN]
    return {
        "set": which.name,
        "anls_nearest_label": nearest,
        "anls_start": begun,
        "anls_pointer_nonprivate": whole,
        **{f"anls_{arm}": means[arm] for arm in ARMS if arm != "start"},
        **{f"retention_{arm}": share(arm, 0.0) for arm in private},
        **{f"gain_kept_{arm}": share(arm, begun) for arm in private},
        "spread": {
            arm: round(stdev(each), 4) if len(each) > 1 else None
            for arm, each in found.items()
            if each
        },
        "seeds": {arm: len(each) for arm, each in found.items() if each},
        "anls_answerable": _means(results, "anls_answerable"),
        "exact": _means(results, "exact"),
        "by_key": {
            arm: {
                key: round(fmean(one["by_key"][key] for one in each), 3)
                for key in each[0]["by_key"]
            }
            for arm, each in results.items()
            if each
        },
        "rates": {
            arm: each[0]["rate"] for arm, each in results.items() if each and "rate" in each[0]
        },
        "passes": {
            arm: each[0]["passes"] for arm, each in results.items() if each and "passes" in each[0]
        },
        **which.sizes(),
    }


def _means(results: Mapping[str, Sequence[Mapping[str, Any]]], what: str) -> dict[str, float]:
    return {
        arm: round(fmean(one[what] for one in each), 4) for arm, each in results.items() if each
    }
