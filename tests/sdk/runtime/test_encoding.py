"""Words to model inputs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from hushdoc.document.document import Document
from hushdoc.errors import ArtifactError
from hushdoc.runtime import encoding, windows
from hushdoc.runtime.encoding import Encoder, Preprocessing
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc.runtime.scoring import Scoring

PREPROCESSING = Preprocessing(max_tokens=10, overlap=3, cls_id=2, sep_id=3, pad_id=0)


def tokenizer_json() -> str:
    """Returns a tokenizer that knows the letters a to e and splits words into them."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcde", *(f"##{letter}" for letter in "abcde")]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=9)
    return tokenizer.to_str()


ENCODER = Encoder(tokenizer_json(), PREPROCESSING)


def document(words: list[str], *, segments: list[int | None] | None = None) -> Document:
    boxes = [(10 * index, 5, 10 * index + 8, 15) for index in range(len(words))]
    return Document.from_words(
        words, boxes, width=10 * len(words) + 10, height=20, segments=segments
    )


def test_tokens_know_their_words_and_boxes() -> None:
    page = document(["ab", "c", "dea"]).pages[0]
    encoded = ENCODER.encode(page)
    assert encoded.words.tolist() == [0, 0, 1, 2, 2, 2]
    assert encoded.first.tolist() == [True, False, True, True, False, False]
    assert encoded.ids.tolist() == [4, 10, 6, 7, 13, 9]
    assert encoded.boxes[0].tolist() == [0, 250, 200, 750]
    assert (encoded.boxes[3:] == [500, 250, 700, 750]).all()
    assert encoded.cut_words == ()


def test_a_files_own_truncation_and_padding_are_switched_off() -> None:
    assert len(ENCODER.encode(document(["abcde", "abcde"]).pages[0]).ids) == 10
    assert len(ENCODER.encode(document(["a"]).pages[0]).ids) == 1


def test_words_longer_than_a_window_are_cut_and_named() -> None:
    encoded = ENCODER.encode(document(["a", "abcde" * 3, "b"]).pages[0])
    assert encoded.cut_words == (1,)
    assert np.bincount(encoded.words).tolist() == [1, 8, 1]


def test_words_of_characters_that_a_tokenizer_does_not_know_were_not_read() -> None:
    page = ENCODER.encode(document(["ab", "z", "a", "az"]).pages[0])
    assert (page.unknown_words, page.cut_words) == ((1, 3), ())
    assert windows.coverage([page]) == 0.5
    assert list(windows.losses([page], capacity=8)) == [
        "Page 0: the tokenizer does not know all characters of 2 words (1, 3); the model read a "
        "stand-in for them."
    ]
    text = ENCODER.encode_text("a z b")
    assert text.unknown_words == (1,)


@pytest.mark.parametrize(
    ("model", "unknown"),
    [
        (models.Unigram([("a", -1.0), ("<unk>", -9.0), ("b", -1.0)], 1, False), (1,)),
        (models.BPE({"<unk>": 0, "a": 1, "b": 2}, [], unk_token="<unk>"), (1,)),
        (models.BPE({"a": 0, "b": 1, "z": 2}, []), ()),
    ],
)
def test_every_kind_of_tokenizer_says_what_it_does_not_know(
    model: models.Model, unknown: tuple[int, ...]
) -> None:
    page = Encoder(Tokenizer(model).to_str(), PREPROCESSING).encode_words(["a", "zb", "b"])
    assert page.unknown_words == unknown


def test_words_without_tokens_keep_their_number() -> None:
    encoded = ENCODER.encode(document(["a", "\u200b", "b", "\u200d"]).pages[0])
    assert encoded.words.tolist() == [0, 2]
    assert encoded.num_words == 4


def test_an_empty_page_has_no_tokens() -> None:
    page = replace(document(["a"]).pages[0], words=())
    encoded = ENCODER.encode(page)
    assert encoded.ids.shape == (0,)
    assert encoded.boxes.shape == (0, 4)


def test_segment_boxes_are_shared_by_their_words() -> None:
    encoder = Encoder(tokenizer_json(), replace(PREPROCESSING, box_level="segment"))
    encoded = encoder.encode(document(["a", "b", "c"], segments=[0, 0, None]).pages[0])
    assert encoded.boxes[0].tolist() == encoded.boxes[1].tolist() == [0, 250, 450, 750]
    assert encoded.boxes[2].tolist() == [500, 250, 700, 750]


def test_batches_are_padded_to_their_longest_window() -> None:
    encoded = ENCODER.encode(document(["ab", "c", "d"]).pages[0])
    batch = ENCODER.batch([(encoded, 0, 4), (encoded, 3, 4)])
    assert batch["input_ids"].tolist() == [[2, 4, 10, 6, 7, 3], [2, 7, 3, 0, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1] * 6, [1, 1, 1, 0, 0, 0]]
    assert batch["bbox"][1, 2].tolist() == [1000] * 4
    assert batch["bbox"][1, 3:].sum() == 0
    assert set(batch) == {"input_ids", "bbox", "attention_mask"}


