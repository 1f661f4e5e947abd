"""What synthetic pages are worth: distance to real ones, and use. The method `evolution`.

    python benchmarks/synthesis.py evolution --data path/to/sroie
    python benchmarks/synthesis.py evolution --data path/to/fcc_adbuy --labels fields
    python benchmarks/synthesis.py evolution --data path/to/sroie --quick
    python benchmarks/synthesis.py diffusion --data path/to/docmix  # see diffusion_arms

The last third of the documents by the digests of their names is for tests, the others are private.
Arms, each with `--seeds` seeds:

    generator    invented documents as they come        type_known   receipts alone
    eps1, eps8   evolution at epsilon 1 and 8, delta 1e-5: one noisy sum of moments, or of factors
                 and pages one round at epsilon 1 and two at 8
    noiseless    the same as at 8 with an epsilon of 10,000

`energy_*` is the energy distance (Szekely and Rizzo 2013) between the points of an arm's documents
and those of the test documents, by the embedding that votes too. `f1_*` is the macro F1 by token
on the test documents of a linear tagger of hashed features, trained on an arm's documents;
`f1_real` is trained on the private documents without privacy and `f1_dp_direct_*` on them by
DP-SGD, where the generator has the corpus' labels; of ad buys three of five are scored, which
are like fields of an invoice. The last line is JSON: means over the seeds, with the standard
deviation between them under `spread`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import diffusion_arms
import machine
import mmh3
import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from hushdoc.labels import LabelledDocument
from hushdoc_export.synthetic import contact_sheet
from hushdoc_training import synthetic_checkpoint
from hushdoc_training.data import dataset
from hushdoc_training.invented import released
from hushdoc_training.invented.specification import Specification
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.recipes.synthesis import evolution
from hushdoc_training.recipes.synthesis.settings import EvolutionSettings
from hushdoc_training.recipes.synthesis.simulators import Generator
from hushdoc_training.synthesis import embedding

Floats = npt.NDArray[np.float64]

FEATURES, TOKENS, TEST_SHARE = 8192, 384, 1 / 3
EPOCHS, DP_STEPS, EXPECTED = 12, 60, 400
SHEET = 24
"""Pages on a contact sheet."""
RECEIPTS = ("receipt", "till-receipt")
ALIKE = {
    "customer_name": "advertiser",
    "document_number": "contract_num",
    "total": "gross_amount",
}
"""Fields of the generator that the FCC's ad buys have by other names, of the label set `fields`."""
WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
ARMS = {"eps1": (1.0, 1), "eps8": (8.0, 2), "noiseless": (1e4, 2)}
"""Epsilon of each arm of evolution, and rounds where a further one measures something new."""


