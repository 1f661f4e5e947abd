"""Answers that are written, at run time: VT5 in torch, and our graphs of it.

A VT5 of the paper's sizes (512 tokens and a page image of 224 x 224) is traced into its three
graphs as `hushdoc export` does, in float32 and in int8, and writes an answer of 16 tokens. It has
random weights, but for the decoder's last layer, which has learned that answer. The answer stands
on the page, as all that is written by default does, so that our graphs ask about several of its
tokens at once; the arms `elsewhere` write the same, freely, of a page that does not hold it. Every
arm is a process of its own with one thread; it answers once to warm up and then some more times,
whose CPU time counts: image, encoder and decoder.

    answers_per_cpu_second_ratio_fp32, answers_per_cpu_second_ratio_int8
                             torch's CPU time of an answer, by transformers' `generate` in float32,
                             the best of its ways / ours by `Writer`; `torch_arm` names that way
    fp32_ratio_elsewhere, int8_ratio_elsewhere
                             the same where the answer does not stand on the page
    fp32_vs_torch_static     torch with caches of a fixed size / our float32; as it comes, they grow
    fp32_floor, int8_floor   what the first two would be if our graphs were their matrix products
                             alone, by as many runs of the decoder
    int8_vs_torch_int8       torch's own dynamic quantization / our int8
    int8_vs_torch_bf16, int8_vs_torch_bf16_weights
                             torch under autocast to bfloat16, and with its weights in it / our
                             int8, on processors that compute in it
    fp32_vs_torch_eager      torch without fused attention / our float32
    fp32_vs_torch_compiled   torch.compile with frozen weights in float32 / our float32, where
                             there is a C++ compiler for it
    memory_mb, torch_memory_mb
                             most memory of a process that loads the int8 graphs from their files
                             and answers; of torch's
    questions_per_page_ratio eight questions by `ask`, one after the other / the same by `ask_all`,
                             of one page with its image, int8
    pointer_vs_vt5_int8      our int8 VT5 / an int8 pointer on LayoutLM of the base size, 512 tokens
    pointer_questions_per_page_ratio
                             eight questions to that pointer, one after the other / all at once
    pointer_floats_vs_int8   a pointer whose products of questions are in floats / one all of bytes

Nothing is timed before the graphs gave forced tokens torch's logits, float32 within 1e-4 of their
scale and int8 with a mean cosine of .98, and wrote the 16 tokens that `generate` writes. --quick
takes a smaller model and fewer rounds, and says so; --written, on a machine that is lent for
minutes, leaves out pointers, several questions and bfloat16. The last line is JSON.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fresh_process
import kie_products
import kie_torch
import machine
import numpy as np

GOALS = {"answers_per_cpu_second_ratio_int8": 2.5, "answers_per_cpu_second_ratio_fp32": 1.4}
FLOAT32 = ("torch", "torch_static", "torch_eager", "torch_compiled")
"""Ways of torch to answer in float32."""

BEST = "torch_best"
"""The fastest of FLOAT32."""

RATIOS = {
    "answers_per_cpu_second_ratio_fp32": (BEST, "fp32"),
    "answers_per_cpu_second_ratio_int8": (BEST, "int8"),
    "fp32_ratio_elsewhere": (BEST, "fp32_elsewhere"),
    "int8_ratio_elsewhere": (BEST, "int8_elsewhere"),
    "fp32_floor": (BEST, "products_fp32"),
    "int8_floor": (BEST, "products_int8"),
    "fp32_vs_torch_static": ("torch_static", "fp32"),
    "fp32_vs_torch_eager": ("torch_eager", "fp32"),
    "fp32_vs_torch_compiled": ("torch_compiled", "fp32"),
    "int8_vs_torch_int8": ("torch_int8", "int8"),
    "int8_vs_torch_bf16": ("torch_bf16", "int8"),
    "int8_vs_torch_bf16_weights": ("torch_bf16_weights", "int8"),
    "questions_per_page_ratio": ("ask", "ask_all"),
    "pointer_vs_vt5_int8": ("int8", "pointer"),
    "pointer_questions_per_page_ratio": ("pointer_each", "pointer_all"),
    "pointer_floats_vs_int8": ("pointer_floats", "pointer"),
}
"""Each is one arm's CPU time over another's."""

TOKENS, QUESTION, ANSWER = 512, 24, 16
"""Of a row, of its question, and of its answer."""

PATCH = 16
"""Pixels of each side of a part of the image."""

HERE, ELSEWHERE = "here", "elsewhere"
"""Whether the page holds the answer."""

PLACE = 100
"""Of the answer, in tokens of the page that holds it."""

QUESTIONS = (
    "What is the total?",
    "Who sent this?",
    "What is the number of the invoice?",
    "When was it written?",
    "When is it due?",
    "What is the tax?",
    "Which currency is it in?",
    "What is the address of the sender?",
)
WORDS = (
    "invoice",
    "number",
    "total",
    "tax",
    "due",
    "date",
    "sender",
    "of",
    "2026",
    "12",
    "450",
    "00",
)
SEED = 20261123


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large the model is and how often it is asked."""

    t5: Mapping[str, int]
    vision: Mapping[str, int]
    hidden: int  # of the pointer
    layers: int
    rounds: int
    calls: int


