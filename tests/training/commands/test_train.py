from __future__ import annotations

import json
import tempfile
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from hushdoc import labelled_files
from hushdoc.__main__ import main
from hushdoc.document.page import Page
from hushdoc.labels import LabelledDocument
from hushdoc_training import invented
from hushdoc_training.checkpoint import Checkpoint

SMALL = ("--data", "invented:receipt", "--documents", "6", "--start", "small")


def train(*arguments: object) -> int:
    return main(["train", "kie", *map(str, arguments), "--quiet"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--epsilon", "0"], "epsilon"),
        (["--delta", "2"], "delta"),
        (["--sampling-rate", "1.5"], "sampling_rate"),
        (["--clipping-norm", "-1"], "clipping_norm"),
        (["--steps", "0"], "steps"),
        (["--epsilon", "3", "--public"], "not allowed with"),
        (["--privacy-unit", "word"], "invalid choice"),
        (["--noisy-loss", "0"], "--noisy-loss"),
        (["--noisy-loss", "3", "--public"], "--noisy-loss"),
        (["--data", "forms", "--documents", "3"], "depends on the others"),
        (["--declared-documents", "0"], "--declared-documents"),
        (["--recipe", "dozens"], "invalid choice"),
        (["--plan", "--public"], "--plan"),
        (["--learning-rate", "0"], "learning_rate"),
        (["--dropout", "1"], "dropout"),
        (["--trained", "top:0"], "expected one of all, encoder, top:N"),
        (["--optimizer", "sgd"], "give --learning-rate"),
        (["--momentum", "0.9"], "choose 'sgd'"),
        (["--epochs", "0", "--public"], "epochs"),
        (["--batch-size", "0", "--not-private"], "batch_size"),
        (["--segment-shuffling", "1.5", "--public"], "segment_shuffling"),
        (["--token-noise", "-1", "--public"], "token_noise"),
        (["--label-smoothing", "1", "--public"], "label_smoothing"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        train("--data", "invented:form", "--out", tmp_path / "run", *arguments)
    assert stop.value.code == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("nowhere", "does not exist"),
        ("invented:poem", "invented:form"),
        (".", "a folder with nothing in it, which no reader"),
    ],
)
def test_data_that_are_not_there_are_exit_code_3(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    data: str,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert train("--data", data, "--out", tmp_path / "run") == 3
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("copies", [1, 2])
def test_no_document_is_left_out_as_a_copy_where_windows_are_protected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], copies: int
) -> None:
    """Of either with a window less it is no copy, and all its windows would be trained on."""
    for folder in ("box", "key", "img"):
        (tmp_path / folder).mkdir()
    for name in ("X1", "X1(1)")[:copies]:
        (tmp_path / "box" / f"{name}.csv").write_text("1,1,9,1,9,9,1,9,TOTAL 9.00")
        (tmp_path / "key" / f"{name}.json").write_text('{"total": "9.00"}')
        Image.new("L", (10, 10)).save(tmp_path / "img" / f"{name}.jpg")
    asked = ("--data", tmp_path, "--schema", "sroie", "--privacy-unit", "sequence")
    assert train(*asked, "--start", tmp_path / "nowhere", "--out", tmp_path / "run") != 0
    said = capsys.readouterr().err
    assert ("such as X1(1). Reading leaves them out" in said) == (copies == 2)
    assert train(*asked[:4], "--start", tmp_path / "nowhere", "--out", tmp_path / "run") != 0
    assert "Reading leaves them out" not in capsys.readouterr().err


def receipts_of_two_pages() -> Iterator[LabelledDocument]:
    """Yields invented receipts, each with a page before it that holds no word."""
    config = invented.InventedConfig(document_types=("receipt",))
    for made in invented.documents(seed=1, count=4, config=config):
        pages = (Page(width=9, height=9, words=()), *made.document.pages)
        document = replace(made.document, pages=pages)
        spans = tuple(replace(span, page=1) for span in made.spans)
        yield replace(made, document=document, spans=spans, questions=())


def test_public_documents_have_no_label_outside_the_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled_files.write(tmp_path / "own.jsonl", receipts_of_two_pages())
    public = ["--data", tmp_path / "own.jsonl", "--public", "--start", "small"]
    public += ["--max-tokens", "64", "--out", tmp_path / "run"]
    (tmp_path / "labels.toml").write_text('fields = ["total"]')
    assert train(*public, "--schema", tmp_path / "labels.toml") == 3
    assert "own.jsonl" not in (said := capsys.readouterr().err)
    assert "which are not in the schema: ['total']" in said
    assert not (tmp_path / "run").exists()
    (tmp_path / "labels.toml").write_text(f"fields = {[*invented.FIELD_LABELS]}")
    assert train(*public, "--schema", tmp_path / "labels.toml") == 0
    assert "Documents read: 4 (the labelled format)" in capsys.readouterr().err
    assert Checkpoint.load(tmp_path / "run").labels.fields == tuple(sorted(invented.FIELD_LABELS))


