"""Federated training of key information extraction, by four algorithms and for 2 to 16 clients.

    python benchmarks/federated.py --data path/to/funsd --start runs/public --work runs/federated
    python benchmarks/federated.py --data path/to/sroie --start runs/public --work runs/federated
    python benchmarks/federated.py --data path/to/funsd --quick

Documents are dealt out to clients by a public partition; what a client computes and what the server
steps by are the functions that a run over a network calls, here one after the other in one process,
with every client's share of the noise and without masks, which cancel. A fifth of the documents is
held out by the fixed split of the commands and scored once, with the weights of the last round.

    start          nothing is trained
    central        DP-Adam on all documents, as `hushdoc train kie` trains
    feam           FeAm-DP: the same with clients; up to 2 of them may collude, which costs noise
    fedavg_dp      FedAVG-DP: each client trains by DP-Adam on its own documents, and is averaged
    fedavg_same    FedAvg, without privacy, of what all with privacy train
    fedavg         FedAvg, without privacy, of all parameters
    provider       FL-PROVIDER-DP, where documents have providers (SROIE: companies), with one
                   client as central training

All with privacy hold epsilon 8 at delta 1e-5, accounted for as they run: for each document, and of
`provider` for each provider, against whoever gets the model and against the server with the clients
that may collude. Settings are those of the recipe for the declared number of documents, the same
for all private algorithms, and none was tuned for federated training; the output layer reads the
encoder's last layer alone, as that of `hushdoc federated` does. Where the encoder is frozen it
reads each page once for all arms. With --work an interrupted benchmark goes on where it was.
--figure draws F1 by the number of clients, as figure 1 of PrIeD-KIE does; that paper starts from an
encoder with a new output layer, as `--start minilm` does. With --flower-python three parties of six
processes run beside (benchmarks/federated_loopback.py). The last line is JSON, of means over the
seeds, with null for what was not measured:

    f1_start, f1_central, f1_fedavg_k16, f1_fedavg_dp_k16, f1_feam_k2, ...
    epsilon_model_recipient, epsilon_server, epsilon_server_and_2_clients
                              of FeAm-DP with the most clients
    payload_gib_formula       what Privacy-aware DocVQA sends: weights to 2 clients and back, 10
                              times
    seconds_per_round_loopback
                              between real processes, where a Python with Flower is named
    spread                    standard deviations over the seeds
    missed                    goals that were missed, and by how much
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import federated_loopback
import machine
import numpy as np
import own_data
import torch
from own_data import Pages, Place
from transformers.modeling_outputs import BaseModelOutput

from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc_training.data import providers
from hushdoc_training.federated import partition, traffic
from hushdoc_training.federated.adversaries import RECIPIENT, SERVER
from hushdoc_training.federated.flower import courier
from hushdoc_training.federated.plan import FEAM, FEDAVG, FEDAVG_DP, PROVIDER, FederatedPlan
from hushdoc_training.federated.updates import FeAm, LocalTraining, ProviderUpdates
from hushdoc_training.metering import Meter
from hushdoc_training.models import adapters
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.spending import spending_of
from hushdoc_training.privacy.trained_tensors import count, load, trained_tensors, weights_of
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes import federated_kie, federated_updates
from hushdoc_training.recipes.federated_updates import ClientUpdate
from hushdoc_training.recipes.kie import epochs, private, recipe, training
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.recipes.kie.recipe import Recipe
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start

CPU = torch.device("cpu")
EPSILON, DELTA = 8.0, 1e-5
START, CENTRAL = "start", "central"
ALONE = (START, CENTRAL)
"""Arms without clients."""

ALGORITHMS = {
    "feam": FEAM,
    "fedavg_dp": FEDAVG_DP,
    "provider": PROVIDER,
    "fedavg_same": FEDAVG,
    "fedavg": FEDAVG,
}
FIGURE_1 = {"feam": "FeAm-DP", "fedavg_dp": "FedAVG-DP", "fedavg_same": "FedAvg, not private"}
WITHIN = 0.02
"""Goal: how far FeAm-DP with the most clients may lie below central training."""

PROVIDER_NORM = 1.0
"""Clipping norm of a provider's change, which was not tuned."""

