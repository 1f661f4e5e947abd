"""Selection: private votes for public page images; one document's part; what is refused."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from hushdoc import SyntheticDocuments
from hushdoc.errors import (
    AnnotationError,
    ArtifactError,
    CheckpointError,
    EmptyDocumentError,
    OutputWriteError,
    PrivacyError,
    UnsupportedFormatError,
)
from hushdoc.synthetic_documents import ADVERSARY, digest_of
from hushdoc_export import synthetic
from hushdoc_export.release import Release
from hushdoc_training import drawn_checkpoint
from hushdoc_training.data import image_sets
from hushdoc_training.data.dataset import Source
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy import votes
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.synthesis import public_images, selection
from hushdoc_training.recipes.synthesis.reproduction import require_moved
from hushdoc_training.recipes.synthesis.selection import (
    COUNTED,
    Candidates,
    PublicImages,
    SelectionSettings,
    select,
)
from hushdoc_training.runs.claim_words import READABLE, READING
from hushdoc_training.runs.loop import Outcome

SMALL = SelectionSettings(classes=("high", "low"), pages=6, copies=2, side=32)


def pages(folder: Path, classes: tuple[str, ...], count: int, *, seed: int) -> list[ImageDocument]:
    """Returns pages that are dark above or below, by their classes; of others in between."""
    rng = np.random.default_rng(seed)
    for label in classes:
        (folder / label).mkdir(parents=True)
        for number in range(count):
            high = {"high": 0.9, "low": 0.1}.get(label, number / (count - 1))
            shades = np.full((40, 40), 255.0)
            shades[:20] -= 200 * high
            shades[20:] -= 200 * (1 - high)
            noisy = np.clip(shades + rng.normal(0, 8, shades.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / label / f"{number}.png")
    with image_sets.opened(Source(location=str(folder))) as documents:
        return list(documents)


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> list[ImageDocument]:
    return pages(tmp_path_factory.mktemp("private") / "data", ("high", "low"), 12, seed=1)


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> PublicImages:
    found = pages(tmp_path_factory.mktemp("public") / "data", ("other", "others"), 6, seed=2)
    return PublicImages(documents=found, name="public pages", overlap="none")


def plan(*, rounds: int = 1) -> PrivacyPlan:
    return PrivacyPlan.calibrated(
        epsilon=50.0,
        delta=1e-5,
        sampling_rate=1.0,
        steps=rounds,
        clipping_norm=1.0,
        expected_records=24,
    )


def run(
    private: list[ImageDocument], public: PublicImages, out: Path, **further: object
) -> Outcome:
    told = {"plan": plan(), "settings": SMALL, **further}
    rest = {name: value for name, value in told.items() if name not in ("plan", "settings")}
    return select(
        private, public, told["plan"], told["settings"], out=out, name="scans", quiet=True, **rest
    )  # type: ignore[arg-type]


def test_chosen_pages_are_like_those_of_their_class(
    private: list[ImageDocument], public: PublicImages, tmp_path: Path
) -> None:
    assert run(private, public, tmp_path / "run") == Outcome(charged=1, interrupted=False)
    made = drawn_checkpoint.load(tmp_path / "run")
    assert made.method == "image-selection"
    assert [one["label"] for one in made.prompts] == ["high", "low"] * 3
    assert len({(one["page"], one["copy"]) for one in made.prompts}) == 6
    for number, prompt in enumerate(made.prompts):
        path = drawn_checkpoint.image_path(made.folder / "images", number)
        shades = np.asarray(Image.open(path), dtype=np.float64)
        assert shades.shape == (32, 32)
        darker = shades[16:].mean() > shades[:16].mean()
        assert darker == (prompt["label"] == "high")
    (guarantee,) = made.claim.guarantees
    assert guarantee.unit == "document"
    assert guarantee.adversary == "synthetic-data-recipient"
    assert guarantee.covers_all_private_accesses
    (data,) = made.claim.public_data
    assert (data.name, data.overlap_with_protected) == ("public pages", "none")
    assert {*READING} <= {one.purpose for one in made.claim.data_accesses}
    assert READABLE in guarantee.assumes
    assert "declared-public" in {one.treatment for one in made.claim.data_accesses}
    assert {*public_images.ASSUMES} <= {*guarantee.assumes}
    assert public_images.NOT_AMONG_THEM in made.claim.caveats


@pytest.mark.parametrize("pages_of_copy", [1, 2])
def test_a_private_page_among_public_ones_is_refused_before_a_charge(
    pages_of_copy: int, private: list[ImageDocument], public: PublicImages, tmp_path: Path
) -> None:
    """Another folder, another name, another class, and one page of several."""
    ledger = Ledger.create(tmp_path / "ledger", data="scans", epsilon=99, delta=1e-5)
    copied = tmp_path / "copied.png"
    copied.write_bytes(Path(str(private[3].pages[0].image)).read_bytes())
    page = replace(private[3].pages[0], image=copied)
    others = public.documents[0].pages * (pages_of_copy - 1)
    copy = ImageDocument(id="copy", label="other", pages=(*others, page))
    asked = replace(public, documents=[*public.documents, copy])
    with pytest.raises(PrivacyError, match="'copy'.*its absence") as refused:
        run(private, asked, tmp_path / "run", ledger=ledger)
    assert refused.value.code == "PRIVATE_PAGE_IS_PUBLIC"
    assert not (tmp_path / "run").exists()
    assert ledger.runs() == ()


def test_a_document_that_cannot_be_read_is_refused_before_a_charge(
    private: list[ImageDocument], public: PublicImages, tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="scans", epsilon=99, delta=1e-5)
    cut = tmp_path / "cut.png"
    cut.write_bytes(Path(str(private[3].pages[0].image)).read_bytes()[:200])
    broken = replace(private[3], id="cut", pages=(replace(private[3].pages[0], image=cut),))
    with pytest.raises(UnsupportedFormatError):
        run([*private, broken], public, tmp_path / "run", ledger=ledger)
    assert not (tmp_path / "run").exists()
    assert ledger.runs() == ()


def test_noisy_counts_of_classes_are_released(
    private: list[ImageDocument], public: PublicImages, tmp_path: Path
) -> None:
    """They are of the noisy sum that chose the pages, and of nothing else."""
    run(private[:-6], public, tmp_path / "run", plan=plan(rounds=2))
    training = drawn_checkpoint.load(tmp_path / "run").claim.training
    sums = [load_file(one)["sums"] for one in sorted((tmp_path / "run").glob("votes-*"))]
    cells = np.mean(sums, axis=0).reshape(2, -1)[:, 0] * 24 / np.sqrt(COUNTED)
    assert training["noisy_class_counts"] == dict(
        zip(("high", "low"), np.round(cells, 1), strict=True)
    )
    deviation = training["class_count_deviation"]
    noise = plan(rounds=2).noise_multiplier / np.sqrt(COUNTED * 2)
    assert deviation == pytest.approx(noise, rel=0.1, abs=0.1)
    counts = training["noisy_class_counts"]
    assert abs(counts["high"] - 12) < 6 * deviation
    assert abs(counts["low"] - 6) < 6 * deviation


def test_a_noisy_count_is_no_negative_zero() -> None:
    told = selection.class_counts(np.full(4, -1e-9), 1.0, 1, plan(), SMALL)
    assert [str(count) for count in told["noisy_class_counts"].values()] == ["0.0", "0.0"]


def test_invented_pages_are_compared_with_nothing(
    private: list[ImageDocument], public: PublicImages, tmp_path: Path
) -> None:
    run(private, replace(public, invented=True), tmp_path / "run")
    claim = drawn_checkpoint.load(tmp_path / "run").claim
    assert "declared-public" not in {one.treatment for one in claim.data_accesses}
    assert public_images.NOT_AMONG_THEM not in claim.caveats


def test_a_page_is_moved_anew_by_its_own_id_and_no_further_key(
    private: list[ImageDocument], public: PublicImages, tmp_path: Path
) -> None:
    run(private, replace(public, invented=True), tmp_path / "run")
    key = build.known_key(1)
    sealed = synthetic.export(
        tmp_path / "run", tmp_path / "set", Release(key=key, name="r", issuer="tests")
    )
    policy = build.policy(key, adversary=ADVERSARY, max_epsilon=51)
    documents = SyntheticDocuments.open(sealed, policy=policy)
    require_moved(documents, public.documents)
    first, *others = documents.documents
    renamed = replace(first.labelled, document=replace(first.labelled.document, id="page-00009"))
    for changed in (
        replace(first, specification={**first.specification, "more": 1}),
        replace(first, labelled=renamed),
    ):
        with pytest.raises(ArtifactError, match="another id or other keys") as refused:
            require_moved(replace(documents, documents=(changed, *others)), public.documents)
        assert refused.value.code == "DOCUMENTS_NOT_REPRODUCED"
    more = replace(first, digest=digest_of(b'{"id": "page-00000", "more": 1}'))
    with pytest.raises(ArtifactError, match="holds more"):
        require_moved(replace(documents, documents=(more, *others)), public.documents)


def test_one_document_more_is_one_vote_more_of_norm_one(
    private: list[ImageDocument], public: PublicImages
) -> None:
    candidates = Candidates(public, SMALL, quiet=True)
    votes, fewer = candidates.votes_of(private), candidates.votes_of(private[1:])
    assert len(votes) == len(private) == len(fewer) + 1
    moved = np.sum(votes, axis=0) - np.sum(fewer, axis=0)
    assert np.linalg.norm(moved) <= 1 + 1e-12
    assert any(np.allclose(moved, vote) for vote in votes)
    several = replace(private[0], pages=private[0].pages + private[-1].pages)
    (vote,) = candidates.votes_of([several])
    assert np.linalg.norm(vote) <= 1 + 1e-12  # of all pages together
    assert np.linalg.norm(vote.reshape(2, -1), axis=1).tolist()[1] == 0  # in one class


def test_copies_of_one_image_vote_once(private: list[ImageDocument], public: PublicImages) -> None:
    candidates = Candidates(public, SMALL, quiet=True)
    copy = replace(private[0], id="copy")
    assert len(candidates.votes_of([*private, copy])) == len(private)


def test_a_document_of_another_class_or_without_pages_votes_for_nothing(
    private: list[ImageDocument], public: PublicImages
) -> None:
    candidates = Candidates(public, SMALL, quiet=True)
    other = replace(private[0], id="other", label="another")
    votes = candidates.votes_of([other, replace(private[1], id="none", pages=())])
    assert [vote.shape for vote in votes] == [(candidates.cells,)] * 2
    assert not np.any(votes)


def test_the_same_image_of_two_classes_is_one_record_of_two_votes_at_most(
    private: list[ImageDocument], public: PublicImages
) -> None:
    candidates = Candidates(public, SMALL, quiet=True)
    relabelled = replace(private[-1], id="relabelled", label="high")
    (before,) = candidates.votes_of(private[-1:])
    (after,) = candidates.votes_of([private[-1], relabelled])
    assert 1 < np.linalg.norm(after - before) <= np.sqrt(2) + 1e-12


def test_means_are_those_of_classes_of_any_size() -> None:
    points = np.array([[0.5, 0.1], [-0.2, 0.3]])
    counts = np.array([[0.7], [0.3]])
    votes = np.concatenate([np.full((2, 1), COUNTED**0.5), (1 - COUNTED) ** 0.5 * points], axis=1)
    np.testing.assert_allclose(selection.means_of((counts * votes).ravel(), 2), points)
    gone = selection.means_of(np.array([-0.1, 0.02, 0.0, 0.3, 0.1, 0.1]), 2)
    assert np.isfinite(gone).all()  # where noise left no count


def test_what_votes_were_taken_is_not_taken_again(
    private: list[ImageDocument],
    public: PublicImages,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*told: object, **named: object) -> None:
        raise OutputWriteError("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(drawn_checkpoint, "save", full)
        with pytest.raises(OutputWriteError):
            run(private, public, tmp_path / "run", plan=plan(rounds=2))
    kept = sorted((tmp_path / "run").glob("votes-*.safetensors"))
    before = [path.read_bytes() for path in kept]
    assert len(before) == 2
    found = run(private, public, tmp_path / "run", plan=plan(rounds=2), resume=True)
    assert found == Outcome(charged=2, interrupted=False)
    assert [path.read_bytes() for path in kept] == before
    assert len(drawn_checkpoint.load(tmp_path / "run").prompts) == 6


def killed(private: list[ImageDocument], public: PublicImages, out: Path, **further: Any) -> None:
    """Runs in a process of its own, which SIGKILL ends between a charge and the first vote."""
    process = os.fork()
    if process == 0:
        votes.summed = lambda *told, **named: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment, return-value]
        try:
            run(private, public, out, **further)
        finally:
            os._exit(1)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_a_round_that_a_kill_interrupts_is_lost_and_stays_spent(
    private: list[ImageDocument], public: PublicImages, tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="scans", epsilon=99, delta=1e-5)
    out = tmp_path / "run"
    killed(private, public, out, plan=plan(rounds=2), ledger=ledger)
    ledger = Ledger.open(ledger.path)
    assert [one.charged for one in ledger.runs()] == [1]
    found = run(private, public, out, plan=plan(rounds=2), ledger=ledger, resume=True)
    assert found == Outcome(charged=2, interrupted=False)
    assert [one.name for one in out.glob("votes-*")] == ["votes-0002.safetensors"]
    claim = drawn_checkpoint.load(out).claim
    assert claim.guarantees[0].epsilon == pytest.approx(50, rel=1e-3)
    noise = plan(rounds=2).noise_multiplier / np.sqrt(COUNTED)  # of one sum alone
    assert claim.training["class_count_deviation"] == pytest.approx(noise, rel=0.1, abs=0.1)
    alone = tmp_path / "alone"
    killed(private, public, alone)
    with pytest.raises(CheckpointError):
        run(private, public, alone, resume=True)


def test_a_ledger_without_room_takes_no_folder(
    private: list[ImageDocument], public: PublicImages, tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="scans", epsilon=1, delta=1e-5)
    with pytest.raises(PrivacyError) as refused:
        run(private, public, tmp_path / "run", ledger=ledger)
    assert refused.value.code == "BUDGET_EXCEEDED"
    assert not (tmp_path / "run").exists()
    assert ledger.runs() == ()


def test_what_can_not_be_chosen_from_is_refused(
    private: list[ImageDocument], public: PublicImages, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(AnnotationError, match="12 public pages with 2 copies"):
        run(private, public, out, settings=replace(SMALL, pages=37))
    with pytest.raises(EmptyDocumentError):
        run([], public, out)
    with pytest.raises(ValueError, match="sampling rate"):
        run(private, public, out, plan=replace(plan(), sampling_rate=0.5))
    for wrong in ({"side": 40}, {"copies": -1}, {"classes": ("a", "a")}, {"pages": 1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            replace(SMALL, **wrong)  # type: ignore[arg-type]
    assert not out.exists()
