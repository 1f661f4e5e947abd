"""Calibration of tables that classify: from labelled lines to scores that are shares."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_tiny as tiny
import numpy as np
import pytest
from hushdoc_calibration import on

from hushdoc import hashing
from hushdoc.__main__ import main
from hushdoc.artifact.artifact import open_artifact
from hushdoc.document.document import Document
from hushdoc.errors import AnnotationError, InputError
from hushdoc.hashing import FeatureScheme
from hushdoc.runtime.classification import ClassificationModel
from hushdoc.runtime.hashed.class_scoring import KEY, ClassConfidence
from hushdoc.runtime.scoring import Scoring
from hushdoc_export.calibration import (
    calibration_error,
    export_calibrated_table,
    texts,
    whole_text_answers,
)
from hushdoc_training.crf import whole_texts
from hushdoc_training.labelled_texts import Contract, Message

CLASSES = ("farm", "law", "sea")
SCHEME = FeatureScheme(rows=20_011, bigrams=False, skip_grams=False)


RELEASE = tiny.release(name="tiny-classes", version=2)
DATA = tiny.calibration_data("invented letters of the tests")


def parts() -> dict[str, Any]:
    """Returns a table that knows thirty words of each class; some mislead it, as learned ones."""
    generator = np.random.default_rng(0)
    weights = generator.normal(0, 0.3, (SCHEME.rows, 3)).astype(np.float32)
    for column, label in enumerate(CLASSES):
        for number in range(30):
            (row,) = hashing.features([[f"{label}{number}"]], SCHEME).indices
            weights[row, column] += 2 if number else -2
    return {
        "weights": weights,
        "transitions": whole_texts.one_class(CLASSES),
        "tags": CLASSES,
        "scheme": SCHEME,
    }


def letters(count: int, *, seed: int) -> list[Message]:
    """Returns short and long texts that speak of other classes too; one in four is of any."""
    generator = np.random.default_rng(seed)
    made = []
    for index in range(count):
        topic = str(generator.choice(CLASSES))
        share = generator.uniform(0.2, 0.7)
        lines = []
        for _ in range(int(generator.choice([1, 2, 4, 12]))):
            words = [
                f"{topic if generator.random() < share else generator.choice(CLASSES)}"
                f"{generator.integers(30)}"
                if generator.random() < 0.3
                else f"word{generator.integers(5000)}"
                for _ in range(7)
            ]
            lines.append(f"Of {' '.join(words)}.")
        label = topic if generator.random() < 0.75 else str(generator.choice(CLASSES))
        made.append(Message(name=f"{index}", label=label, text="\n\n".join(lines)))
    return made


def saved(folder: Path, **change: Any) -> Path:
    path: Path = tiny.save_table(folder, **{**parts(), **change})
    return path


def written(path: Path, items: list[Message]) -> Path:
    lines = ({"id": item.name, "label": item.label, "text": item.text} for item in items)
    content = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Returns an artifact, and the same calibrated, both by the command."""
    home = tmp_path_factory.mktemp("classes")
    run = saved(home / "run")
    held = written(home / "letters.jsonl.gz", letters(500, seed=1))
    assert tiny.export_command(home, run, "--out", home / "raw") == 0
    flags = (*on(held), "--threshold", 0.6, "--weights", "int8")
    assert tiny.export_command(home, run, "--out", home / "calibrated", *flags) == 0
    return home / "raw", home / "calibrated"


