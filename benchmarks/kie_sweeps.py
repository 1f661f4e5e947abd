"""Figures 2 to 6 and 9 to 13 of PrIeD-KIE, drawn again at small scale to compare their shapes.

    python benchmarks/kie_sweeps.py --work runs/sweeps --plots docs
    python benchmarks/kie_sweeps.py --quick
    python benchmarks/kie_sweeps.py --data path/to/sroie --start runs/public --work runs/sweeps

A tiny layout model learns invented invoices and receipts first; with --work it is made once. Then
it is trained privately on others, of other providers: the paper's unit (windows of tokens), its
delta (one over their number) and its clipping norm, a fresh output layer unless told otherwise,
and each setting of a figure in turn, by the engine and the recipe's own code. Each model is scored
on documents of providers that are in neither part. --data takes a corpus instead, --start a start
of one's own. There is a PNG for each figure. With --work an interrupted benchmark goes on where it
was, a larger --runs adds to what is there, and once the start is there, calls with other figures in
--only may run side by side.

What differs from the paper: the model has under a million parameters, there are 150 windows or
less, and figure 2 has a line for each budget, since so much noise is drawn as it asks for. The
last line is JSON: by figure the points, and what the paper reads from it, each statement with
whether our points say so, null where they are not there.
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
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import machine
import own_data
import torch
from torch import nn

from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc.runtime.encoding import Preprocessing
from hushdoc.system import atomic_files
from hushdoc_training import invented
from hushdoc_training.data import dataset
from hushdoc_training.models import adapters, layout, whitening
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes import starts
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.recipes.kie import training
from hushdoc_training.recipes.kie.private import private_training
from hushdoc_training.recipes.kie.records import known_labels, records_of
from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings
from hushdoc_training.recipes.kie.start import Start


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much work."""

    public: int  # documents
    public_epochs: float
    private: int
    scored: int
    epochs: int  # of private training
    hidden: int
    few: bool = False  # points: two of each line, of the first lines alone


FULL = Scale(public=2000, public_epochs=4, private=80, scored=60, epochs=4, hidden=64)
QUICK = Scale(public=16, public_epochs=1, private=6, scored=2, epochs=1, hidden=32, few=True)

TOKENS = 128, 512
PROVIDERS = {"public": (0, 4000), "private": (4000, 6000), "scored": (6000, 8000)}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A private training; the defaults are what every figure starts from."""

    epsilon: float = 20
    batches: int = 3  # of an epoch: one over the sampling rate
    learning_rate: float = 4e-3
    clipping_norm: float = 0.1
    tokens: int = TOKENS[0]  # of a window
    dropout: float = 0.0
    pretrained: bool = False  # whether the output layer knows the labels from the start
    trained: str = "all"
    optimizer: str = "adam"


Scores = Mapping[str, Mapping[Any, float]]
"""Mean F1 of a figure's points: by line, then by what is on the x axis."""

Statement = Callable[[Mapping[str, Scores]], bool]
"""Whether the scores of all figures, by name, say what the paper reads from one."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure: what its lines and its x axis change of a setting."""

    of: str
    axis: str
    x: str
    values: tuple[Any, ...]
    lines: Mapping[str, Mapping[str, Any]]
    statements: Mapping[str, Statement] = field(default_factory=dict)

    def settings(self, *, few: bool) -> dict[tuple[str, Any], Setting]:
        """Returns the setting of each point, by line and value."""
        values = self.values[:: len(self.values) - 1] if few else self.values
        lines = list(self.lines.items())[: 2 if few else None]
        return {
            (line, value): replace(Setting(), **{**changes, self.x: value})
            for line, changes in lines
            for value in values
        }


def best(line: Mapping[Any, float]) -> float:
    """Returns the largest F1 of a line."""
    return max(line.values())


def mean(line: Mapping[Any, float]) -> float:
    """Returns the mean F1 of a line."""
    return statistics.fmean(line.values())


def lost_to_small_batches(line: Mapping[Any, float]) -> float:
    """Returns by how much the smallest batches do worse than the best of a line."""
    return best(line) - line[max(line)]


