"""Calibration of tables of hashed features: the same table, calibrated scores, certified."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_tiny as tiny
import numpy as np
import pytest
from hushdoc_calibration import calibration_step, on
from safetensors.numpy import load

import hushdoc
from hushdoc import hashing
from hushdoc.__main__ import main
from hushdoc.artifact.artifact import open_artifact
from hushdoc.document.document import Document
from hushdoc.errors import AnnotationError, InputError, PolicyViolationError, TaskMismatchError
from hushdoc.hashing import Clusters, FeatureScheme
from hushdoc.runtime.hashed.model import HashedCRFModel
from hushdoc.runtime.scoring import Scoring
from hushdoc.signing import keys
from hushdoc_export import commands, quantize
from hushdoc_export.calibration import (
    artifacts,
    calibration_error,
    export_calibrated,
    export_calibrated_table,
    text_answers,
    texts,
)
from hushdoc_export.table import seal_table
from hushdoc_training.invented.clause_contracts import CLAUSES
from hushdoc_training.labelled_texts import Contract
from hushdoc_training.table_checkpoint import TableCheckpoint

FIELDS = ("Audit Rights", "Governing Law")
SENTENCE = FeatureScheme(rows=20_011, level="sentence", bigrams=False, skip_grams=False)
TOKEN = FeatureScheme(rows=20_011, level="token", bigrams=False, skip_grams=False, clusters=4)
FILLER = ("Payments are due.", "The goods stay here.", "Notices are in writing.", "It rains.")


RELEASE = tiny.release(name="tiny-table", version=2)
DATA = tiny.calibration_data("invented contracts of the tests")


def parts(scheme: FeatureScheme) -> dict[str, Any]:
    """Returns a table in which the word w7 speaks for a field about as its number says."""
    tags = ("O", "law", "sum") if scheme.level == "sentence" else ("O", "B-law", "I-law", "B-sum")
    weights = np.full((scheme.rows, len(tags)), 1e-4, dtype=np.float32)
    weights[:, 0] += 2e-4
    alone = replace(scheme, clusters=0)
    for number in range(10):
        for prefix, column in (("w", 1), ("v", len(tags) - 1)):
            found = hashing.features([[f"{prefix}{number}"]], alone)
            weights[found.indices, column] = (4.1 + 0.4 * number) / len(found.indices)
    rare = np.zeros((len(tags),) * 2)
    rare[:, 1:] = -4
    clusters = None
    if scheme.clusters:
        clusters = Clusters.of([("cat", 0), ("dog", 1)], scheme)
    return {
        "weights": weights,
        "transitions": rare.astype(np.float32),
        "tags": tags,
        "scheme": scheme,
        "clusters": clusters,
    }


def chance(number: int) -> float:
    """How often a sentence with this number is a field in truth: far less than the table says."""
    return 0.05 + 0.09 * number


def labelled(count: int, *, seed: int, whole: bool = True) -> list[Contract]:
    """Returns texts whose marked words, or sentences around them, are fields by chance alone."""
    generator = np.random.default_rng(seed)
    made = []
    for index in range(count):
        text, spans = "", []
        for _ in range(8):
            text += f"{generator.choice(FILLER)} "
            number, prefix = int(generator.integers(10)), str(generator.choice(["w", "v"]))
            line = f"Here {prefix}{number} stands."
            start = len(text) if whole else len(text) + 5
            stop = start + (len(line) if whole else 2)
            if generator.random() < chance(number):
                spans.append(("law" if prefix == "w" else "sum", start, stop))
            text += f"{line} "
        name = f"text {index}"
        made.append(Contract(name=name, group=name, text=text, spans=tuple(spans)))
    return made


def sealed(out: Path, scheme: FeatureScheme, **change: Any) -> Path:
    dtype = change.pop("dtype", "float16")
    table = TableCheckpoint(**{**parts(scheme), "claim": tiny.claim(), **change})
    return seal_table(out, table, tiny.release(name="tiny-table"), dtype=dtype)


@pytest.fixture(scope="module", params=[SENTENCE, TOKEN], ids=["sentence", "token"])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path, list[Contract]]:
    """Returns an artifact, the same calibrated, and texts that neither has read."""
    home = tmp_path_factory.mktemp("tables")
    scheme: FeatureScheme = request.param
    whole = scheme.level == "sentence"
    raw = sealed(home / "raw", scheme, dtype="int8" if whole else "float16")
    settings = {
        "texts": labelled(150, seed=1, whole=whole),
        "data": DATA,
        "threshold": 0.4,
    }
    folder = export_calibrated_table(
        raw, home / "calibrated", RELEASE, policy=tiny.policy(), **settings
    )
    return raw, folder, labelled(150, seed=2, whole=whole)


def test_scores_become_the_share_of_right_fields(made: Any) -> None:
    raw, folder, held = made
    before = HashedCRFModel.load(raw, policy=tiny.policy())
    after = HashedCRFModel.load(folder, policy=tiny.policy(min_version=2))
    plain = text_answers(before, held)
    assert len(plain.scores) == 150 * 8
    assert plain.right.mean() == pytest.approx(0.455, abs=0.05)
    again = np.asarray([after.scoring.calibrate(score) for score in plain.scores])
    error = calibration_error(plain.scores, plain.right)
    assert error > 0.2
    assert calibration_error(again, plain.right) < 0.4 * error
    kept = again >= 0.4
    assert plain.right[kept].mean() > plain.right.mean() + 0.1
    found = []
    for item in held:
        document = Document.from_text(item.text)
        uncalibrated, answer = before.extract(document), after.extract(document)
        everything = sorted(
            (*answer.fields, *answer.below_threshold), key=lambda field: field.start or 0
        )
        places = [(field.label, field.start, field.stop) for field in everything]
        assert places == [(field.label, field.start, field.stop) for field in uncalibrated.fields]
        assert all(field.score >= 0.4 for field in answer.fields)
        assert all(field.score < 0.4 for field in answer.below_threshold)
        found += [field.score for field in everything]
    assert found == pytest.approx(again.tolist())
    assert 0 < kept.sum() < len(kept)


def test_the_certificate_reports_how(made: Any) -> None:
    raw, folder, _ = made
    opened, source = (open_artifact(place, tiny.policy()) for place in (folder, raw))
    assert calibration_step(opened, source)["answers"] == 150 * 8
    before = source.certificate.claim.public_data
    assert opened.certificate.claim.public_data == (*before, DATA)
    scores = Scoring.from_dict(opened.manifest["preprocessing"]["scores"])
    assert (scores.threshold, scores.fitted_on) == (0.4, DATA.name)
    assert hushdoc.verify(folder, tiny.policy(model="tiny-table", min_version=2)).passed


def test_no_weight_and_no_other_word_is_touched(made: Any) -> None:
    opened = [open_artifact(place, tiny.policy()) for place in made[:2]]
    for name in (subject.name for subject in opened[0].subjects):
        old, new = (artifact.read(name) for artifact in opened)
        if name.endswith(".safetensors"):
            tensors = load(old), load(new)
            assert tensors[0].keys() == tensors[1].keys()
            for key, tensor in tensors[0].items():
                assert tensor.dtype == tensors[1][key].dtype
                assert (tensor == tensors[1][key]).all()
            assert opened[1].certificate.certificate_id.encode() in new
            assert opened[0].certificate.certificate_id.encode() not in new
        elif name == "hushdoc.json":
            manifest = json.loads(new)
            del manifest["preprocessing"]["scores"]
            assert manifest == json.loads(old)
        else:
            assert old == new


def test_low_memory_reads_it_too(made: Any) -> None:
    _, folder, held = made
    document = Document.from_text(held[0].text)
    mapped = HashedCRFModel.load(folder, policy=tiny.policy(), low_memory=True)
    whole = HashedCRFModel.load(folder, policy=tiny.policy())
    assert mapped.extract(document) == whole.extract(document)


def refused(folder: Path, out: Path, error: type[Exception], match: str, **change: Any) -> None:
    settings = {
        "policy": tiny.policy(),
        "texts": labelled(40, seed=3),
        "data": DATA,
        **change,
    }
    with pytest.raises(error, match=match):
        export_calibrated_table(folder, out, RELEASE, **settings)
    assert not out.exists()


def test_what_cannot_be_calibrated_is_refused(tmp_path: Path) -> None:
    folder, out = sealed(tmp_path / "raw", SENTENCE), tmp_path / "out"
    refused(tiny.sealed(), out, TaskMismatchError, "format 'onnx'")
    refused(folder, out, InputError, "at least 50 are needed", texts=labelled(5, seed=3))
    refused(folder, out, InputError, "None of the 0 texts has a span 'law'", texts=[])
    wrong = [replace(item, spans=()) for item in labelled(40, seed=3)]
    refused(folder, out, InputError, "has a span 'law'", texts=wrong)
    one = [replace(item, spans=(("law", 0, 5), ("sum", 0, 9999))) for item in labelled(1, seed=3)]
    refused(folder, out, AnnotationError, "of a text of", texts=one)
    made = export_calibrated_table(
        folder,
        tmp_path / "made",
        RELEASE,
        policy=tiny.policy(),
        texts=labelled(40, seed=3),
        data=DATA,
    )
    refused(made, out, InputError, "calibrated already")
    with pytest.raises(TaskMismatchError, match="tables of hashed features"):
        export_calibrated(folder, out, RELEASE, policy=tiny.policy(), documents=[], data=DATA)


def test_protected_documents_are_never_calibrated_on(tmp_path: Path) -> None:
    folder, out = sealed(tmp_path / "raw", SENTENCE), tmp_path / "out"
    (protected,) = tiny.claim().protected_data
    refused(folder, out, InputError, "protects", data=replace(DATA, name=protected.name))
    for overlap in ("partial", "contained"):
        data = replace(DATA, overlap_with_protected=overlap)
        refused(folder, out, InputError, f"overlap: {overlap}", data=data)
        with pytest.raises(InputError, match="protects"):
            export_calibrated(
                tiny.sealed(), out, RELEASE, policy=tiny.policy(), documents=[], data=data
            )


def test_an_unknown_overlap_claims_nothing(tmp_path: Path) -> None:
    made = export_calibrated_table(
        sealed(tmp_path / "raw", SENTENCE),
        tmp_path / "made",
        RELEASE,
        policy=tiny.policy(),
        texts=labelled(40, seed=3),
        data=replace(DATA, overlap_with_protected="unknown"),
    )
    with pytest.raises(PolicyViolationError) as raised:
        open_artifact(made, tiny.policy())
    message = str(raised.value)
    assert "unknown" in message
    assert "calibrate-scores" in message


def test_answers_count_exact_fields_alone(tmp_path: Path) -> None:
    model = HashedCRFModel.load(sealed(tmp_path / "raw", SENTENCE), policy=tiny.policy())
    text = "It rains. Here w9 stands. Here w8 stands. It rains. Here v9 stands."
    first, second = text.index("Here w9"), text.index("Here w8")
    third = text.index("Here v9")
    ends = {place: text.index(".", place) + 1 for place in (first, second, third)}

    def right(*spans: tuple[str, int, int]) -> list[bool]:
        item = Contract(name="a", group="a", text=text, spans=spans)
        blank = replace(item, text=" \n", spans=())
        answers = text_answers(model, [blank, item])
        assert answers.documents.tolist() == [1, 1]
        assert ((answers.scores > 0) & (answers.scores < 1)).all()
        return list(answers.right.tolist())

    # Neighbouring sentences of one label are one field, however many spans marked them.
    both = ("law", first, ends[first]), ("law", second, ends[second])
    last = ("sum", third, ends[third])
    assert right(*both, last) == [True, True]
    assert right(("law", first, ends[second]), last) == [True, True]
    assert right(both[0], last) == [False, True]
    assert right(*both, ("law", third, ends[third])) == [True, False]


# The command.


def saved(folder: Path, **change: Any) -> Path:
    path: Path = tiny.save_table(folder, **{**parts(SENTENCE), **change})
    return path


def written(path: Path, items: Sequence[Contract]) -> Path:
    lines = (
        {"id": item.name, "group": item.group, "text": item.text, "spans": item.spans}
        for item in items
    )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_the_command_calibrates_on_texts_of_ones_own(tmp_path: Path) -> None:
    source = saved(tmp_path / "run")
    held = written(tmp_path / "filings.jsonl", labelled(60, seed=4))
    flags = (*on(held), "--threshold", "0.3", "--weights", "int8")
    assert tiny.export_command(tmp_path, source, "--out", tmp_path / "made", *flags) == 0
    opened = open_artifact(tmp_path / "made", tiny.policy())
    assert opened.manifest["preprocessing"]["scores"]["threshold"] == 0.3
    assert opened.manifest["preprocessing"]["weights"] == "int8"
    (*_, declared) = opened.certificate.claim.public_data
    assert declared.name == "filings.jsonl"
    assert declared.uses == ("calibration of scores",)
    assert declared.privacy_status == "declared by the exporter: public texts"
    assert declared.overlap_with_protected == "none"
    steps = [step["step"] for step in opened.certificate.derivation]
    assert steps == ["round-table", "calibrate-scores"]
    # Unless its exporter knows that nothing protected is in them, a default policy refuses.
    flags = on(held, "unknown")
    assert tiny.export_command(tmp_path, source, "--out", tmp_path / "doubtful", *flags) == 0
    with pytest.raises(PolicyViolationError, match="PUBLIC_DATA_OVERLAP"):
        hushdoc.verify(tmp_path / "doubtful", tiny.policy())


def test_the_command_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[2] / "docs" / "hashed-tables.md"
    (line,) = re.findall(r"^    hushdoc (export .*--calibrate-on .*)$", page.read_text(), re.M)
    monkeypatch.chdir(tmp_path)
    saved(Path("runs/law"))
    written(Path("filings.jsonl"), labelled(60, seed=4))
    Path("keys").mkdir()
    keys.write_private_key(tiny.KEY, Path("keys/release.key"))
    assert main(shlex.split(line)) == 0
    model = HashedCRFModel.load("model", policy=tiny.policy())
    assert (model.scoring.threshold, model.scoring.fitted_on) == (0.5, "filings.jsonl")


def test_the_command_refuses_texts_with_the_name_of_protected_data(tmp_path: Path) -> None:
    (protected,) = tiny.claim().protected_data
    held = written(tmp_path / f"{protected.name}.jsonl", labelled(60, seed=4))
    claim = tiny.claim()
    claim = replace(
        claim,
        protected_data=(replace(protected, name=held.name),),
        data_accesses=tuple(replace(item, data=held.name) for item in claim.data_accesses),
    )
    source = saved(tmp_path / "run", claim=claim)
    with pytest.raises(InputError, match="protects"):
        tiny.export_command(tmp_path, source, "--out", tmp_path / "made", *on(held))
    assert not (tmp_path / "made").exists()


def test_the_command_calibrates_on_invented_contracts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "NUM_INVENTED", 80)
    monkeypatch.chdir(tmp_path)
    weights = np.full((SENTENCE.rows, 3), 1e-4, dtype=np.float32)
    weights[:, 0] += 2e-4
    for word, column in (("audit", 1), ("inspect", 1), ("law", 2), ("laws", 2)):
        weights[hashing.features([[word]], SENTENCE).indices, column] = 4.5
    saved(Path("run"), weights=weights, tags=("O", *FIELDS))
    assert tiny.export_command(tmp_path, "run", "--out", "made", "--calibrate") == 0
    opened = open_artifact(Path("made"), tiny.policy())
    assert opened.certificate.claim.public_data[-1] == texts.INVENTED
    assert opened.manifest["preprocessing"]["scores"]["threshold"] == 0.5
    saved(Path("other"))
    with pytest.raises(InputError, match="no field law, sum"):
        tiny.export_command(tmp_path, "other", "--out", "x", "--calibrate")
    assert not Path("x").exists()


def test_texts_to_calibrate_on_are_new_contracts() -> None:
    from hushdoc_training.invented import clause_contracts

    asked = {item.text for item in texts.invented(tuple(CLAUSES))}
    for seed in (0, 1):
        assert not asked & {item.text for item in clause_contracts.contracts(400, seed=seed)}


@pytest.mark.parametrize(
    ("content", "name", "error"),
    [
        ("{}\n", "texts.jsonl", AnnotationError),
        ("not JSON", "texts.jsonl", AnnotationError),
        ('{"id": 1, "text": "a", "spans": [["law", 0, 5]]}', "texts.jsonl", AnnotationError),
        ('{"id": 1, "text": "\\ud800 b", "spans": []}', "texts.jsonl", InputError),
        ("-DOCSTART- O\n\na O\n", "texts.conll", InputError),
        ("a,b\n", "texts.csv", InputError),
    ],
)
def test_other_files_are_refused(
    tmp_path: Path, content: str, name: str, error: type[Exception]
) -> None:
    source = saved(tmp_path / "run")
    (tmp_path / name).write_text(content)
    out = tmp_path / "made"
    with pytest.raises(error):
        tiny.export_command(tmp_path, source, "--out", out, *on(tmp_path / name))
    with pytest.raises(AnnotationError, match="does not exist"):
        tiny.export_command(tmp_path, source, "--out", out, *on(tmp_path / "nothing"))
    assert not (tmp_path / "made").exists()


ON = ("--calibrate-on", "texts.jsonl")
WHY = ("--calibrate-status", "public")


@pytest.mark.parametrize(
    "wrong",
    [
        ["table", *ON],
        ["table", *ON, "--calibrate-status", " "],
        ["table", *ON, *WHY, "--calibrate"],
        ["table", *ON, *WHY, "--calibrate-overlap", "partial"],
        ["table", *ON, *WHY, "--threshold", "1.5"],
        ["table", *WHY],
        ["table", "--calibrate", "--calibrate-overlap", "none"],
        ["network", *ON, *WHY],
        ["minilm", *ON, *WHY],
        ["table", "--threshold", "0.5"],
        ["minilm", "--calibrate"],
        ["minilm", "--weights", "int8"],
        ["minilm", "--variant", "int8", "--max-f1-loss", "1"],
        ["network", "--threshold", "0.5"],
        ["network", "--threshold", "2", "--calibrate"],
        ["network", "--max-f1-loss", "1"],
        ["network", "--variant", "fp32", "--max-f1-loss", "1"],
        ["network", "--variant", "int8", "--max-f1-loss", "-1"],
        ["network", "--variant", "int4"],
    ],
)
def test_options_without_effect_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if wrong[0] == "table":
        saved(Path("table"))
    with pytest.raises(SystemExit) as raised:
        tiny.export_command(tmp_path, *wrong, "--out", "made")
    assert raised.value.code == 2


def test_the_command_names_every_overlap_and_variant() -> None:
    assert commands.OVERLAPS == artifacts.OVERLAPS
    assert tuple(quantize.VARIANTS) == commands.VARIANTS