FULL = Scale(
    t5={"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12},
    vision={},
    hidden=768,
    layers=12,
    rounds=2,
    calls=2,
)
QUICK = Scale(
    t5={"d_model": 256, "d_kv": 64, "d_ff": 512, "num_layers": 1, "num_heads": 4},
    vision={
        "hidden_size": 192,
        "num_hidden_layers": 1,
        "num_attention_heads": 3,
        "intermediate_size": 384,
    },
    hidden=256,
    layers=1,
    rounds=1,
    calls=1,
)


def compare(work: Path, scale: Scale, *, written: bool) -> dict[str, Any]:
    """Returns every figure, or of `--written`; raises where graphs do not answer like torch."""
    sizes = prepare(work, scale)
    runs = ",".join(map(str, decoder_runs(work)))
    print(f"Our decoder reads tokens of an answer on the page in runs of {runs}.")
    commands = {
        "torch": arm("torch", work, "float32", scale.calls),
        "torch_static": arm("torch", work, "static", scale.calls),
        "torch_eager": arm("torch", work, "eager", scale.calls),
        "torch_int8": arm("torch", work, "int8", scale.calls),
        **{
            name + suffix: arm("graphs", work, name, where, scale.calls)
            for name in ("fp32", "int8")
            for where, suffix in ((HERE, ""), (ELSEWHERE, "_elsewhere"))
        },
        **{
            f"products_{name}": arm("products", work, name, runs, scale.calls)
            for name in ("fp32", "int8")
        },
    }
    if not written:
        commands |= {
            "pointer": arm("pointer", work, "int8", 1, 1, scale.calls),
            "pointer_floats": arm("pointer", work, "floats", 1, 1, scale.calls),
            "pointer_each": arm("pointer", work, "int8", len(QUESTIONS), 1, 1),
            "pointer_all": arm("pointer", work, "int8", 1, len(QUESTIONS), 1),
            "ask": arm("asked", work, "ask"),
            "ask_all": arm("asked", work, "ask_all"),
        }
    if scale is FULL and shutil.which("g++"):  # compiling takes a minute
        commands["torch_compiled"] = arm("torch", work, "compiled", scale.calls)
    if "bf16" in machine.description() and not written:  # elsewhere it is emulated
        commands["torch_bf16"] = arm("torch", work, "bfloat16", scale.calls)
        commands["torch_bf16_weights"] = arm("torch", work, "bfloat16_weights", scale.calls)
    costs = fresh_process.take_turns(commands, scale.rounds)
    spent = {
        name: statistics.median(value for cost in found for value in cost.printed["cpu_s"])
        for name, found in costs.items()
    }
    least = {
        name: min(value for cost in found for value in cost.printed["cpu_s"])
        for name, found in costs.items()
    }
    fastest = min(spent.keys() & set(FLOAT32), key=lambda name: spent[name])
    spent[BEST] = spent[fastest]
    print(f"torch in float32 is fastest as {fastest}: {spent[fastest]:.3f} CPU seconds")
    found: dict[str, Any] = {
        name: round(spent[theirs] / spent[ours], 2)
        for name, (theirs, ours) in RATIOS.items()
        if {theirs, ours} <= spent.keys()
    }
    found |= {
        f"{prefix}memory_mb": round(
            statistics.median(cost.printed["peak_mb"] for cost in costs[name]), 1
        )
        for prefix, name in (("", "int8"), ("torch_", "torch"))
    }
    for name, goal in GOALS.items():
        print(f"{name}: {found[name]} (goal: at least {goal:g})")
    return {
        **found,
        "torch_arm": fastest,
        "goals_met": all(found[name] >= goal for name, goal in GOALS.items()),
        "cpu_seconds": {name: round(value, 4) for name, value in spent.items()},
        "cpu_seconds_least": {name: round(value, 4) for name, value in least.items()},
        "file_mb": sizes,
        "rounds": scale.rounds,
        **machine.dated(),
    }


def prepare(work: Path, scale: Scale) -> dict[str, float]:
    """Writes model, graphs and tokenizer, and holds the graphs' answers against torch's."""
    import torch

    from hushdoc_export import graph, quantize
    from hushdoc_export.vt5 import Writing
    from hushdoc_training.models import vt5_start
    from hushdoc_training.models.vt5 import VT5, VT5Config

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    image = {"use_absolute_position_embeddings": True, "use_mask_token": False, **scale.vision}
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    model = VT5(VT5Config(t5={**scale.t5, **ids}, vision=image)).eval()
    (work / "tokenizer.json").write_text(vt5_start.tokenizer([" ".join(WORDS)] * 3))
    teach(model, encoder(work))
    model.save(work)
    traced = Writing(model=model, encoder=encoder(work)).traced(fused=True)
    protos = {name: quantize.optimized(proto, "basic") for name, proto in traced.items()}
    for name, proto in protos.items():
        rounded, _ = quantize.written(proto, quantize.VARIANTS["int8"])[-1]
        (work / f"{name}.fp32.onnx").write_bytes(graph.serialize(proto, notes={}))
        (work / f"{name}.int8.onnx").write_bytes(graph.serialize(rounded, notes={}))
    del traced, protos
    for variant in ("fp32", "int8"):
        require_alike(work, model, variant)
    write_pointer(work, scale)
    files = sorted(work.glob("*.onnx"))
    write_products(work, model)
    return {path.stem: round(path.stat().st_size / 1e6, 1) for path in files}


def write_products(work: Path, model: Any) -> None:
    """Writes the matrix products alone that each graph of the model has."""
    t5, vision = model.t5.config, model.vision.config
    sizes = {"layers": t5.num_layers, "hidden": t5.d_model, "heads": t5.num_heads, "inner": t5.d_ff}
    crossed = [t5.d_model] * 2 * t5.num_layers  # the decoder's keys and values
    kie_products.write(work / "products_encoder", **sizes, after=crossed)
    # Of attention to the encoder two weights are left, which ask and answer.
    kie_products.write(work / "products_decoder", **sizes, square=6, after=[t5.vocab_size])
    kie_products.write(
        work / "products_vision",
        layers=vision.num_hidden_layers,
        hidden=vision.hidden_size,
        heads=vision.num_attention_heads,
        inner=vision.intermediate_size,
        after=[t5.d_model],
    )


def decoder_runs(work: Path) -> list[int]:
    """Returns how many tokens each run of our decoder reads for the answer on the page."""
    from hushdoc.runtime.writing import DECODER, TOKENS

    sessions, found = opened(work, "fp32"), list[int]()
    decoder = sessions[DECODER]
    run = decoder.run

    def heard(fed: Mapping[str, Any]) -> Any:
        found.append(fed[TOKENS].shape[1])
        return run(fed)

    decoder.run = heard
    written(sessions, encoder(work), HERE)
    return found


def teach(model: Any, made: Any) -> None:
    """Trains the decoder's last layer until it is sure of the answer that stands on the page."""
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    row, pixels = row_and_pixels(made)
    answer = torch.from_numpy(row.page.ids[None, PLACE : PLACE + ANSWER])
    words = {name: torch.from_numpy(value) for name, value in made.batch([row]).items()}
    with torch.no_grad():
        states, mask = model.encode(**words, visual=model.visual(torch.from_numpy(pixels[None])))
    last = model.requires_grad_(False).t5.decoder.block[-1].requires_grad_(True)
    optimizer = torch.optim.Adam(last.parameters(), lr=1e-3)
    for _ in range(100):
        optimizer.zero_grad()
        loss = model.t5(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=mask,
            labels=answer,
        ).loss
        loss.backward()
        optimizer.step()
        if loss < 0.05:
            return
    raise SystemExit("The model did not learn the answer.")


def require_alike(work: Path, model: Any, variant: str) -> None:
    """Raises unless graphs give forced tokens torch's logits, and write what torch does."""
    from hushdoc_export import seq2seq

    sessions, made = opened(work, variant), encoder(work)
    for where in (HERE, ELSEWHERE):
        row, pixels = row_and_pixels(made, where)
        inputs = made.batch([row], pixel_values=[pixels])
        ((_, (best,), _),) = written(sessions, made, where)
        if list(best.tokens) != seq2seq.generated(model, inputs, max_answer=ANSWER):
            raise SystemExit(f"{variant}, {where}: the answer is not torch's.")
    forced = np.random.default_rng(SEED).integers(2, 32_000, (1, ANSWER))
    if variant == "fp32":
        worst = seq2seq.compare(model, sessions, inputs, forced)
        print(f"fp32: forced tokens differ by {worst:.2g}, and answers are the same")
        return
    import torch

    with torch.no_grad():
        tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}
        expected = model(**tensors, targets=torch.from_numpy(forced)).numpy()
    before = np.concatenate([np.zeros((1, 1), dtype=np.int64), forced[:, :-1]], axis=1)
    found = seq2seq.logits(sessions, inputs, before.tolist())
    lengths = np.linalg.norm(expected, axis=-1) * np.linalg.norm(found, axis=-1)
    cosine = float(((expected * found).sum(-1) / lengths).mean())
    print(f"int8: forced tokens get logits of a mean cosine of {cosine:.4f} to torch's")
    if not cosine >= 0.98:
        raise SystemExit("int8 does not answer like torch.")