ADAM = {f"epsilon {epsilon}": {"epsilon": epsilon} for epsilon in (3, 8, 20)}
RATES = (2.5e-4, 1e-3, 4e-3, 1.6e-2)
SGD_RATES = (2, 10, 50)
COMPARABLE = 0.05
"""Difference in F1 up to which two trainings count as alike."""

FIGURES = {
    "batch-size": Figure(
        of="figures 2 and 9",
        axis="batches in an epoch (more are smaller)",
        x="batches",
        values=(3, 8, 24),
        lines=ADAM,
        statements={
            "the largest batches do better than the smallest at every epsilon": lambda f: all(
                line[min(line)] > line[max(line)] for line in f["batch-size"].values()
            ),
            "F1 rises with epsilon": lambda f: (
                mean(f["batch-size"]["epsilon 3"])
                < mean(f["batch-size"]["epsilon 8"])
                < mean(f["batch-size"]["epsilon 20"])
            ),
        },
    ),
    "learning-rate": Figure(
        of="figures 3 and 11",
        axis="learning rate",
        x="learning_rate",
        values=RATES,
        lines={
            "128 tokens, 3 batches": {},
            "128 tokens, 12 batches": {"batches": 12},
            "512 tokens, 3 batches": {"tokens": 512},
        },
        statements={
            "a higher rate than the lowest does best on every line": lambda f: all(
                best(line) > line[min(line)] for line in f["learning-rate"].values()
            ),
            "the highest rate does worse than the best on every line": lambda f: all(
                best(line) > line[max(line)] for line in f["learning-rate"].values()
            ),
            "larger batches do better at the best rate": lambda f: (
                best(f["learning-rate"]["128 tokens, 3 batches"])
                > best(f["learning-rate"]["128 tokens, 12 batches"])
            ),
        },
    ),
    "clipping-norm": Figure(
        of="figure 4",
        axis="clipping norm",
        x="clipping_norm",
        values=(0.01, 0.1, 1.0, 10.0),
        lines={f"learning rate {rate:g}": {"learning_rate": rate} for rate in (1e-3, 4e-3)},
        statements={
            "norms up to .1 do better than larger ones at every rate": lambda f: all(
                min(line[0.01], line[0.1]) > max(line[1.0], line[10.0])
                for line in f["clipping-norm"].values()
            ),
            "the largest norm does worst at every rate": lambda f: all(
                line[max(line)] == min(line.values()) for line in f["clipping-norm"].values()
            ),
        },
    ),
    "windows": Figure(
        of="figures 5 and 10",
        axis="epsilon",
        x="epsilon",
        values=(8, 20),
        lines={
            f"{tokens} tokens, {'pretrained' if pretrained else 'fresh'}"
            f"{', dropout .1' if dropout else ''}": {
                "tokens": tokens,
                "pretrained": pretrained,
                "dropout": dropout,
            }
            for pretrained in (False, True)
            for tokens, dropout in ((128, 0.0), (512, 0.0), (128, 0.1))
        },
        statements={
            "windows of 128 tokens do better than of 512, pretrained or not": lambda f: all(
                mean(f["windows"][f"128 tokens, {stage}"])
                > mean(f["windows"][f"512 tokens, {stage}"])
                for stage in ("fresh", "pretrained")
            ),
            "a first stage on the same labels helps": lambda f: all(
                mean(f["windows"][f"{tokens} tokens, pretrained"])
                > mean(f["windows"][f"{tokens} tokens, fresh"])
                for tokens in TOKENS
            ),
            "dropout harms at one stage and helps at the other": lambda f: (
                len(
                    {
                        mean(f["windows"][f"128 tokens, {stage}, dropout .1"])
                        > mean(f["windows"][f"128 tokens, {stage}"])
                        for stage in ("fresh", "pretrained")
                    }
                )
                == 2
            ),
        },
    ),
    "trained": Figure(
        of="figures 6 and 12",
        axis="what is trained",
        x="trained",
        values=("all", "top:2", "top:1", "lora:4", "output"),
        lines={f"epsilon {epsilon}": {"epsilon": epsilon} for epsilon in (8, 20)},
        statements={
            "all parameters do best of all, the top layers and LoRA": lambda f: all(
                line["all"] >= max(line["top:2"], line["top:1"], line["lora:4"])
                for line in f["trained"].values()
            ),
            "two thirds of the layers are like all of them": lambda f: all(
                abs(line["all"] - line["top:2"]) <= COMPARABLE for line in f["trained"].values()
            ),
            "LoRA does worse than all parameters": lambda f: all(
                line["lora:4"] < line["all"] for line in f["trained"].values()
            ),
        },
    ),
    "sgd": Figure(
        of="figure 13",
        axis="batches in an epoch (more are smaller)",
        x="batches",
        values=(3, 24),
        lines={
            f"epsilon {epsilon}, learning rate {rate:g}": {
                "epsilon": epsilon,
                "learning_rate": rate,
                "optimizer": "sgd",
            }
            for epsilon in (8, 20)
            for rate in SGD_RATES
        },
        statements={
            "DP-SGD at its best is like DP-Adam": lambda f: all(
                best_of_sgd(f["sgd"], epsilon)
                >= best(f["batch-size"][f"epsilon {epsilon}"]) - COMPARABLE
                for epsilon in (8, 20)
            ),
            "DP-SGD loses less to the smallest batches, with a rate for them": lambda f: all(
                best_of_sgd(f["sgd"], epsilon)
                - max(line[24] for name, line in f["sgd"].items() if of_epsilon(name, epsilon))
                < lost_to_small_batches(f["batch-size"][f"epsilon {epsilon}"])
                for epsilon in (8, 20)
            ),
        },
    ),
}