DOCVQA = {"numbers": 299_682_048, "clients_per_round": 2, "rounds": 10}
"""Privacy-aware DocVQA, tables 1 and 12."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much work: the full benchmark, or a look that takes a minute.

    Attributes:
        seeds: How often each arm is trained.
        clients: Numbers of clients.
        rounds: Most rounds or steps of an arm.
        averaged: Rounds in which clients are averaged that train on their own.
        documents: Most documents that are trained on; None for all.
        loopback: Rounds between real processes, where these are asked for.
    """

    seeds: int
    clients: tuple[int, ...]
    rounds: int
    averaged: int
    documents: int | None
    loopback: int


FULL = Scale(seeds=3, clients=(2, 4, 8, 16), rounds=1000, averaged=10, documents=None, loopback=11)
QUICK = Scale(seeds=1, clients=(2,), rounds=2, averaged=1, documents=8, loopback=2)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One training.

    Attributes:
        name: Of ALONE, or of ALGORITHMS.
        clients: How many there are.
        seed: Of the partition and of new output layers; noise has none.
    """

    name: str
    clients: int
    seed: int

    @property
    def key(self) -> str:
        """Its key of the JSON line."""
        return f"f1_{self.name}" + (f"_k{self.clients}" if self.name not in ALONE else "")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A corpus, a start for it, and the settings of all arms."""

    pages: Pages
    start: Path
    scale: Scale
    recipe: Recipe
    reader: Reader = field(default_factory=lambda: Reader())

    def score(self, arm: Arm) -> float:
        """Trains an arm, and returns its F1 on the held-out documents."""
        start = self.begun(arm.seed)
        if self.settings(arm).trained == "output":
            self.reader.reads_for(start)
        train = self.pages.train[: self.scale.documents]
        if arm.name == CENTRAL:
            self.train_centrally(start, train)
        elif arm.name != START:
            self.train_federated(start, train, arm)
        return float(training.evaluate(start, self.pages.held_out[: self.scale.documents]).f1)

    def begun(self, seed: int) -> Start:
        """Returns the start with an output layer for the labels of the corpus."""
        labels = LabelSet(fields=tuple(self.pages.labels))
        return kie_start.start_from(str(self.start), labels, new_labels=True, seed=seed)

    @property
    def steps(self) -> int:
        """Steps of private training."""
        return min(self.recipe.steps, self.scale.rounds)

    @property
    def expected(self) -> int:
        """Expected documents of a step, from their declared number."""
        declared = own_data.declared(len(self.pages.train[: self.scale.documents]))
        return max(1, round(declared * self.recipe.sampling_rate))

    def train_centrally(self, start: Start, documents: Sequence[LabelledDocument]) -> None:
        """Trains as `hushdoc train kie` does."""
        settings = self.recipe.private
        plan = PrivacyPlan.calibrated(
            epsilon=EPSILON,
            delta=DELTA,
            sampling_rate=self.recipe.sampling_rate,
            steps=self.steps,
            clipping_norm=self.recipe.clipping_norm,
            expected_records=self.expected,
        )
        with (
            adapters.merging(start.model),
            private.private_training(
                start, documents, plan, settings, charge=lambda step: None, device=CPU
            ) as made,
        ):
            for number in range(1, plan.steps + 1):
                rate = federated_updates.learning_rate(settings, plan.steps, number)
                epochs.set_rate(made.optimizer, rate)
                made.step()
            plan.require_executed(made.receipt)

    def train_federated(
        self, start: Start, documents: Sequence[LabelledDocument], arm: Arm
    ) -> None:
        """Trains with clients, each on its part of the documents, and leaves the last weights."""
        settings, local = self.settings(arm), self.local(arm)
        with adapters.merging(start.model):
            federated_kie.prepared(start, settings, device=CPU)
            tensors = trained_tensors(start.model)
            plan = self.plan(arm, numbers=count(tensors))
            clients = [
                federated_kie.update_of(
                    shared(start), [documents[at] for at in held], plan, settings,
                    device=CPU, local=local,
                )
                for held in self.held(documents, arm)
            ]  # fmt: skip
            server = federated_updates.server_step_of(plan, settings)
            weights, stream = weights_of(tensors), SecretStream()
            for number in range(1, plan.rounds + 1):
                total = np.zeros(plan.numbers, dtype=np.int64)
                for client in clients:
                    row = client.compute(weights, number)
                    total += plan.grid.noised(row, stream, meter_of(client, plan))
                weights = server.apply(weights, total, number)
            for client in clients:
                if isinstance(client, FeAm | ProviderUpdates):
                    plan.require_executed(client.meter.receipt())
            load(tensors, weights)

    def settings(self, arm: Arm) -> PrivateSettings:
        """Returns the settings of all parties, or of central training."""
        if arm.name == "fedavg":
            return PrivateSettings(trained="all", dropout=0.1)
        return self.recipe.private

    def local(self, arm: Arm) -> LocalTraining:
        """Returns how clients train on their own."""
        plain = self.recipe.plain
        if arm.name == "fedavg":
            return LocalTraining(batch_size=plain.batch_size, learning_rate=plain.learning_rate)
        return LocalTraining(
            batch_size=plain.batch_size, learning_rate=self.recipe.private.learning_rate
        )

    def held(self, documents: Sequence[LabelledDocument], arm: Arm) -> partition.Partition:
        """Returns who holds which documents."""
        if arm.name == "provider":
            names = [providers.name_of(labelled) for labelled in documents]
            return partition.by_provider(names, arm.clients, seed=arm.seed)
        return partition.equal(len(documents), arm.clients, seed=arm.seed)

    def plan(self, arm: Arm, *, numbers: int) -> FederatedPlan:
        """Returns the plan of an arm; all clients take part in every round."""
        common: dict[str, Any] = {
            "algorithm": ALGORITHMS[arm.name],
            "clients": arm.clients,
            "clients_per_round": arm.clients,
            "expected_records": self.expected,
            "privacy_unit": "provider" if arm.name == "provider" else "document",
            "clipping_norm": self.recipe.clipping_norm,
            "numbers": numbers,
        }
        if ALGORITHMS[arm.name] == FEDAVG:
            passes = min(round(self.recipe.plain.epochs), self.scale.rounds)
            windows = 100 * len(self.pages.train)  # more than there are
            averaged = {"expected_records": windows, "numbers": numbers + 1, "clipping_norm": 1.0}
            return FederatedPlan(
                **common | averaged, rounds=passes, sampling_rate=1.0,
                noise_multiplier=0.0, epsilon=None, delta=None,
            )  # fmt: skip
        common |= {
            "sampling_rate": self.recipe.sampling_rate,
            "rounds": self.steps,
            "colluding": colluding(arm.clients),
        }
        if arm.name == "fedavg_dp":
            rounds = min(self.scale.averaged, self.steps)
            common |= {"rounds": rounds, "local_steps": self.steps // rounds, "colluding": 0}
        if arm.name == "provider":
            declared = own_data.declared(len(providers.grouped(self.pages.train)))
            common["expected_records"] = max(1, round(declared * self.recipe.sampling_rate))
            common["clipping_norm"] = PROVIDER_NORM
        return FederatedPlan.calibrated(epsilon=EPSILON, delta=DELTA, **common)


class Reader:
    """What a frozen encoder makes of each batch, computed once for all arms of one start."""

    def __init__(self) -> None:
        """Begins with no batch."""
        self._read: dict[bytes, torch.Tensor] = {}

    def reads_for(self, start: Start) -> None:
        """Lets a start's encoder look batches up, also in copies of it."""
        encoder: Any = start.model.inner.base_model
        compute = encoder.forward

        def forward(**inputs: torch.Tensor | None) -> Any:
            if torch.is_grad_enabled():
                return compute(**inputs)
            key = _digest(inputs.values())
            if key not in self._read:
                self._read[key] = compute(**inputs)[0]
            return BaseModelOutput(last_hidden_state=self._read[key])

        encoder.forward = forward


def _digest(inputs: Iterable[torch.Tensor | None]) -> bytes:
    """Returns what tells batches apart, and how they are computed on."""
    how = torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled()
    digest = hashlib.sha256(repr(how).encode())
    for value in inputs:
        if isinstance(value, torch.Tensor):
            digest.update(repr(value.shape).encode() + value.numpy().tobytes())
    return digest.digest()


def main() -> int:
    """Trains every arm, prints the table and the JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpus")
    parser.add_argument("--start", type=Path, help="run folder of a public start, or minilm")
    parser.add_argument("--work", type=Path, help="keep scores here, and go on from them")
    parser.add_argument("--seeds", type=int, help="of each arm (default: 3)")
    parser.add_argument("--clients", type=int, nargs="+", help="default: 2 4 8 16")
    parser.add_argument("--arms", nargs="+", choices=(*ALONE, *ALGORITHMS), help="default: all")
    parser.add_argument("--flower-python", type=Path, metavar="FILE", help="a Python with Flower")
    parser.add_argument("--figure", type=Path, help="draw F1 by the number of clients")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    told = {"seeds": options.seeds, "clients": options.clients and tuple(options.clients)}
    scale = replace(scale, **{name: value for name, value in told.items() if value})
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.work or Path(scratch)) / options.data.name
        result, each = measured(options, scale, folder)
        result["seconds_per_round_loopback"] = loopback(options, scale, folder.parent)
    if options.figure:
        draw(each, options.figure, title=options.data.name)
    result |= {
        "seeds": scale.seeds,
        "quick": options.quick,
        "start": None if options.start is None else options.start.name,
        **machine.stamp(began, "torch"),
    }
    print(json.dumps(result))
    return 0


def measured(
    options: argparse.Namespace, scale: Scale, folder: Path
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Returns the figures of a corpus, and all scores by their keys."""
    words = own_data.QUICK if options.quick else own_data.FULL
    place = Place(data=options.data, folder=folder, scale=words)
    pages = Pages.read(place)
    start = options.start or own_data.invented_start(place)[0]
    if (start / "start").is_dir():
        start = start / "start"
    declared = own_data.declared(len(pages.train))
    sized = recipe.of_size(declared)
    sized = replace(sized, private=replace(sized.private, read_layers=1))
    bench = Bench(pages=pages, start=start, scale=scale, recipe=sized)
    each: dict[str, list[float]] = {}
    for arm in arms_of(bench, options.arms):
        each.setdefault(arm.key, []).append(kept(bench, arm, folder))
    most = Arm(name="feam", clients=max(scale.clients), seed=0)
    result: dict[str, Any] = {
        "corpus": options.data.name,
        **{arm.key: None for arm in arms_of(bench, None)},
        **{key: round(statistics.fmean(found), 4) for key, found in each.items()},
        **epsilons(bench.plan(most, numbers=1)),
        "payload_gib_formula": round(traffic.model_bytes(**DOCVQA) / 2**30, 2),
        "spread": {
            key: round(statistics.stdev(found), 4) if len(found) > 1 else None
            for key, found in each.items()
        },
        "num_train": len(pages.train),
        "num_held_out": len(pages.held_out),
        "recipe": bench.recipe.name,
    }
    return result | {"missed": missed(result, most.key)}, each


def arms_of(bench: Bench, asked: Sequence[str] | None) -> list[Arm]:
    """Returns what is trained, the arms of one seed after the other."""
    named = all(providers.folded(item.provider or "") for item in bench.pages.train)
    found = []
    for seed in range(bench.scale.seeds):
        for name in asked or (*ALONE, *ALGORITHMS):
            if name in ALONE:
                found.append(Arm(name=name, clients=1, seed=seed))
            elif name != "provider":
                found += [Arm(name=name, clients=k, seed=seed) for k in bench.scale.clients]
            elif named:
                found += [Arm(name=name, clients=k, seed=seed) for k in (1, *bench.scale.clients)]
    return found


def kept(bench: Bench, arm: Arm, folder: Path) -> float:
    """Returns an arm's F1, from an earlier call where it is there."""
    noted = folder / f"{arm.key}-{arm.seed}.json"
    if not noted.is_file():
        began = time.process_time()
        content = {
            "f1": bench.score(arm),
            "seconds": round(time.process_time() - began),
            "start": bench.start.name,
            "recipe": bench.recipe.name,
        }
        folder.mkdir(parents=True, exist_ok=True)
        noted.write_text(json.dumps(content), "utf-8")
    content = json.loads(noted.read_text("utf-8"))
    for name, now in (("start", bench.start.name), ("recipe", bench.recipe.name)):
        if content[name] != now:
            sys.exit(f"{noted} has the {name} '{content[name]}', not '{now}'. Take another --work.")
    print(f"{arm.key}, seed {arm.seed}: {content['f1']:.4f}, {content['seconds']} s", flush=True)
    return float(content["f1"])


def loopback(options: argparse.Namespace, scale: Scale, work: Path) -> float | None:
    """Returns the seconds of a round between real processes, of an earlier call where noted."""
    noted = work / "loopback.json"
    if noted.is_file():
        content = json.loads(noted.read_text("utf-8"))
    elif options.flower_python is None:
        return None
    else:
        content = federated_loopback.measured(
            courier.flower_python(options.flower_python),
            rounds=scale.loopback,
            start="minilm",
            trained="output",
        )
        work.mkdir(parents=True, exist_ok=True)
        noted.write_text(json.dumps(content), "utf-8")
    return float(content["seconds_per_round_loopback"])


def shared(start: Start) -> Start:
    """Returns a party's own start, whose frozen parameters are those of all others."""
    frozen = {id(value): value for value in start.model.parameters() if not value.requires_grad}
    return replace(start, model=copy.deepcopy(start.model, frozen))


def colluding(clients: int) -> int:
    """Returns how many of the clients may collude: a fellow client always counts as one."""
    return min(clients - 1, max(1, min(2, clients // 4)))


def meter_of(client: ClientUpdate[Any], plan: FederatedPlan) -> Meter:
    """Returns what notes a client's noise; of one whose sums get none, what nobody asks."""
    if not isinstance(client, FeAm | ProviderUpdates):
        return Meter(planned_steps=plan.cap, privacy_unit=plan.privacy_unit)
    client.meter.divided(plan.expected_records)
    return client.meter


def epsilons(plan: FederatedPlan) -> dict[str, float]:
    """Returns what each adversary learns at most of a document."""

    def against(whom: str, listening: int | None = None) -> float:
        event = plan.exposure.event(whom, listening=listening)
        return round(spending_of(event, plan.accountant, "add-remove").epsilon(DELTA), 4)

    return {
        "epsilon_model_recipient": against(RECIPIENT),
        "epsilon_server": against(SERVER, 0),
        "epsilon_server_and_2_clients": against(SERVER, 2),
    }


def missed(result: dict[str, Any], key: str) -> dict[str, float]:
    """Returns by how much FeAm-DP with the most clients misses its goal."""
    reached, central = result.get(key), result.get(f"f1_{CENTRAL}")
    if reached is None or central is None:
        return {}
    below = central - WITHIN - reached
    return {key: round(below, 4)} if below > 0 else {}


def draw(each: dict[str, list[float]], path: Path, *, title: str) -> None:
    """Draws figure 1: F1 by the number of clients."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    shown, axes = pyplot.subplots(figsize=(5, 3.2))
    for name, label in FIGURE_1.items():
        found = {
            int(key.rpartition("_k")[2]): scores
            for key, scores in each.items()
            if key.rpartition("_k")[0] == f"f1_{name}"
        }
        clients = sorted(found)
        means = [statistics.fmean(found[k]) for k in clients]
        spread = [statistics.stdev(found[k]) if len(found[k]) > 1 else 0.0 for k in clients]
        axes.errorbar(clients, means, yerr=spread, marker="o", capsize=2, label=label)
    if central := each.get(f"f1_{CENTRAL}"):
        axes.axhline(
            statistics.fmean(central), color="grey", linestyle="--", label="central DP-Adam"
        )
    axes.set(xlabel="clients", ylabel="F1", title=f"{title}, epsilon {EPSILON:g} for each document")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
    shown.tight_layout()
    shown.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