def encoder(work: Path) -> Any:
    """Returns a tokenizer, whose words are few, with the settings of the model."""
    from hushdoc.runtime.images import ImagePreprocessing
    from hushdoc.runtime.questions import VT5_PROMPT, Asking, QuestionEncoder

    half = (0.5, 0.5, 0.5)
    asking = Asking(
        kind="vt5",
        prompt=VT5_PROMPT,
        lowercase=True,
        max_tokens=TOKENS,
        max_answer=ANSWER,
        eos_id=1,
        pad_id=0,
        image=ImagePreprocessing(height=224, width=224, resample="bilinear", mean=half, std=half),
    )
    return QuestionEncoder(work / "tokenizer.json", asking)


def row_and_pixels(made: Any, where: str = HERE) -> tuple[Any, Any]:
    """Returns an invented row of as many tokens as are read at once, and an image.

    Elsewhere what the model has learned to answer is not on it: other tokens are.
    """
    from hushdoc.runtime.encoding import EncodedPage
    from hushdoc.runtime.questions import QuestionRow

    generator = np.random.default_rng(SEED)
    length = TOKENS - QUESTION - made.asking.num_special
    corners = np.sort(generator.integers(0, 1001, (length, 2, 2)), axis=1)
    ids = generator.integers(2, 32_000, length)
    if where == ELSEWHERE:
        ids[np.isin(ids, ids[PLACE : PLACE + ANSWER])] = 2
    page = EncodedPage(
        ids=ids,
        boxes=corners.reshape(length, 4),
        words=np.arange(length),
        first=np.ones(length, dtype=bool),
        num_words=length,
        cut_words=(),
    )
    question = generator.integers(2, 32_000, QUESTION)
    pixels = generator.standard_normal((3, 224, 224)).astype(np.float32)
    return QuestionRow(question=question, page=page, start=0, stop=length), pixels


