"""What a private training releases, or refuses, tells of no single document by name or number."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from safetensors import safe_open

from hushdoc import labelled_files
from hushdoc.__main__ import main
from hushdoc.certificate.claim import Claim
from hushdoc.policy.rules import check
from hushdoc_training import duplicates, invented, private_view, table_checkpoint
from hushdoc_training.checkpoint import Checkpoint

SECRET = "diagnosis-of-jane"
FORMS = ("--max-tokens", 64, "--steps", 1, "--expected-records", 6, "--trained", "output")
MAIL = ("--mode", "dp-sgd", "--rows", 256, "--steps", 2, "--public-overlap", "none")


def train(task: str, data: Path, out: Path, *options: object) -> int:
    return main(["train", task, "--data", str(data), "--out", str(out), *map(str, options)])


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A public model, and two folders that differ in one document, which has a label of its own."""
    folder = tmp_path_factory.mktemp("forms")
    config = invented.InventedConfig(document_types=("receipt",), labels="fields")
    for name in ("janes-folder", "with"):
        invented.write(folder / name, seed=1, count=6, config=config, images=False)
    path = sorted((folder / "with").glob("*.json"))[0]
    one = labelled_files.read_one(path)
    spans = (dataclasses.replace(one.spans[0], label=SECRET), *one.spans[1:])
    document = dataclasses.replace(one.document, id="one-more")
    more = dataclasses.replace(one, document=document, spans=spans)
    path.with_name("one-more.json").write_text(labelled_files.dumps(more), encoding="utf-8")
    assert train("kie", folder / "janes-folder", folder / "public", "--public", "--quiet",
                 "--start", "small", "--max-tokens", 64) == 0  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mail")
    lines = [
        {"id": number, "label": label, "text": f"word{number} {label} goods"}
        for number in range(8)
        for label in ("bill", "order")
    ]
    for name, more in (
        ("janes-mail", []),
        ("with", [{"id": "x", "label": SECRET, "text": "one more"}]),
        ("few", [{"id": "y", "label": "rare", "text": "a single one"}]),
    ):
        path = folder / f"{name}.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in (*lines, *more)))
    return folder


def forms_shape(run: Path) -> tuple[Any, ...]:
    stored = Checkpoint.load(run)
    with safe_open(stored.folder / "model.safetensors", "pt") as weights:
        shapes = {name: weights.get_slice(name).get_shape() for name in weights.keys()}  # noqa: SIM118
    files = sorted(path.name for path in stored.folder.iterdir())
    return files, shapes, (stored.folder / "labels.json").read_bytes(), stored.claim


def table_shape(run: Path) -> tuple[Any, ...]:
    stored = table_checkpoint.load(run)
    files = sorted(path.name for path in (run / "checkpoint").iterdir())
    claim = dataclasses.replace(stored.claim, audits=())  # of invented documents, with fresh noise
    return files, stored.weights.shape, stored.tags, claim


def is_refused(build: ModuleType, key: Any, claim: Claim) -> bool:
    report = check(build.policy(key), dataclasses.replace(build.certify(), claim=claim))
    return "UNACCOUNTED_ACCESS" in [rule.code for rule in report.failed]


@pytest.mark.parametrize("options", [(), ("--new-labels", "--label", "total", "--label", "date")])
def test_a_document_with_another_label_changes_nothing_that_a_form_model_releases(
    forms: Path, tmp_path: Path, build: ModuleType, key: Any, options: tuple[str, ...]
) -> None:
    settings = ("--start", forms / "public", "--quiet", *FORMS, *options)
    found = []
    for name in ("janes-folder", "with"):
        assert train("kie", forms / name, tmp_path / name, *settings) == 0
        found.append(forms_shape(tmp_path / name))
    assert found[0] == found[1]
    assert SECRET not in repr(found)
    assert "janes" not in repr(found)
    assert found[0][3].protected_data[0].name == "private documents"
    assert not is_refused(build, key, found[0][3])


