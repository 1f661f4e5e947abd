"""One document after another: hushdoc, transformers' pipelines, and fastembed's way of embedding.

Everything is loaded and warm; what counts is the CPU time of answers, text to result, one thread.
All arms of a task run the same weights over the same texts, and what they answer is held against
one another before anything is reported:

    fields_vs_pipeline            KIEModel.extract / pipeline("token-classification"), a LayoutLM
                                  of MiniLM's size; a pipeline can't be given boxes and reads
                                  zeros, so do we
    fields_int8_vs_pipeline       the same of the int8 variant, whose answers are its own
    classes_vs_pipeline           ClassificationModel.classify / pipeline("text-classification"),
                                  MiniLM with a random head
    embedding_vs_pipeline         EmbeddingModel.embed_texts / pipeline("feature-extraction"),
                                  averaged over tokens
    embedding_vs_pipeline_in_batches   the same / that pipeline with batch_size=32
    embedding_vs_fastembed        the same / fastembed's embed() with its batches of 256, which
                                  reads the ONNX file of our artifact
    embedding_vs_fastembed_sorted   the same / fastembed at its best: texts sorted by length, in
                                  batches of 32
    even_vs_*                     the same, texts of one length: nothing is gained by batches
                                  of like lengths
    *_vs_onnxruntime, *_vs_onnxruntime_sorted   in place of fastembed, where none is given: the
                                  same steps with onnxruntime and tokenizers alone

Each is how many times as much CPU time the other side takes: above 1, ours is faster. The goal of
embedding_vs_fastembed_sorted is at least 1.2; goals_met is null where fastembed is not compared.
peak_mb is the most memory that the process of each arm held, from its start to its end. Arms are
processes that take turns. fastembed needs an interpreter of its own (see cold_start.py):

    python benchmarks/pipelines.py --fastembed peer/bin/python

--quick leaves int8, classes and batches of 32 out and takes fewer texts. The last line is JSON.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cold_start
import fresh_process
import machine
from pipeline_arms import ARMS

GOALS = {"embedding_vs_fastembed_sorted": 1.2}
FASTEMBED = """
import json, sys, time
from pathlib import Path
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
folder, texts, passes = sys.argv[1], json.loads(Path(sys.argv[2]).read_text()), int(sys.argv[3])
batch, by_length = int(sys.argv[4]), sys.argv[5] == "sorted"
TextEmbedding.add_custom_model(
    model="local/minilm", pooling=PoolingType.MEAN, normalization=True,
    sources=ModelSource(hf="local/minilm"), dim=384, model_file="model.onnx",
)
model = TextEmbedding("local/minilm", specific_model_path=folder, threads=1)
def answer(texts):
    order = sorted(range(len(texts)), key=lambda item: len(texts[item]) if by_length else item)
    vectors = list(model.embed([texts[item] for item in order], batch_size=batch))
    return [vector for _, vector in sorted(zip(order, vectors), key=lambda pair: pair[0])]
answer(texts[:8])
spent = []
for _ in range(passes):
    began = time.process_time()
    found = answer(texts)
    spent.append(time.process_time() - began)
print(json.dumps({"cpu_s": spent, "answers": [vector.tolist() for vector in found]}))
"""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is asked of what."""

    documents: int
    texts: int
    rounds: int
    passes: int
    variants: tuple[str, ...]
    tasks: tuple[str, ...]
    batches: tuple[int, ...]


TASKS = ("fields", "classes", "embedding", "even")
FULL = Scale(
    documents=24,
    texts=256,
    rounds=3,
    passes=2,
    variants=("fp32", "int8"),
    tasks=TASKS,
    batches=(1, 32),
)
QUICK = Scale(
    documents=4,
    texts=24,
    rounds=1,
    passes=1,
    variants=("fp32",),
    tasks=("fields", "embedding", "even"),
    batches=(1,),
)
"""Exports take most of the time of a quick run, so it leaves one artifact out."""


def compare(work: Path, scale: Scale, fastembed: str | None) -> dict[str, Any]:
    """Returns every figure; raises where the arms do not agree."""
    fresh_process.cost(cold_start.arm("prepare", work, *scale.variants))
    fresh_process.cost(arm("prepare", work, scale.documents, scale.texts))
    if "classes" in scale.tasks:
        fresh_process.cost(arm("prepare_classes", work))
    commands = {
        "fields": field_commands(work, scale),
        "classes": class_commands(work, scale),
        "embedding": embedding_commands(work, scale, "mixed.json", fastembed),
        "even": embedding_commands(work, scale, "even.json", fastembed),
    }
    seconds: dict[str, float] = {}
    peaks: dict[str, float] = {}
    for task in scale.tasks:
        costs = fresh_process.take_turns(commands[task], scale.rounds)
        require_agreement(
            task, {name: found[0].printed["answers"] for name, found in costs.items()}
        )
        for name, found in costs.items():
            spent = [value for cost in found for value in cost.printed["cpu_s"]]
            seconds[f"{task}_{name}"] = statistics.median(spent)
            peaks[f"{task}_{name}"] = max(cost.peak_mb for cost in found)
    return report(seconds, peaks, scale)


