"""Diffusion from public pages to drawn ones: claims, kills, and what is refused before a charge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

from hushdoc.certificate.claim import PublicData
from hushdoc.document.page import Box
from hushdoc.errors import (
    AnnotationError,
    CheckpointError,
    EmptyDocumentError,
    OutputExistsError,
    PrivacyError,
)
from hushdoc_training import drawn_checkpoint, duplicates
from hushdoc_training.data import image_sets
from hushdoc_training.data.dataset import Source
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.models.denoiser import TIME
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.synthesis import (
    diffusion,
    diffusion_start,
    page_squares,
    pretraining,
)
from hushdoc_training.recipes.synthesis.diffusion import Layouts
from hushdoc_training.recipes.synthesis.diffusion_settings import (
    DiffusionSettings,
    PretrainingSettings,
)
from hushdoc_training.recipes.synthesis.diffusion_start import DiffusionStart
from hushdoc_training.recipes.synthesis.pretraining import pretrain
from hushdoc_training.runs.claim_words import READABLE, READING, UNDECLARED
from hushdoc_training.runs.loop import Outcome

CLASSES = ("dark", "light")
PUBLIC = PublicData(
    name="drawn squares",
    uses=("pretraining",),
    privacy_status="drawn for this test",
    overlap_with_protected="none",
)
SETTINGS = DiffusionSettings(
    classes=CLASSES, multiplicity=1, pages=3, sampler="ddim", sampling_steps=2
)
QUICK = PretrainingSettings(size="tiny", autoencoder_steps=2, steps=2, batch_size=4)
MASK = np.where(np.arange(32 * 32).reshape(32, 32) // 128 % 2, 1.0, -1.0).astype(np.float32)
LAYOUTS = Layouts(name="stripes", masks=[MASK], public=None)


def scans(folder: Path, count: int = 3, seed: int = 0, mode: str = "RGB") -> Path:
    """Writes a folder of images for each class."""
    rng = np.random.default_rng(seed)
    for number, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for place in range(count):
            shades = rng.integers(100 * number, 100 * number + 100, (48, 40, 3), dtype=np.uint8)
            Image.fromarray(shades).convert(mode).save(folder / name / f"{place}.png")
    return folder


def read(folder: Path) -> tuple[ImageDocument, ...]:
    with image_sets.opened(Source(location=str(folder))) as documents:
        return documents


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> tuple[ImageDocument, ...]:
    return read(scans(tmp_path_factory.mktemp("scans") / "data"))


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory, documents: Any) -> Path:
    out = tmp_path_factory.mktemp("start") / "run"
    outcome = pretrain(documents, QUICK, out=out, public=PUBLIC, classes=CLASSES, quiet=True)
    assert outcome == Outcome(charged=4, interrupted=False)
    return out


@pytest.fixture
def start(started: Path) -> DiffusionStart:
    return diffusion_start.load(started)


@cache
def plan(epsilon: float = 8.0) -> PrivacyPlan:
    return PrivacyPlan.calibrated(
        epsilon=epsilon,
        sampling_rate=0.5,
        steps=2,
        clipping_norm=0.01,
        expected_records=3,
        accountant="rdp",
    )


def train(
    start: DiffusionStart, documents: Sequence[ImageDocument], out: Path, **further: Any
) -> Outcome:
    return diffusion.train(
        start,
        documents,
        further.pop("plan", plan()),
        further.pop("settings", SETTINGS),
        out=out,
        name="scans",
        layouts=further.pop("layouts", LAYOUTS),
        quiet=True,
        **further,
    )


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A run that was killed while it drew, and resumed."""

    out: Path
    ledger: Ledger
    batches: list[int]  # pages of each, of both parts
    first: bytes  # the first page before the kill