def test_documents_without_any_label_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [replace(item, spans=()) for item in receipts_of_two_pages()]
    labelled_files.write(tmp_path / "own.jsonl", documents)
    public = ["--data", tmp_path / "own.jsonl", "--public", "--start", "small"]
    public += ["--max-tokens", "64", "--out", tmp_path / "run"]
    assert train(*public) == 3
    assert "No document has a label" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert train(*public, "--label", "total") == 3
    assert "any of the declared labels: ['total']. They have none" in capsys.readouterr().err


def test_documents_without_a_declared_label_are_refused_unless_that_would_tell_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled_files.write(tmp_path / "own.jsonl", receipts_of_two_pages())
    given = ["--data", tmp_path / "own.jsonl", "--max-tokens", "64"]
    assert train(*given, "--public", "--start", "small", "--out", tmp_path / "start") == 0
    given += ["--start", tmp_path / "start", "--new-labels", "--label", "vat", "--label", "iban"]
    for how in ("--public", "--not-private"):
        assert train(*given, how, "--out", tmp_path / "run") == 3
        said = capsys.readouterr().err
        assert "BAD_ANNOTATION" in said
        assert "any of the declared labels: ['vat', 'iban']. They have ['" in said
        assert not (tmp_path / "run").exists()
    assert train(*given, "--public", "--label", "total", "--out", tmp_path / "one") == 0
    assert "Labels that no document has: ['vat', 'iban']" in capsys.readouterr().err
    private = ("--steps", "1", "--expected-records", "2")
    assert train(*given, *private, "--out", tmp_path / "private") == 0


def test_a_start_that_was_trained_keeps_its_windows_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--data", "invented:receipt", "--documents", "6", "--public", "--epochs", "0.1"]
    start = tmp_path / "start"
    assert train(*given, "--start", "small", "--max-tokens", "64", "--out", start) == 0
    given += ["--start", start, "--out", tmp_path / "run"]
    for option, value in (
        ("max-tokens", "32"),
        ("box-level", "segment"),
        ("word-order", "reading"),
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit, match="2"):
            train(*given, f"--{option}", value)
        said = capsys.readouterr().err
        assert f"the run in --start was trained with --{option}" in said
        assert not (tmp_path / "run").exists()
    assert train(*given, "--max-tokens", "64") == 0
    assert tomllib.loads((tmp_path / "run/config.toml").read_text())["max-tokens"] == 64


@pytest.mark.parametrize("numbers", ["hidden", "shown"])
def test_private_training_tells_what_labels_documents_have_only_where_numbers_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], numbers: str
) -> None:
    labelled_files.write(tmp_path / "own.jsonl", receipts_of_two_pages())
    public = ["--data", tmp_path / "own.jsonl", "--public", "--start", "small"]
    assert train(*public, "--max-tokens", "64", "--out", tmp_path / "start") == 0
    private = ["--data", tmp_path / "own.jsonl", "--start", tmp_path / "start", "--new-labels"]
    private += ["--label", "elsewhere", "--steps", "1", "--expected-records", "2"]
    private += ["--private-numbers", numbers, "--tuned-on", "unaccounted"]
    capsys.readouterr()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert train(*private, "--out", tmp_path / "run") == 0
    said = capsys.readouterr().err + "".join(str(item.message) for item in warned)
    shown = numbers == "shown"
    assert ("Labels that no document has" in said) is shown
    assert ("labels that the model does not learn" in said) is shown


