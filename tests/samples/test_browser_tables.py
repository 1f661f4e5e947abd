"""What the browser sample makes of a text by tables of hashed features is what hushdoc makes of it.

Its modules need nothing but JavaScript, so Node runs them here as a browser does.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import hushdoc_builders as build
import mmh3
import numpy as np
import pytest

from hushdoc import hashing
from hushdoc.document.document import Document
from hushdoc.hashing import Clusters, FeatureScheme, segmentation
from hushdoc.labels import LabelSet
from hushdoc.runtime import decoding
from hushdoc.runtime.classification import ClassificationModel
from hushdoc.runtime.encoding import Preprocessing
from hushdoc.runtime.hashed.model import HashedCRFModel
from hushdoc.runtime.scoring import Scoring
from hushdoc.signing import keys
from hushdoc_export.release import Release
from hushdoc_export.table import seal_table
from hushdoc_training.table_checkpoint import TableCheckpoint

SAMPLE = Path(__file__).parents[2] / "samples" / "browser"
pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

WORDS = ["word", "The", "agreement", "shall", "inc", "Inc", "no", "mr", "End", "x1", "12", "345"]
WORDS += ["iv", "a", "B", "e.g", "Januar", "März", "ARTICLE 1", "(a)", "“Party”", "•", "end)", "§"]
WORDS += ["İx", "ſo", "ΟΔΟΣ", "合同", "กี่", "न्याय", "العَقْد", "👩‍👩‍👧", "🇩🇪", "𝒳1", "²", "①", "3.5"]  # noqa: RUF001
WORDS += ["on-line", "it's", "1,250.00", "J", "Sec", "the", "Dr", "u.s.a", "Art", "No", "a" * 30]
MARKS = ["", " ", " ", " ", ". ", ".", ".\n", "\n", "\n", ", ", ",\n", "\n\n", ";\n", ":\n", ".) "]
MARKS += [
    "\r\n",
    " \n ",
    "\n \n",
    ".\u00a0",
    "\u2028",
    "! ",
    "?\n",
    "… ",
    "... ",
    "。",
    ".  ",
    "\x85",
]
MARKS += ["\x1c", "\ufeff", "! \u201cSo\u201d ", " – ", "\v", ".” "]


def _text(random: Random, words: int) -> str:
    return "".join(random.choice(WORDS) + random.choice(MARKS) for _ in range(words))


def _texts() -> list[str]:
    random = Random(3)
    texts = [_text(random, random.randint(0, 60)) for _ in range(400)]
    lines = [" ".join(random.choice(WORDS) for _ in range(900)), "𝒳" * 5000, "a b. " * 2000]
    return ["", " \n", *texts, *lines]


def _in_node(script: str, data: Any) -> Any:
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script],
        input=json.dumps(data),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=SAMPLE,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


READ = "import { readFileSync } from 'node:fs'; const data = JSON.parse(readFileSync(0, 'utf8'));"
SEGMENT = (
    READ
    + """
import { RULES } from './abbreviations.mjs';
import { sentences } from './segmentation.mjs';
import { tokens } from './tokens.mjs';
const spelled = (text, places) => places.map(([start, stop]) => text.slice(start, stop));
console.log(JSON.stringify({
  rules: Object.values(RULES).map((words) => [...words].sort()),
  sentences: data.map((text) => spelled(text, sentences(text))),
  tokens: data.map((text) => spelled(text, tokens(text))),
}));
"""
)


def test_sentences_and_tokens_are_those_of_hushdoc() -> None:
    texts = _texts()
    found = _in_node(SEGMENT, texts)
    rules = ("_NEVER", "_BEFORE_NUMBER", "_SOMETIMES", "_STARTERS", "_MONTHS")
    assert list(map(set, found["rules"])) == [set(getattr(segmentation, name)) for name in rules]
    for text, sentences, tokens in zip(texts, found["sentences"], found["tokens"], strict=True):
        places = segmentation.sentences(text)
        assert sentences == [text[start:stop] for start, stop in places], text
        assert tokens == segmentation.words(text), text


TIME = (
    READ
    + """
import { sentences } from './segmentation.mjs';
const took = (text) => Math.min(...[1, 2, 3].map(() => {
  const began = performance.now();
  sentences(text);
  return performance.now() - began;
}));
console.log(JSON.stringify(data.map(took)));
"""
)


def test_full_stops_that_end_no_sentence_take_linear_time() -> None:
    short, long = _in_node(TIME, ["mr. " * 4_000, "mr. " * 32_000])
    assert long < 24 * short  # times 8 by length, times 64 where each stop looks back


HASH = (
    READ
    + """