@pytest.fixture(scope="module")
def drawn(
    started: Path, documents: tuple[ImageDocument, ...], tmp_path_factory: pytest.TempPathFactory
) -> Drawn:
    folder = tmp_path_factory.mktemp("drawn")
    out = folder / "run"
    ledger = Ledger.create(folder / "ledger", data="scans", epsilon=9, delta=1e-5)
    whole = diffusion._images
    batches: list[int] = []

    def killed(*arguments: Any) -> list[bytes]:
        batches.append(len(arguments[2]))
        if len(batches) == 2:
            raise KeyboardInterrupt
        return whole(*arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(diffusion, "BATCH", 2)
        patched.setattr(diffusion, "_images", killed)
        with pytest.raises(KeyboardInterrupt):
            train(diffusion_start.load(started), documents, out, ledger=ledger)
        assert not (out / "checkpoint").exists()
        first = drawn_checkpoint.image_path(out / "drawn", 0).read_bytes()
        again = diffusion_start.load(started)
        outcome = train(again, documents, out, ledger=Ledger.open(ledger.path), resume=True)
        assert outcome == Outcome(charged=2, interrupted=False)
    return Drawn(out=out, ledger=Ledger.open(ledger.path), batches=batches, first=first)


def test_a_rate_of_one_is_certified_as_full_batches(
    start: DiffusionStart, documents: tuple[ImageDocument, ...], tmp_path: Path
) -> None:
    every = replace(plan(), sampling_rate=1.0, steps=1)
    few = replace(SETTINGS, pages=1, sampling_steps=1)
    train(start, documents, tmp_path / "run", plan=every, settings=few)
    (guarantee,) = drawn_checkpoint.load(tmp_path / "run").claim.guarantees
    assert guarantee.sampling_as_implemented == "full-batch"


def test_private_pages_become_drawn_ones_with_what_was_spent(
    drawn: Drawn, start: DiffusionStart, documents: tuple[ImageDocument, ...], tmp_path: Path
) -> None:
    assert float(start.codec.scale) != 1
    assert start.claim.guarantees[0].kind == "none"
    made = drawn_checkpoint.load(drawn.out)
    assert [one["label"] for one in made.prompts] == ["dark", "light", "dark"]
    assert made.image(0)[:4] == b"\x89PNG"
    assert made.image(0) != made.image(2)
    claim = made.claim
    (guarantee,) = claim.guarantees
    assert (guarantee.kind, guarantee.adversary, guarantee.unit) == (
        "dp",
        "synthetic-data-recipient",
        "document",
    )
    assert guarantee.epsilon == pytest.approx(8.0, rel=0.2)  # composed by PLD in a ledger
    assert guarantee.sampling_as_implemented == "poisson"
    assert claim.releases == ("synthetic-records",)
    assert claim.public_data == (PUBLIC,)
    assert {*READING} <= {one.purpose for one in claim.data_accesses}
    assert READABLE in guarantee.assumes
    assert duplicates.SAME_IMAGES in guarantee.unit_definition
    assert duplicates.IMAGES_CAVEAT in claim.caveats
    assert claim.protected_data[0].units[0].count is None
    assert [run.charged for run in drawn.ledger.runs()] == [2]
    with pytest.raises(OutputExistsError):
        train(start, documents, drawn.out)
    with pytest.raises(PrivacyError, match="BUDGET|allows|room"):
        train(start, documents, tmp_path / "more", ledger=drawn.ledger)
    assert not (tmp_path / "more").exists()


def test_a_run_that_is_killed_while_it_draws_draws_the_rest(drawn: Drawn) -> None:
    assert drawn.batches == [2, 1, 1]
    assert drawn_checkpoint.load(drawn.out).image(0) == drawn.first


def test_a_layout_of_each_class_is_all_that_learns(
    start: DiffusionStart, documents: tuple[ImageDocument, ...], tmp_path: Path
) -> None:
    codec, denoiser = diffusion_start.built("tiny", condition="layout", classes=(), seed=0)
    sharp = replace(start, codec=codec, denoiser=denoiser, classes=())
    weights = {name: value.clone() for name, value in denoiser.state_dict().items()}
    settings = replace(SETTINGS, trained="layouts", learning_rate=0.05, pages=2)
    train(sharp, documents, tmp_path / "run", settings=settings)
    made = load_file(tmp_path / "run" / "checkpoint" / "model.safetensors")
    rows = made.pop("denoiser.rows.weight")
    assert rows.shape == (len(CLASSES) + 1, 3 * 4 * 4)
    first = page_squares.encoded(codec, [MASK])[0]
    assert (rows - nn.functional.avg_pool2d(first, 2).flatten()).abs().max() > 0.01
    assert all(made[f"denoiser.{name}"].equal(value) for name, value in weights.items())
    drawn = drawn_checkpoint.load(tmp_path / "run")
    assert [one["layout"] for one in drawn.prompts] == [None, None]
    (guarantee,) = drawn.claim.guarantees
    assert guarantee.kind == "dp"
    assert f"the layouts to begin with, {diffusion.CHOSEN}" in guarantee.assumes
    assert drawn.claim.training["layouts"] == diffusion.LEARNED


def test_without_classes_a_denoiser_reads_what_it_read_of_no_class(start: DiffusionStart) -> None:
    preset = start.codec.preset
    shape = (2, 2, preset.latent_channels, preset.latent_size, preset.latent_size)
    latents, layouts = torch.randn(shape).unbind()
    times, none = torch.tensor([3, 700]), torch.full((2,), len(start.classes))
    with torch.no_grad():
        expected = start.denoiser.eval()(latents, times, layouts, none)
        found = diffusion_start.with_classes(start, (), seed=1).eval()(
            latents, times, layouts, None
        )
        other = start.denoiser(latents, times, layouts, none * 0)
    assert torch.allclose(found, expected, atol=1e-5)
    assert not torch.allclose(found, other, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["none", "class"])
def test_a_denoiser_of_each_class_learns_and_draws(
    condition: str, start: DiffusionStart, documents: tuple[ImageDocument, ...], tmp_path: Path
) -> None:
    known = ("page",) if condition == "class" else ()
    codec, denoiser = diffusion_start.built("tiny", condition=condition, classes=known, seed=0)
    bare = replace(start, codec=codec, denoiser=denoiser, classes=known)
    settings = replace(SETTINGS, trained="denoisers", pages=2)
    train(bare, documents, tmp_path / "run", settings=settings, layouts=None)
    made = load_file(tmp_path / "run" / "checkpoint" / "model.safetensors")
    denoiser = diffusion_start.with_classes(bare, (), seed=0)
    for name, value in denoiser.inner.state_dict().items():
        of_each = [made[f"denoiser.each.{number}.{name}"] for number in range(len(CLASSES))]
        if TIME in name:
            assert all(one.equal(value) for one in of_each)
        else:
            assert not any(one.equal(value) for one in of_each)
            assert not of_each[0].equal(of_each[1])
    drawn = drawn_checkpoint.load(tmp_path / "run")
    assert [one["label"] for one in drawn.prompts] == list(CLASSES)
    (guarantee,) = drawn.claim.guarantees
    assert (guarantee.kind, drawn.claim.training["trained"]) == ("dp", "denoisers")
    assert guarantee.epsilon == pytest.approx(8.0, rel=0.01)


@pytest.mark.parametrize(
    ("trained", "classes", "says"),
    [
        ("layouts", (), "0 classes are declared"),
        ("layouts", CLASSES, "--condition layout"),
        ("denoisers", (), "no classes are declared"),
    ],
)
def test_what_learns_of_each_class_needs_classes(
    trained: str,
    classes: tuple[str, ...],
    says: str,
    start: DiffusionStart,
    documents: tuple[ImageDocument, ...],
    tmp_path: Path,
) -> None:
    codec, denoiser = diffusion_start.built("tiny", condition="layout", classes=(), seed=0)
    other = start if classes else replace(start, codec=codec, denoiser=denoiser, classes=())
    settings = replace(SETTINGS, trained=trained, classes=classes)
    with pytest.raises(ValueError, match=says):
        train(other, documents, tmp_path / "run", settings=settings)
    assert not (tmp_path / "run").exists()


def test_more_denoisers_than_the_self_test_can_try_take_no_folder(
    start: DiffusionStart, documents: tuple[ImageDocument, ...], tmp_path: Path
) -> None:
    codec, denoiser = diffusion_start.built("tiny", condition="none", classes=(), seed=0)
    bare = replace(start, codec=codec, denoiser=denoiser, classes=())
    many = (*CLASSES, *map(str, range(129 - len(CLASSES))))
    settings = replace(SETTINGS, trained="denoisers", classes=many)
    with pytest.raises(ValueError, match="129 classes; expected at most 128"):
        train(bare, documents, tmp_path / "run", settings=settings, layouts=None)
    assert not (tmp_path / "run").exists()


def test_a_blurred_layout_is_between_text_and_paper(documents: tuple[ImageDocument, ...]) -> None:
    lines = ((Box(x0=0, y0=0, x1=40, y1=24),),)
    one = replace(documents[0], lines=lines)
    (squares,) = page_squares.squares_of([one], 32, classes={}, layout=True, blur=0.1)
    assert len(squares) == 2
    masks = [square.mask for square in squares]
    assert set(np.unique(masks[0])) == {-1.0, 1.0}
    assert all(-0.99 < np.median(mask[14:18]) < 0.99 for mask in masks[1:])
    assert all(square.shades is squares[0].shades for square in squares)


def test_the_autoencoder_learns_from_quarters_at_falling_rates() -> None:
    shades = np.arange(64, dtype=np.float32).reshape(8, 8)
    part = pretraining.quarter(shades, np.random.default_rng(0))
    assert part.shape == (4, 4)
    assert (np.diff(part, axis=0) == 8).all()
    settings = replace(QUICK, autoencoder_steps=4, steps=8)
    rates = [pretraining.rate_at(number, settings) for number in range(1, 13)]
    assert rates == [1, 1, 1, 0.5, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25]


def _folder_of(start: DiffusionStart, tmp_path: Path) -> Path:
    folder = tmp_path / "starts" / start.name
    diffusion_start.save(folder, start)
    return folder


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"settings": replace(SETTINGS, classes=())}, ValueError),
        ({"layouts": None}, AnnotationError),
        ({"layouts": replace(LAYOUTS, masks=[])}, AnnotationError),
        ({"documents": ()}, EmptyDocumentError),
        ({"plan": "provider"}, ValueError),
    ],
)
def test_what_does_not_fit_is_refused_before_a_charge(
    change: dict[str, Any],
    error: type[Exception],
    start: DiffusionStart,
    documents: tuple[ImageDocument, ...],
    tmp_path: Path,
) -> None:
    change = dict(change)
    ledger = Ledger.create(tmp_path / "ledger", data="scans", epsilon=9, delta=1e-5)
    if "plan" in change:
        change["plan"] = replace(plan(), privacy_unit="provider")
    with pytest.raises(error):
        train(start, change.pop("documents", documents), tmp_path / "run", ledger=ledger, **change)
    assert not (tmp_path / "run").exists()
    assert Ledger.open(ledger.path).runs() == ()


