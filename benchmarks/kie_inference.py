"""Layout models at run time: torch, our graphs, and ONNX Runtime as it comes.

A LayoutLMv3 of the base size (random weights, a page image of 224 x 224) is exported as
`hushdoc export` does, in float32 and in int8, and asked for 512 tokens with the image and for 128
tokens without. Every arm is a process of its own with one thread; it answers once to warm up and
then some more times, whose CPU time counts.

    fp32_vs_torch, int8_vs_torch   torch's CPU time in float32 / ours, the smaller of the two sizes
    fp32_vs_onnxruntime            the same file in ONNX Runtime as it comes (which is what optimum
                                   runs) / ours
    fp32_vs_torch_compiled         torch.compile with frozen weights in float32 / ours, where there
                                   is a C++ compiler for it: operations fused, products by oneDNN,
                                   which knows processors of any maker; not with --quick
    int8_vs_torch_int8             torch's own dynamic quantization / our int8
    int8_vs_torch_bf16             torch under autocast to bfloat16 / our int8, on processors that
                                   compute in it
    fp32_vs_optimum_512_image, int8_vs_optimum_512_image   optimum's own export of the model, run by
                                   optimum, where --optimum names an interpreter that has it
                                   (optimum-onnx, torch and onnxruntime). Without an image its graph
                                   does not run
    fp32_floor, int8_floor         what *_vs_torch would be if our graph were its matrix products
                                   and nothing else
    *_512_image, *_128             the same for each size
    memory_ratio                   resident memory after mixed batches, our session / ONNX Runtime
                                   with its defaults, the same int8 file; memory_cpu_ratio is what
                                   it costs in CPU time
    load_cpu_s, hashing_share      loading the int8 file, and SHA-256 of it against that

Nothing is timed before the graphs answered like torch: float32 within 1e-4, int8 with the same tag
for 90 % of the tokens (with random weights the best tags lie close together). --quick takes a
smaller model and fewer rounds, and says so. The last line is JSON.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fresh_process
import kie_products
import kie_torch
import machine
import numpy as np

GOALS = {"int8_vs_torch": 3.0, "fp32_vs_torch": 1.15}
LIMITS = {"memory_ratio": 0.25, "memory_cpu_ratio": 1.1}
RATIOS = {
    "fp32_vs_torch": ("torch", "fp32"),
    "int8_vs_torch": ("torch", "int8"),
    "fp32_vs_onnxruntime": ("onnxruntime", "fp32"),
    "fp32_vs_torch_compiled": ("torch_compiled", "fp32"),
    "int8_vs_torch_int8": ("torch_int8", "int8"),
    "int8_vs_torch_bf16": ("torch_bf16", "int8"),
    "fp32_floor": ("torch", "products_fp32"),
    "int8_floor": ("torch", "products_int8"),
}
"""Each is one arm's CPU time over another's."""

OPTIMUM = """
import json, sys, time
import numpy as np, onnxruntime, torch
from optimum.onnxruntime import ORTModelForCustomTasks, ORTModelForTokenClassification
folder, made, fed, calls = *sys.argv[1:4], int(sys.argv[4])
if not calls:
    ORTModelForTokenClassification.from_pretrained(folder, export=True).save_pretrained(made)
    sys.exit()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
model = ORTModelForCustomTasks.from_pretrained(made, session_options=options)
fed = {name: torch.from_numpy(value) for name, value in np.load(fed).items()}
spent = []
for _ in range(calls + 1):
    began = time.process_time()
    answer = model(**fed)["logits"]
    spent.append(time.process_time() - began)
np.save(sys.argv[5], answer.numpy())
print(json.dumps(spent[1:]))
"""

LABELS = 7
PATCH = 16
IMAGE = 224
CASES = {"512_image": (512, IMAGE), "128": (128, None)}
"""Tokens, and the size of the page image."""

MIXED = ((1, 128), (1, 512), (4, 512), (8, 128), (2, 300), (1, 64), (3, 400), (1, 128))
"""(rows, tokens) of the batches that the memory is measured over."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large the model is and how often it is asked."""

    layers: int
    hidden: int
    heads: int
    rounds: int
    calls: int


