"""What privacy costs on real forms: FUNSD, without privacy and at several budgets.

    python benchmarks/kie_utility.py --data path/to/funsd

Every arm starts from the same public weights: MiniLM as a layout encoder, pretrained on invented
forms. Part of the training forms is held out by a fixed rule (the digest of the form's name) and
scored once, with the weights of the last step; the official test forms are not touched. Two arms
run at a time, each on half of the cores. The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine
import torch

from hushdoc.labels import LabelledDocument
from hushdoc.metrics import Score
from hushdoc_training import invented
from hushdoc_training.data import funsd
from hushdoc_training.data.corpus import Problems
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.kie import settings as kie_settings
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.recipes.kie import training
from hushdoc_training.recipes.kie.records import records_of
from hushdoc_training.recipes.kie.settings import PRIED_KIE_FUNSD, PrivateSettings
from hushdoc_training.runs import loop

HELD_OUT = 30
WORKERS = 2
PRIVATE_ARMS = ("dp_eps8_document", "dp_eps20_document", "dp_eps8_sequence")
ARMS = ("nonprivate", *PRIVATE_ARMS)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much work: the full benchmark, or a look that takes a minute."""

    start: str
    pages: int
    forms: int | None
    held_out: int
    epochs: float
    document_steps: int
    sequence_steps: int
    expected_records: int


FULL = Scale(
    start="minilm",
    pages=8000,
    forms=None,
    held_out=HELD_OUT,
    epochs=15,
    document_steps=60,
    sequence_steps=PRIED_KIE_FUNSD.steps,
    expected_records=60,
)
QUICK = Scale(
    start="small",
    pages=60,
    forms=10,
    held_out=5,
    epochs=1,
    document_steps=2,
    sequence_steps=2,
    expected_records=5,
)