def opened(work: Path, variant: str, prefix: str = "") -> dict[str, Any]:
    """Returns the graphs of a variant, loaded from their files as `low_memory` does."""
    from hushdoc.runtime.session import Runtime, Session
    from hushdoc.runtime.writing import DECODER, ENCODER, VISION

    names = (VISION, ENCODER, DECODER)
    files = [str(work / f"{prefix}{name}.{variant}.onnx") for name in names]
    loaded = Session.together(files, runtime=Runtime(threads=1))
    return dict(zip(names, loaded, strict=True))


def written(sessions: Mapping[str, Any], made: Any, where: str) -> list[Any]:
    """Returns the answer to the invented row, on its words where they are, else written freely."""
    from hushdoc.runtime.writing import Writer

    row, pixels = row_and_pixels(made, where)
    return list(Writer(made, sessions).written([row], grounded=where == HERE, pixels=pixels))


def write_pointer(work: Path, scale: Scale) -> None:
    """Exports a pointer of random weights in int8, all of it and but for products of questions."""
    import transformers

    from hushdoc.runtime.questions import Asking
    from hushdoc_export import docvqa, graph, quantize
    from hushdoc_training.models.layout import TokenClassifier
    from hushdoc_training.models.pointer import pointer_on

    config = transformers.LayoutLMConfig(
        hidden_size=scale.hidden,
        num_hidden_layers=scale.layers,
        num_attention_heads=scale.hidden // 64,
        intermediate_size=4 * scale.hidden,
    )
    inner = transformers.LayoutLMForTokenClassification(config).eval()
    model = pointer_on(TokenClassifier(inner, "layoutlm").eval()).eval()
    asking = Asking(kind="pointer", max_tokens=TOKENS, cls_id=101, sep_id=102, pad_id=0)
    fp32 = quantize.optimized(docvqa.traceable(model, asking).traced(), "basic")
    ways = quantize.written(fp32, quantize.VARIANTS["int8"])[1:]
    for name, (made, _) in zip(("int8", "floats"), ways, strict=True):
        (work / f"pointer.{name}.onnx").write_bytes(graph.serialize(made, notes={}))


