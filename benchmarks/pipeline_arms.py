"""The arms of pipelines.py: what each side runs over the same texts, and what it answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cold_start

CLASSES = ["letter", "invoice", "form", "receipt"]
LENGTHS = {"mixed": (4, 8, 12, 20, 40, 80), "even": (32,)}
"""Words of the texts that are embedded."""


def prepare(work: str, documents: str, texts: str) -> None:
    """Writes what is read."""
    from hushdoc_training import invented

    made = [
        invented.document(
            seed=1, index=index, config=invented.InventedConfig(document_types=("form",))
        )
        for index in range(max(int(documents), 8))
    ]
    words = [[word.text for word in item.document.pages[0].words] for item in made]
    (Path(work) / "documents.json").write_text(json.dumps(words[: int(documents)]))
    every = [word for page in words for word in page]
    for name, lengths in LENGTHS.items():
        cut = [
            " ".join(every[(7 * index) % 500 :][: lengths[index % len(lengths)]])
            for index in range(int(texts))
        ]
        (Path(work) / f"{name}.json").write_text(json.dumps(cut))


def prepare_classes(home: str) -> None:
    """Writes MiniLM with a random head as a checkpoint and as an artifact."""
    import torch
    import transformers

    from hushdoc.runtime.encoding import Preprocessing
    from hushdoc_export.classification import export_text_classifier
    from hushdoc_export.release import Release

    work = Path(home)
    torch.manual_seed(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(work / "published")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        work / "published", num_labels=len(CLASSES), id2label=dict(enumerate(CLASSES))
    ).eval()
    model.save_pretrained(work / "classifier")
    tokenizer.save_pretrained(work / "classifier")
    key = cold_start.trusted_key(work, "trust-classes.json")
    export_text_classifier(
        model,
        work / "classes",
        Release(key=key, name="classes", issuer="benchmark"),
        labels=CLASSES,
        tokenizer_json=(work / "published/tokenizer.json").read_text(encoding="utf-8"),
        preprocessing=Preprocessing(
            max_tokens=512,
            overlap=32,
            cls_id=tokenizer.cls_token_id,
            sep_id=tokenizer.sep_token_id,
            pad_id=tokenizer.pad_token_id,
        ),
        claim=cold_start.claim(),
    )


def inputs_of(work: str, name: str) -> Any:
    """Returns what `prepare` wrote."""
    return json.loads((Path(work) / name).read_text())


def options_of(work: str, store: str) -> dict[str, Any]:
    """Returns how our models are loaded: by signature, with one thread."""
    import hushdoc

    trust = hushdoc.TrustStore.from_file(Path(work) / store)
    return {
        "policy": hushdoc.Policy.integrity_only(trust),
        "runtime": hushdoc.Runtime(threads=1),
    }


def timed(answer: Callable[[Sequence[Any]], list[Any]], asked: Sequence[Any], passes: str) -> Any:
    """Returns the CPU seconds of each pass over what is asked, after a short one, and the answers.

    The answers of the last pass: one list of numbers for each item.
    """
    answer(asked[:8])
    spent = []
    for _ in range(int(passes)):
        began = time.process_time()
        found = answer(asked)
        spent.append(time.process_time() - began)
    return {"cpu_s": spent, "answers": found}


def run_fields(work: str, variant: str, passes: str) -> Any:
    """Finds fields with a verified artifact; answers with the scores of the graph's best tags."""
    import hushdoc

    model = hushdoc.KIEModel.load(Path(work) / variant, **options_of(work, "trust.json"))
    documents = [
        hushdoc.Document.from_words(words, [(0, 0, 0, 0)] * len(words), width=1000, height=1000)
        for words in inputs_of(work, "documents.json")
    ]

    def answer(asked: Sequence[Any]) -> list[Any]:
        found = [model.extract(document) for document in asked]
        notes = [note for extraction in found for note in extraction.warnings]
        if any("does not know all characters" not in note for note in notes):
            raise SystemExit("Some words were not read.")
        return []

    cost = timed(answer, documents, passes)
    return {**cost, "answers": graph_scores(work, variant)}