def report(
    seconds: Mapping[str, float], peaks: Mapping[str, float], scale: Scale
) -> dict[str, Any]:
    """Returns the figures of the JSON line."""
    ratios = {}
    for name, value in seconds.items():
        task, _, peer = name.partition("_")
        if not peer.startswith("hushdoc"):
            ratios[f"{task}_vs_{peer}"] = round(value / seconds[f"{task}_hushdoc"], 2)
    if "fields_hushdoc_int8" in seconds:
        ratio = seconds["fields_pipeline"] / seconds["fields_hushdoc_int8"]
        ratios["fields_int8_vs_pipeline"] = round(ratio, 2)
    for name, ratio in ratios.items():
        print(f"{name}: {ratio}" + (f" (goal: {GOALS[name]})" if name in GOALS else ""))
    if "embedding_vs_fastembed" not in ratios:
        print("fastembed is not compared: give --fastembed PYTHON (see --help)")
    asked = {"fields": scale.documents, "classes": scale.documents}
    return {
        **ratios,
        "goals_met": (
            all(ratios[name] >= goal for name, goal in GOALS.items())
            if GOALS.keys() <= ratios.keys()
            else None
        ),
        "cpu_ms_each": {
            name: round(1000 * value / asked.get(name.partition("_")[0], scale.texts), 2)
            for name, value in seconds.items()
        },
        "peak_mb": {name: round(value, 1) for name, value in peaks.items()},
        "documents": scale.documents,
        "texts": scale.texts,
        **machine.dated(python=True),
    }


def field_commands(work: Path, scale: Scale) -> dict[str, Sequence[str]]:
    """Returns the programs that find fields."""
    commands = {
        "hushdoc" if variant == "fp32" else f"hushdoc_{variant}": arm(
            "fields", work, variant, scale.passes
        )
        for variant in scale.variants
    }
    return {**commands, "pipeline": arm("fields_in_pipeline", work, scale.passes)}


def class_commands(work: Path, scale: Scale) -> dict[str, Sequence[str]]:
    """Returns the programs that classify documents."""
    return {
        "hushdoc": arm("classes", work, scale.passes),
        "pipeline": arm("classes_in_pipeline", work, scale.passes),
    }


def embedding_commands(
    work: Path, scale: Scale, texts: str, fastembed: str | None
) -> dict[str, Sequence[str]]:
    """Returns the programs that embed texts."""
    given = [str(work / "published"), str(work / texts), str(scale.passes)]
    peer = "fastembed" if fastembed else "onnxruntime"
    run = [fastembed, "-c", FASTEMBED] if fastembed else arm("embedding_in_onnxruntime")
    peers = {
        peer: [*run, *given, "256", "unsorted"],
        f"{peer}_sorted": [*run, *given, "32", "sorted"],
    }
    pipelines = {
        "pipeline" if size == 1 else "pipeline_in_batches": arm(
            "embedding_in_pipeline", work, texts, scale.passes, size
        )
        for size in scale.batches
        if texts == "mixed.json"
    }
    return {"hushdoc": arm("embedding", work, texts, scale.passes), **pipelines, **peers}


def arm(name: str, *arguments: Any) -> Sequence[str]:
    """Returns the command that runs one arm."""
    return [sys.executable, __file__, "--arm", name, *map(str, arguments)]


def require_agreement(task: str, answers: Mapping[str, Any]) -> None:
    """Raises unless every arm answers like the first, but for int8, of which it is only printed."""
    import numpy as np

    expected = np.concatenate([np.ravel(row) for row in answers["hushdoc"]])
    for name, given in answers.items():
        found = np.concatenate([np.ravel(row) for row in given])
        if found.shape != expected.shape:
            raise SystemExit(f"{task}: {name} gives {len(found)} numbers, ours {len(expected)}.")
        difference = float(np.abs(found - expected).max())
        print(f"{task}: {name} differs from hushdoc by {difference:.2g}")
        if difference > 1e-4 and not name.endswith("int8"):
            raise SystemExit(f"{task}: {name} does not answer like hushdoc.")


def _compared(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    return compare(work, QUICK if options.quick else FULL, options.fastembed)


if __name__ == "__main__":
    sys.exit(
        fresh_process.main(__doc__, ARMS, _compared, quick="fewer texts and arms, in a minute")
    )
