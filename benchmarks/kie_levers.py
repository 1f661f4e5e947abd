"""What each lever of private training gains where the output layer is trained: F1 at epsilon 8.

    python benchmarks/kie_levers.py --work runs/levers      about ten minutes on a core
    python benchmarks/kie_levers.py --quick                 a minute, figures without meaning
    python benchmarks/kie_levers.py --start runs/public --data corpus --declared-documents 300
    python benchmarks/kie_levers.py --start runs/public --documents 100 --fresh
    python benchmarks/kie_levers.py --neighbours --read-layers 3 --only recipe --only whitened

A public start learns invented receipts of tills; the private documents are invented receipts and
invoices, in other wordings, from other countries and providers. The number of documents is
declared, the unit is a document, delta 1e-5. The encoder is frozen, so its outputs are computed
once. Then the engine itself draws, clips, adds noise and steps: by the recipe's plan for so many
documents and Adam at 0.03, and with each lever alone and some together, several times. What
whitens, and what public second moments are of, are words of receipts of tills, never of the kind
that is trained on. Where labels are renamed, the start has no rows for some. With --neighbours the
levers are the settings of the recipe for so many documents and others a factor away from them: what
the recipe chose is chosen again, on invented documents alone. The last line is JSON: for each lever
the mean and the standard deviation of F1 on documents that nothing was learned from.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import machine
import torch
from torch import nn
from torch.nn import functional

from hushdoc import metrics
from hushdoc.document.document import Document
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc_training import invented
from hushdoc_training.data import dataset
from hushdoc_training.models import adapters, layout, whitening
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.noisy_adam import NoisyAdam, second_moments
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.recipes.kie import public_inputs, public_moments, recipe, training
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.recipes.kie.records import (
    IGNORED,
    collate,
    in_order,
    known_labels,
    predict,
    records_of,
)
from hushdoc_training.recipes.kie.settings import PlainSettings
from hushdoc_training.recipes.kie.start import Start

Words = tuple[torch.Tensor, torch.Tensor]
"""What the output layer reads for a document's words, and their targets."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much work."""

    start: str
    public: int  # documents
    private: int
    scored: int
    white: int
    runs: int
    steps: int | None = None  # fewer than the recipe's


FULL = Scale(start="minilm", public=600, private=400, scored=100, white=60, runs=3)
QUICK = Scale(start="small", public=40, private=24, scored=8, white=8, runs=1, steps=3)


@dataclass(frozen=True, kw_only=True)
class Lever:
    """A way to train, where it differs from the recipe's plan and plain Adam."""

    clipping: str = "flat"
    averaging: str = "none"
    whitened: bool = False
    optimizer: str = "adam"  # one of `settings.OPTIMIZERS`; SGD has momentum 0.9
    learning_rate: float = 0.03
    rows: str = "kept"  # of RENAMED in the output layer, one of ROWS
    sampling_rate: float | None = None
    steps: int | None = None
    times_the_steps: int = 1  # of the recipe, where `steps` is None
    clipping_norm: float | None = None


RENAMED = ("customer_address", "customer_name", "document_number", "due_date", "iban", "subtotal")
ROWS = ("kept", "zero", "random", "named", "fresh")
"""What the output layer begins with for labels that the start would not know by these names: all
that it knows; zeros; random numbers, as `--new-labels` has it; or the rows of labels whose names
the encoder takes for similar. Fresh is random for every label: none is known."""
WORDS = 150  # as many as a public document has, about
SHARPNESS = 10.0  # of the softmax over cosines of names