def rank(scores: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> float:
    """Returns how often a right answer has a higher score than a wrong one; ties count half."""
    pairs = scores[right][:, None] - scores[~right][None]
    return float((pairs > 0).mean() + 0.5 * (pairs == 0).mean())


def test_scores_do_not_saturate_and_rank_right_above_wrong(made: Any) -> None:
    held = letters(400, seed=2)
    for folder in made:
        answers = whole_text_answers(ClassificationModel.load(folder, policy=tiny.policy()), held)
        assert len(answers.scores) == 400
        assert answers.documents.tolist() == list(range(400))
        assert len(np.unique(answers.scores)) > 390
        assert ((answers.scores > 0) & (answers.scores < 1)).all()
        assert 0.4 < answers.right.mean() < 0.9
        assert rank(answers.scores, answers.right) > 0.62
        # Nor do they merely say how long a text is.
        for long in (False, True):
            chosen = np.array([(len(item.text) > 150) == long for item in held])
            assert rank(answers.scores[chosen], answers.right[chosen]) > 0.58


def test_an_artifact_without_a_calibration_reports_how_it_scores(made: Any) -> None:
    model = ClassificationModel.load(made[0], policy=tiny.policy())
    assert model.scoring is None
    held = letters(40, seed=5)
    scores = [model.classify(Document.from_text(item.text)).scores[0].score for item in held]
    assert scores == whole_text_answers(model, held).scores.tolist()


def test_calibrated_scores_are_shares_and_the_threshold_flags_the_rest(made: Any) -> None:
    calibrated = ClassificationModel.load(made[1], policy=tiny.policy())
    held = letters(600, seed=3)
    found, right, kept = [], [], []
    for item in held:
        document = Document.from_text(item.text)
        answer = calibrated.classify(document)
        (best,) = answer.scores
        found.append(best.score)
        right.append(best.label == item.label)
        kept.append(not answer.below_threshold)
        assert kept[-1] == (best.score >= 0.6)
    flags = np.array(right)
    plain = whole_text_answers(calibrated, held)
    assert (plain.right == flags).all()
    assert calibration_error(np.array(found), flags) < 0.08
    assert calibration_error(plain.scores, flags) > 0.1
    assert 0.1 < np.mean(kept) < 0.9
    assert flags[np.array(kept)].mean() > flags.mean() + 0.05


def test_calibrated_scores_of_other_classes_are_shares_too(made: Any) -> None:
    calibrated = ClassificationModel.load(made[1], policy=tiny.policy())
    scores, right = np.zeros((600, 3)), np.zeros((600, 3), dtype=bool)
    for number, item in enumerate(letters(600, seed=3)):
        ranked = calibrated.classify(Document.from_text(item.text), top_k=3).scores
        scores[number] = [found.score for found in ranked]
        right[number] = [found.label == item.label for found in ranked]
    assert (scores.sum(axis=1) <= 1 + 1e-9).all()
    assert (np.diff(scores, axis=1) <= 0).all()
    assert scores.mean(axis=0) == pytest.approx(right.mean(axis=0), abs=0.05)
    assert calibration_error(scores[:, 1], right[:, 1]) < 0.08


def test_manifest_and_certificate_report_what_was_done(made: Any) -> None:
    raw, opened = (open_artifact(place, tiny.policy()) for place in made)
    model = ClassificationModel.from_artifact(opened)
    preprocessing = opened.manifest["preprocessing"]
    assert ClassConfidence.from_dict(preprocessing[KEY]).rule == "margin"
    assert Scoring.from_dict(preprocessing["scores"]) == model.scoring
    assert (model.scoring.threshold, model.scoring.fitted_on) == (0.6, "letters.jsonl.gz")
    (*_, step) = opened.certificate.derivation
    assert (step["step"], step["answers"]) == ("calibrate-scores", 500)
    assert step["dataDependent"] is False
    assert step["calibrationErrorAfter"] < step["calibrationErrorBefore"]
    assert step["shareRightOfKept"] > step["shareRight"]
    assert opened.certificate.claim.guarantees == raw.certificate.claim.guarantees
    (*_, data) = opened.certificate.claim.public_data
    assert (data.name, data.overlap_with_protected) == ("letters.jsonl.gz", "none")


def test_classify_shows_the_calibrated_score_and_abstains(
    made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keygen", "--out", str(tmp_path / "release")]) == 0
    run = saved(tmp_path / "run")
    held = written(tmp_path / "letters.jsonl", letters(300, seed=1))
    flags = [str(part) for part in ("export", run, "--out", tmp_path / "model", *on(held))]
    assert main([*flags, "--key", str(tmp_path / "release.key")]) == 0
    texts_of = {
        "clear": "Of sea1 sea2 sea3 sea4.\n\nAnd sea5 sea6 sea7.",
        "doubtful": "Of word1 word2 word3 word4 word5.",
    }
    scores = {}
    for name, text in texts_of.items():
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
        asked = ["classify", str(tmp_path / "model"), str(tmp_path / f"{name}.txt"), "--json"]
        asked += ["--trust", str(tmp_path / "release.trust.json"), "--integrity-only"]
        capsys.readouterr()
        assert main(asked) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["below_threshold"] == (answer["label"] is None) == (name == "doubtful")
        scores[name] = answer["scores"][0]["score"]
    assert scores["doubtful"] < 0.5 < 0.7 < scores["clear"] < 0.95


# What is refused.


def refused(folder: Path, out: Path, error: type[Exception], match: str, **change: Any) -> None:
    settings = {
        "policy": tiny.policy(),
        "texts": letters(80, seed=4),
        "data": DATA,
        **change,
    }
    with pytest.raises(error, match=match):
        export_calibrated_table(folder, out, RELEASE, **settings)
    assert not out.exists()


def test_texts_that_lack_the_classes_are_refused(made: Any, tmp_path: Path) -> None:
    raw, calibrated = made
    out = tmp_path / "out"
    messages = letters(80, seed=4)
    other = [*messages, replace(messages[0], label="sky")]
    refused(raw, out, AnnotationError, "class 'sky'; the table knows farm, law", texts=other)
    few = [item for item in messages if item.label != "law"]
    refused(raw, out, InputError, "None of the .* has the class 'law'", texts=few)
    refused(raw, out, InputError, "None of the 0 texts", texts=[])
    refused(raw, out, InputError, "at least 50 are needed", texts=messages[:20])
    clauses = [Contract(name="a", group="a", text="Of law1.", spans=(("law", 0, 8),))] * 80
    refused(raw, out, AnnotationError, "hushdoc train classifier", texts=clauses)
    refused(calibrated, out, InputError, "calibrated already")
    (protected,) = tiny.claim().protected_data
    refused(raw, out, InputError, "protects", data=replace(DATA, name=protected.name))


def test_blank_texts_are_left_out_and_wordless_ones_are_not(made: Any) -> None:
    model = ClassificationModel.load(made[0], policy=tiny.policy())
    blank = (" \n", "\t", "...", "Of sea1 sea2.")
    messages = [
        Message(name=str(number), label="sea", text=text) for number, text in enumerate(blank)
    ]
    answers = whole_text_answers(model, messages)
    assert answers.documents.tolist() == [2, 3]
    assert 0 < answers.scores[0] < 0.5 < answers.scores[1] < 1


def test_lines_of_clauses_have_no_classes_and_the_other_way_round(tmp_path: Path) -> None:
    run = saved(tmp_path / "run")
    spans = tmp_path / "clauses.jsonl"
    spans.write_text('{"id": 1, "text": "Of law1.", "spans": [["law", 0, 8]]}\n')
    with pytest.raises(AnnotationError, match="classifies whole texts"):
        tiny.export_command(tmp_path, run, "--out", tmp_path / "made", *on(spans))
    clauses = saved(
        tmp_path / "clauses", tags=("O", "law", "sea"), transitions=np.zeros((3, 3), "f4")
    )
    held = written(tmp_path / "letters.jsonl", letters(60, seed=1))
    with pytest.raises(AnnotationError, match="finds clauses or entities"):
        tiny.export_command(tmp_path, clauses, "--out", tmp_path / "made", *on(held))
    with pytest.raises(InputError, match="no field farm, law, sea"):
        tiny.export_command(tmp_path, run, "--out", tmp_path / "made", "--calibrate")
    assert not (tmp_path / "made").exists()


def test_lines_with_classes_and_spans_serve_both(tmp_path: Path) -> None:
    held = tmp_path / "both.jsonl"
    lines = (
        {"id": item.name, "label": item.label, "text": item.text, "spans": [["law", 0, 5]]}
        for item in letters(60, seed=1)
    )
    held.write_text("\n".join(json.dumps(line) for line in lines))
    found = texts.read(held)
    assert [item.label for item in texts.with_classes(CLASSES, found)] == [
        item.label for item in letters(60, seed=1)
    ]
    assert texts.with_fields(["law"], found)[0].spans == (("law", 0, 5),)
    run = saved(tmp_path / "run")
    assert tiny.export_command(tmp_path, run, "--out", tmp_path / "made", *on(held)) == 0


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ('{"id": 1, "label": "sea"}', "Line 1 of .*Expected id, label and text"),
        ('{"id": 1, "label": "sea", "text": 5}', "text must be a string"),
        ('{"id": 1, "label": "sea", "text": "a"}\n\n{"id": 1}', "Line 3 of"),
        ('{"id": 1, "label": "sea", "text": "a"}\n' * 2, "Two lines of .* have the id '1'"),
        ('{"id": 1, "kind": "sea", "text": "a"}', "Line 1 of"),
        ('["label"]', "Line 1 of"),
        ('{"label": ', "Line 1 of"),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, content: str, match: str) -> None:
    (tmp_path / "texts.jsonl").write_text(content)
    with pytest.raises(AnnotationError, match=match):
        texts.read(tmp_path / "texts.jsonl")


def test_documents_of_pages_are_no_texts(tmp_path: Path) -> None:
    (tmp_path / "forms.jsonl").write_text('{"id": "1", "document_type": "form", "pages": []}\n')
    with pytest.raises(InputError, match="documents of pages and words"):
        texts.read(tmp_path / "forms.jsonl")


def test_no_gzip_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "texts.jsonl.gz").write_bytes(b'{"label": "sea"}')
    with pytest.raises(AnnotationError, match="can't be read"):
        texts.read(tmp_path / "texts.jsonl.gz")