import { murmur, rowsOfItems, tokenHash } from './hashing.mjs';
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt());
console.log(JSON.stringify({
  hashes: data.plain.map(([text, seed]) => murmur(new TextEncoder().encode(text), seed)),
  rows: data.schemes.map((scheme) => data.sentences.map((words) => rowsOfItems(
    words.map((word) => tokenHash(word, scheme)),
    scheme.clusters ? words.map((word) => data.groups[word.toLowerCase()] ?? -1) : null, scheme))),
}));
"""
)


def test_rows_of_features_are_those_of_hushdoc() -> None:
    random = Random(4)
    plain = [("x" * size + "é😀", random.getrandbits(32)) for size in range(40)]
    sentences = [segmentation.words(_text(random, size)) for size in (1, 2, 3, 7, 40)]
    sentences.append(["again", "again", "again", "other", "again"])
    groups = {"word": 5, "again": 0, "12": 3}
    schemes = [
        FeatureScheme(rows=rows, level=level, clusters=clusters, seed=seed, window=window)
        for rows, seed, window in ((2, 0, 0), (30_011, 2**32 - 1, 2), (2**31 - 1, 9, 8))
        for level in hashing.LEVELS
        for clusters in (0, 6)
    ]
    schemes.append(FeatureScheme(level="token", bigrams=False, skip_grams=False, lowercase=False))
    found = _in_node(
        HASH,
        {
            "plain": plain,
            "sentences": sentences,
            "groups": groups,
            "schemes": [scheme.to_dict() for scheme in schemes],
        },
    )
    assert found["hashes"] == [mmh3.hash(text.encode(), seed, False) for text, seed in plain]
    for scheme, rows in zip(schemes, found["rows"], strict=True):
        known = Clusters.of(groups.items(), scheme) if scheme.clusters else None
        expected = hashing.features(sentences, scheme, known)
        own = [sorted(item) for sentence in rows for item in sentence]
        assert own == [expected.rows_of(item).tolist() for item in range(expected.num_items)]


ANSWER = (
    READ
    + """
import { openTable } from './tables.mjs';
const filesOf = (folder) => new Map(['labels.json', 'table.safetensors', 'clusters.safetensors']
  .flatMap((name) => { try { return [[name, new Uint8Array(readFileSync(`${folder}/${name}`))]]; }
    catch { return []; } }));