WHITE = Lever(whitened=True, learning_rate=0.2)
MOMENTUM = Lever(sampling_rate=1.0, steps=15, learning_rate=30.0, optimizer="sgd")
CORRECTED = Lever(optimizer="adam-corrected")
PUBLIC = Lever(optimizer="adam-public")
LEVERS = {
    "plain": Lever(),
    "averaged_ema": Lever(averaging="ema"),
    "averaged_half": Lever(averaging="half"),
    "automatic_clipping": Lever(clipping="automatic"),
    "layerwise_clipping": Lever(clipping="layerwise"),
    "twice_the_steps": Lever(times_the_steps=2),
    "full_batches": Lever(sampling_rate=1.0, steps=20),
    "full_batches_momentum": MOMENTUM,
    "full_batches_momentum_larger": replace(MOMENTUM, learning_rate=100.0),
    "corrected": CORRECTED,
    "corrected_smaller": replace(CORRECTED, learning_rate=0.01),
    "public_moments": PUBLIC,
    "public_moments_smaller": replace(PUBLIC, learning_rate=0.01),
    "renamed_zero": Lever(rows="zero"),
    "renamed_random": Lever(rows="random"),
    "renamed_named": Lever(rows="named"),
    "whitened": WHITE,
    "whitened_norm_0.1": replace(WHITE, clipping_norm=0.1),
    "whitened_half_batches": replace(WHITE, sampling_rate=0.5, steps=100),
    "whitened_twice_the_steps": replace(WHITE, times_the_steps=2),
    "whitened_smaller": replace(WHITE, learning_rate=0.05),
    "whitened_larger": replace(WHITE, learning_rate=0.5),
    "whitened_averaged": replace(WHITE, averaging="ema"),
    "whitened_full_batches": replace(WHITE, sampling_rate=1.0, steps=20, learning_rate=0.3),
    "whitened_momentum": replace(MOMENTUM, whitened=True, learning_rate=100.0),
    "whitened_corrected": replace(WHITE, optimizer="adam-corrected"),
    "whitened_corrected_smaller": replace(WHITE, optimizer="adam-corrected", learning_rate=0.07),
    "whitened_public_moments": replace(WHITE, optimizer="adam-public"),
    "whitened_renamed_random": replace(WHITE, rows="random"),
    "whitened_renamed_named": replace(WHITE, rows="named"),
}