FULL = Scale(layers=12, hidden=768, heads=12, rounds=4, calls=3)
QUICK = Scale(layers=2, hidden=384, heads=6, rounds=1, calls=2)


def compare(work: Path, scale: Scale, optimum: str | None) -> dict[str, Any]:
    """Returns every figure; raises where the graphs do not answer like torch."""
    sizes = prepare(work, scale)
    found: dict[str, Any] = {}
    medians: dict[str, dict[str, float]] = {}
    for case in CASES:
        medians[case] = speeds(work, case, scale, optimum if case == "512_image" else None)
    for name, (theirs, ours) in RATIOS.items():
        if theirs in medians["128"]:
            ratios = {
                case: round(spent[theirs] / spent[ours], 2) for case, spent in medians.items()
            }
            found |= {f"{name}_{case}": ratio for case, ratio in ratios.items()}
            found[name] = min(ratios.values())
    if optimum:
        spent = medians["512_image"]
        for name in ("fp32", "int8"):
            found[f"{name}_vs_optimum_512_image"] = round(spent["optimum"] / spent[name], 2)
    found |= memory(work, scale) | loading(work, scale)
    for name, goal in GOALS.items():
        print(f"{name}: {found[name]} (goal: at least {goal:g})")
    for name, limit in LIMITS.items():
        print(f"{name}: {found[name]} (goal: at most {limit:g})")
    return {
        **found,
        "goals_met": all(found[name] >= goal for name, goal in GOALS.items())
        and all(found[name] <= limit for name, limit in LIMITS.items()),
        "cpu_seconds_per_call": {
            case: {arm: round(value, 4) for arm, value in arms.items()}
            for case, arms in medians.items()
        },
        "file_mb": sizes,
        "layers": scale.layers,
        "hidden": scale.hidden,
        **machine.dated(),
    }


def prepare(work: Path, scale: Scale) -> dict[str, float]:
    """Exports both graphs of each case and holds their answers against torch's."""
    from hushdoc.runtime.session import Runtime, Session
    from hushdoc_export import graph, parity, quantize

    model = kie_torch.build(
        layers=scale.layers, hidden=scale.hidden, heads=scale.heads, labels=LABELS
    )
    model.inner.save_pretrained(work / "torch")
    sizes = {}
    for case, (tokens, image) in CASES.items():
        traced = traceable(model, tokens, image)
        fp32 = quantize.optimized(traced.traced(), "basic")
        int8 = quantize.optimized(quantize.int8(fp32, per_channel=True), "extended")
        for variant, proto, tolerance in (("fp32", fp32, parity.TOLERANCE), ("int8", int8, None)):
            path = work / f"{case}.{variant}.onnx"
            path.write_bytes(graph.serialize(proto, notes={}))
            sizes[path.stem] = round(path.stat().st_size / 1e6, 1)
            session = Session(path.read_bytes(), runtime=Runtime(threads=1))
            same = parity.compare(traced, session, tolerance=tolerance)
            print(
                f"{case} {variant}: differs by {same['maxDifference']:.2g}, same tag for "
                f"{same['argmaxAgreement']:.1%}"
            )
            if same["argmaxAgreement"] < 0.9:
                raise SystemExit(f"{case} {variant} does not answer like torch.")
        kie_products.write(
            work / f"products_{case}",
            layers=scale.layers,
            hidden=scale.hidden,
            heads=scale.heads,
            inner=4 * scale.hidden,
        )
    return sizes


def traceable(model: Any, tokens: int, image: int | None) -> Any:
    """Returns a model with what it is traced with and compared on."""
    from hushdoc.runtime.encoding import Preprocessing
    from hushdoc.runtime.images import ImagePreprocessing
    from hushdoc_export import probes

    half = (0.5, 0.5, 0.5)
    pixels = None
    if image is not None:
        pixels = ImagePreprocessing(
            height=image, width=image, resample="bilinear", mean=half, std=half
        )
    settings = Preprocessing(
        max_tokens=tokens, overlap=0, cls_id=0, sep_id=2, pad_id=1, image=pixels
    )
    return probes.of_text(
        model, settings, vocab_size=50_000, output="logits", boxes=True, per_token=True
    )