console.log(JSON.stringify(data.models.map(({ folder, task, scores }) => {
  const manifest = JSON.parse(readFileSync(`${folder}/hushdoc.json`, 'utf8'));
  if (scores) manifest.preprocessing.scores = scores;
  const opened = openTable(filesOf(folder), manifest, { task, entry: 'table.safetensors' });
  return data.texts.map((text) => (opened.extract ? opened.extract(text)
    : opened.classify([text])));
})));
"""
)

CLASSIFIERS = ("classes", "classes-calibrated")
HEAT = Scoring(temperature=1.7, fitted_on="invented", num_answers=9)
TAGS = ("O", "B-law", "I-law", "B-party", "I-party")
CALIBRATION = Scoring(
    temperature=1.7,
    raw=(0.1, 0.5, 0.9),
    calibrated=(0.2, 0.4, 0.95),
    threshold=0.3,
    fitted_on="invented",
    num_answers=9,
)


def _seal(out: Path, key: Any, tags: tuple[str, ...], **change: Any) -> None:
    random = np.random.default_rng(len(tags))
    scheme = change["scheme"]
    classifies = "O" not in tags
    stay = np.eye(len(tags), dtype=bool)
    transitions = np.where(stay, 0.0, -1e6) if classifies else random.normal(size=(len(tags),) * 2)
    parts = TableCheckpoint(
        weights=random.normal(size=(scheme.rows, len(tags))).astype(np.float32),
        transitions=transitions,
        tags=tags,
        scheme=scheme,
        claim=build.claim(),
        clusters=change.get("clusters"),
    )
    release = Release(key=key, name="contracts", issuer="the tests")
    seal_table(out, parts, release, dtype=change.get("dtype", "float16"))


def test_fields_and_classes_by_tables_are_those_of_hushdoc(tmp_path: Path) -> None:
    key = keys.generate_key()
    sentence = FeatureScheme(rows=3001, seed=9)
    token = FeatureScheme(rows=3001, level="token", seed=9, clusters=8)
    clusters = Clusters.of([("word", 3), ("the", 7), ("inc", 0)], token)
    tables: dict[str, dict[str, Any]] = {
        "sentences": {"tags": ("O", "term", "law"), "scheme": sentence},
        "two-in-bytes": {"tags": ("O", "law"), "scheme": sentence, "dtype": "int8"},
        "tokens": {"tags": TAGS, "scheme": token, "clusters": clusters},
        "tokens-calibrated": {"tags": TAGS, "scheme": token, "clusters": clusters},
        "clauses-calibrated": {"tags": ("O", "law"), "scheme": sentence},
        "classes": {"tags": ("bill", "letter", "memo"), "scheme": sentence, "dtype": "int8"},
        "classes-calibrated": {"tags": ("bill", "letter", "memo"), "scheme": sentence},
    }
    for name, table in tables.items():
        _seal(tmp_path / name, key, **table)
    texts = [text for text in _texts()[:120] if text.strip()]
    scorings = {name: CALIBRATION if "calibrated" in name else None for name in tables}
    models = [
        {
            "folder": str(tmp_path / name),
            "task": "classification" if name in CLASSIFIERS else "kie",
            "scores": None if scoring is None else scoring.to_dict(),
        }
        for name, scoring in scorings.items()
    ]
    answers = dict(zip(tables, _in_node(ANSWER, {"models": models, "texts": texts}), strict=True))
    policy = build.policy(key)
    for name in CLASSIFIERS:
        classes = ClassificationModel.load(tmp_path / name, policy=policy).scored_by(scorings[name])
        for text, answer in zip(texts, answers.pop(name), strict=True):
            ranked = classes.classify(Document.from_text(text), top_k=3)
            assert [item["label"] for item in answer["scores"]] == [x.label for x in ranked.scores]
            assert [item["score"] for item in answer["scores"]] == pytest.approx(
                [item.score for item in ranked.scores]
            )
            assert answer["below_threshold"] == ranked.below_threshold
    for name, found in answers.items():
        model = HashedCRFModel.load(tmp_path / name, policy=policy).scored_by(scorings[name])
        expected_fields = 0
        print("NAME", name)
        for text, answer in zip(texts, found, strict=True):
            extraction = model.extract(Document.from_text(text))
            for own, other in (
                (extraction.fields, answer["fields"]),
                (extraction.below_threshold, answer["unsure"]),
            ):
                assert [(x.label, x.text) for x in own] == [(x["label"], x["text"]) for x in other]
                assert [_units(text, x.start) for x in own] == [x["start"] for x in other]
                assert [x["score"] for x in other] == pytest.approx([x.score for x in own])
                expected_fields += len(own)
        assert expected_fields > len(texts)


def _units(text: str, place: int | None) -> int:
    """Returns a place in the units of UTF-16, in which JavaScript counts."""
    return len(text[:place].encode("utf-16-le")) // 2


LAYOUT = (
    READ
    + """
import { openLayout } from './layout.mjs';
const { fields, settings, logits } = data, size = 1 + 2 * fields.length;
const files = new Map([['labels.json', new TextEncoder().encode(JSON.stringify({ fields }))]]);
const model = openLayout(files, { inputs: [{ name: 'input_ids' }], preprocessing: settings }, {
  tokenize: (word) => [Number(word)],
  run: async ({ input_ids: { data: [, id] } }) => (
    { data: Float32Array.from([0, 1, 2].flatMap(() => logits[id])), dims: [1, 3, size] }),
});
const page = (word) => ({ width: 9, height: 9, words: [{ text: word, box: [1, 1, 2, 2] }] });
const found = await model.extract(logits.map((_, word) => page(String(word))));
console.log(JSON.stringify(found.fields));
"""
)


def test_scores_of_a_layout_model_have_the_digits_of_hushdoc_s() -> None:
    """The temperature divides in float32, as numpy does: else fields of equal scores differ."""
    labels = LabelSet(fields=("date", "total"))
    settings = Preprocessing(cls_id=0, sep_id=0, pad_id=0, scores=HEAT).to_dict()
    logits = np.random.default_rng(2).normal(size=(90, len(labels.tags))).astype(np.float32)
    data = {"fields": labels.fields, "settings": settings, "logits": logits.tolist()}
    known = decoding.softmax(logits / HEAT.temperature).astype(np.float32).astype(np.float64)
    found = {field["page"]: field["score"] for field in _in_node(LAYOUT, data)}
    tags = [int(decoding.viterbi(row[None])[0]) for row in known]
    assert found == {word: known[word, tag] for word, tag in enumerate(tags) if tag}
    assert len(found) > 30