def neighbours(count: int) -> dict[str, Lever]:
    """Returns the settings of the recipe for so many documents, and those a factor away."""
    base = recipe.of_size(count)
    own = Lever(
        whitened=base.private.scaling == "public",
        learning_rate=base.private.learning_rate,
        sampling_rate=base.sampling_rate,
        steps=base.steps,
        clipping_norm=base.clipping_norm,
    )
    halved, doubled = max(1, base.steps // 2), 2 * base.steps
    return {
        "recipe": own,
        "half_the_rate": replace(own, learning_rate=base.private.learning_rate / 2),
        "twice_the_rate": replace(own, learning_rate=base.private.learning_rate * 2),
        "half_the_steps": replace(own, steps=halved),
        "twice_the_steps": replace(own, steps=doubled),
        "half_the_batch": replace(own, sampling_rate=base.sampling_rate / 2),
        "twice_the_batch": replace(own, sampling_rate=min(1.0, base.sampling_rate * 2)),
        "a_tenth_of_the_norm": replace(own, clipping_norm=base.clipping_norm / 10),
        "ten_times_the_norm": replace(own, clipping_norm=base.clipping_norm * 10),
        "whitened": replace(own, whitened=True, learning_rate=recipe.RATES["output", "public"]),
        "not_whitened": replace(own, whitened=False, learning_rate=recipe.RATES["output", "none"]),
    }


class Head(nn.Module):
    """An output layer alone, which reads what a frozen encoder left."""

    def __init__(self, layer: nn.Linear) -> None:
        """Takes a copy of the layer."""
        super().__init__()
        self.classifier = nn.Linear(layer.in_features, layer.out_features)
        self.classifier.load_state_dict(layer.state_dict())

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Returns logits, shape [documents, words, tags]."""
        logits: torch.Tensor = self.classifier(words)
        return logits


class Replayed(nn.Module):
    """Stands for a start's model on pages that its encoder has read before."""

    def __init__(self, seen: list[torch.Tensor], head: nn.Module) -> None:
        """Answers in the order in which the encoder was asked."""
        super().__init__()
        self.head, self._seen = head, iter(seen)

    def forward(self, *_: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        logits: torch.Tensor = self.head(next(self._seen))
        return logits


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """What is trained on and scored, as the output layer reads it."""

    start: Start
    layer: nn.Linear
    words: list[Words]
    white: torch.Tensor
    renamed: dict[str, nn.Linear]  # the layer by ROWS
    scored: list[LabelledDocument]
    seen: list[torch.Tensor]

    def f1(self, head: nn.Module) -> float:
        """Returns the entity-level F1 of an output layer."""
        found = predict(
            Replayed(self.seen, head),  # type: ignore[arg-type]
            self.start.encoder,
            self.start.labels,
            self.scored,
            device=torch.device("cpu"),
        )
        pairs = zip(self.scored, found, strict=True)
        return metrics.entity_score((labelled.spans, spans) for labelled, spans in pairs).f1


def main() -> int:
    """Measures every lever and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--start", type=Path, help="a public checkpoint (default: made here)")
    parser.add_argument("--data", help="private documents, split by the digests of their names")
    parser.add_argument("--declared-documents", type=int, help="about how many of them there are")
    parser.add_argument("--documents", type=int, help="to train on (default: 400)")
    parser.add_argument("--work", type=Path, help="keep the start here")
    parser.add_argument("--fresh", action="store_true", help="begin as if no label were known")
    parser.add_argument("--read-layers", type=int, default=1, help="of the encoder (default: 1)")
    parser.add_argument("--neighbours", action="store_true", help="of the recipe, and itself")
    parser.add_argument("--only", action="append", help="measure this lever")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    options = parser.parse_args()
    began, scale = time.monotonic(), QUICK if options.quick else FULL
    scale = replace(scale, private=options.documents or scale.private)
    declared = options.declared_documents or scale.private
    levers = neighbours(declared) if options.neighbours else LEVERS
    if unknown := set(options.only or ()) - set(levers):
        parser.error(f"no lever {', '.join(sorted(unknown))}; expected of {', '.join(levers)}")
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        corpus = corpus_of(options.start or public_start(work / "start", scale), options, scale)
    count = options.declared_documents or len(corpus.words)
    begun = {rows: round(corpus.f1(Head(layer)), 4) for rows, layer in corpus.renamed.items()}
    result: dict[str, Any] = {"f1_public": begun.pop("kept"), "f1_renamed": begun, "f1": {}}
    for name in options.only or levers:
        lever = replace(levers[name], rows="fresh") if options.fresh else levers[name]
        found = [trained(corpus, lever, scale, count) for _ in range(scale.runs)]
        spread = statistics.stdev(found) if len(found) > 1 else 0.0
        result["f1"][name] = [round(statistics.fmean(found), 4), round(spread, 4)]
        print(f"{name:24} {result['f1'][name]}", flush=True)
    result |= {
        "fresh": options.fresh,
        "declared_documents": count,
        "num_documents": len(corpus.words),
        "recipe": recipe.of_size(count).name,
        "read_layers": options.read_layers,
        "num_scored": len(corpus.scored),
        "runs": scale.runs,
        "quick": options.quick,
        **machine.stamp(began, "torch"),
    }
    print(json.dumps(result))
    return 0


def public_start(folder: Path, scale: Scale) -> Path:
    """Trains the start on receipts of tills, unless it is there."""
    if (folder / "checkpoint").is_dir():
        return folder
    pages = receipts_of_tills(scale.public, seed=1)
    begin = kie_start.start_from(
        scale.start,
        LabelSet(fields=invented.FIELD_LABELS),
        vocabulary=lambda: [word.text for item in pages for word in item.document.pages[0].words],
    )
    training.train_plain(
        begin,
        pages,
        PlainSettings(
            learning_rate=5e-4, segment_shuffling=0.3, token_noise=0.2, label_smoothing=0.1
        ),
        out=folder,
        claim=claims.public((), training={}),
        resume=folder.exists(),
        quiet=True,
    ).require_finished()
    return folder


def receipts_of_tills(count: int, *, seed: int) -> list[LabelledDocument]:
    """Returns public documents."""
    config = invented.InventedConfig(document_types=("till-receipt",), providers=(0, 20_000))
    return list(invented.documents(seed=seed, count=count, config=config))


def corpus_of(folder: Path, options: argparse.Namespace, scale: Scale) -> Corpus:
    """Reads private documents, and computes what the output layer reads of them."""
    train, scored = split(options.data, scale)
    labels = LabelSet.from_documents(train + scored) if options.data else None
    start = kie_start.start_from(str(folder), labels, new_labels=labels is not None)
    model = start.model.eval()
    if options.read_layers > 1:
        layout.read_more(model, options.read_layers)
    _, _, layer = whitening.output_layer(model.inner)
    seen: list[torch.Tensor] = []
    white = public_inputs.of_documents(start, receipts_of_tills(scale.white, seed=7))
    hook = layer.register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[0].detach().float().clone())
    )
    scored = in_order(scored, start.preprocessing)
    predict(model, start.encoder, start.labels, scored, device=torch.device("cpu"))
    kept = list(seen)
    words = []
    known = known_labels(train, start.labels, warned=True)
    for record in records_of(known, start.encoder, start.labels, unit="document"):
        seen.clear()
        batch = collate(start.encoder, list(record))
        with torch.no_grad():
            model(*batch.inputs(torch.device("cpu")))
        there = batch.targets != IGNORED
        words.append((seen[0][there], batch.targets[there]))
    hook.remove()
    return Corpus(
        start=start,
        layer=layer,
        words=words,
        white=white,
        renamed={rows: renamed(start, layer, rows) for rows in ROWS},
        scored=scored,
        seen=kept,
    )


def renamed(start: Start, layer: nn.Linear, rows: str) -> nn.Linear:
    """Returns the output layer with other rows for the labels of RENAMED."""
    made, tags = Head(layer).classifier, start.labels.tags
    new = [n for n, tag in enumerate(tags) if rows == "fresh" or tag[2:] in RENAMED]
    torch.manual_seed(0)
    if rows == "zero":
        rows_of, biases = torch.zeros(len(new), layer.in_features), torch.zeros(len(new))
    elif rows in ("random", "fresh"):
        rows_of, biases = 0.02 * torch.randn(len(new), layer.in_features), torch.zeros(len(new))
    elif rows == "named":
        shares = torch.stack([similar(start, tags[number]) for number in new])
        rows_of, biases = shares @ layer.weight, shares @ layer.bias
    with torch.no_grad():
        if rows != "kept":
            made.weight[new], made.bias[new] = rows_of, biases
    return made


def similar(start: Start, tag: str) -> torch.Tensor:
    """Returns how much each tag's row counts for a new one's, by the names of their labels."""
    encoder, tags = start.encoder, start.labels.tags
    known = [n for n, one in enumerate(tags) if one[:1] == tag[:1] and one[2:] not in RENAMED]
    means = []
    for name in [tag[2:], *(tags[number][2:] for number in known)]:
        words = name.split("_")
        page = Document.from_words(words, [(0, 0, 9, 9)] * len(words), width=9, height=9).pages[0]
        encoded = encoder.encode(page)
        inputs = encoder.batch([(encoded, 0, len(encoded.ids))])
        with torch.no_grad():
            states = start.model.hidden(*(torch.from_numpy(one) for one in inputs.values()))
        means.append(states[0, 1:-1].mean(0))
    states = torch.stack(means) - torch.stack(means).mean(0)
    shares = torch.zeros(len(tags))
    cosines = functional.cosine_similarity(states[:1], states[1:])
    shares[known] = (SHARPNESS * cosines).softmax(0)
    return shares


def split(data: str | None, scale: Scale) -> tuple[list[LabelledDocument], list[LabelledDocument]]:
    """Returns documents to train on and to score, of other providers where they are invented."""
    if data is None:
        types = ("invoice", "receipt")
        parts = []
        for seed, count, providers in (
            (5, scale.private, (20_000, 26_000)),
            (6, scale.scored, (26_000, 32_000)),
        ):
            config = invented.InventedConfig(document_types=types, providers=providers)
            parts.append(list(invented.documents(seed=seed, count=count, config=config)))
        return parts[0], parts[1]
    documents = sorted(
        dataset.read(dataset.Source(location=data)),
        key=lambda item: hashlib.sha256(item.document.id.encode()).hexdigest(),
    )
    return documents[scale.scored :][: scale.private], documents[: scale.scored]


def trained(corpus: Corpus, lever: Lever, scale: Scale, count: int) -> float:
    """Trains an output layer privately, and returns its F1."""
    base = recipe.of_size(count)
    rate = lever.sampling_rate or base.sampling_rate
    plan = PrivacyPlan.calibrated(
        epsilon=8,
        sampling_rate=rate,
        steps=min(lever.steps or lever.times_the_steps * base.steps, scale.steps or 10**6),
        clipping_norm=lever.clipping_norm or base.clipping_norm,
        expected_records=max(1, round(count * rate)),
    )
    head = Head(corpus.renamed[lever.rows])
    with adapters.merging(head):
        if lever.whitened:
            read = len(corpus.start.model.read_layers)
            whitening.adapt(head, corpus.white, whitening.DIRECTIONS * (2 if read else 1))
        take_steps(head, corpus, plan, lever)
    return corpus.f1(head)


def take_steps(head: nn.Module, corpus: Corpus, plan: PrivacyPlan, lever: Lever) -> None:
    """Takes all steps of a plan, with a rate that goes down to zero."""
    rate, words = lever.learning_rate, corpus.words
    optimizer = optimizer_of(head, corpus.white, plan, lever)
    private = PrivateTraining(
        plan,
        head,
        optimizer,
        records=Records([[one] for one in words], unit="document"),
        losses=lambda examples: losses_of(head, examples),
        clipping=lever.clipping,
        averaging=lever.averaging,
        length=lambda example: len(example[1]),
        max_examples=64,
        fingerprint=lambda example: example[1].numpy().tobytes(),
    )
    with private:
        for number in range(plan.steps):
            for group in optimizer.param_groups:
                group["lr"] = rate * (1 - number / plan.steps)
            private.step()


def optimizer_of(
    head: nn.Module, white: torch.Tensor, plan: PrivacyPlan, lever: Lever
) -> torch.optim.Optimizer:
    """Returns what steps; public second moments are of the words that whiten."""
    parameters = [value for value in head.parameters() if value.requires_grad]
    rate = lever.learning_rate
    if lever.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9)
    if lever.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=rate)
    moments = None
    if lever.optimizer == "adam-public":
        generator = torch.Generator().manual_seed(0)
        pages = torch.split(white, WORDS)
        losses = (public_moments.own_loss(head(words), generator) for words in pages)
        moments = second_moments(parameters, losses)
    return NoisyAdam(parameters, lr=rate, deviation=plan.noise_deviation, public=moments)


def losses_of(head: nn.Module, examples: Sequence[Words]) -> torch.Tensor:
    """Returns the mean loss of each document's words, shape [documents]."""
    padded = nn.utils.rnn.pad_sequence([inputs for inputs, _ in examples], batch_first=True)
    targets = nn.utils.rnn.pad_sequence(
        [wanted for _, wanted in examples], batch_first=True, padding_value=IGNORED
    )
    each = functional.cross_entropy(
        head(padded).transpose(1, 2), targets, ignore_index=IGNORED, reduction="none"
    )
    return each.sum(1) / (targets != IGNORED).sum(1)


if __name__ == "__main__":
    sys.exit(main())