WORDS = st.text(alphabet="abcde \u200b\u00e9", min_size=1, max_size=12).filter(str.strip)


@given(st.lists(WORDS, min_size=1, max_size=20))
def test_tokens_of_a_word_are_neighbours_and_start_once(words: list[str]) -> None:
    encoded = ENCODER.encode(document(words).pages[0])
    assert (np.diff(encoded.words) >= 0).all()
    assert encoded.first.sum() == len(set(encoded.words.tolist()))
    assert ((encoded.boxes >= 0) & (encoded.boxes <= 1000)).all()
    assert all(count <= PREPROCESSING.capacity for count in np.bincount(encoded.words))


@given(
    max_tokens=st.integers(5, 600),
    overlap=st.integers(0, 2),
    level=st.sampled_from(["word", "segment"]),
    order=st.sampled_from(["given", "reading"]),
)
def test_preprocessing_round_trips(max_tokens: int, overlap: int, level: str, order: str) -> None:
    settings = Preprocessing(
        max_tokens=max_tokens,
        overlap=overlap,
        box_level=level,
        word_order=order,
        cls_id=1,
        sep_id=2,
        pad_id=0,
    )
    stored = json.loads(json.dumps(settings.to_dict()))
    assert Preprocessing.from_dict(stored) == settings


@pytest.mark.parametrize(
    "change",
    [
        {"max_tokens": "128"},
        {"max_tokens": 2},
        {"overlap": 126},
        {"overlap": -1},
        {"box_level": "line"},
        {"word_order": "random"},
        {"word_order": None},
        {"word_order": ["reading"]},
        {"cls_id": True},
        {"unknown": 1},
    ],
)
def test_bad_preprocessing_is_an_artifact_error(change: dict[str, object]) -> None:
    stored = {**PREPROCESSING.to_dict(), "max_tokens": 128, **change}
    with pytest.raises(ArtifactError, match="preprocessing contract"):
        Preprocessing.from_dict(stored)


def test_a_contract_without_a_word_order_takes_words_as_given() -> None:
    stored = PREPROCESSING.to_dict()
    assert stored.pop("word_order") == "given"
    assert Preprocessing.from_dict(stored) == PREPROCESSING


def test_missing_preprocessing_keys_are_an_artifact_error() -> None:
    stored = PREPROCESSING.to_dict()
    del stored["cls_id"]
    with pytest.raises(ArtifactError, match="cls_id"):
        Preprocessing.from_dict(stored)


@pytest.mark.parametrize("content", ["", "{}", b"\xff\xfe"])
def test_a_broken_tokenizer_is_an_artifact_error(content: str | bytes) -> None:
    with pytest.raises(ArtifactError, match="tokenizer can't be read"):
        Encoder(content, PREPROCESSING)


def _tokenizer(model: dict[str, Any]) -> str:
    parts = ("normalizer", "pre_tokenizer", "post_processor", "decoder", "truncation", "padding")
    return json.dumps(
        {"version": "1.0", "added_tokens": [], "model": model, **dict.fromkeys(parts)}
    )


def test_a_tokenizer_that_panics_is_an_artifact_error() -> None:
    """Its package's panics are no Exception: a merge of bytes that the vocabulary lacks."""
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b"]]}
    content = _tokenizer(model)
    with pytest.raises(ArtifactError, match="tokenizer can't be read"):
        Encoder(content, PREPROCESSING)


def test_a_tokenizer_that_fails_on_a_text_is_an_artifact_error_without_its_words() -> None:
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "secret"}
    content = _tokenizer(model)
    encoder = Encoder(content, PREPROCESSING)
    page = Document.from_words(["secret"], [(1, 1, 2, 2)], width=9, height=9).pages[0]
    for encode in (lambda: encoder.encode_text("secret"), lambda: encoder.encode(page)):
        with pytest.raises(ArtifactError, match="tokenizer can't be used") as raised:
            encode()
        assert "secret" not in str(raised.value)


def test_a_plain_text_has_the_tokens_of_its_words() -> None:
    encoded = ENCODER.encode_text("ab  c\n" + "abcdeabc" + " \u200b dea")
    assert encoded.words.tolist() == [0, 0, 1, *[2] * 8, 3, 3, 3]
    assert encoded.cut_words == ()
    assert encoded.num_words == 4
    assert not encoded.boxes.any()
    assert encoded.boxes.shape == (14, 4)
    empty = ENCODER.encode_text("")
    assert (empty.ids.shape, empty.num_words) == ((0,), 0)


