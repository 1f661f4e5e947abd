"""Hashed features are what the module's contract says, for any text and any table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hushdoc_processes import in_python
from hypothesis import given, settings
from hypothesis import strategies as st

from hushdoc import hashing
from hushdoc.errors import ArtifactError
from hushdoc.hashing import Clusters, Features, FeatureScheme, segmentation
from hushdoc.hashing import murmur as hashing_together
from hushdoc.hashing import rows as hashing_rows
from hushdoc.hashing import tokens as hashing_tokens

MASK = 0xFFFFFFFF
TOKENS = st.sampled_from(
    [
        "the",
        "The",
        "party",
        "",
        "\x00",
        "\ud800",
        "é",
        "合",
        "👩‍👩‍👧",
        "ا",
        "x",
        "a\nb",
        "ΟΔΟΣ",
        "x" * 99,
    ]
)
SENTENCES = st.lists(st.lists(TOKENS, max_size=12), max_size=8)
SCHEMES = st.builds(
    FeatureScheme,
    rows=st.sampled_from([2, 3, 7, 64, 1000, 2**21, 2**31 - 1]),
    level=st.sampled_from(hashing.LEVELS),
    bigrams=st.booleans(),
    skip_grams=st.booleans(),
    lowercase=st.booleans(),
    window=st.integers(0, 3),
    seed=st.integers(0, MASK),
)


def murmur(data: bytes, seed: int) -> int:
    """MurmurHash3 x86 32, written from its description."""
    hashed = seed
    for start in range(0, len(data) // 4 * 4 + 1, 4):
        block = data[start : start + 4]
        if not block:
            continue
        k = int.from_bytes(block, "little") * 0xCC9E2D51 & MASK
        k = (k << 15 | k >> 17) & MASK
        hashed ^= k * 0x1B873593 & MASK
        if len(block) == 4:
            hashed = (hashed << 13 | hashed >> 19) & MASK
            hashed = hashed * 5 + 0xE6546B64 & MASK
    return finalized(hashed ^ len(data))


def finalized(h: int) -> int:
    h = (h ^ h >> 16) * 0x85EBCA6B & MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & MASK
    return h ^ h >> 16


def hashed(token: str, scheme: FeatureScheme) -> int:
    spelled = token.lower() if scheme.lowercase else token
    return murmur(spelled.encode("utf-8", "surrogatepass"), scheme.seed)


def row(first: int, second: int, kind: int, scheme: FeatureScheme) -> int:
    turned = second * 0x85EBCA77 & MASK
    turned = (turned << 15 | turned >> 17) & MASK
    mixed = first * 0x9E3779B1 ^ turned + kind * 0xC2B2AE3D + scheme.seed
    return finalized(mixed & MASK) * scheme.rows >> 32


def expected(
    sentences: list[list[str]], scheme: FeatureScheme, cluster_of: dict[str, int] | None = None
) -> list[list[int]]:
    """Returns the rows of each item, written from the contract, one feature at a time."""
    groups = cluster_of or {}
    items = []
    for words in sentences:
        codes = [hashed(word, scheme) for word in words]
        clusters = [groups.get(word.lower()) for word in words]
        pairs = [(1, 0x300)] * scheme.bigrams
        pairs += [(distance, 0x400) for distance in (2, 3, 4, 5)] * scheme.skip_grams
        every: set[int] = set()
        for place, code in enumerate(codes):
            item = every if scheme.level == "sentence" else set()
            reach = 0 if scheme.level == "sentence" else scheme.window
            for offset in range(-reach, reach + 1):
                if 0 <= place + offset < len(codes):
                    item.add(row(codes[place + offset], 0, 0x100 + (offset & 0xFF), scheme))
                    group = clusters[place + offset]
                    if group is not None:
                        item.add(row(group, 0, 0x200 + (offset & 0xFF), scheme))
            for distance, kind in pairs:
                if place + distance < len(codes):
                    item.add(row(code, codes[place + distance], kind, scheme))
                if place >= distance and scheme.level == "token":
                    item.add(row(codes[place - distance], code, kind + 1, scheme))
            if scheme.level == "token":
                items.append(sorted(item))
        if scheme.level == "sentence":
            items.append(sorted(every))
    return items


def looked_up(
    sentences: list[list[str]], scheme: FeatureScheme, clusters: Clusters | None = None
) -> list[list[int]]:
    """Returns the rows that are looked up for each item, which must be there once."""
    items: list[list[int]] = []
    for found in hashing.lookups(hashing.hash_words(sentences, scheme), scheme, clusters):
        if found.starts is None:
            cells = zip(found.rows.T, found.present.T, strict=True)
        else:
            cells = zip(
                np.split(found.rows, found.starts[1:]),
                np.split(found.present, found.starts[1:]),
                strict=True,
            )
        own = [sorted(rows[there].tolist()) for rows, there in cells][: found.num_items]
        assert sum(map(len, own)) == found.num_features
        order = range(found.num_items) if found.items is None else found.items.tolist()
        items += [rows for _, rows in sorted(zip(order, own, strict=True))]
    return items


def listed(found: Features) -> list[list[int]]:
    assert found.indices.dtype == np.int32
    assert found.offsets.dtype == np.int64
    return [found.rows_of(item).tolist() for item in range(found.num_items)]


@given(SENTENCES, SCHEMES)
@settings(deadline=None, max_examples=150)
def test_features_are_those_of_the_contract(
    sentences: list[list[str]], scheme: FeatureScheme
) -> None:
    assert listed(hashing.features(sentences, scheme)) == expected(sentences, scheme)
    assert looked_up(sentences, scheme) == expected(sentences, scheme)


@pytest.mark.parametrize("level", hashing.LEVELS)
def test_features_of_clusters_are_those_of_the_contract(level: str) -> None:
    scheme = FeatureScheme(rows=5000, level=level, clusters=3, seed=5)
    cluster_of = {"party": 0, "law": 2}
    clusters = Clusters.of(cluster_of.items(), scheme)
    sentences = [["The", "Party", "law"], ["unknown"], [], ["law", "law"]]
    found = hashing.features(sentences, scheme, clusters)
    assert listed(found) == expected(sentences, scheme, cluster_of)
    assert looked_up(sentences, scheme, clusters) == expected(sentences, scheme, cluster_of)


@pytest.mark.parametrize("level", hashing.LEVELS)
def test_where_work_is_divided_does_not_show(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    sentences = [
        [f"w{number}" for number in generator.integers(0, 50, int(length))]
        for length in generator.integers(0, 9, 60)
    ]
    scheme = FeatureScheme(level=level)
    whole = hashing.features(sentences, scheme)
    for module, most in ((hashing_rows, 7), (hashing_together, 5), (hashing_tokens, 5)):
        monkeypatch.setattr(module, "CHUNK_TOKENS", most)
    parts = hashing.features(sentences, scheme)
    assert parts.indices.tolist() == whole.indices.tolist()
    assert parts.offsets.tolist() == whole.offsets.tolist()
    assert listed(whole) == expected(sentences, scheme)


@pytest.mark.parametrize("rows", [50, 2**20, 2**21, 2**24])
@pytest.mark.parametrize("level", hashing.LEVELS)
def test_where_lookups_are_divided_does_not_show(
    level: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(2)
    sentences = [
        [f"w{number}" for number in generator.integers(0, 50, int(length))]
        for length in generator.integers(0, 9, 60)
    ]
    scheme = FeatureScheme(rows=rows, level=level)
    assert looked_up(sentences, scheme) == expected(sentences, scheme)
    monkeypatch.setattr(hashing_rows, "CHUNK_TOKENS", 20)
    assert looked_up(sentences, scheme) == expected(sentences, scheme)


def test_more_sentences_than_a_number_has_bits_for() -> None:
    sentences = [["law"]] * 5000
    scheme = FeatureScheme()
    assert looked_up(sentences, scheme) == expected([["law"]], scheme) * 5000


PIECES = st.sampled_from(
    ["word", "Law", "7", "1,5", "a-b", "it's", ".", "..", "*", "--", "=", ",", "'", "-", "_", " "]
    + [
        " ",
        " ",
        "\n",
        "\x1c",
        "\x00",
        "\x7f",
        "é",
        "’",
        "合",
        "\u00a0",
        "\ud800",
        "İ",
        "x" * 30,
        "。",
    ]
)


@given(st.lists(PIECES, max_size=60).map("".join), st.booleans(), st.integers(0, MASK))
@settings(deadline=None, max_examples=300)
def test_a_text_is_hashed_where_it_stands_as_its_words_are(
    text: str, lowercase: bool, seed: int
) -> None:
    scheme = FeatureScheme(lowercase=lowercase, seed=seed)
    places = segmentation.sentence_places(text)
    found = hashing.hash_text(text, places, scheme)
    words = [segmentation.words(text, *place) for place in places.tolist()]
    assert found.lengths.tolist() == list(map(len, words))
    assert found.hashes.tolist() == [hashed(word, scheme) for own in words for word in own]


def test_sentences_that_touch_are_cut_apart() -> None:
    text = "one-two3,4"  # one token, but not where sentences end inside it
    scheme = FeatureScheme(seed=1)
    places = np.array([[0, 4], [4, 8], [8, 10]])
    found = hashing.hash_text(text, places, scheme)
    assert found.lengths.tolist() == [2, 1, 2]
    words = ["one", "-", "two3", ",", "4"]
    assert found.hashes.tolist() == [hashed(word, scheme) for word in words]


def test_the_table_is_addressed_as_it_was_when_models_were_trained() -> None:
    words = ["This", "Agreement", "is", "governed", "by", "law"]
    found = hashing.features([words], FeatureScheme(rows=10_000, level="sentence", seed=42))
    assert found.indices.tolist() == FROZEN


FROZEN = [
    350, 738, 3264, 3396, 3616, 4094, 4665, 4951, 5051, 5383, 6118, 6339, 7204, 7279, 7779,
    8000, 8137, 8311, 8609, 9208, 9685,
]  # fmt: skip


@pytest.mark.parametrize(
    ("token", "seed", "value"),
    [("", 0, 0), ("hello", 0, 0x248BFA47), ("hello, world", 0, 0x149BBB7F), ("", 1, 0x514E28B7)],
)
def test_tokens_are_hashed_by_murmurhash3(token: str, seed: int, value: int) -> None:
    # Published test vectors of MurmurHash3 x86 32.
    scheme = FeatureScheme(seed=seed, lowercase=False)
    assert hashing.token_hashes([token], scheme).tolist() == [value]
    assert murmur(token.encode(), seed) == value


@pytest.mark.parametrize("token", ["\x00", "a\x00b", "\ud800", "\udfff\ud800", "İ", "ß", "👩‍👩‍👧"])
def test_strange_tokens_have_a_hash(token: str) -> None:
    scheme = FeatureScheme(seed=3)
    assert hashing.token_hashes(["x", token], scheme).tolist() == [
        hashed("x", scheme),
        hashed(token, scheme),
    ]


LETTERS = st.sampled_from(list("abcZ.,Σσ'ßİé") + ["\n", "\x00", "\ud800", "\udc00", "合", "👩"])


@given(st.lists(st.text(LETTERS, max_size=90), max_size=40), st.integers(0, MASK), st.booleans())
@settings(deadline=None, max_examples=150)
def test_tokens_hashed_together_are_hashed_as_each_alone(
    tokens: list[str], seed: int, lowercase: bool
) -> None:
    scheme = FeatureScheme(seed=seed, lowercase=lowercase)
    found = hashing.token_hashes(iter(tokens), scheme)
    assert found.tolist() == [hashed(token, scheme) for token in tokens]


def test_no_token_is_too_long_to_hash() -> None:
    scheme = FeatureScheme(seed=1)
    for tokens in (["a", "b" * 10**6, "c"], ["x"] * 9000 + ["y" * 70, "z" * 68, "ß" * 34]):
        found = hashing.token_hashes(tokens, scheme)
        assert found.tolist() == [hashed(token, scheme) for token in tokens]


@pytest.mark.parametrize("rows", [1000, 1024, 3 * 2**10 + 1])
def test_rows_are_filled_evenly(rows: int) -> None:
    sentences = [[f"word{number}" for number in range(40_000)]]
    scheme = FeatureScheme(rows=rows, skip_grams=False)
    pairs = hashing.features(sentences, scheme)
    assert pairs.num_items == 1
    assert len(pairs.indices) == rows  # 80,000 features leave none of the rows out
    tokens = FeatureScheme(rows=rows, level="token", window=0, bigrams=False, skip_grams=False)
    counts = np.bincount(hashing.features(sentences, tokens).indices, minlength=rows)
    mean = 40_000 / rows
    chi_square = float(((counts - mean) ** 2 / mean).sum())
    assert abs(chi_square - rows) < 6 * np.sqrt(2 * rows)


def test_order_side_and_distance_tell_pairs_apart() -> None:
    rows = 2**31 - 1
    sentence = FeatureScheme(rows=rows, level="sentence")
    token = FeatureScheme(rows=rows, level="token", window=0)

    def found(words: str, scheme: FeatureScheme) -> list[list[int]]:
        return listed(hashing.features([words.split()], scheme))

    assert found("a b", sentence) != found("b a", sentence)
    first, second = found("a b", token)
    assert not set(first) & set(second)
    # A skip-gram is the same whatever is skipped and however much.
    one, two = found("a x b", sentence)[0], found("a y z b", sentence)[0]
    assert len(set(one) & set(two)) == 3


def test_languages_that_clusters_never_saw_have_none() -> None:
    scheme = FeatureScheme(clusters=2, rows=100_000)
    clusters = Clusters.of([("law", 1)], scheme)
    without = FeatureScheme(rows=100_000)
    for words in (["قانون", "العقد"], ["法", "律"], ["закон"]):
        known = hashing.features([words], scheme, clusters)
        assert known.indices.tolist() == hashing.features([words], without).indices.tolist()
    empty = Clusters.of([], scheme)
    assert hashing.features([["law"]], scheme, empty).offsets.tolist() == [0, 1]
    assert hashing.features([["law"]], scheme, clusters).offsets.tolist() == [0, 2]


def test_clusters_must_be_those_of_the_scheme() -> None:
    scheme = FeatureScheme(clusters=2)
    with pytest.raises(ValueError, match="no clusters were given"):
        hashing.features([["a"]], scheme)
    with pytest.raises(ValueError, match="0 clusters"):
        hashing.features([["a"]], FeatureScheme(), Clusters.of([("a", 1)], scheme))
    with pytest.raises(ValueError, match="in cluster 2"):
        Clusters.of([("a", 2)], scheme)
    with pytest.raises(ValueError, match="ascend"):
        Clusters(hashes=np.array([2, 2], np.uint32), ids=np.zeros(2, np.uint16))
    with pytest.raises(ValueError, match="one number for each"):
        Clusters(hashes=np.array([2, 3], np.uint32), ids=np.zeros(1, np.uint16))


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 1},
        {"rows": 2**31},
        {"rows": 8.0},
        {"rows": True},
        {"level": "page"},
        {"clusters": -1},
        {"window": 9},
        {"seed": 2**32},
        {"seed": -1},
        {"version": 2},
        {"bigrams": 1},
        {"lowercase": None},
    ],
)
def test_schemes_no_table_can_have_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        FeatureScheme(**change)
    with pytest.raises(ArtifactError) as caught:
        FeatureScheme.from_dict({**FeatureScheme().to_dict(), **change})
    assert caught.value.code == "BAD_MANIFEST"


@given(SCHEMES)
def test_schemes_round_trip(scheme: FeatureScheme) -> None:
    assert FeatureScheme.from_dict(scheme.to_dict()) == scheme


@pytest.mark.parametrize("data", [{}, {"rows": 4}, {**FeatureScheme().to_dict(), "more": 1}, [1]])
def test_a_scheme_is_read_whole_or_not_at_all(data: Any) -> None:
    with pytest.raises(ArtifactError):
        FeatureScheme.from_dict(data)


def test_importing_it_costs_nothing() -> None:
    program = (
        "import sys, hushdoc.hashing, hushdoc.hashing.segmentation; "
        "print({'numpy', 'mmh3', 'nacl', 'cryptography'} & {*sys.modules})"
    )
    assert in_python(program).stdout.strip() == "set()"