def test_a_label_outside_the_schema_neither_stops_training_nor_is_released(
    forms: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = (forms / "public" / "checkpoint" / "labels.json").read_bytes()
    (tmp_path / "labels.json").write_bytes(known)
    settings = ("--start", forms / "public", "--quiet", *FORMS)
    chosen = ("--schema", tmp_path / "labels.json")
    assert train("kie", forms / "with", tmp_path / "run", *settings, *chosen) == 0
    assert SECRET not in "".join(capsys.readouterr())
    assert SECRET not in repr(forms_shape(tmp_path / "run"))


def test_a_document_with_another_class_changes_nothing_that_a_table_releases(
    mail: Path, tmp_path: Path, build: ModuleType, key: Any
) -> None:
    labels = tmp_path / "labels.json"
    labels.write_text('{"fields": ["order"]}')
    settings = (*MAIL, "--label", "bill", "--schema", labels)
    found = []
    for name in ("janes-mail", "with"):
        assert train("classifier", mail / f"{name}.jsonl", tmp_path / name, *settings) == 0
        found.append(table_shape(tmp_path / name))
    assert found[0] == found[1]
    assert found[0][2] == ("bill", "order")
    assert "janes" not in repr(found)
    assert found[0][3].protected_data[0].name == "private documents"
    assert not is_refused(build, key, found[0][3])


@pytest.mark.parametrize("mode", ["hidden", "shown-unused"])
def test_how_many_private_texts_there_are_is_told_where_numbers_are_shown_and_claimed(
    mail: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    data = mail / "with.jsonl"
    count = len(data.read_text().splitlines())
    settings = (*MAIL, "--label", "bill", "--label", "order", "--private-numbers", mode)
    assert train("classifier", data, tmp_path / "run", *settings) == 0
    (said,) = re.findall("Read: +(.*)", capsys.readouterr().out)
    shown = mode == "shown-unused"
    assert bool(re.match(r"\d+ documents", said)) == shown
    assert not shown or int(said.split()[0]) in (count, count - 1)
    claim = table_shape(tmp_path / "run")[3]
    assert (private_view.COUNTS in str(claim.guarantees[0].assumes)) == shown


def test_names_of_labels_that_were_taken_from_private_documents_are_refused(
    forms: Path,
    mail: Path,
    tmp_path: Path,
    build: ModuleType,
    key: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One document more put its label into labels.json, under an epsilon of 1."""
    settings = ("--start", forms / "public", "--new-labels", "--quiet", *FORMS)
    assert train("kie", forms / "with", tmp_path / "forms", *settings) == 0
    assert "--label" in capsys.readouterr().err
    assert train("classifier", mail / "with.jsonl", tmp_path / "mail", *MAIL) == 0
    assert "--label" in capsys.readouterr().err
    for made in (forms_shape(tmp_path / "forms"), table_shape(tmp_path / "mail")):
        assert SECRET in str(made[2])
        assert is_refused(build, key, made[3])
        assert not made[3].guarantees[0].covers_all_private_accesses


def test_whether_training_starts_does_not_tell_how_many_documents_there_are(
    forms: Path, mail: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Around the plan's own divisor, where one document less was an error."""
    settings = ("--start", forms / "public", "--quiet", *FORMS)
    for name, count in (("few", 5), ("all", 6)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for path in sorted((forms / "janes-folder").glob("*.json"))[:count]:
            (tmp_path / "data" / name / path.name).write_bytes(path.read_bytes())
        assert train("kie", tmp_path / "data" / name, tmp_path / name, *settings) == 0
        assert "5 records" not in capsys.readouterr().err
    labels = [part for name in ("bill", "order", "rare") for part in ("--label", name)]
    for name in ("janes-mail", "few"):
        assert (
            train("classifier", mail / f"{name}.jsonl", tmp_path / name / "t", *MAIL, *labels) == 0
        )


def test_copies_of_a_document_under_several_ids_are_one_record(
    forms: Path, mail: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever is behind three copies was protected as three documents are, and told as one."""
    shutil.copytree(forms / "janes-folder", tmp_path / "forms")
    first = sorted((tmp_path / "forms").glob("*.json"))[0]
    one = labelled_files.read_one(first)
    copy = dataclasses.replace(one, document=dataclasses.replace(one.document, id="copy"))
    first.with_name("copy.json").write_text(labelled_files.dumps(copy), encoding="utf-8")
    lines = (mail / "janes-mail.jsonl").read_text().splitlines()
    copied = {**json.loads(lines[0]), "id": "copy"}
    (tmp_path / "mail.jsonl").write_text("\n".join([*lines, json.dumps(copied)]))
    mails = (*MAIL, "--label", "bill", "--label", "order")
    for choice, mode, said, shown in (
        ("group", "hidden", True, False),
        ("group", "shown-unused", True, True),
        ("keep", "hidden", False, False),
    ):
        out = tmp_path / choice / mode
        told = ("--duplicates", choice, "--private-numbers", mode)
        start = ("--start", forms / "public", "--quiet")
        assert train("kie", tmp_path / "forms", out / "forms", *start, *FORMS, *told) == 0
        assert train("classifier", tmp_path / "mail.jsonl", out / "mail", *mails, *told) == 0
        assert capsys.readouterr().err.count("same words as others: 1 document.") == 2 * shown
        for claim in (forms_shape(out / "forms")[-1], table_shape(out / "mail")[-1]):
            assert (duplicates.UNIT in claim.guarantees[0].unit_definition) == said
            assert (duplicates.CAVEAT in claim.caveats) == said


@pytest.mark.parametrize("content", ["{}", "[]", "[1]", "nothing", '{"fields": "date"}'])
def test_a_file_that_names_no_labels_is_refused(
    mail: Path, tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "labels.json").write_text(content)
    for path in (tmp_path / "labels.json", tmp_path / "none.json"):
        options = (*MAIL, "--schema", path)
        assert train("classifier", mail / "with.jsonl", tmp_path / "run", *options) == 3
        assert str(path) in capsys.readouterr().err