def arm(name: str, *arguments: Any) -> Sequence[str]:
    """Returns the command that runs one arm."""
    return [sys.executable, __file__, "--arm", name, *map(str, arguments)]


def run_torch(folder: str, how: str, calls: str) -> dict[str, Any]:
    """Times the model in torch, in one of its ways."""
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    from hushdoc_training.models import vt5

    torch.set_num_threads(1)
    work = Path(folder)
    model: Any = vt5.load(work)
    made = encoder(work)
    row, pixels = row_and_pixels(made)
    words = {name: torch.from_numpy(value) for name, value in made.batch([row]).items()}
    image = torch.from_numpy(pixels[None])
    if how == "eager":
        for part in (model.t5, model.t5.encoder, model.t5.decoder, model.vision):
            part.config._attn_implementation = "eager"
    if how == "int8":
        model = kie_torch.quantized(model)
    if how == "compiled":
        decoder = model.t5.decoder
        decoder.forward = kie_torch.compiled(decoder.forward)
        model.encode, model.visual = map(kie_torch.compiled, (model.encode, model.visual))
    if how == "bfloat16_weights":
        model, image = model.to(torch.bfloat16), image.to(torch.bfloat16)

    def answer() -> None:
        states, mask = model.encode(**words, visual=model.visual(image))
        tokens = model.t5.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=mask,
            min_new_tokens=ANSWER,
            max_new_tokens=ANSWER,
            do_sample=False,
            num_beams=1,
            cache_implementation="static" if how == "static" else None,
        )
        assert tokens.shape == (1, 1 + ANSWER)

    low = torch.autocast("cpu", torch.bfloat16, enabled=how == "bfloat16")
    with torch.inference_mode(), low:
        return timed(answer, int(calls))


def run_graphs(folder: str, variant: str, where: str, calls: str) -> dict[str, Any]:
    """Times our graphs, with the search around them."""
    sessions, made = opened(Path(folder), variant), encoder(Path(folder))

    def answer() -> None:
        ((_, (best,), _),) = written(sessions, made, where)
        assert len(best.tokens) == ANSWER

    return timed(answer, int(calls))