def inputs(rows: int, tokens: int, image: int | None) -> dict[str, Any]:
    """Returns invented inputs, the same for every arm."""
    generator = np.random.default_rng(20261121)
    corners = np.sort(generator.integers(0, 1001, (rows, tokens, 2, 2)), axis=2)
    made: dict[str, Any] = {
        "input_ids": generator.integers(3, 50_000, (rows, tokens)),
        "bbox": corners.reshape(rows, tokens, 4),
        "attention_mask": np.ones((rows, tokens), np.int64),
    }
    if image is not None:
        made["pixel_values"] = generator.standard_normal((rows, 3, image, image)).astype(np.float32)
    return made


def speeds(work: Path, case: str, scale: Scale, optimum: str | None) -> dict[str, float]:
    """Returns the median CPU seconds of a call, for each arm."""
    precisions = {"torch": "float32", "torch_int8": "int8"}
    if scale is FULL and shutil.which("g++"):  # compiling takes a minute
        precisions["torch_compiled"] = "compiled"
    if "bf16" in machine.description():  # elsewhere it is emulated
        precisions["torch_bf16"] = "bfloat16"
    commands = {
        **{name: arm("torch", work, case, scale.calls, how) for name, how in precisions.items()},
        "onnxruntime": arm("onnxruntime", work / f"{case}.fp32.onnx", case, scale.calls),
    }
    for variant in ("fp32", "int8"):
        commands[variant] = arm("session", work / f"{case}.{variant}.onnx", case, scale.calls)
        products = work / f"products_{case}.{variant}.onnx"
        commands[f"products_{variant}"] = arm("products", products, case, scale.calls)
    if optimum:
        commands["optimum"] = by_optimum(work, case, scale.calls, optimum)
    costs = fresh_process.take_turns(commands, scale.rounds)
    if optimum:
        require_alike(work, case)
    return {
        name: statistics.median(value for cost in found for value in cost.printed)
        for name, found in costs.items()
    }


def by_optimum(work: Path, case: str, calls: int, python: str) -> Sequence[str]:
    """Returns the command that asks optimum, which has exported the model."""
    np.savez(work / "fed.npz", **inputs(1, *CASES[case]))
    given = [str(work / name) for name in ("torch", "optimum", "fed.npz")]
    fresh_process.cost([python, "-c", OPTIMUM, *given, "0"])
    return [python, "-c", OPTIMUM, *given, str(calls), str(work / "optimum.npy")]


def require_alike(work: Path, case: str) -> None:
    """Raises unless optimum answered like our float32 graph."""
    ours = by_default(str(work / f"{case}.fp32.onnx"))(inputs(1, *CASES[case]))[0]
    difference = float(np.abs(np.load(work / "optimum.npy") - ours).max())
    print(f"{case} optimum: differs from our float32 by {difference:.2g}")
    if difference > 1e-3:
        raise SystemExit("optimum does not answer like us.")


def memory(work: Path, scale: Scale) -> dict[str, float]:
    """Returns what mixed batches leave in memory, our session against the runtime's defaults."""
    path = work / "512_image.int8.onnx"
    commands = {how: arm("mixed", how, path) for how in ("hushdoc", "default")}
    costs = fresh_process.take_turns(commands, scale.rounds)
    ours, theirs = (
        {
            key: statistics.median(cost.printed[key] for cost in costs[how])
            for key in ("resident_mb", "cpu_s")
        }
        for how in ("hushdoc", "default")
    )
    return {
        "memory_ratio": round(ours["resident_mb"] / theirs["resident_mb"], 3),
        "memory_cpu_ratio": round(ours["cpu_s"] / theirs["cpu_s"], 3),
        "resident_mb": round(ours["resident_mb"], 1),
        "resident_default_mb": round(theirs["resident_mb"], 1),
    }


def loading(work: Path, scale: Scale) -> dict[str, float]:
    """Returns what it takes to load the int8 file, and to hash it."""
    path = work / "512_image.int8.onnx"
    costs = fresh_process.take_turns({"load": arm("load", path)}, scale.rounds)["load"]
    load, hashing, resident = (
        statistics.median(cost.printed[key] for cost in costs)
        for key in ("load_s", "hash_s", "resident_mb")
    )
    return {
        "load_cpu_s": round(load, 3),
        "hashing_share": round(hashing / load, 3),
        "loaded_mb": round(resident, 1),
    }


