"""Tokenizers of published encoders, as their files say, with the ids of their special tokens.

The class that transformers has for a model's type does not decide: for LayoutLMv3 that is
byte-level BPE, which makes nonsense of layoutlmv3-base-chinese's, XLM-R's, and raises nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tokenizers import Tokenizer

from hushdoc.errors import CheckpointError, MissingExtraError

FILE, SENTENCEPIECE = "tokenizer.json", "sentencepiece.bpe.model"

_ID = re.compile(r"\w[\w.-]*(/[\w.-]+)?")
"""What an id on the hub looks like, those of old without an organisation too."""

_SPECIAL = (("[CLS]", "[SEP]", "[PAD]"), ("<s>", "</s>", "<pad>"))
"""What opens, closes and pads a window: as BERT and as RoBERTa call it."""


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Token ids that open, close and pad a window."""

    cls_id: int
    sep_id: int
    pad_id: int


def require_source(source: str) -> None:
    """Raises CheckpointError unless a source is a folder, or may be meant as an id of the hub.

    A mistyped folder is asked of no hub: whoever registered its name there would be trusted.
    """
    path = Path(source)
    begins_here = len(path.parts) > 1 and Path(path.parts[0]).is_dir()
    if not path.is_dir() and (begins_here or not _ID.fullmatch(source)):
        raise CheckpointError(
            f"There is no folder '{source}' to start from; expected one with a run, a checkpoint "
            "or a published model. Check its spelling, or name a model of the hub by "
            "ORGANISATION/NAME where no folder has the organisation's name."
        )


def read(source: str) -> str:
    """Returns the tokenizer.json of a transformers folder or hub id, for words that are cut apart.

    That of XLM-R is made of its SentencePiece model (Conneau et al. 2020) where there is no other.
    Files that can't be found raise OSError, other trouble with them ValueError.
    """
    from transformers import AutoTokenizer

    if (found := file_of(source, FILE)) is not None:
        return _for_words(found.read_text(encoding="utf-8"))
    if (found := file_of(source, SENTENCEPIECE)) is not None:
        return _converted(found)
    found = AutoTokenizer.from_pretrained(source).backend_tokenizer
    # Where there is no file at all transformers makes a tokenizer that knows no word.
    added = {token.content for token in found.get_added_tokens_decoder().values()}
    if not found.get_vocab().keys() - {*added, "\u2581"}:
        raise ValueError(f"it has no {FILE}, and no other file with its vocabulary")
    text: str = found.to_str()
    return _for_words(text)


def file_of(source: str, name: str) -> Path | None:
    """Returns a file of a transformers folder or hub id; None where it has none of that name.

    Raises:
        OSError: There is no such folder or id, or it is not to be had now.
    """
    from transformers.utils.hub import cached_file

    found = cached_file(source, name, _raise_exceptions_for_missing_entries=False)
    return None if found is None else Path(found)


def special_tokens(tokenizer_json: str) -> SpecialTokens:
    """Returns the special tokens, by BERT's or RoBERTa's names; CheckpointError if one lacks."""
    tokenizer = Tokenizer.from_str(tokenizer_json)
    for names in _SPECIAL:
        ids = [found for name in names if (found := tokenizer.token_to_id(name)) is not None]
        if len(ids) == len(names):
            return SpecialTokens(cls_id=ids[0], sep_id=ids[1], pad_id=ids[2])
    raise CheckpointError(
        "The tokenizer lacks what opens, closes and pads a window; expected "
        f"{' or '.join(', '.join(names) for names in _SPECIAL)}. Restore tokenizer.json."
    )


def largest_id(tokenizer_json: str) -> int:
    """Returns the largest id that the tokenizer gives."""
    return max(Tokenizer.from_str(tokenizer_json).get_vocab().values(), default=0)


def _for_words(tokenizer_json: str) -> str:
    """Returns it with a space before every word, as byte-level BPE has learned words in a text.

    Without one it takes each word for the beginning of a text, as RoBERTa's file has it.
    """
    data = json.loads(tokenizer_json)
    outer = data.get("pre_tokenizer") or {}
    for part in (outer, *outer.get("pretokenizers", ())):
        if part.get("type") == "ByteLevel":
            part["add_prefix_space"] = True
    try:
        text: str = Tokenizer.from_str(json.dumps(data)).to_str()
    except Exception as error:  # tokenizers raises plain Exception
        raise ValueError(f"its tokenizer.json is malformed: {error}") from error
    return text


def _converted(model: Path) -> str:
    from transformers.convert_slow_tokenizer import XLMRobertaConverter

    named: Any = SimpleNamespace(
        vocab_file=str(model), convert_tokens_to_ids={"<s>": 0, "</s>": 2}.__getitem__
    )
    try:
        text: str = XLMRobertaConverter(named).converted().to_str()
    except ImportError as error:
        raise MissingExtraError("protobuf", "export") from error
    except Exception as error:  # protobuf and tokenizers raise types of their own
        raise ValueError(f"{SENTENCEPIECE} can't be converted: {error}") from error
    return text
