"""`hushdoc synthesize pretrain | diffusion`: from folders of images to drawn pages; wrong usage."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import hushdoc
from hushdoc import labelled_files
from hushdoc.__main__ import main
from hushdoc.artifact import artifact
from hushdoc.errors import PrivacyError
from hushdoc_training import drawn_checkpoint, duplicates, invented
from hushdoc_training.recipes.synthesis import document_points, public_images
from hushdoc_training.recipes.synthesis.diffusion import Layouts
from hushdoc_training.runs import document_units

SMALL = ("--size", "tiny", "--autoencoder-steps", "1", "--steps", "1", "--batch-size", "2")
DIFFUSION = ("--steps", "1", "--multiplicity", "1", "--sampler", "ddim", "--sampling-steps", "1")
PROMISE = ("--method", "dp-promise", "--for-comparison")
LAYOUTS = ("--layouts", "invented:receipt", "--layout-documents", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns scans of two classes, and a start that knows one of them."""
    folder = tmp_path_factory.mktemp("diffusion")
    rng = np.random.default_rng(0)
    for name in ("public/letter", "public/memo", "private/letter", "private/note"):
        (folder / name).mkdir(parents=True)
        for number in range(2):
            shades = rng.integers(0, 255, (40, 32), dtype=np.uint8)
            Image.fromarray(shades).save(folder / name / f"{number}.png")
    command = ["synthesize", "pretrain", "--public", str(folder / "public"), *SMALL, "--quiet"]
    assert main([*command, "--public-overlap", "none", "--out", str(folder / "start")]) == 0
    return folder


def run(folder: Path, out: Path, *further: str) -> int:
    where = ["--start", str(folder / "start"), "--data", str(folder / "private")]
    command = ["synthesize", "diffusion", *where, "--out", str(out), "--quiet"]
    try:
        return main([*command, *DIFFUSION, *LAYOUTS, *further])
    except SystemExit as ended:
        return int(str(ended.code))


def test_scans_become_drawn_pages(folder: Path, tmp_path: Path) -> None:
    labels = ("--label", "letter", "--label", "note")
    assert run(folder, tmp_path / "run", *labels, "--pages", "2", "--epsilon", "2") == 0
    made = drawn_checkpoint.load(tmp_path / "run")
    assert [one["label"] for one in made.prompts] == ["letter", "note"]
    (guarantee,) = made.claim.guarantees
    assert guarantee.epsilon == pytest.approx(2.0, abs=0.01)
    assert {data.uses for data in made.claim.public_data} == {("pretraining",), ("layouts",)}
    assert str(folder) not in made.claim.to_json().decode()  # certificates name no folder
    assert guarantee.covers_all_private_accesses


@pytest.mark.slow
def test_dp_promise_says_what_its_paper_claims_and_that_it_does_not_hold(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, tmp_path / "run", *PROMISE, "--pages", "2", "--first-steps", "1") == 0
    said = capsys.readouterr().out
    assert "would claim epsilon" in said
    assert "It does not hold" in said
    assert not [line for line in said.splitlines() if line.startswith("Plan") and "epsilon" in line]
    claim = drawn_checkpoint.load(tmp_path / "run").claim
    assert [one.kind for one in claim.guarantees] == ["none"]
    assert any("names of the labels" in one.purpose for one in claim.data_accesses)
    keys, away = tmp_path / "key", tmp_path / "away"
    assert main(["keygen", "--out", str(keys), "--name", "tests"]) == 0
    sealed = ["export", str(tmp_path / "run"), "--out", str(away), "--key", f"{keys}.key"]
    assert main([*sealed, "--name", "scans"]) == 0
    asked = ["--max-epsilon", "1000", "--max-delta", "0.1", "--unit", "document"]
    assert main(["verify", str(away), "--trust", f"{keys}.trust.json", *asked]) != 0
    assert "KIND_NOT_ALLOWED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("further", "code"),
    [
        (("--label", "letter", "--label", "letter"), 2),
        (("--epsilon", "0"), 2),
        (("--sampling-rate", "2"), 2),
        (("--pages", "0"), 2),
        (("--documents-changed",), 2),
        (("--start", "nowhere"), 4),
        (("--layouts", "nowhere"), 3),
        (("--layouts-policy", "nowhere"), 3),
        (("--delta", "1e-3", "--expected-records", "8"), 5),
        (("--method", "dp-promise"), 2),
        (("--for-comparison",), 2),
        ((*PROMISE, "--ledger", "ledger"), 2),
        ((*PROMISE, "--resume"), 2),
        ((*PROMISE, "--first-times", "1000"), 2),
    ],
)
def test_wrong_usage_takes_no_folder(
    further: tuple[str, ...], code: int, folder: Path, tmp_path: Path
) -> None:
    found = run(folder, tmp_path / "run", *further)
    assert found == code
    assert not (tmp_path / "run").exists()


