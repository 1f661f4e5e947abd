"""How fast this machine is now: steps of the demo's own training, by one thread and by more."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

THREADS = (1, 2, 4)
PROBE_SECONDS, PROBE_STEPS, PROBE_DOCUMENTS = 1.0, 2, 8
"""Steps are taken for so long by each number of threads, and at least so many."""

WORTH = 0.9
"""More threads are taken where a step then takes less than this share of the time."""

BATCH = 8
"""Windows in a step of pretraining."""

HOPELESS = 2.0
"""So many times what one thread takes for the forward pass: such threads are not tried further."""

PRIVATE_WINDOW = 1.3
"""What a window costs in private training, in windows of pretraining."""

REST_STEPS = 120
"""What importing, exporting, verifying and extracting cost, in steps of pretraining by a thread."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How many documents and steps; the quick one shows the path, not the quality."""

    public: int = 1500
    private: int = 1000
    unseen: int = 60
    epochs: int = 2
    steps: int = 20
    expected: int = 50


FULL = Scale()
QUICK = Scale(public=60, private=60, unseen=5, epochs=1, steps=3, expected=3)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What was measured."""

    steps: dict[int, float]  # seconds of a step of pretraining, by number of threads
    more_are_slower: bool  # whether some threads were hopeless
    document: float  # seconds in which a document is invented
    windows: float  # of a document

    @property
    def threads(self) -> int:
        """The fewest threads that no more of them beat by much."""
        chosen = 1
        for threads, seconds in self.steps.items():
            if seconds < WORTH * self.steps[chosen]:
                chosen = threads
        return chosen

    def seconds(self, scale: Scale) -> dict[str, float]:
        """Returns about how long each stage takes."""
        window = self.steps[self.threads] / BATCH
        private = scale.steps * scale.expected
        return {
            "invent": self.document * (scale.public + scale.private + 3 * scale.unseen),
            "pretrain": window * self.windows * scale.public * scale.epochs,
            "train": window * PRIVATE_WINDOW * self.windows * private,
            "rest": self.steps[1] * REST_STEPS,
        }


def measure(config: Any) -> Machine:
    """Takes a few steps of pretraining on invented documents, by 1, 2 and 4 threads."""
    import torch

    from hushdoc import labelled_files
    from hushdoc.system.cores import usable_cores
    from hushdoc_training import invented

    invented.document(seed=0, index=PROBE_DOCUMENTS, config=config)  # warms up
    began = time.monotonic()
    stream = invented.documents(seed=0, count=PROBE_DOCUMENTS, config=config)
    documents = [(labelled, labelled_files.dumps(labelled))[0] for labelled in stream]
    document = (time.monotonic() - began) / PROBE_DOCUMENTS
    loss, optimizer, windows = _training(documents)

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    most = min(torch.get_num_threads(), usable_cores())
    possible = [threads for threads in THREADS if threads <= most]
    _timed(step, 1)  # warms up
    # Where cores are busy, threads that wait for one another may take ten times as long.
    limit = HOPELESS * _timed(loss, 1)
    tried = {n: list[float]() for n in possible if n == 1 or _timed(loss, n) < limit}
    end = time.monotonic() + PROBE_SECONDS
    while len(tried[1]) < PROBE_STEPS or time.monotonic() < end:
        for threads, seconds in tried.items():
            seconds.append(_timed(step, threads))
    return Machine(
        steps={threads: statistics.median(seconds) for threads, seconds in tried.items()},
        more_are_slower=len(tried) < len(possible),
        document=document,
        windows=windows / PROBE_DOCUMENTS,
    )


def _timed(work: Callable[[], object], threads: int) -> float:
    import torch

    torch.set_num_threads(threads)
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _training(documents: list[Any]) -> tuple[Callable[[], Any], Any, int]:
    """Returns the loss of a step of pretraining, its optimizer, and how many windows there are."""
    import torch

    from hushdoc.labels import LabelSet
    from hushdoc_training.recipes.kie import records, start

    labels = LabelSet.from_documents(documents)
    words = [word.text for one in documents for page in one.document.pages for word in page.words]
    small = start.start_from("small", labels, vocabulary=lambda: words)
    windows = [
        window for one in documents for window in records.windows_of(one, small.encoder, labels)
    ]
    model = small.model.train()
    batch = records.collate(small.encoder, windows[:BATCH])
    loss = partial(records.loss_of, model, batch, device=torch.device("cpu"))
    return loss, torch.optim.AdamW(model.parameters()), len(windows)