def of_epsilon(line: str, epsilon: int) -> bool:
    """Returns whether a line of figure 13 is of an epsilon."""
    return line.startswith(f"epsilon {epsilon},")


def best_of_sgd(scores: Scores, epsilon: int) -> float:
    """Returns the largest F1 of DP-SGD at an epsilon, at any rate."""
    return max(best(line) for name, line in scores.items() if of_epsilon(name, epsilon))


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """What is trained, and on what."""

    start: Start
    private: list[LabelledDocument]
    scored: list[LabelledDocument]
    epochs: int

    def began(self, setting: Setting) -> Start:
        """Returns a start of its own for a training."""
        model = copy.deepcopy(self.start.model)
        if not setting.pretrained:
            _, _, layer = whitening.output_layer(model.inner)
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
        windows = replace(
            self.start.preprocessing, max_tokens=setting.tokens, overlap=setting.tokens // 4
        )
        return replace(self.start, model=model, preprocessing=windows)

    def plan(self, setting: Setting) -> PrivacyPlan:
        """Returns the plan of a training: windows of tokens, delta one over about their number."""
        start = self.began(setting)
        windows = records_of(self.private, start.encoder, start.labels, unit="sequence")
        declared = own_data.declared(len(windows))
        return PrivacyPlan.calibrated(
            epsilon=setting.epsilon,
            delta=1 / declared,
            privacy_unit="sequence",
            sampling_rate=1 / setting.batches,
            steps=self.epochs * setting.batches,
            clipping_norm=setting.clipping_norm,
            expected_records=max(1, round(declared / setting.batches)),
        )

    def f1(self, setting: Setting) -> float:
        """Trains privately, and returns F1 on documents that nothing was learned from."""
        start, device = self.began(setting), torch.device("cpu")
        settings = PrivateSettings(
            learning_rate=setting.learning_rate,
            decay=False,
            optimizer=setting.optimizer,
            trained=setting.trained,
            dropout=setting.dropout,
        )
        plan = self.plan(setting)
        with (
            adapters.merging(start.model),
            private_training(
                start, self.private, plan, settings, charge=lambda _: None, device=device
            ) as private,
        ):
            for _ in private:
                pass
        return training.evaluate(start, self.scored, device=device).f1