def test_private_pages_give_no_layouts(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(folder / "private")
    for same in (folder / "private", folder / "private" / "letter", tmp_path / "link", folder):
        assert run(folder, tmp_path / "run", "--layouts", str(same)) == 2
        assert "Name public pages" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_copy_of_private_pages_gives_no_layouts_and_other_pages_are_said_to_be_compared(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ("--label", "letter", "--label", "note", "--pages", "2")
    copy = shutil.copytree(folder / "private", tmp_path / "elsewhere")
    assert run(folder, tmp_path / "run", *labels, "--layouts", str(copy)) == 5
    assert "PRIVATE_PAGE_IS_PUBLIC" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert run(folder, tmp_path / "run", *labels, "--layouts", str(folder / "public")) == 0
    claim = drawn_checkpoint.load(tmp_path / "run").claim
    compared = {one.purpose for one in claim.data_accesses if one.treatment == "declared-public"}
    assert {*public_images.TREATMENTS} <= compared
    assert {*public_images.ASSUMES} <= {*claim.guarantees[0].assumes}
    assert public_images.NOT_AMONG_THEM in claim.caveats


@pytest.fixture(scope="module")
def receipts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a sealed set that private receipts voted for, with its policy beside it."""
    folder = tmp_path_factory.mktemp("evolution")
    config = invented.InventedConfig(document_types=("receipt",))
    data = folder / "receipts.jsonl"
    labelled_files.write(data, invented.documents(seed=2, count=3, config=config))
    made = (
        "--pool",
        "8",
        "--nearest",
        "2",
        "--documents",
        "3",
        "--types",
        "receipt",
        "--epsilon",
        "1",
        "--quiet",
    )
    run_of = ["synthesize", "evolution", "--data", str(data), "--out", str(folder / "run"), *made]
    assert main(run_of) == 0
    keys = folder / "key"
    assert main(["keygen", "--out", str(keys), "--name", "tests"]) == 0
    away = ["export", str(folder / "run"), "--out", str(folder / "set"), "--key", f"{keys}.key"]
    assert main([*away, "--name", "receipts"]) == 0
    (folder / "policy.toml").write_text(
        'max_epsilon = 1.01\nmax_delta = 1e-4\nprivacy_units = ["document"]\n'
        f'adversary = "synthetic-data-recipient"\ntrust = "{keys}.trust.json"\n'
    )
    return folder


def test_pages_have_the_layouts_of_a_sealed_set_and_both_budgets_are_added_up(
    folder: Path, receipts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ("--label", "letter", "--label", "note", "--pages", "2", "--epsilon", "2")
    sealed = ("--layouts", str(receipts / "set"))
    policy = ("--layouts-policy", str(receipts / "policy.toml"))
    assert run(folder, tmp_path / "run", *labels, *sealed) != 0
    assert not (tmp_path / "run").exists()
    apart = ("--public-overlap", "none")
    assert run(folder, tmp_path / "run", *labels, *sealed, *policy, *apart) == 0
    claim = drawn_checkpoint.load(tmp_path / "run").claim
    (guarantee,) = claim.guarantees
    assert guarantee.adversary == "synthetic-data-recipient"
    assert guarantee.unit_definition == document_units.ALONE
    assert len(claim.protected_data) == 2
    assert any(one.startswith("which set gives the layouts") for one in guarantee.assumes)
    assert "layouts of its pages were read" in guarantee.composition
    assert {data.uses for data in claim.public_data} == {("pretraining",)}
    assert {duplicates.CAVEAT, duplicates.IMAGES_CAVEAT} <= {*claim.caveats}
    assert guarantee.epsilon is not None
    assert 2.1 < guarantee.epsilon < 3  # of 1 and 2, composed
    key = str(receipts / "key")
    away = ["export", str(tmp_path / "run"), "--out", str(tmp_path / "away"), "--key", f"{key}.key"]
    assert main([*away, "--name", "scans"]) == 0
    asked = [
        "verify",
        str(tmp_path / "away"),
        "--trust",
        f"{key}.trust.json",
        "--max-delta",
        "1e-4",
    ]
    asked += ["--unit", "document", "--adversary", "synthetic-data-recipient", "--max-epsilon"]
    assert main([*asked, "3"]) == 0
    steps = [
        one["step"] for one in artifact.read_unverified(tmp_path / "away").certificate.derivation
    ]
    assert steps[0] == "take-layouts-of-synthetic-documents"
    assert main([*asked, "2.1"]) != 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("allowed", "further", "said"),
    [("0.5", (), "EPSILON_TOO_LARGE"), ("1.01", PROMISE, "would lose")],
)
def test_a_set_that_is_refused_gives_no_layouts(
    allowed: str,
    further: tuple[str, ...],
    said: str,
    folder: Path,
    receipts: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text((receipts / "policy.toml").read_text().replace("1.01", allowed))
    sealed = ("--layouts", str(receipts / "set"), "--layouts-policy", str(policy))
    labels = ("--label", "letter", "--label", "note")
    assert run(folder, tmp_path / "run", *labels, *sealed, *further) != 0
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_what_is_public_in_a_set_is_declared_again_and_public_pages_are_refused(
    receipts: Path,
) -> None:
    policy = hushdoc.Policy.from_toml(receipts / "policy.toml")
    opened = hushdoc.SyntheticDocuments.open(receipts / "set", policy=policy)
    minilm = document_points.public_data("words+minilm", "none")
    known = replace(
        opened,
        certificate=replace(
            opened.certificate, claim=replace(opened.certificate.claim, public_data=minilm)
        ),
    )
    for overlap in ("none", "unknown"):
        claim = Layouts.of_set(known, 32, overlap=overlap).claim
        assert claim is not None
        assert [data.overlap_with_protected for data in claim.public_data] == [overlap]
    pages = replace(opened, contents=replace(opened.contents, method="selection"))
    with pytest.raises(PrivacyError, match="public pages as they are"):
        Layouts.of_set(pages, 32, overlap="none")
    windows = replace(opened.certificate.claim.guarantees[0], unit_definition="one window")
    claim = replace(opened.certificate.claim, guarantees=(windows,))
    other = replace(opened, certificate=replace(opened.certificate, claim=claim))
    with pytest.raises(PrivacyError, match="expected one document"):
        Layouts.of_set(other, 32, overlap="none")