@pytest.mark.parametrize("classes", [("dark", "other"), ("one", "other")])
def test_a_document_of_another_class_is_a_record_that_adds_nothing(
    classes: tuple[str, ...],
    start: DiffusionStart,
    documents: tuple[ImageDocument, ...],
    tmp_path: Path,
) -> None:
    settings = replace(SETTINGS, classes=classes)
    _, records = diffusion.prepared(start, documents, settings, LAYOUTS)
    kept = page_squares.distinct(documents)
    assert [len(record) for record in records] == [int(one.label in classes) for one in kept]
    assert train(start, documents, tmp_path / "run", settings=settings) == Outcome(
        charged=2, interrupted=False
    )
    claim = drawn_checkpoint.load(tmp_path / "run").claim
    assert UNDECLARED in claim.protected_data[0].contribution_bound


def test_a_start_that_saw_protected_pages_is_refused(
    start: DiffusionStart, documents: tuple[ImageDocument, ...], tmp_path: Path
) -> None:
    from hushdoc_training.privacy import claims

    seen = replace(start, claim=claims.not_private("scans", (), training={}))
    with pytest.raises(PrivacyError, match="protected documents"):
        train(seen, documents, tmp_path / "run")


@pytest.mark.parametrize("damage", ["sizes", "weights", "task"])
def test_a_damaged_start_is_refused(damage: str, start: DiffusionStart, tmp_path: Path) -> None:
    folder = _folder_of(start, tmp_path)
    head = folder / "checkpoint.json"
    if damage == "sizes":
        head.write_text(head.read_text().replace('"layers": 1', '"layers": "1"'))
    elif damage == "task":
        head.write_text(head.read_text().replace(diffusion_start.TASK, "kie"))
    else:
        (folder / "model.safetensors").write_bytes(b"{}")
    with pytest.raises(CheckpointError):
        diffusion_start.load(folder)