class Tagger(nn.Module):
    """A label for each token, from the sum of what its hashed features say."""

    def __init__(self, labels: int) -> None:
        """Begins with weights of 0."""
        super().__init__()
        self.weights = nn.Embedding(FEATURES, labels)
        nn.init.zeros_(self.weights.weight)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns scores [N, tokens, labels] of features [N, tokens, 14]."""
        return self.weights(ids).sum(2)


def main() -> int:
    """Runs all arms and prints the JSON line."""
    top = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    methods = top.add_subparsers(dest="method", required=True)
    parser = methods.add_parser("evolution", help="the generator, steered by private votes")
    parser.add_argument("--data", required=True, help="documents of which most are private")
    parser.add_argument("--labels", default="sroie", help="label set (default: sroie)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--pages", type=int, default=600, help="pages of an arm and of a pool")
    parser.add_argument("--vote", default="moments", help="pages, factors or moments")
    parser.add_argument("--features", default="words", help="of votes, as the command has them")
    parser.add_argument("--sheets", type=Path, help="folder for a contact sheet of each arm")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    parser.add_argument("--processes", type=int, default=2, help="seeds at the same time")
    diffusion_arms.add_options(methods.add_parser("diffusion", help="pages of a private model"))
    options = top.parse_args()
    if options.method == "diffusion":
        return diffusion_arms.run(options)
    began = time.monotonic()
    if options.quick:
        options.seeds, options.pages, options.processes = 1, 40, 1
    private, test = divided(dataset.read(dataset.Source(location=options.data)))
    seeds = range(options.seeds)
    found: dict[str, list[float]] = {"energy_real": [energy(embedded(private), embedded(test))]}
    with ProcessPoolExecutor(options.processes, mp_context=get_context("fork")) as several:
        each = several.map if options.processes > 1 else map
        for arms in each(partial(figures, options, private, test), seeds):
            for name, value in arms.items():
                found.setdefault(name, []).append(value)
            print(json.dumps({name: round(value, 4) for name, value in arms.items()}), flush=True)
    used_time = [sum(resource.getrusage(who)[:2]) for who in WHO]
    line = {
        **{name: round(float(np.mean(values)), 4) for name, values in found.items()},
        "spread": {name: round(float(np.std(values)), 4) for name, values in found.items()},
        "minutes": round((time.monotonic() - began) / 60, 1),
        "cpu_minutes": round(sum(used_time) / 60, 1),
        "processes": options.processes,
        "seeds": options.seeds,
        "pages": options.pages,
        "vote": options.vote,
        "features": options.features,
        "labels": scored_labels(test),
        "data": Path(options.data).name,
        "quick": options.quick,
        **machine.stamp(began, "torch"),
    }
    print(json.dumps(line))
    return 0


def figures(
    options: argparse.Namespace,
    private: Sequence[LabelledDocument],
    test: Sequence[LabelledDocument],
    seed: int,
) -> dict[str, float]:
    """Returns the figures of all arms of one seed."""
    torch.set_num_threads(1)
    points, labels = embedded(test), scored_labels(test)
    found: dict[str, float] = {}

    def scored(name: str, made: Sequence[Specification]) -> None:
        if options.sheets is not None and seed == 0:
            options.sheets.mkdir(parents=True, exist_ok=True)
            images = [released.image_of(one) for one in made[:SHEET]]
            (options.sheets / f"{name}.png").write_bytes(contact_sheet(images))
        documents = [named_alike(released.document_of(one, options.labels), labels) for one in made]
        found[f"energy_{name}"] = energy(embedded(documents), points)
        if used(documents, labels):
            found[f"f1_{name}"] = f1(fitted(documents, labels, seed), test, labels)

    plain = EvolutionSettings(
        vote=options.vote,
        features=options.features,
        pool=options.pages,
        documents=options.pages,
        labels=options.labels,
        seed=seed,
    )
    scored("generator", unsteered(plain))
    scored("generator_type_known", unsteered(replace(plain, document_types=RECEIPTS)))
    for name, (epsilon, rounds) in ARMS.items():
        scored(name, evolved(private, plain, epsilon, rounds))
    if "f1_generator" in found:
        found["f1_real"] = f1(fitted(private, labels, seed), test, labels)
        for name in ("eps1", "eps8"):
            model = fitted_privately(private, labels, ARMS[name][0], seed)
            found[f"f1_dp_direct_{name}"] = f1(model, test, labels)
    return found


def scored_labels(test: Sequence[LabelledDocument]) -> list[str]:
    """Returns the labels that are scored: of ad buys, those that are like a field of invoices."""
    there = {span.label for item in test for span in item.spans}
    return sorted(there & {*ALIKE.values()} or there)


def named_alike(item: LabelledDocument, labels: Sequence[str]) -> LabelledDocument:
    """Returns an invented document with ad buys' names for its fields, where those are scored."""
    names = {own: other for own, other in ALIKE.items() if other in labels}
    spans = tuple(replace(span, label=names.get(span.label, span.label)) for span in item.spans)
    return replace(item, spans=spans)


def divided(
    documents: Sequence[LabelledDocument],
) -> tuple[list[LabelledDocument], list[LabelledDocument]]:
    """Returns private and test documents, by the digests of their names."""
    ordered = sorted(
        documents, key=lambda item: hashlib.sha256(item.document.id.encode()).hexdigest()
    )
    split = round(len(ordered) * (1 - TEST_SHARE))
    return ordered[:split], ordered[split:]


def unsteered(settings: EvolutionSettings) -> tuple[Specification, ...]:
    """Returns invented documents before anybody voted."""
    generator = Generator(settings=settings)
    return generator.drawn(generator.start(), settings.documents, settings.seed, 0, 9)


def evolved(
    private: Sequence[LabelledDocument], settings: EvolutionSettings, epsilon: float, rounds: int
) -> tuple[Specification, ...]:
    """Returns what evolution releases, by the recipe that the command runs."""
    plan = PrivacyPlan.calibrated(
        epsilon=epsilon,
        sampling_rate=1.0,
        steps=1 if settings.vote == "moments" else rounds,
        clipping_norm=1.0,
        expected_records=EXPECTED,
    )
    with tempfile.TemporaryDirectory() as home:
        out = Path(home) / "run"
        evolution.evolve(private, plan, settings, out=out, name="private", quiet=True)
        return synthetic_checkpoint.load(out).specifications


def embedded(documents: Sequence[LabelledDocument]) -> Floats:
    """Returns the points of documents."""
    return np.array([embedding.embed(item.document) for item in documents])


def energy(left: Floats, right: Floats) -> float:
    """Returns the energy distance of two sets of points."""

    def mean(a: Floats, b: Floats) -> float:
        squares = np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T
        return float(np.sqrt(np.maximum(squares, 0)).mean())

    return 2 * mean(left, right) - mean(left, left) - mean(right, right)


def used(documents: Sequence[LabelledDocument], labels: Sequence[str]) -> bool:
    """Returns whether an arm's documents have the labels that are asked for."""
    return bool({span.label for item in documents for span in item.spans} & {*labels})