def graph_scores(work: str, variant: str) -> list[list[float]]:
    """Returns for each document the best tag's score of each token, from the artifact's graph."""
    import numpy as np
    from tokenizers import Tokenizer

    from hushdoc.runtime.session import Runtime, Session

    tokenizer = Tokenizer.from_file(str(Path(work) / "checkpoint/tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    (graph,) = (Path(work) / variant / "onnx").glob("*.onnx")
    session = Session(graph.read_bytes(), runtime=Runtime(threads=1))
    scores = []
    for words in inputs_of(work, "documents.json"):
        ids = np.array([tokenizer.encode(" ".join(words)).ids])
        given = {"input_ids": ids, "bbox": np.zeros((*ids.shape, 4), np.int64)}
        logits = session.run({**given, "attention_mask": np.ones_like(ids)})[0][0, 1:-1]
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        scores.append((powers / powers.sum(-1, keepdims=True)).max(-1).tolist())
    return scores


def checkpoint_tokenizer(work: str) -> Any:
    """Returns the layout model's tokenizer as transformers has it."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_file=str(Path(work) / "checkpoint/tokenizer.json"),
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        mask_token="[MASK]",
    )


def pipeline(task: str, **options: Any) -> Any:
    """Returns a pipeline of transformers, on one thread."""
    import torch
    import transformers

    torch.set_num_threads(1)
    return transformers.pipeline(task, device="cpu", **options)


def run_fields_in_pipeline(work: str, passes: str) -> Any:
    """Tags the words with the checkpoint; answers with the score of each token's best tag."""
    made = pipeline(
        "token-classification",
        model=str(Path(work) / "checkpoint"),
        tokenizer=checkpoint_tokenizer(work),
        ignore_labels=[],
    )
    texts = [" ".join(words) for words in inputs_of(work, "documents.json")]
    return timed(
        lambda asked: [[float(tag["score"]) for tag in tags] for tags in made(list(asked))],
        texts,
        passes,
    )


def in_order(scores: Mapping[str, float]) -> list[float]:
    """Returns the scores in the order of CLASSES."""
    return [scores[label] for label in CLASSES]


def run_classes(work: str, passes: str) -> Any:
    """Classifies with a verified artifact; answers with each label's score."""
    import hushdoc

    model = hushdoc.ClassificationModel.load(
        Path(work) / "classes", **options_of(work, "trust-classes.json")
    )
    documents = [
        hushdoc.Document.from_text(" ".join(words)) for words in inputs_of(work, "documents.json")
    ]

    def answer(asked: Sequence[Any]) -> list[Any]:
        return [
            in_order({item.label: item.score for item in model.classify(one, top_k=9).scores})
            for one in asked
        ]

    return timed(answer, documents, passes)


def run_classes_in_pipeline(work: str, passes: str) -> Any:
    """Classifies with the checkpoint; answers with each label's score."""
    made = pipeline("text-classification", model=str(Path(work) / "classifier"), top_k=None)

    def answer(asked: Sequence[Any]) -> list[Any]:
        found = made(list(asked))
        return [in_order({tag["label"]: tag["score"] for tag in tags}) for tags in found]

    return timed(answer, [" ".join(words) for words in inputs_of(work, "documents.json")], passes)


def run_embedding(work: str, texts: str, passes: str) -> Any:
    """Embeds texts with a verified artifact."""
    from hushdoc.runtime.embedding import EmbeddingModel

    model = EmbeddingModel.load(Path(work) / "minilm", **options_of(work, "trust.json"))
    return timed(
        lambda asked: model.embed_texts(list(asked)).vectors.tolist(),
        inputs_of(work, texts),
        passes,
    )


def run_embedding_in_pipeline(work: str, texts: str, passes: str, batch: str) -> Any:
    """Embeds texts with the published weights."""
    import numpy as np

    made = pipeline(
        "feature-extraction", model=str(Path(work) / "published"), batch_size=int(batch)
    )
    tokenizer = made.tokenizer

    def answer(asked: Sequence[Any]) -> list[Any]:
        found = made(list(asked), return_tensors=True)
        if int(batch) == 1:
            vectors = [states[0].numpy().mean(0) for states in found]
        else:  # padded to the longest of a batch, and which tokens are padding is unknown
            lengths = [len(ids) for ids in tokenizer(list(asked))["input_ids"]]
            vectors = [
                states[0].numpy()[:length].mean(0)
                for states, length in zip(found, lengths, strict=True)
            ]
        return [(vector / np.linalg.norm(vector)).tolist() for vector in vectors]

    return timed(answer, inputs_of(work, texts), passes)


def run_embedding_in_onnxruntime(
    folder: str, texts: str, passes: str, size: str, order: str
) -> Any:
    """Embeds texts as fastembed does: padded batches, averaged by the mask."""
    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.enable_padding()
    tokenizer.enable_truncation(512)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(f"{folder}/model.onnx", options)

    def answer(asked: Sequence[Any]) -> list[Any]:
        places = list(range(len(asked)))
        if order == "sorted":
            places.sort(key=lambda item: len(asked[item]))
        vectors: list[Any] = [None] * len(asked)
        for start in range(0, len(asked), int(size)):
            chosen = places[start : start + int(size)]
            encoded = tokenizer.encode_batch([asked[item] for item in chosen])
            mask = np.array([item.attention_mask for item in encoded])
            ids = np.array([item.ids for item in encoded])
            (states,) = session.run(None, {"input_ids": ids, "attention_mask": mask})
            mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            mean /= np.linalg.norm(mean, axis=1, keepdims=True)
            for item, vector in zip(chosen, mean.tolist(), strict=True):
                vectors[item] = vector
        return vectors

    return timed(answer, json.loads(Path(texts).read_text()), passes)


ARMS: Mapping[str, Callable[..., Any]] = {
    "prepare": prepare,
    "prepare_classes": prepare_classes,
    "fields": run_fields,
    "fields_in_pipeline": run_fields_in_pipeline,
    "classes": run_classes,
    "classes_in_pipeline": run_classes_in_pipeline,
    "embedding": run_embedding,
    "embedding_in_pipeline": run_embedding_in_pipeline,
    "embedding_in_onnxruntime": run_embedding_in_onnxruntime,
}