def test_a_class_of_the_same_name_keeps_its_row(start: DiffusionStart) -> None:
    made = diffusion_start.with_classes(start, ("light", "new"), seed=0)
    rows = made.inner.class_embedding.weight
    before = start.denoiser.inner.class_embedding.weight
    assert rows[0].equal(before[1])
    assert rows[2].equal(before[2])  # no class
    assert not rows[1].equal(before[0])


def test_squares_are_of_their_own_page_alone(documents: tuple[ImageDocument, ...]) -> None:
    known = {name: number for number, name in enumerate(CLASSES)}
    every = page_squares.squares_of(documents, 32, classes=known, layout=True)
    (alone,) = page_squares.squares_of(documents[-1:], 32, classes=known, layout=True)
    assert np.array_equal(alone[0].shades, every[-1][0].shades)
    assert np.array_equal(alone[0].mask, every[-1][0].mask)
    assert alone[0].label == 1
    assert alone[0].shades.min() >= -1
    assert alone[0].shades.max() <= 1
    (moved,) = page_squares.squares_of(documents[:1], 32, classes=known, layout=True, copies=2)
    assert len(moved) == 3
    assert not np.array_equal(moved[0].shades, moved[1].shades)


def test_no_other_document_changes_how_latents_are_rounded(start: DiffusionStart) -> None:
    """One document less would move others into batches that kernels round otherwise."""
    rng = np.random.default_rng(0)
    shades = rng.uniform(-1, 1, (40, 32, 32)).astype(np.float32)
    squares = [[page_squares.PageSquare(shades=one, mask=MASK, label=0)] for one in shades]
    every = page_squares.examples_of(squares, start.codec)
    fewer = page_squares.examples_of(squares[1:], start.codec)
    for (one,), (other,) in zip(every[1:], fewer, strict=True):
        assert one.latent.equal(other.latent)
        assert one.layout is not None
        assert one.layout.equal(other.layout)


