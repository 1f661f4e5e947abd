r"""Two forms of a pointer, trained for the same processor time: one pass, and a page once.

    python benchmarks/pointer_passes.py --start runs/public --cpu-minutes 20 --work runs/passes
    python benchmarks/pointer_passes.py --start minilm --forms one_pass --rates 1e-4 3e-4
    python benchmarks/pointer_passes.py --quick

`one_pass` is BERT's form for finding answers (Devlin et al. 2019, section 4.2): a question and the
window of a page are one row, and a linear layer scores both ends of the answer. `page_once` is the
form of `hushdoc train docvqa`, which encodes a window once for all its questions
(docs/adr/0016-a-pointer-reads-a-page-once.md). Both have the same encoder to begin with, the same
windows, documents, loss and scorer.

Both are trained without privacy, by AdamW, on a stream of invented invoices and receipts of which
none comes twice. Steps take 16 rows of one pass, and 4 windows with all their questions of page
once: what `hushdoc train docvqa` takes, or took when it was of that form. The rate warms up and
decays over the processor time, of which inventing and encoding documents is no part. --rates are
the peaks of the forms, in the order above.

Then both are asked the set `invented` of `docvqa.py`, of providers that neither saw, by the scorer
of the recipe: 16 questions at once, so that page once encodes a window twice where its questions
are in two batches. A question learned is one with a window: beside two windows it counts twice.

With --work a form's result is kept, so that a later call with other --forms prints both. The last
line is JSON; what did not run is null.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import machine
import numpy as np
import torch
from docvqa import SETS
from docvqa_tables import measured
from torch import nn

from hushdoc.document.page import BOX_SCALE
from hushdoc.labels import LabelledDocument
from hushdoc.runtime.questions import QuestionEncoder
from hushdoc.system import atomic_files
from hushdoc_training.data import dataset
from hushdoc_training.data.corpus import Problems
from hushdoc_training.models import fitting
from hushdoc_training.models.pointer import Pointer
from hushdoc_training.recipes.docvqa.private import losses_of
from hushdoc_training.recipes.docvqa.rows import Example, examples_of
from hushdoc_training.recipes.docvqa.scores import Scorer
from hushdoc_training.recipes.docvqa.settings import DEFAULTS
from hushdoc_training.recipes.docvqa.start import Start, start_from
from hushdoc_training.recipes.kie import epochs

BATCH = {"one_pass": 16, "page_once": DEFAULTS["pointer"].batch_size}
"""Examples in a step: rows of one question, or windows with all theirs."""

FORMS = tuple(BATCH)
TRAINED = "invented:invoice+receipt,questions=keyed,providers=0:800,wordings=0:15"
CPU = torch.device("cpu")

AT_ONCE = 512
"""Documents that are invented and shuffled together."""

TOKENIZER_DOCUMENTS = 200
"""That a start from nothing learns its tokenizer from."""

WARM_UP = 0.06
"""The share of the processor time in which the rate goes up, as the recipe has it."""

TOLD_EVERY = 60
"""CPU seconds of training between two lines of progress."""


class OnePass(Pointer):
    """A pointer that encodes each question in one row with its window: [CLS] question [SEP] window.

    Its inputs and outputs are those of `Pointer`.
    """

    def __init__(self, begun: Pointer) -> None:
        """Takes a pointer's encoder, which is changed, and puts a fresh linear layer on it."""
        super().__init__(begun.inner, begun.architecture)
        del self.reader
        config: Any = self.inner.config
        self.ends = nn.Linear(config.hidden_size, 2)
        nn.init.normal_(self.ends.weight, std=config.initializer_range)
        nn.init.zeros_(self.ends.bias)
        _part_token_types(self.inner)

    def forward(
        self,
        input_ids: torch.Tensor,
        bbox: torch.Tensor,
        attention_mask: torch.Tensor,
        question_ids: torch.Tensor,
        question_mask: torch.Tensor,
    ) -> torch.Tensor:
        """Returns scores of start and end, shape [batch, sequence, questions, 2]."""
        lengths = question_mask.sum(2)
        window, place = torch.nonzero(lengths > 2, as_tuple=True)  # the others are none
        asked, page = question_ids[window, place], input_ids[window, 1:]
        nowhere = (asked * 0)[..., None].repeat(1, 1, 4)
        first = lengths[window, place, None]  # where the window's tokens begin in a row
        nowhere.scatter_(1, (first - 1)[..., None].expand(-1, -1, 4), BOX_SCALE)
        mask = torch.cat([question_mask[window, place], attention_mask[window, 1:]], 1)
        order = mask.argsort(dim=1, descending=True, stable=True)[:, : int(mask.sum(1).max())]
        boxes = torch.cat([nowhere, bbox[window, 1:]], 1)
        types = torch.cat([asked * 0, page * 0 + 1], 1) * mask
        states = self.inner(
            input_ids=torch.cat([asked, page], 1).gather(1, order),
            bbox=boxes.gather(1, order[..., None].expand(-1, -1, 4)),
            attention_mask=mask.gather(1, order),
            token_type_ids=types.gather(1, order),
        )[0]
        back = first - 1 + torch.arange(input_ids.shape[1], device=first.device)
        back[:, 0] = 0
        back = back.clamp(max=order.shape[1] - 1)[..., None].expand(-1, -1, 2)
        found: torch.Tensor = self.ends(states).gather(1, back)
        batch, questions, _ = question_ids.shape
        scores = found.new_zeros(batch, questions, input_ids.shape[1], 2)
        return scores.index_put((window, place), found).transpose(1, 2)


