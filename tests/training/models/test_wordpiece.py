"""Tokenizers that are learned from public texts."""

from __future__ import annotations

import json
import random

from tokenizers import Tokenizer

from hushdoc_training.models import layout


def texts() -> list[str]:
    drawn = random.Random(1)
    words = ["".join(drawn.choices("abcdefghij", k=drawn.randint(2, 9))) for _ in range(2000)]
    return [" ".join(words[first : first + 50]) for first in range(0, len(words), 50)]


def test_the_same_texts_give_the_same_tokenizer() -> None:
    # By the trainer's own numbers, each of some ten letters within words had one by chance.
    assert len({layout.wordpiece(iter(texts()), vocab_size=200) for _ in range(4)}) == 1


def test_special_tokens_come_first_and_are_all_that_is_special() -> None:
    made = json.loads(layout.wordpiece(["Größe 12", "größer"], vocab_size=60))
    added = [(token["content"], token["id"]) for token in made["added_tokens"]]
    assert added == [("[PAD]", 0), ("[UNK]", 1), ("[CLS]", 2), ("[SEP]", 3)]


def test_words_are_read_in_pieces_that_the_texts_have() -> None:
    tokenizer = Tokenizer.from_str(layout.wordpiece(["Total due", "total amount"], vocab_size=60))
    assert tokenizer.encode("TOTAL").tokens == ["total"]
    assert tokenizer.encode("tom", add_special_tokens=False).tokens[0].startswith("to")
    assert tokenizer.encode("q").tokens == ["[UNK]"]