def test_the_certificate_will_say_what_was_public_and_what_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = invented.InventedConfig(document_types=("receipt",))
    invented.write(tmp_path / "data", seed=1, count=8, config=config, images=False)
    public = ["--data", tmp_path / "data", "--public", "--start", "small", "--max-tokens", "64"]
    assert train(*public, "--out", tmp_path / "public") == 0
    claim = Checkpoint.load(tmp_path / "public").claim
    assert [found.overlap_with_protected for found in claim.public_data] == ["unknown"]
    assert (claim.protected_data, claim.guarantees[0].kind) == ((), "none")

    again = ["--data", tmp_path / "data", "--start", tmp_path / "public"]
    private = [*again, "--steps", "2", "--expected-records", "4"]
    capsys.readouterr()
    assert train(*private, "--tuned-on", "unaccounted", "--out", tmp_path / "private") == 0
    said = capsys.readouterr().err
    assert "Reading the labelled format." in said
    assert "Documents read" not in said  # a private number, and hidden
    claim = Checkpoint.load(tmp_path / "private").claim
    (guarantee,) = claim.guarantees
    assert (guarantee.kind, guarantee.unit, guarantee.delta) == ("dp", "document", 1e-5)
    assert guarantee.hyperparameter_tuning == "unaccounted"
    assert [found.name for found in claim.public_data] == ["public documents"]
    assert {found.treatment for found in claim.data_accesses} == {"accounted", "not-released"}
    assert any("epsilon" in caveat for caveat in claim.caveats)

    shown = ("--private-numbers", "shown-unused", "--out", tmp_path / "shown")
    assert train(*private, *shown) == 0
    assert "Documents read: 8" in capsys.readouterr().err
    assert train(*again, "--not-private", "--out", tmp_path / "leaky") == 0
    claim = Checkpoint.load(tmp_path / "leaky").claim
    assert claim.guarantees[0].kind == "none"
    assert claim.data_accesses[0].treatment == "unaccounted"


def test_a_start_on_kin_of_private_documents_is_a_caveat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FUNSD's and DocILE's pages come from one archive, so that `none` is a word, no fact."""
    form = {"text": "Date:", "box": [10, 10, 40, 20], "label": "question", "linking": []}
    form |= {"id": 0, "words": [{"text": "Date:", "box": [10, 10, 40, 20]}]}
    for folder in ("annotations", "images"):
        (tmp_path / "forms" / folder).mkdir(parents=True)
    (tmp_path / "forms/annotations/a.json").write_text(json.dumps({"form": [form]}))
    Image.new("L", (100, 100)).save(tmp_path / "forms/images/a.png")
    invented.write(tmp_path / "pages", seed=1, count=4, images=False)
    private = ("--data", tmp_path / "forms", "--label", "question", "--expected-records", "1")
    for name in ("DocILE, val", "CORD"):
        start, out = tmp_path / "start" / name, tmp_path / "run" / name
        public = ("--data", tmp_path / "pages", "--start", "small", "--public")
        told = ("--public-overlap", "none", "--name", name)
        assert train(*public, "--epochs", "0.1", *told, "--out", start) == 0
        few = ("--start", start, "--new-labels", "--steps", "2", *told[:2], "--out", out)
        capsys.readouterr()
        assert train(*private, *few) == 0
        caveats = str(Checkpoint.load(out).claim.caveats)
        kin = name == "DocILE, val"
        assert ("University of California" in caveats) == kin
        assert ("University of California" in capsys.readouterr().err) == kin


def test_what_a_public_start_learned_from_is_declared_by_the_private_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    invented.write(tmp_path / "pages", seed=1, count=4, images=False)
    data, start = ("--data", tmp_path / "pages"), tmp_path / "start"
    assert train(*data, "--start", "small", "--public", "--epochs", "0.1", "--out", start) == 0
    for told in ("unknown", "none"):
        few = ("--start", start, "--steps", "1", "--expected-records", "2")
        capsys.readouterr()
        assert train(*data, *few, "--public-overlap", told, "--out", tmp_path / told) == 0
        (public,) = Checkpoint.load(tmp_path / told).claim.public_data
        assert public.overlap_with_protected == told
        warned = "default policies refuse such a model" in capsys.readouterr().err
        assert warned == (told == "unknown")


def test_the_small_model_never_takes_its_vocabulary_from_private_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = invented.InventedConfig(document_types=("receipt",))
    invented.write(tmp_path / "data", seed=1, count=4, config=config, images=False)
    with pytest.raises(SystemExit) as stop:  # before a document is read
        train("--data", tmp_path / "data", "--start", "small", "--out", tmp_path / "run")
    assert stop.value.code == 2
    assert "vocabulary" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_sequence_unit_and_large_delta_are_flagged(tmp_path: Path) -> None:
    arguments = [*SMALL, "--preset", "pried-kie", "--delta", "0.01", "--steps", "2"]
    arguments += ["--expected-records", "4", "--sampling-rate", "0.5"]
    assert train(*arguments, "--out", tmp_path / "run") == 0
    claim = Checkpoint.load(tmp_path / "run").claim
    text = json.dumps(claim.to_dict())
    assert claim.guarantees[0].unit == "sequence"
    assert "A document is several windows" in text
    assert "publishes one random record" in text
    # They are invented, so a vocabulary may be learned from them; it is not part of epsilon.
    assert "vocabulary was learned from the words of the protected documents" in text


def test_more_expected_records_than_there_are_is_a_warning_where_numbers_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = ("--expected-records", 32, "--steps", 1, "--trained", "output")
    assert train(*SMALL, *many, "--out", tmp_path / "hidden") == 0
    assert "hold 6 records" not in capsys.readouterr().err
    shown = ("--private-numbers", "shown-unused")
    assert train(*SMALL, *many, *shown, "--out", tmp_path / "run") == 0
    assert "hold 6 records" in (said := capsys.readouterr().err)
    assert "--expected-records" in said


@pytest.mark.parametrize(("backend", "trained"), [("opacus", "biases"), ("one-by-one", "all")])
def test_other_backends_train_as_well(tmp_path: Path, backend: str, trained: str) -> None:
    arguments = [*SMALL, "--expected-records", "4", "--steps", "2", "--max-tokens", "32"]
    arguments += ["--backend", backend, "--trained", trained]
    assert train(*arguments, "--out", tmp_path / "run") == 0
    claim = Checkpoint.load(tmp_path / "run").claim
    assert claim.training["backend"] == backend


def test_a_layer_that_a_backend_gets_wrong_is_named_before_a_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Opacus' hooks can't tell rows apart where LayoutLM looks positions up once for all."""
    arguments = ["--expected-records", "4", "--backend", "opacus", "--trained", "encoder"]
    assert train(*SMALL, *arguments, "--out", tmp_path / "run") == 5
    assert "position_embeddings" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.fixture