def arm(name: str, *arguments: Any) -> Sequence[str]:
    """Returns the command that runs one arm."""
    return [sys.executable, __file__, "--arm", name, *map(str, arguments)]


def run_torch(work: str, case: str, calls: str, precision: str) -> list[float]:
    """Times the model in torch: in float32, compiled, quantized by torch, or under autocast."""
    import torch
    import transformers

    torch.set_num_threads(1)
    model = transformers.LayoutLMv3ForTokenClassification.from_pretrained(Path(work) / "torch")
    model.eval()
    if precision == "int8":
        model = kie_torch.quantized(model)
    elif precision == "compiled":
        model = kie_torch.compiled(model)
    fed = {name: torch.from_numpy(value) for name, value in inputs(1, *CASES[case]).items()}
    low = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16")
    with torch.inference_mode(), low:
        return fresh_process.timed(lambda: model(**fed), int(calls))


def run_onnxruntime(path: str, case: str, calls: str) -> list[float]:
    """Times a graph in ONNX Runtime as it comes."""
    run, fed = by_default(path), inputs(1, *CASES[case])
    return fresh_process.timed(lambda: run(fed), int(calls))


def run_products(path: str, case: str, calls: str) -> list[float]:
    """Times the matrix products alone in our session."""
    from hushdoc.runtime.session import Runtime, Session

    session = Session(Path(path).read_bytes(), runtime=Runtime(threads=1))
    tokens, image = CASES[case]
    patches = 0 if image is None else (image // PATCH) ** 2 + 1
    fed = kie_products.inputs(session, tokens + patches)
    return fresh_process.timed(lambda: session.run(fed), int(calls))


def run_session(path: str, case: str, calls: str) -> list[float]:
    """Times a graph in our session."""
    from hushdoc.runtime.session import Runtime, Session

    session = Session(Path(path).read_bytes(), runtime=Runtime(threads=1))
    fed = inputs(1, *CASES[case])
    return fresh_process.timed(lambda: session.run(fed), int(calls))


def run_mixed(how: str, path: str) -> Mapping[str, float]:
    """Runs batches of many shapes and tells what stays in memory, and their CPU time."""
    run = ours(path) if how == "hushdoc" else by_default(path)
    before = resident_mb()
    batches = [inputs(rows, tokens, IMAGE) for rows, tokens in MIXED]
    fed = resident_mb() - before
    began = time.process_time()
    for batch in batches:
        run(batch)
    spent = time.process_time() - began
    return {"resident_mb": resident_mb() - fed, "cpu_s": spent}


def ours(path: str) -> Callable[[Any], Any]:
    """Returns our session of a graph."""
    from hushdoc.runtime.session import Runtime, Session

    return Session(Path(path).read_bytes(), runtime=Runtime(threads=1)).run


def by_default(path: str) -> Callable[[Any], Any]:
    """Returns ONNX Runtime's session as it comes, but for one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda batch: session.run(None, batch)


def run_load(path: str) -> Mapping[str, float]:
    """Loads a graph, and hashes its file, both from memory."""
    import hashlib

    from hushdoc.runtime.session import Runtime, Session, import_onnxruntime

    import_onnxruntime()
    content = Path(path).read_bytes()
    before = resident_mb() - len(content) / 1e6
    began = time.process_time()
    session = Session(content, runtime=Runtime(threads=1))
    loaded = time.process_time()
    hashlib.sha256(content).digest()
    hashed = time.process_time() - loaded
    del content
    assert session.inputs
    return {"load_s": loaded - began, "hash_s": hashed, "resident_mb": resident_mb() - before}


def resident_mb() -> float:
    """Returns what this process holds in memory now."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


ARMS: Mapping[str, Callable[..., Any]] = {
    "torch": run_torch,
    "session": run_session,
    "onnxruntime": run_onnxruntime,
    "products": run_products,
    "mixed": run_mixed,
    "load": run_load,
}


def _compared(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    return compare(work, QUICK if options.quick else FULL, options.optimum)


if __name__ == "__main__":
    sys.exit(fresh_process.main(__doc__, ARMS, _compared, quick="a smaller model, in a minute"))
