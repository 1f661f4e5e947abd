"""Questions and pages to model inputs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hushdoc_tiny import tokenizer_json
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders

from hushdoc.document.document import Document
from hushdoc.errors import ArtifactError, InputError, LimitExceededError, WordError
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc.runtime.questions import VT5_PROMPT, Asking, QuestionEncoder, QuestionRow, by_window
from hushdoc.runtime.scoring import Scoring

SIZES: dict[str, Any] = {"max_tokens": 40, "overlap": 4, "max_question": 24, "pad_id": 0}
POINTER = Asking(kind="pointer", cls_id=2, sep_id=3, **SIZES)
VT5 = Asking(kind="vt5", prompt="q {question} c ", lowercase=True, eos_id=3, **SIZES)
ALPHABET = Tokenizer.from_str(tokenizer_json())


def encoder(asking: Asking = POINTER) -> QuestionEncoder:
    return QuestionEncoder(tokenizer_json(), asking)


def page(*words: str) -> Any:
    boxes = [(10 * index, 5, 10 * index + 8, 15) for index in range(len(words))]
    return Document.from_words(words, boxes, width=max(100, 10 * len(words)), height=20).pages[0]


def spelled(ids: Any) -> str:
    tokens = [ALPHABET.id_to_token(int(token)) for token in ids]
    return " ".join(tokens).replace(" ##", "")


def test_a_pointer_reads_windows_and_beside_each_its_questions() -> None:
    asked = encoder()
    encoded = asked.page(page("Ann", "Bo"))
    who = QuestionRow(question=asked.question("Who is it?"), page=encoded, start=0, stop=5)
    rows = [who, replace(who, question=asked.question("Ann")), replace(who, start=3)]
    together = by_window(rows, lambda row: row)
    assert [len(some) for some in together] == [2, 1]
    batch = asked.pointed(together)
    assert spelled(batch["input_ids"][0]) == "[CLS] ann bo [SEP]"
    assert spelled(batch["input_ids"][1]) == "[CLS] bo [SEP] [PAD] [PAD] [PAD]"
    assert batch["attention_mask"].sum(1).tolist() == [7, 4]
    assert asked.first_token(who) == 1
    assert batch["bbox"][0, 1].tolist() == [0, 250, 80, 750]
    assert batch["bbox"][0, 5].tolist() == [100, 250, 180, 750]
    read = [[spelled(ids) for ids in some] for some in batch["question_ids"]]
    assert read[0][0] == read[1][0] == "[CLS] who is [UNK] [SEP]"
    assert read[0][1].startswith("[CLS] ann [SEP] [PAD]")
    assert read[1][1].startswith("[CLS] [PAD] [PAD]")  # the second window has no other question
    assert batch["question_mask"].sum(2).tolist() == [
        [len(who.question) + 2, len(rows[1].question) + 2],
        [len(who.question) + 2, 1],
    ]


def test_vt5_reads_prompt_words_and_end_token_lower_case() -> None:
    asked = encoder(VT5)
    row = QuestionRow(
        question=asked.question("WHO"), page=asked.page(page("ANN", "BO")), start=0, stop=5
    )
    batch = asked.batch([row])
    assert spelled(batch["input_ids"][0]) == "q who c ann bo [SEP]"
    first = asked.first_token(row)
    assert batch["bbox"][0, :first].tolist() == [[0, 0, 1000, 1000]] * first
    assert batch["bbox"][0, -1].tolist() == [0] * 4
    assert set(batch) == {"input_ids", "bbox", "attention_mask"}
    assert spelled(asked.answer("Ann BO")) == "ann bo [SEP]"


def test_text_comes_back_from_an_answers_tokens() -> None:
    tokenizer = Tokenizer.from_str(tokenizer_json())
    tokenizer.decoder = decoders.WordPiece()
    asked = QuestionEncoder(tokenizer.to_str(), VT5)
    assert asked.text(asked.answer("Ann  BO")[:-1]) == "ann bo"
    assert len(cut := asked.answer("a" * 50)) == VT5.max_answer
    assert 3 not in cut


def test_reference_weights_read_words_boxes_of_0_and_1_and_the_prompts_of_1000() -> None:
    asked = encoder(replace(VT5, box_scale=1))
    row = QuestionRow(question=asked.question("a"), page=asked.page(page("a")), start=0, stop=1)
    prompt, word, end = [0, 0, 1000, 1000], [0, 0, 0, 0], [0, 0, 0, 0]
    assert asked.batch([row])["bbox"][0].tolist() == [prompt] * 3 + [word, end]
    low = replace(row.page, boxes=np.asarray([[0, 400, 1000, 1000]]))
    assert asked.batch([replace(row, page=low)])["bbox"][0, 3].tolist() == [0, 0, 1, 1]


def test_questions_can_keep_the_case_that_words_lose() -> None:
    data = json.loads(tokenizer_json())
    data["normalizer"]["lowercase"] = False  # of capitals it knows none
    for own, read in ((None, "who"), (True, "who"), (False, "[UNK]")):
        asked = QuestionEncoder(json.dumps(data), replace(VT5, lowercase_questions=own))
        assert spelled(asked.question("WHO")) == f"q {read} c"
        assert spelled(asked.page(page("WHO")).ids) == "who"
        assert spelled(asked.answer("WHO")) == "who [SEP]"


@given(
    words=st.lists(st.text("abcdef", min_size=1, max_size=30), min_size=1, max_size=30),
    question=st.text("xyz", min_size=1, max_size=22),
    kind=st.sampled_from([POINTER, VT5]),
)
def test_rows_never_exceed_their_tokens_and_cover_every_word(
    words: list[str], question: str, kind: Asking
) -> None:
    asked = encoder(kind)
    encoded, ids = asked.page(page(*words)), asked.question(question)
    seen = set()
    for part in asked.windows([encoded], ids):
        row = QuestionRow(question=ids, page=encoded, start=part.start, stop=part.stop)
        inputs = asked.batch([row]) if kind is VT5 else asked.pointed([[row]])
        assert inputs["input_ids"].shape[1] <= kind.max_tokens
        seen |= set(encoded.words[part.start : part.stop].tolist())
    assert seen == set(range(len(words)))


@pytest.mark.parametrize(
    ("text", "error", "found"),
    [
        (None, InputError, "None"),
        ("", InputError, "blank"),
        (" \n\t", InputError, "blank"),
        ("a\x07b", WordError, "U+0007"),
        ("a\ud800", WordError, "not valid Unicode"),
        ("\u200b", InputError, "no part"),
        ("a" * 100_000, LimitExceededError, "100000 characters"),
        ("ab " * 20, LimitExceededError, "40 tokens"),
    ],
)
def test_questions_that_no_model_can_read_are_refused(
    text: Any, error: type[Exception], found: str
) -> None:
    with pytest.raises(error, match=found.replace("+", r"\+")):
        encoder().question(text)


def test_another_script_is_read_as_unknown_words_and_line_ends_as_spaces() -> None:
    assert spelled(encoder().question("合計\nwho")) == "[UNK] [UNK] who"


def test_settings_survive_the_manifest() -> None:
    image = ImagePreprocessing(height=8, width=8, mean=(0, 0, 0), std=(1, 1, 1))
    scores = Scoring(threshold=0.5, fitted_on="none", num_answers=3)
    changed = {"image": image, "scores": scores, "lowercase_questions": False}
    for asking in (POINTER, VT5, replace(VT5, **changed, prompt=VT5_PROMPT)):
        assert Asking.from_dict(json.loads(json.dumps(asking.to_dict()))) == asking


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "bert"},
        {"cls_id": None},
        {"pad_id": None},
        {"lowercase": None},
        {"eos_id": 4},
        {"prompt": "q {question}"},
        {"max_tokens": 2},
        {"overlap": 38},
        {"max_answer": 0},
        {"box_level": "none"},
        {"box_scale": 500},
        {"box_scale": 1},
        {"max_tokens": "40"},
        {"lowercase": 1},
        {"lowercase_questions": 0},
        {"scores": {"threshold": 2}},
        {"surprise": 1},
    ],
)
def test_settings_that_fit_no_row_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ArtifactError, match="preprocessing|calibration"):
        Asking.from_dict({**POINTER.to_dict(), **change})
