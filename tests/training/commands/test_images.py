"""`hushdoc train images`: without privacy, with it, from a run; what is refused; to an answer."""

from __future__ import annotations

import json
from pathlib import Path

import hushdoc_builders as build
import numpy as np
import pytest
from hushdoc_command_runs import write_policy
from PIL import Image

from hushdoc.__main__ import main
from hushdoc.accounting.mechanism import Composed, PoissonSampled
from hushdoc_export import synthetic
from hushdoc_export.release import Release
from hushdoc_training import invented
from hushdoc_training.image_checkpoint import ImageCheckpoint
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.synthesis.evolution import evolve
from hushdoc_training.recipes.synthesis.settings import EvolutionSettings

CLASSES = ("left", "right")
FEW = ("--epochs", "8", "--batch-size", "4")
PRIVATE = ("--epsilon", "8", "--steps", "2", "--expected-records", "4", "--sampling-rate", "0.5")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of six pages of each class, dark on its side."""
    folder = tmp_path_factory.mktemp("data") / "pages"
    chance = np.random.default_rng(1)
    for place, label in enumerate(CLASSES):
        (folder / label).mkdir(parents=True)
        for number in range(6):
            gray = chance.integers(190, 256, (40, 30))
            gray[:, 15 * place : 15 * (place + 1)] //= 4
            Image.fromarray(gray.astype(np.uint8)).save(folder / label / f"{number}.png")
    return folder


def train(out: Path, data: Path, *options: str | Path) -> int:
    try:
        told = ("--data", data, "--out", out, "--architecture", "linear", "--quiet", *options)
        return main(["train", "images", *map(str, told)])
    except SystemExit as ended:
        return int(str(ended.code))


@pytest.fixture(scope="module")
def public(pages: Path) -> Path:
    out = pages.parent / "public"
    assert train(out, pages, *FEW, "--public", "--public-overlap", "none") == 0
    return out


def test_training_without_privacy_says_so(public: Path) -> None:
    stored = ImageCheckpoint.load(public)
    assert (stored.architecture, stored.labels) == ("linear", CLASSES)
    assert [found.kind for found in stored.claim.guarantees] == ["none"]
    assert [data.name for data in stored.claim.public_data] == ["public documents"]


def test_private_training_claims_its_steps(public: Path, pages: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert train(out, pages, *PRIVATE, "--start", public) == 0
    claim = ImageCheckpoint.load(out).claim
    (guarantee,) = claim.guarantees
    assert (guarantee.kind, guarantee.unit) == ("dp", "document")
    assert 0 < (guarantee.epsilon or 0) <= 8
    transcript = claim.transcripts[str(guarantee.transcript)]
    assert isinstance(transcript, Composed)
    assert transcript.count == 2
    assert isinstance(transcript.event, PoissonSampled)
    assert transcript.event.sampling_rate == 0.5
    assert "same images" in guarantee.unit_definition
    # Classes are those of the public start, and not taken from the documents.
    assert not any("labels" in access.purpose for access in claim.data_accesses)
    assert [data.name for data in claim.public_data] == ["public documents"]


def test_classes_of_private_documents_are_said_to_be_released(
    pages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path / "taken", pages, *PRIVATE) == 0
    taken = ImageCheckpoint.load(tmp_path / "taken").claim
    assert any(access.treatment == "unaccounted" for access in taken.data_accesses)
    assert "default policies refuse it" in capsys.readouterr().err


def test_a_run_is_resumed_with_the_same_documents_alone(
    public: Path, pages: Path, tmp_path: Path
) -> None:
    assert train(public, pages, "--public") != 0  # the folder holds a run
    assert train(tmp_path / "none", pages, "--public", "--resume") != 0
    assert not (tmp_path / "none").exists()


REFUSED = {
    "mixup": (("--mixup", "0.8"), "would mix two documents"),
    "cutmix": (("--cutmix", "1"), "would mix two documents"),
    "dropout": (("--dropout", "0.5"), "without privacy"),
    "first documents": (("--documents", "3"), "takes the first N"),
    "one class": (("--label", "left"), "at least two"),
    "plan of public": (("--plan", "--public"), "--plan is of private"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_takes_no_folder(
    what: str, pages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, says = REFUSED[what]
    assert train(tmp_path / "run", pages, *PRIVATE[2:], *options) != 0
    assert says in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_a_plan_reads_no_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path / "run", tmp_path / "nowhere", *PRIVATE, "--plan") == 0
    assert "noise multiplier" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_from_a_folder_to_the_class_of_a_page(
    public: Path, pages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = tmp_path / "release"
    assert main(["keygen", "--out", str(release)]) == 0
    private = tmp_path / "run"
    budget = ("--epsilon", "8", "--steps", "1", "--expected-records", "50", "--label", CLASSES[0])
    little = ("--label", CLASSES[1], "--start", public, "--public-overlap", "none")
    assert train(private, pages, *budget, *little, "--learning-rate", "1e-6") == 0
    model = tmp_path / "model"
    told = ("--out", model, "--key", f"{release}.key")
    assert main(["export", str(private), *map(str, told)]) == 0
    limits = ("--trust", f"{release}.trust.json", "--max-epsilon", "8", "--max-delta", "1e-5")
    for label in CLASSES:
        page = pages / label / "0.png"
        capsys.readouterr()
        command = ("classify", model, page, *limits, "--unit", "document", "--json")
        assert main(list(map(str, command))) == 0
        assert json.loads(capsys.readouterr().out)["scores"][0]["label"] == label


@pytest.mark.slow
def test_a_model_of_synthetic_pages_inherits_their_guarantees(tmp_path: Path) -> None:
    types = ("receipt", "invoice")
    config = invented.InventedConfig(document_types=types)
    plan = PrivacyPlan.calibrated(
        epsilon=2.0, sampling_rate=1.0, steps=1, clipping_norm=1.0, expected_records=50
    )
    settings = EvolutionSettings(pool=8, nearest=1, documents=6, document_types=types, seed=2)
    voters = list(invented.documents(seed=1, count=3, config=config))
    evolve(voters, plan, settings, out=tmp_path / "run", name="pages", quiet=True)
    key = build.known_key(1)
    sealed = synthetic.export(
        tmp_path / "run", tmp_path / "set", Release(key=key, name="pages", issuer="x")
    )
    policy = write_policy(tmp_path, build.trust(key))
    out = tmp_path / "trained"
    assert train(out, sealed, "--public") != 0  # read only once it is verified
    assert train(out, sealed, "--synthetic", policy) != 0  # of another adversary
    policy.write_text(policy.read_text() + 'adversary = "synthetic-data-recipient"\n')
    assert train(out, sealed, "--synthetic", policy, "--epochs", "1") == 0
    stored = ImageCheckpoint.load(out)
    (guarantee,) = stored.claim.guarantees
    assert (guarantee.kind, guarantee.adversary) == ("dp", "model-recipient")
    assert 0 < (guarantee.epsilon or 0) <= 2.0
    assert "post-processing" in guarantee.composition
    assert stored.claim.public_data == ()
    assert stored.labels == tuple(sorted(types))