def seeing(tmp_path: Path, layoutlmv3_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private run that goes on from a public one which reads images."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = ["--data", "invented:receipt", "--documents", "6", "--max-tokens", "64"]
    start = ["--start", layoutlmv3_folder, "--images", "--public-overlap", "none"]
    assert train(*told, *start, "--public", "--epochs", "1", "--out", tmp_path / "public") == 0
    # A checkpoint keeps its own way, so that invented pages are drawn for it unasked.
    again = ["--start", tmp_path / "public", "--steps", "2", "--expected-records", "4"]
    again += ["--public-overlap", "none"]
    assert train(*told, *again, "--out", tmp_path / "run") == 0
    return tmp_path / "run"


def test_images_of_pages_are_trained_on(tmp_path: Path, seeing: Path) -> None:
    stored = Checkpoint.load(seeing)
    assert stored.preprocessing.image is not None
    assert (stored.preprocessing.image.height, stored.preprocessing.image.width) == (32, 32)
    assert stored.claim.training["images"] is True
    assert not list(tmp_path.glob("hushdoc-train-*"))


@pytest.mark.slow  # a graph is traced
def test_images_of_pages_go_from_training_to_the_answer(tmp_path: Path, seeing: Path) -> None:
    key = tmp_path / "key"
    assert main(["keygen", "--out", str(key)]) == 0
    given = ["--out", tmp_path / "model", "--key", f"{key}.key"]
    assert main(["export", *map(str, [seeing, *given])]) == 0
    config = invented.InventedConfig(document_types=("receipt",))
    invented.write(tmp_path / "asked", seed=9, count=1, config=config)
    (page,) = (tmp_path / "asked").glob("*.json")
    policy = ["--trust", f"{key}.trust.json", "--max-epsilon", "8", "--max-delta", "1e-5"]
    asked = [tmp_path / "model", page, *policy, "--unit", "document"]
    assert main(["extract", *map(str, asked)]) == 0


@pytest.mark.parametrize("start", ["minilm", "small"])
def test_a_start_that_reads_no_images_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], start: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        train("--data", "nowhere", "--start", start, "--images", "--out", tmp_path / "run")
    assert stop.value.code == 2
    assert f"--start {start} is none" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ("--learning-rate", "1e300"),
        ("--clipping-norm", "1e-9"),
        ("--seed", "99999999999999999999"),
        ("--seed", "-1"),
        ("--expected-record", "4"),  # no option is abbreviated
    ],
)
def test_numbers_that_no_library_takes_are_wrong_usage(
    tmp_path: Path, wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        train(*SMALL, "--steps", "2", *wrong, "--out", tmp_path / "run")
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "expected" in told or "unrecognized" in told
    assert not (tmp_path / "run").exists()