def _part_token_types(inner: Any) -> None:
    """Gives words of the page a token type, which begins as that of all else is."""
    embeddings = inner.embeddings
    known = embeddings.token_type_embeddings.weight
    table = nn.Embedding(2, known.shape[1])
    with torch.no_grad():
        table.weight.copy_(known[:1].expand_as(table.weight))
    embeddings.token_type_embeddings = table


def begin(source: str, form: str) -> Start:
    """Returns what a form starts from, the same encoder for both."""
    torch.manual_seed(0)
    start = start_from(source, architecture="pointer", vocabulary=_texts)
    model = start.model
    if form == "one_pass" and isinstance(model, Pointer):
        asking, inner = start.asking, model.inner
        config: Any = inner.config
        fitting.require_window(config, max_tokens=asking.max_tokens + asking.max_question + 1)
        return replace(start, model=OnePass(model))
    return start


def _texts() -> list[str]:
    """Returns words and questions of documents that are trained on, for a tokenizer."""
    return [
        text
        for item in islice(_documents(), TOKENIZER_DOCUMENTS)
        for text in (
            *(word.text for page in item.document.pages for word in page.words),
            *(question.text for question in item.questions),
        )
    ]


def _documents() -> Iterator[LabelledDocument]:
    """Yields documents to train on: more than any run here reads."""
    source = dataset.Source(location=TRAINED, documents=10_000_000)
    return dataset.stream(source, Problems())


def examples(
    documents: Sequence[LabelledDocument], encoder: QuestionEncoder, form: str
) -> list[Example]:
    """Returns the examples of documents in a form: of each row one, or of each window."""
    whole = [
        example
        for item in documents
        for example in examples_of([item], encoder, most=len(item.questions))
    ]
    if form == "page_once":
        return whole
    return [Example(rows=(row,)) for example in whole for row in example.rows]


def batches(start: Start, form: str, *, at_once: int = AT_ONCE) -> Iterator[list[Example]]:
    """Yields batches without end: of similar lengths, from so many documents at a time."""
    generator, documents = np.random.default_rng(0), _documents()
    while some := list(islice(documents, at_once)):
        made = examples(some, start.encoder, form)
        yield from epochs.epoch_batches(made, BATCH[form], generator=generator)


def train(
    start: Start, form: str, *, rate: float, minutes: float, at_once: int = AT_ONCE
) -> dict[str, Any]:
    """Trains a start's model for so many minutes of a processor, and returns what it did."""
    model = start.model.to(CPU).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, fused=True)
    made = batches(start, form, at_once=at_once)
    budget, spent, told = 60 * minutes, 0.0, 0.0
    steps = questions = windows = 0
    losses: list[float] = []
    while spent < budget:
        batch = next(made)
        began = time.process_time()
        epochs.set_rate(optimizer, rate * share_of_rate(spent / budget))
        loss = losses_of(start, batch, device=CPU).mean()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        spent += time.process_time() - began
        steps, windows = steps + 1, windows + len(batch)
        questions += sum(len(example.rows) for example in batch)
        if spent >= min(told + TOLD_EVERY, budget):
            mean = sum(losses) / len(losses)
            left = max(0.0, budget - spent) / 60
            print(f"{form}: step {steps}, loss {mean:.3f}, {left:.1f} minutes left", flush=True)
            told, losses = spent, []
    model.eval()
    return {
        "steps": steps,
        "examples_learned": windows,
        "questions_learned": questions,
        "training_cpu_seconds": round(spent, 1),
    }