def test_a_plain_text_without_spaces_is_read_whole() -> None:
    """A SentencePiece tokenizer takes a paragraph without spaces for one word."""
    letters = ["<unk>", "\u2581", *"请款单号码"]
    tokenizer = Tokenizer(models.Unigram([(letter, -1.0) for letter in letters], 0, False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    encoder = Encoder(tokenizer.to_str(), PREPROCESSING)
    encoded = encoder.encode_text("请款单 " + "请款单号码" * 3 + "坏 单")
    own = encoder.text_ids("请款单 " + "请款单号码" * 3 + "坏 单")
    assert encoded.ids.tolist() == own.tolist()
    assert encoded.words.tolist() == [*[0] * 4, *range(1, 18), 18, 18]
    assert (encoded.num_words, encoded.cut_words, encoded.unknown_words) == (19, (), (17,))
    # Windows are full, and overlap as those of texts with spaces do.
    assert windows.split(encoded, capacity=8, overlap=3) == [(0, 8), (5, 13), (10, 18), (15, 23)]
    assert windows.coverage([encoded]) == 18 / 19


@given(
    st.lists(st.text(alphabet="abcde\u200b", min_size=1, max_size=9), max_size=30),
    st.sampled_from([" ", "\n", "  ", "\t"]),
    st.integers(1, 40),
)
def test_long_texts_are_tokenized_in_pieces_that_change_nothing(
    words: list[str], blank: str, longest: int
) -> None:
    text = blank.join(words)
    whole = ENCODER.encode_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "PIECE_CHARACTERS", max([longest, *(len(w) + 2 for w in words)]))
        pieces = ENCODER.encode_text(text)
    assert pieces.ids.tolist() == whole.ids.tolist()
    assert pieces.words.tolist() == whole.words.tolist()
    assert pieces.first.tolist() == whole.first.tolist()
    assert (pieces.num_words, pieces.cut_words) == (whole.num_words, whole.cut_words)


def test_a_word_longer_than_a_piece_is_still_read() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "PIECE_CHARACTERS", 5)
        encoded = ENCODER.encode_text("abcdeabcde a")
    assert encoded.ids.tolist() == [4, 10, 11, 12, 13] * 2 + [4]
    assert encoded.words.tolist() == [0] * 5 + [1] * 5 + [2]


@given(
    st.lists(st.text(alphabet="abcde\u200b", min_size=1, max_size=12), min_size=1, max_size=30),
    st.integers(1, 40),
)
def test_words_of_pages_are_tokenized_in_groups_that_change_nothing(
    words: list[str], most: int
) -> None:
    whole = ENCODER.encode_words(words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "PIECE_CHARACTERS", most)
        groups = ENCODER.encode_words(words)
    for name in ("ids", "words", "first", "boxes"):
        assert getattr(groups, name).tolist() == getattr(whole, name).tolist()
    assert (groups.num_words, groups.cut_words) == (whole.num_words, whole.cut_words)


def test_no_more_than_a_piece_is_tokenized_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    tokenizer = ENCODER._tokenizer

    class Watched:
        def encode(self, words: list[str], **options: Any) -> Any:
            asked.append(sum(map(len, words)))
            return tokenizer.encode(words, **options)

    monkeypatch.setattr(ENCODER, "_tokenizer", Watched())
    # Of a page of 9 MB the tokenizer took 1.3 GB, were it given at once.
    ENCODER.encode_words(["a" * 9_000] * 100)
    assert sum(asked) == 900_000
    assert max(asked) <= encoding.PIECE_CHARACTERS
    asked.clear()
    assert ENCODER.encode_words([]).num_words == 0
    assert asked == [0]


IMAGE = ImagePreprocessing(height=8, width=6, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


def test_images_are_part_of_the_contract_of_tasks_that_read_them() -> None:
    settings = replace(PREPROCESSING, image=IMAGE)
    stored = json.loads(json.dumps(settings.to_dict()))
    assert stored.pop("image") == json.loads(json.dumps(IMAGE.to_dict()))
    assert stored == PREPROCESSING.to_dict()
    stored["image"] = IMAGE.to_dict()
    assert Preprocessing.from_dict(stored, images=True) == settings
    assert Preprocessing.from_dict(PREPROCESSING.to_dict(), images=True) == PREPROCESSING
    with pytest.raises(ArtifactError, match="where a task's models read images"):
        Preprocessing.from_dict(stored)


@pytest.mark.parametrize(
    "image",
    [
        None,
        "yes",
        [],
        {},
        {**IMAGE.to_dict(), "height": 0},
        {**IMAGE.to_dict(), "frame": 1},
        {**IMAGE.to_dict(), "scores": Scoring(fitted_on="x", num_answers=9).to_dict()},
    ],
)
def test_a_bad_contract_of_images_is_an_artifact_error(image: object) -> None:
    with pytest.raises(ArtifactError, match="preprocessing contract"):
        Preprocessing.from_dict({**PREPROCESSING.to_dict(), "image": image}, images=True)


def test_a_batch_has_a_image_for_each_window() -> None:
    encoded = ENCODER.encode(document(["a", "b"]).pages[0])
    shown = [np.full((3, 8, 6), value, dtype=np.float32) for value in (0.5, -1)]
    batch = ENCODER.batch([(encoded, 0, 1), (encoded, 1, 2)], pixel_values=shown)
    assert list(batch) == ["input_ids", "bbox", "attention_mask", "pixel_values"]
    assert np.array_equal(batch["pixel_values"], np.stack(shown))
    assert batch["pixel_values"].dtype == np.float32