def main() -> int:
    """Trains every point, draws every figure and prints the JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--start", type=Path, help="a public checkpoint (default: made here)")
    parser.add_argument("--data", help="documents to train on and to score (default: invented)")
    parser.add_argument("--work", type=Path, help="keep start and scores here, and go on")
    parser.add_argument("--plots", type=Path, default=Path("kie-sweeps"), help="folder of PNGs")
    parser.add_argument("--only", nargs="+", choices=FIGURES, help="these figures alone")
    parser.add_argument("--documents", type=int, help=f"to train on (default: {FULL.private})")
    parser.add_argument("--epochs", type=int, help=f"of each training (default: {FULL.epochs})")
    parser.add_argument("--runs", type=int, default=1, help="of each training (default: 1)")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    options = parser.parse_args()
    began, scale = time.monotonic(), QUICK if options.quick else FULL
    scale = replace(
        scale,
        private=options.documents or scale.private,
        epochs=options.epochs or scale.epochs,
    )
    wanted = {name: FIGURES[name] for name in options.only or FIGURES}
    points = {name: figure.settings(few=scale.few) for name, figure in wanted.items()}
    with tempfile.TemporaryDirectory() as scratch:
        work: Path = options.work or Path(scratch)
        corpus = corpus_of(options, work, scale)
        what = json.dumps([asdict(scale), options.data, str(options.start)])
        kept = Kept(folder=work / "scores", of=what)
        for run in range(options.runs):
            for name in wanted:
                for (line, value), setting in points[name].items():
                    if len(kept.scores(setting)) <= run:
                        f1 = corpus.f1(setting)
                        kept.add(setting, f1)
                        print(f"{name}: {line}, {wanted[name].x} {value}: {f1:.3f}", flush=True)
        scores = {name: kept.means(found) for name, found in points.items()}
        told = {
            name: [
                {"line": line, "x": value, **kept.told(setting, corpus.plan(setting))}
                for (line, value), setting in found.items()
            ]
            for name, found in points.items()
        }
    for name, figure in wanted.items():
        draw(figure, scores[name], options.plots / f"sweep-{name}.png")
    result = {
        "figures": {
            name: {
                "of": figure.of,
                "x": figure.x,
                "points": told[name],
                "agrees": {
                    what: None if scale.few else said(holds, scores)
                    for what, holds in figure.statements.items()
                },
            }
            for name, figure in wanted.items()
        },
        "f1_start": round(training.evaluate(corpus.start, corpus.scored).f1, 4),
        "num_parameters": sum(value.numel() for value in corpus.start.model.parameters()),
        "num_private": len(corpus.private),
        "num_scored": len(corpus.scored),
        "epochs": scale.epochs,
        "quick": options.quick,
        "threads": torch.get_num_threads(),
        **machine.stamp(began, "torch"),
    }
    print(json.dumps(result))
    return 0


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Scores in files, which a benchmark that is called again, or runs beside, finds there."""

    folder: Path
    of: str  # what is trained on what

    def scores(self, setting: Setting) -> list[float]:
        """Returns the F1 of each run of a setting."""
        path = self._path(setting)
        found: list[float] = json.loads(path.read_text("utf-8"))["f1"] if path.is_file() else []
        return found

    def add(self, setting: Setting, f1: float) -> None:
        """Keeps one more score of a setting."""
        content = {"of": self.of, **asdict(setting), "f1": [*self.scores(setting), f1]}
        self.folder.mkdir(parents=True, exist_ok=True)
        atomic_files.write_file(self._path(setting), json.dumps(content).encode())

    def means(self, points: Mapping[tuple[str, Any], Setting]) -> dict[str, dict[Any, float]]:
        """Returns the mean F1 of points, by line and value."""
        found: dict[str, dict[Any, float]] = {}
        for (line, value), setting in points.items():
            found.setdefault(line, {})[value] = statistics.fmean(self.scores(setting))
        return found

    def told(self, setting: Setting, plan: PrivacyPlan) -> dict[str, Any]:
        """Returns what is told of a point."""
        scores = self.scores(setting)
        return {
            "f1": round(statistics.fmean(scores), 4),
            "spread": round(statistics.stdev(scores), 4) if len(scores) > 1 else None,
            "runs": len(scores),
            "noise_multiplier": round(plan.noise_multiplier, 4),
        }

    def _path(self, setting: Setting) -> Path:
        named = json.dumps([self.of, asdict(setting)]).encode()
        return self.folder / f"{hashlib.sha256(named).hexdigest()[:16]}.json"