def run_products(folder: str, variant: str, runs: str, calls: str) -> dict[str, Any]:
    """Times the matrix products alone, of an image, the encoder's row and the decoder's runs."""
    _, pixels = row_and_pixels(encoder(Path(folder)))
    patches = (pixels.shape[-1] // PATCH) ** 2 + 1
    sessions = opened(Path(folder), variant, prefix="products_")
    positions = [("vision", patches), ("encoder", TOKENS + patches)]
    positions += [("decoder", int(many)) for many in runs.split(",")]
    fed = [(sessions[name], kie_products.inputs(sessions[name], many)) for name, many in positions]
    return timed(lambda: [session.run(inputs) for session, inputs in fed], int(calls))


def run_pointer(folder: str, way: str, runs: str, questions: str, calls: str) -> dict[str, Any]:
    """Times some runs of a pointer's graph with a row as long, each with some questions."""
    from hushdoc.runtime.session import Runtime, Session

    session = Session(f"{folder}/pointer.{way}.onnx", runtime=Runtime(threads=1))
    generator = np.random.default_rng(SEED)
    corners = np.sort(generator.integers(0, 1001, (1, TOKENS, 2, 2)), axis=2)
    fed = {
        "input_ids": generator.integers(1000, 30_000, (1, TOKENS)),
        "bbox": corners.reshape(1, TOKENS, 4),
        "attention_mask": np.ones((1, TOKENS), np.int64),
        "question_ids": generator.integers(1000, 30_000, (1, int(questions), QUESTION)),
        "question_mask": np.ones((1, int(questions), QUESTION), np.int64),
    }
    return timed(lambda: [session.run(fed) for _ in range(int(runs))], int(calls))


def run_asked(folder: str, how: str) -> dict[str, Any]:
    """Times eight questions about a page with an image, one by one or all at once."""
    from hushdoc.runtime.docvqa import DocVQAModel
    from hushdoc.runtime.writing import Writer
    from hushdoc_export.release import Release
    from hushdoc_training.privacy import claims

    work = Path(folder)
    made = encoder(work)
    released = Release(key=fresh_key(), name="benchmark", issuer="nobody").certificate(
        claims.public((), training={}), task="docvqa", format="onnx", entry="onnx/model.onnx"
    )
    model = DocVQAModel(
        certificate=released,
        encoder=made,
        reader=Writer(made, opened(work, "int8")),
        device="cpu",
    )
    asked = page(work)
    if how == "ask_all":
        return timed(lambda: model.ask_all(asked, QUESTIONS), 1)
    return timed(lambda: [model.ask(asked, question) for question in QUESTIONS], 1)


def fresh_key() -> Any:
    """Returns a key that signs nothing that is kept."""
    from hushdoc.signing import keys

    return keys.generate_key()


def page(work: Path) -> Any:
    """Returns a document of one page that fills a window, with the image of a scan of it."""
    from dataclasses import replace

    from PIL import Image

    from hushdoc.document.document import Document

    path = work / "page.png"
    if not path.exists():
        noise = np.random.default_rng(SEED).integers(200, 256, (1754, 1240), dtype=np.uint8)
        Image.fromarray(noise).save(path)
    words = [WORDS[place % len(WORDS)] for place in range(300)]
    boxes = [
        (20 + 60 * (place % 20), 20 + 100 * (place // 20), 70 + 60 * (place % 20),
         60 + 100 * (place // 20)) for place in range(300)
    ]  # fmt: skip
    made = Document.from_words(words, boxes, width=1240, height=1754)
    return replace(made, pages=(replace(made.pages[0], image=path),))


def timed(call: Callable[[], Any], calls: int) -> dict[str, Any]:
    """Returns the CPU seconds of each call after a first one, and the most memory until then."""
    found = fresh_process.timed(call, calls)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak_mb = int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    return {"cpu_s": found, "peak_mb": peak_mb}


ARMS: Mapping[str, Callable[..., Any]] = {
    "torch": run_torch,
    "graphs": run_graphs,
    "products": run_products,
    "pointer": run_pointer,
    "asked": run_asked,
}


def _compared(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    return compare(work, QUICK if options.quick else FULL, written=options.written)


if __name__ == "__main__":
    told = "answers in float32 and int8 alone: no pointer, no several questions, no bfloat16"
    sys.exit(
        fresh_process.main(
            __doc__,
            ARMS,
            _compared,
            quick="a smaller model, in a minute",
            flags={"--written": told},
        )
    )