def main() -> int:
    """Runs every arm and prints the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of FUNSD")
    parser.add_argument("--work", type=Path, help="keep runs here, and continue them")
    parser.add_argument("--box-level", choices=("segment", "word"), default="segment")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    parser.add_argument("--arm", choices=("public", *ARMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    if options.arm:
        return run_arm(options.arm, options.data, options.work, scale, options.box_level)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        spawn("public", options, work, threads=os.cpu_count() or 1)
        with ThreadPoolExecutor(WORKERS) as pool:
            share = max(1, (os.cpu_count() or 1) // WORKERS)
            list(pool.map(lambda arm: spawn(arm, options, work, threads=share), ARMS))
        result = report(options.data, work, scale, options.box_level)
    result["seconds"] = round(time.monotonic() - began)
    print(json.dumps(result))
    return 0


def spawn(arm: str, options: argparse.Namespace, work: Path, *, threads: int) -> None:
    """Trains one arm in a process of its own, unless it is there already."""
    if (work / arm / "checkpoint").is_dir():
        return
    command = [sys.executable, __file__, "--data", options.data, "--work", work, "--arm", arm]
    command += ["--box-level", options.box_level, *(["--quick"] if options.quick else [])]
    print(f"{arm} ...", flush=True)
    subprocess.run(
        [str(part) for part in command],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"},
    )


def run_arm(arm: str, data: Path, work: Path, scale: Scale, box_level: str) -> int:
    """Trains one arm; an interrupted one is continued."""
    out = work / arm
    if arm == "public":
        return exit_code(pretrain(out, scale, box_level))
    train, _ = split(list(funsd.read(data, Problems())), scale)
    start = kie_start.start_from(str(work / "public"), funsd.LABELS)
    if arm == "nonprivate":
        settings = kie_settings.PlainSettings(epochs=scale.epochs, batch_size=8, learning_rate=2e-4)
        claim = claims.not_private("funsd", (), training={})
        return exit_code(
            training.train_plain(start, train, settings, out=out, claim=claim, resume=out.exists())
        )
    plan = plan_of(arm, scale, num_sequences(train, start))
    return exit_code(
        training.train_private(
            start,
            train,
            plan,
            settings_of(arm),
            out=out,
            name="funsd",
            hyperparameter_tuning="unaccounted",
            resume=out.exists(),
        )
    )


def exit_code(outcome: loop.Outcome) -> int:
    """Returns 130 for an interrupted arm."""
    return 130 if outcome.interrupted else 0


def pretrain(out: Path, scale: Scale, box_level: str) -> loop.Outcome:
    """Trains the public start on invented forms."""
    config = invented.InventedConfig(document_types=("form",), providers=(0, 20_000), labels="form")
    pages = list(invented.documents(seed=11, count=scale.pages, config=config))
    start = kie_start.start_from(
        scale.start,
        funsd.LABELS,
        box_level=box_level,
        vocabulary=lambda: [word.text for item in pages for word in item.document.pages[0].words],
        resumed=out,
    )
    settings = kie_settings.PlainSettings(
        learning_rate=5e-4, segment_shuffling=0.5, token_noise=0.5, label_smoothing=0.1
    )
    claim = claims.public((), training={})
    return training.train_plain(start, pages, settings, out=out, claim=claim, resume=out.exists())


def plan_of(arm: str, scale: Scale, sequences: int) -> PrivacyPlan:
    """Returns an arm's plan.

    At document unit: delta 1e-5, half of the forms in every step (large batches and few steps cost
    least noise). At sequence unit: PrIeD-KIE's own setting with delta = 1 / sequences.
    """
    if arm == "dp_eps8_sequence":
        paper = PRIED_KIE_FUNSD
        return PrivacyPlan.calibrated(
            epsilon=8,
            delta=1 / sequences,
            privacy_unit="sequence",
            sampling_rate=paper.sampling_rate,
            steps=scale.sequence_steps,
            clipping_norm=paper.clipping_norm,
            expected_records=max(1, round(sequences * paper.sampling_rate)),
        )
    return PrivacyPlan.calibrated(
        epsilon=20 if arm == "dp_eps20_document" else 8,
        delta=1e-5,
        privacy_unit="document",
        sampling_rate=0.5,
        steps=scale.document_steps,
        clipping_norm=0.1,
        expected_records=scale.expected_records,
    )


def settings_of(arm: str) -> PrivateSettings:
    """Returns how an arm is trained."""
    if arm == "dp_eps8_sequence":
        paper = PRIED_KIE_FUNSD
        return PrivateSettings(
            learning_rate=paper.learning_rate,
            dropout=paper.dropout,
            decay=False,
            trained="all",
        )
    return PrivateSettings(learning_rate=1e-2, trained="biases")


def split(
    documents: list[LabelledDocument], scale: Scale
) -> tuple[list[LabelledDocument], list[LabelledDocument]]:
    """Returns forms to train on and forms held out, by the digest of their names."""
    ordered = sorted(
        documents, key=lambda item: hashlib.sha256(item.document.id.encode()).hexdigest()
    )
    return ordered[HELD_OUT:][: scale.forms], ordered[:HELD_OUT][: scale.held_out]


def num_sequences(documents: list[LabelledDocument], start: kie_start.Start) -> int:
    """Returns how many windows the documents are cut into."""
    return len(records_of(documents, start.encoder, start.labels, unit="sequence"))


def report(data: Path, work: Path, scale: Scale, box_level: str) -> dict[str, Any]:
    """Scores every arm on the held-out forms and returns the JSON line."""
    train, test = split(list(funsd.read(data, Problems())), scale)
    print(f"{len(train)} forms to train on; {len(test)} held out:")
    print(" ".join(sorted(item.document.id for item in test)))
    scores: dict[str, Score] = {}
    for arm in ("public", *ARMS):
        start = kie_start.start_from(str(work / arm), funsd.LABELS)
        scores[arm] = training.evaluate(start, test)
        print(f"{arm}: {scores[arm].to_dict()}", flush=True)
    sequences = num_sequences(train, start)
    plans = {arm: plan_of(arm, scale, sequences) for arm in PRIVATE_ARMS}
    best = scores["nonprivate"].f1
    return {
        **{f"f1_{arm}": round(score.f1, 4) for arm, score in scores.items()},
        "retention_eps8_document": round(scores["dp_eps8_document"].f1 / best, 4) if best else None,
        "noise_multipliers": {arm: round(plan.noise_multiplier, 4) for arm, plan in plans.items()},
        "deltas": {arm: plan.delta for arm, plan in plans.items()},
        "num_train": len(train),
        "num_test": len(test),
        "num_sequences": sequences,
        "box_level": box_level,
        "quick": scale is QUICK,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine.description(),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    sys.exit(main())