def said(holds: Statement, scores: Mapping[str, Scores]) -> bool | None:
    """Returns whether the scores say so; None where another figure's are missing."""
    try:
        return holds(scores)
    except KeyError:
        return None


def corpus_of(options: argparse.Namespace, work: Path, scale: Scale) -> Corpus:
    """Reads or invents documents, and makes the start unless one is given."""
    if options.data is None:
        private, scored = (
            invoices_and_receipts(getattr(scale, part), part) for part in ("private", "scored")
        )
    else:
        documents = sorted(
            dataset.read(dataset.Source(location=options.data)),
            key=lambda item: hashlib.sha256(item.document.id.encode()).hexdigest(),
        )
        scored = documents[: scale.scored]
        private = documents[scale.scored :][: scale.private]
    folder = options.start or public_start(work / ("start-quick" if scale.few else "start"), scale)
    labels = LabelSet.from_documents(private + scored)
    start = kie_start.start_from(str(folder), labels, new_labels=True)
    return Corpus(
        start=start,
        private=known_labels(private, start.labels, warned=True),
        scored=scored,
        epochs=scale.epochs,
    )


def invoices_and_receipts(count: int, part: str) -> list[LabelledDocument]:
    """Returns invented documents of a part's providers."""
    config = invented.InventedConfig(
        document_types=("invoice", "receipt"), providers=PROVIDERS[part], labels="fields"
    )
    seed = list(PROVIDERS).index(part)
    return list(invented.documents(seed=seed, count=count, config=config))


def public_start(folder: Path, scale: Scale) -> Path:
    """Trains a tiny layout model on public invented documents, unless it is there."""
    if (folder / "checkpoint").is_dir():
        return folder
    pages = invoices_and_receipts(scale.public, "public")
    labels = LabelSet.from_documents(pages)
    known = folder / starts.TOKENIZER  # of an interrupted training; learned anew it is another
    torch.manual_seed(0)
    model, tokenizer_json, special = layout.small(
        labels,
        known.read_text("utf-8")
        if known.is_file()
        else layout.wordpiece(word.text for item in pages for word in item.document.pages[0].words),
        size={
            "hidden_size": scale.hidden,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "intermediate_size": 3 * scale.hidden,
            "max_position_embeddings": max(TOKENS),
        },
    )
    start = Start(
        model=model,
        tokenizer_json=tokenizer_json,
        preprocessing=Preprocessing(
            max_tokens=TOKENS[1],  # so that it has learned every position
            overlap=TOKENS[1] // 4,
            box_level="segment",
            word_order="given",
            cls_id=special.cls_id,
            sep_id=special.sep_id,
            pad_id=special.pad_id,
        ),
        labels=labels,
        claim=None,
        name="tiny layout model",
    )
    settings = PlainSettings(
        epochs=scale.public_epochs,
        batch_size=8,
        learning_rate=4e-3,
        segment_shuffling=0.3,
        token_noise=0.2,
        label_smoothing=0.1,
    )
    claim = claims.public((), training={})
    training.train_plain(
        start, pages, settings, out=folder, claim=claim, resume=folder.exists(), quiet=True
    ).require_finished()
    return folder


def draw(figure: Figure, scores: Scores, path: Path) -> None:
    """Draws a figure into a PNG."""
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(7, 4.5), layout="constrained")
    axes = drawing.add_subplot()
    for name, line in scores.items():
        style = "--" if "dropout" in name else "-"
        shown = [str(value) if figure.x == "trained" else value for value in line]
        axes.plot(shown, list(line.values()), style, marker="o", label=name)
    axes.set(xlabel=figure.axis, ylabel="entity-level F1", title=f"PrIeD-KIE, {figure.of}: shape")
    if figure.x in ("learning_rate", "clipping_norm"):
        axes.set_xscale("log")
    elif figure.x != "trained":
        axes.set_xticks(list(figure.values))
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=100)


if __name__ == "__main__":
    sys.exit(main())