def test_known_lines_make_the_layout(documents: tuple[ImageDocument, ...]) -> None:
    lines = ((Box(x0=0, y0=0, x1=40, y1=24),),)
    one = replace(documents[0], lines=lines)
    ((square,),) = page_squares.squares_of([one], 32, classes={}, layout=True)
    assert (square.mask[:16] == -1).all()
    assert (square.mask[16:] == 1).all()


def test_copies_are_one_record_and_a_digest_knows_their_classes(
    documents: tuple[ImageDocument, ...],
) -> None:
    copy = replace(documents[0], id="copy")
    assert len(page_squares.distinct([*documents, copy])) == len(documents)
    relabelled = [replace(documents[0], label="light"), *documents[1:]]
    assert page_squares.digest(documents) != page_squares.digest(relabelled)
    assert page_squares.digest(documents) == page_squares.digest(documents[::-1])


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK"])
def test_images_of_any_mode_are_read(mode: str, tmp_path: Path) -> None:
    folder = scans(tmp_path / "scans", count=2, mode="RGB")
    for file in folder.rglob("*.png"):
        with Image.open(file) as opened:
            image = opened.convert(mode)
        file.unlink()
        image.save(file.with_suffix(".tif"))
    squares = page_squares.squares_of(read(folder), 32, classes={}, layout=True)
    assert all(square.shades.shape == (32, 32) for own in squares for square in own)


@pytest.mark.parametrize(
    "change",
    [
        {"classes": ("a", "a")},
        {"pages": 0},
        {"pages": 5001},
        {"multiplicity": 0},
        {"sampler": "heun"},
        {"sampling_steps": 1001},
        {"guidance": -1.0},
        {"trained": "none"},
        {"trained": "denoisers", "guidance": 3.0},
        {"learning_rate": 1.0},
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        replace(SETTINGS, **change)


@pytest.mark.parametrize(
    "change", [{"size": "f2"}, {"condition": "words"}, {"steps": 0}, {"blur": -1.0}]
)
def test_pretraining_out_of_range_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        replace(QUICK, **change)