def share_of_rate(done: float) -> float:
    """Returns the share of the rate's peak after a share of the processor time."""
    return done / WARM_UP if done < WARM_UP else max(0.0, (1 - done) / (1 - WARM_UP))


def result(form: str, rate: float, options: argparse.Namespace) -> dict[str, Any]:
    """Returns what a form learned and answers, trained anew."""
    start = begin(options.start, form)
    at_once = 24 if options.quick else AT_ONCE
    learned = train(start, form, rate=rate, minutes=options.cpu_minutes, at_once=at_once)
    source = dataset.Source(location=SETS["invented"], documents=options.documents, seed=1)
    answered = measured(Scorer(start=start, device=CPU), dataset.read(source))
    asking = answered.pop("cpu_seconds")
    return {**learned, **answered, "asking_cpu_seconds": asking}


def figures(results: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """Returns the figures of the last line; None for what did not run."""
    found: dict[str, float | None] = {
        f"{name}_{form}": results.get(form, {}).get(name)
        for name in ("anls", "anls_answerable", "exact", "questions_learned")
        for form in FORMS
    }

    def ratio(name: str, above: str, below: str) -> float | None:
        if not {above, below} <= results.keys() or not results[below][name]:
            return None
        return round(float(results[above][name] / results[below][name]), 2)

    return {
        **found,
        "questions_ratio": ratio("questions_learned", "page_once", "one_pass"),
        "asking_cpu_ratio": ratio("asking_cpu_seconds", "one_pass", "page_once"),
    }


def main() -> int:
    """Trains and asks the forms that are named, and prints what they are worth and the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--start", default="minilm", help="a public run of `hushdoc train kie`, minilm or small"
    )
    parser.add_argument("--cpu-minutes", type=float, default=20, help="of training each form")
    parser.add_argument("--forms", nargs="*", choices=FORMS, default=FORMS, metavar="FORM")
    parser.add_argument(
        "--rates",
        nargs=2,
        type=float,
        default=[DEFAULTS["pointer"].learning_rate] * 2,
        metavar=tuple(form.upper() for form in FORMS),
        help="peaks of the learning rates",
    )
    parser.add_argument("--documents", type=int, default=150, help="that are asked about")
    parser.add_argument("--work", type=Path, help="where results are kept")
    parser.add_argument("--quick", action="store_true", help="a look that takes under a minute")
    options = parser.parse_args()
    if options.quick:
        options.start, options.cpu_minutes, options.documents = "small", 0.1, 10
    torch.set_num_threads(1)
    began = time.monotonic()
    rates = dict(zip(FORMS, options.rates, strict=True))
    results: dict[str, dict[str, Any]] = {}
    for form, rate in rates.items():
        settings = {
            "form": form,
            "rate": rate,
            "start": options.start,
            "cpu_minutes": options.cpu_minutes,
            "documents": options.documents,
        }
        found = _kept(options.work, settings)
        if found is None and form in options.forms:
            found = result(form, rate, options)
            _keep(options.work, settings, found)
        if found is not None:
            results[form] = found
            print(f"{form}: {found}", flush=True)
    line = {
        **figures(results),
        "cpu_minutes": options.cpu_minutes,
        "start": options.start,
        "rates": rates,
        "results": results,
        "quick": options.quick,
    }
    print(json.dumps({**line, **machine.stamp(began, "torch", "transformers")}))
    return 0


def _kept(work: Path | None, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the result of the same settings, where the folder has it."""
    for path in [] if work is None else sorted(work.glob(f"{settings['form']}-*.json")):
        stored = json.loads(path.read_text())
        if stored["settings"] == settings:
            found: dict[str, Any] = stored["result"]
            return found
    return None


def _keep(work: Path | None, settings: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Writes a result into the folder, beside those of other settings."""
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
        number = len(list(work.glob(f"{settings['form']}-*.json"))) + 1
        stored = json.dumps({"settings": settings, "result": found})
        atomic_files.write_file(work / f"{settings['form']}-{number}.json", stored.encode())


if __name__ == "__main__":
    raise SystemExit(main())