def tokens_of(
    item: LabelledDocument, labels: Sequence[str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the hashed features and the labels of a document's first tokens."""
    page = item.document.pages[0]
    names = np.zeros(len(page.words), dtype=np.int64)
    for span in item.spans:
        if span.page == 0 and span.label in labels:
            names[span.start : span.stop] = 1 + list(labels).index(span.label)
    words = [embedding.normalised(word.text) for word in page.words[:TOKENS]]
    tops = [word.box.y0 for word in page.words] or [0.0]
    high = max(max(tops) - min(tops), 1.0)
    rows = []
    for place, word in enumerate(page.words[:TOKENS]):
        around = [
            words[place + step] if 0 <= place + step < len(words) else "" for step in range(-3, 4)
        ]
        row = [f"{step}{text}" for step, text in enumerate(around)]
        row += [f"p{around[2]}_{around[3]}", f"n{around[3]}_{around[4]}", f"e{word.text[-1:]}"]
        down = (word.box.y0 - min(tops)) / high
        row += [f"y{int(10 * down)}", f"x{int(5 * word.box.x0 / page.width)}"]
        row += [f"f{place if place < 12 else 12}", f"c{word.text.isupper()}_{int(6 * down)}"]
        rows.append([mmh3.hash(text, 7, signed=False) % FEATURES for text in row])
    return np.array(rows, dtype=np.int64).reshape(len(rows), 14), names[: len(rows)]


def tensors(
    documents: Sequence[LabelledDocument], labels: Sequence[str]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns features [N, TOKENS, 14] and labels, -1 where there is no token."""
    ids = np.zeros((len(documents), TOKENS, 14), dtype=np.int64)
    names = np.full((len(documents), TOKENS), -1, dtype=np.int64)
    for place, item in enumerate(documents):
        own, known = tokens_of(item, labels)
        ids[place, : len(own)], names[place, : len(own)] = own, known
    return torch.from_numpy(ids), torch.from_numpy(names)


def loss_of(model: Tagger, ids: torch.Tensor, names: torch.Tensor) -> torch.Tensor:
    """Returns the mean over documents of `losses_of`, in a third of its time."""
    there = names >= 0
    scores = nn.functional.embedding_bag(ids[there], model.weights.weight, mode="sum")
    each = nn.functional.cross_entropy(scores, names[there], reduction="none")
    counts = there.sum(1)
    return (each / counts.repeat_interleave(counts)).sum() / len(names)


def losses_of(model: nn.Module, ids: torch.Tensor, names: torch.Tensor) -> torch.Tensor:
    """Returns the mean loss of each document's tokens."""
    scores = model(ids)
    each = nn.functional.cross_entropy(
        scores.transpose(1, 2), names, ignore_index=-1, reduction="none"
    )
    return each.sum(1) / (names >= 0).sum(1).clamp(min=1)


def fitted(documents: Sequence[LabelledDocument], labels: Sequence[str], seed: int) -> Tagger:
    """Returns a tagger that was trained without privacy."""
    torch.manual_seed(seed)
    ids, names = tensors(documents, labels)
    model = Tagger(len(labels) + 1)
    adam = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(EPOCHS):
        for part in torch.randperm(len(ids)).split(32):
            adam.zero_grad()
            loss_of(model, ids[part], names[part]).backward()
            adam.step()
    return model


def fitted_privately(
    documents: Sequence[LabelledDocument], labels: Sequence[str], epsilon: float, seed: int
) -> Tagger:
    """Returns a tagger that was trained by DP-SGD with a document as one record."""
    torch.manual_seed(seed)
    ids, names = tensors(documents, labels)
    model = Tagger(len(labels) + 1)
    adam = torch.optim.Adam(model.parameters(), lr=0.02)
    plan = PrivacyPlan.calibrated(
        epsilon=epsilon, sampling_rate=0.25, steps=DP_STEPS, expected_records=EXPECTED // 4
    )
    losses: Callable[[Sequence[int]], torch.Tensor] = lambda chosen: losses_of(  # noqa: E731
        model, ids[chosen], names[chosen]
    )
    records = Records([[place] for place in range(len(ids))], unit="document")
    with PrivateTraining(plan, model, adam, records=records, losses=losses) as training:
        for _ in training:
            pass
    return model


def f1(model: Tagger, documents: Sequence[LabelledDocument], labels: Sequence[str]) -> float:
    """Returns the mean over the labels of F1 by token."""
    ids, names = tensors(documents, labels)
    with torch.no_grad():
        found = torch.cat([model(part).argmax(2) for part in ids.split(64)])
    scores: list[Any] = []
    for label in range(1, len(labels) + 1):
        right = int(((found == label) & (names == label)).sum())
        said, there = int(((found == label) & (names >= 0)).sum()), int((names == label).sum())
        scores.append(2 * right / max(said + there, 1))
    return float(np.mean(scores))


if __name__ == "__main__":
    sys.exit(main())
