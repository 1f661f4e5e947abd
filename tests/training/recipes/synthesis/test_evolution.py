"""Evolution: private votes to a checkpoint, killed at the worst moment, and what is refused."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushdoc.document.page import Box, Word
from hushdoc.errors import (
    AnnotationError,
    CheckpointError,
    InputError,
    OutputExistsError,
    OutputWriteError,
    PrivacyError,
)
from hushdoc.labels import LabelledDocument
from hushdoc_training import invented, synthetic_checkpoint
from hushdoc_training.invented import released
from hushdoc_training.invented.word_lists import word_list
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.votes import PrivateVotes
from hushdoc_training.recipes.synthesis import document_points, evolution
from hushdoc_training.recipes.synthesis.evolution import evolve
from hushdoc_training.recipes.synthesis.public_words import PublicWords
from hushdoc_training.recipes.synthesis.settings import EvolutionSettings, weights_of_factors
from hushdoc_training.recipes.synthesis.simulators import Generator
from hushdoc_training.runs.claim_words import READABLE
from hushdoc_training.runs.loop import Outcome
from hushdoc_training.synthesis import ballots, embedding


@pytest.fixture(autouse=True, scope="module")
def _drawn_once() -> Iterator[None]:
    """Most runs here have the same first pool."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(released, "document_of", cache(released.document_of))
        yield


SMALL = EvolutionSettings(
    vote="factors", pool=8, nearest=3, fits=2, documents=4, document_types=("receipt",)
)
SECRET = "Xyzzyvault"


def _private() -> list[LabelledDocument]:
    """Receipts, each with a word that stands in no public list."""
    config = invented.InventedConfig(document_types=("receipt",))
    made = []
    for number, item in enumerate(invented.documents(seed=4, count=8, config=config)):
        (page,) = item.document.pages
        word = Word(text=f"{SECRET}{number}", box=Box(x0=1, y0=1, x1=9, y1=9))
        page = replace(page, words=(word, *page.words))
        made.append(replace(item, document=replace(item.document, pages=(page,)), spans=()))
    return made


PRIVATE = _private()


ONE_ROUND = PrivacyPlan.calibrated(
    epsilon=8.0, sampling_rate=1.0, steps=1, clipping_norm=1.0, expected_records=8
)


@cache
def plan(rounds: int = 1) -> PrivacyPlan:
    """Returns the plan of so many rounds, which together are one with less noise."""
    noise = ONE_ROUND.noise_multiplier * rounds**0.5 * (1 + 1e-9)
    return replace(ONE_ROUND, steps=rounds, noise_multiplier=noise)


def run(out: Path, rounds: int = 1, **further: Any) -> Outcome:
    settings = further.pop("settings", SMALL)
    documents = further.pop("documents", PRIVATE)
    return evolve(
        documents, plan(rounds), settings, out=out, name="receipts", quiet=True, **further
    )


def killed(out: Path, rounds: int, **further: Any) -> None:
    """Runs in a process of its own, which SIGKILL ends when the first vote of a round is cast."""
    process = os.fork()
    if process == 0:
        cast = ballots.ballot
        kill = lambda point: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        doomed = further.pop("doomed")
        calls: list[int] = []

        def ballot(*arguments: Any, **keywords: Any) -> Any:
            calls.append(1)
            return kill if len(calls) == doomed else cast(*arguments, **keywords)

        ballots.ballot = ballot  # type: ignore[assignment]
        try:
            run(out, rounds, **further)
        finally:
            os._exit(1)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize("vote", ballots.VOTES)
def test_votes_become_a_checkpoint_with_what_was_spent(vote: str, tmp_path: Path) -> None:
    settings = replace(SMALL, vote=vote)
    assert run(tmp_path / "run", 2, settings=settings) == Outcome(charged=2, interrupted=False)
    made = synthetic_checkpoint.load(tmp_path / "run")
    assert len(made.specifications) == settings.documents
    assert {one["document_type"] for one in made.specifications} == {"receipt"}
    (guarantee,) = made.claim.guarantees
    assert (guarantee.kind, guarantee.adversary, guarantee.unit) == (
        "dp",
        "synthetic-data-recipient",
        "document",
    )
    assert guarantee.epsilon == pytest.approx(8.0, rel=1e-3)
    assert guarantee.sampling_as_implemented == "full-batch"
    assert made.claim.releases == ("synthetic-records",)
    assert made.claim.protected_data[0].units[0].count is None
    assert [access.purpose for access in made.claim.data_accesses][0] == "votes"
    refusals = [one for one in made.claim.data_accesses if "can't be read" in one.purpose]
    assert [one.treatment for one in refusals] == ["not-released"]
    assert READABLE in guarantee.assumes
    assert any("with another is refused" in one for one in guarantee.assumes)
    assert "gradient" not in made.claim.protected_data[0].contribution_bound


def test_images_are_voted_for_where_they_are_asked_for(tmp_path: Path) -> None:
    settings = replace(SMALL, vote="pages", nearest=1, documents=1, features="words+image")
    pool = evolution.first_pool(settings)
    shown = released.with_image(pool[0], settings.labels)
    spoiled = tmp_path / "page.png"
    spoiled.write_bytes(b"no image")
    (page,) = shown.document.pages
    broken = replace(shown.document, pages=(replace(page, image=spoiled),))
    with pytest.raises(InputError):
        run(tmp_path / "broken", documents=[replace(shown, document=broken)], settings=settings)
    assert not (tmp_path / "broken").exists()
    outcome = run(tmp_path / "run", documents=[shown] * 8, settings=settings, copies="keep")
    assert outcome == Outcome(charged=1, interrupted=False)
    made = synthetic_checkpoint.load(tmp_path / "run")
    assert made.claim.training["features"] == "words+image"


@pytest.mark.parametrize("vote", ballots.VOTES)
def test_what_words_mean_is_voted_for_and_the_claim_names_who_read_them(
    vote: str, tmp_path: Path
) -> None:
    settings = replace(SMALL, vote=vote, pool=4, features="words+minilm")
    words = PublicWords(words=("total", "cash"))
    run(tmp_path / "run", settings=settings, words=words, public_overlap="none")
    claim = synthetic_checkpoint.load(tmp_path / "run").claim
    (data,) = claim.public_data
    assert (data.name, data.overlap_with_protected) == ("all-MiniLM-L6-v2", "none")


def test_points_with_meaning_have_norm_one_and_likenesses_that_hashes_lack() -> None:
    def point(*texts: str, features: str = "words+image+minilm") -> Any:
        words = tuple(
            Word(text=text, box=Box(x0=5, y0=9 * place, x1=60, y1=9 * place + 8))
            for place, text in enumerate(texts)
        )
        page = replace(PRIVATE[0].document.pages[0], words=words, image=None)
        return document_points.point(replace(PRIVATE[0].document, pages=(page,)), features)

    car, lorry, soup = (
        point(word, "12.50", features="words+minilm") for word in ("car", "truck", "soup")
    )
    assert len(car) == document_points.size("words+minilm")
    assert np.linalg.norm(car) == pytest.approx(1.0)
    assert np.linalg.norm(car - lorry) < np.linalg.norm(car - soup)
    both = point("car", "12.50")
    assert len(both) == document_points.size("words+image+minilm")
    assert np.allclose(both[-384:], car[-384:])
    assert not point().any()
    long = point(*["car", "12.50"] * 350, features="words+minilm")
    assert np.linalg.norm(long) == pytest.approx(1.0)


def test_no_word_of_a_private_page_is_released_or_kept(tmp_path: Path) -> None:
    run(
        tmp_path / "run", ledger=Ledger.create(tmp_path / "ledger", data="r", epsilon=9, delta=1e-5)
    )
    for file in (tmp_path / "run").rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()
    made = synthetic_checkpoint.load(tmp_path / "run")
    public = embedding.words_of(released.document_of(made.specifications[0], "fields").document)
    assert not any(SECRET.casefold() in word for word in public)
    assert all(SECRET not in word for word in word_list("goods.groceries"))


@pytest.mark.parametrize("vote", ["factors", "moments"])
def test_words_of_a_public_list_are_found_and_no_other(vote: str, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("Zanzibar\nquagga\ntotal\n")
    words = PublicWords.read(tmp_path / "list.txt", overlap="none")
    word = Word(text="ZANZIBAR:", box=Box(x0=1, y0=1, x1=9, y1=9))
    said = []
    for item in PRIVATE:
        (page,) = item.document.pages
        page = replace(page, words=(word, *page.words))
        said.append(replace(item, document=replace(item.document, pages=(page,))))
    nearly_none = replace(ONE_ROUND, epsilon=1e4, noise_multiplier=0.01)
    outcome = evolve(
        said,
        nearly_none,
        replace(SMALL, vote=vote),
        out=tmp_path / "run",
        name="r",
        quiet=True,
        words=words,
    )
    assert outcome == Outcome(charged=1, interrupted=False)
    made = synthetic_checkpoint.load(tmp_path / "run")
    assert all("zanzibar" in one.words for one in made.specifications)
    assert {word for one in made.specifications for word in one.words} <= {"zanzibar", "total"}
    for one in made.specifications:
        shown = embedding.words_of(released.document_of(one, "fields").document)
        assert "zanzibar" in shown
        assert not any(SECRET.casefold() in word for word in shown)
    (data,) = made.claim.public_data
    assert (data.name, data.overlap_with_protected) == ("list of 3 words", "none")
    assert made.claim.guarantees[0].unit == "document"


@pytest.mark.parametrize("content", ["", "two\nor 3\n", "x" * 25, "\n".join(["word"]) + "\n\x07"])
def test_what_is_no_list_of_words_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(content)
    with pytest.raises(InputError) as refused:
        PublicWords.read(tmp_path / "list.txt", overlap="none")
    assert refused.value.code == "BAD_WORDS"
    with pytest.raises(InputError):
        PublicWords.read(tmp_path / "none.txt", overlap="none")


@pytest.mark.parametrize("word", ["TAR\u0130H", "\u00df" * 24, "\u01f0"])
def test_a_word_that_no_document_could_be_made_of_is_refused_before_anybody_votes(
    word: str, tmp_path: Path
) -> None:
    """Documents are compared without case, which makes two characters of each of these letters."""
    (tmp_path / "list.txt").write_text(f"jalan\n{word}\n", encoding="utf-8")
    with pytest.raises(InputError, match="compared with as") as refused:
        PublicWords.read(tmp_path / "list.txt", overlap="none")
    assert refused.value.code == "BAD_WORDS"


def test_a_list_of_words_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("jalan\n", encoding="utf-8-sig")
    assert PublicWords.read(tmp_path / "list.txt", overlap="none").words == ("jalan",)


def test_the_number_of_documents_shapes_nothing_that_is_released(tmp_path: Path) -> None:
    """Fewer documents give a claim, a run folder and a release of the same shape."""
    for number, documents in enumerate((PRIVATE, PRIVATE[:3])):
        run(tmp_path / str(number), documents=documents)
    first, second = (synthetic_checkpoint.load(tmp_path / str(number)) for number in range(2))
    assert len(first.specifications) == len(second.specifications)
    same = ("training", "data_accesses", "protected_data", "transcripts", "caveats", "guarantees")
    for name in same:
        assert getattr(first.claim, name) == getattr(second.claim, name)
    texts = [(tmp_path / str(number) / "run.json").read_text() for number in range(2)]
    assert json.loads(texts[0]).keys() == json.loads(texts[1]).keys()


def test_documents_that_cannot_vote_are_no_error_and_are_not_counted_aloud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[PrivateVotes[Any]] = []

    class Kept(PrivateVotes[Any]):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            kept.append(self)

    monkeypatch.setattr(evolution, "PrivateVotes", Kept)
    (page,) = PRIVATE[0].document.pages
    empty = replace(page, words=())
    word = Word(text="total", box=Box(x0=float("nan"), y0=0, x1=1, y1=1))
    strange = [
        replace(PRIVATE[0], document=replace(PRIVATE[0].document, id=name, pages=(page,)), spans=())
        for name, page in (("empty", empty), ("nan", replace(page, words=(word,))))
    ]
    run(tmp_path / "run", documents=[*PRIVATE, *strange])
    printed = capsys.readouterr()
    assert printed.out + printed.err == ""
    claim = synthetic_checkpoint.load(tmp_path / "run").claim
    assert "casts the vector 0" in claim.protected_data[0].contribution_bound
    assert [votes.not_finite for votes in kept] == [1]  # for who asks, and declares so


def test_a_kill_between_charge_and_vote_spends_the_round_and_no_more(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="receipts", epsilon=9, delta=1e-5)
    out = tmp_path / "run"
    killed(out, 3, doomed=2, ledger=Ledger.open(ledger.path))
    (known,) = Ledger.open(ledger.path).runs()
    assert (known.charged, known.reserved) == (2, 3)
    assert [file.name for file in sorted(out.glob("votes-*"))] == ["votes-0001.safetensors"]
    with pytest.raises(PrivacyError, match="reserved"):  # beside the run that was killed
        run(tmp_path / "other", 3, ledger=Ledger.open(ledger.path))
    with pytest.warns(UserWarning, match="Of 2 charged rounds 1 left nothing"):
        assert run(out, 3, ledger=Ledger.open(ledger.path), resume=True).charged == 3
    (known,) = Ledger.open(ledger.path).runs()
    assert (known.charged, known.closed) == (3, True)
    assert [file.name for file in sorted(out.glob("votes-*"))] == [
        "votes-0001.safetensors",
        "votes-0003.safetensors",
    ]
    claim = synthetic_checkpoint.load(out).claim
    assert claim.guarantees[0].epsilon == pytest.approx(8.0, rel=1e-3)  # all three, the lost too
    assert claim.training["receipt"]["steps"] == 2


def test_a_run_that_is_killed_before_its_checkpoint_votes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="receipts", epsilon=9, delta=1e-5)

    def full(folder: Path, made: object) -> None:
        raise OutputWriteError("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(synthetic_checkpoint, "save", full)
        with pytest.raises(OutputWriteError):
            run(tmp_path / "run", 2, ledger=ledger)
    saved = [file.read_bytes() for file in sorted((tmp_path / "run").glob("votes-*"))]
    with (tmp_path / "run" / "steps.jsonl").open("ab") as log:
        log.write(b'{"receipt": {"cli')  # which a full disk cut
    assert run(tmp_path / "run", 2, ledger=ledger, resume=True).charged == 2
    assert saved == [file.read_bytes() for file in sorted((tmp_path / "run").glob("votes-*"))]
    assert ledger.runs()[0].charged == 2
    again = run(tmp_path / "run", 2, ledger=ledger, resume=True)  # it had ended
    assert again == Outcome(charged=2, interrupted=False)


@pytest.mark.parametrize("rounds", [1, 3], ids=["the-last", "one-of-three"])
def test_ctrl_c_ends_a_run_after_its_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    cast = ballots.ballot

    def ballot(*arguments: Any, **keywords: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return cast(*arguments, **keywords)

    with monkeypatch.context() as patched:
        patched.setattr(ballots, "ballot", ballot)
        assert run(tmp_path / "run", rounds) == Outcome(charged=1, interrupted=True)
    assert not (tmp_path / "run" / "checkpoint").exists()
    ended = Outcome(charged=rounds, interrupted=False)
    assert run(tmp_path / "run", rounds, resume=True) == ended
    claim = synthetic_checkpoint.load(tmp_path / "run").claim
    assert claim.training["receipt"]["steps"] == rounds


def test_a_round_whose_charge_is_lost_is_not_voted_for_again(tmp_path: Path) -> None:
    killed(tmp_path / "run", 3, doomed=3)
    log = tmp_path / "run" / "steps.jsonl"
    older = b"".join(log.read_bytes().splitlines(keepends=True)[:2])  # the first charge alone
    log.write_bytes(older)
    with pytest.raises(CheckpointError, match="saved step 2, .* charges 1: charges are lost"):
        run(tmp_path / "run", 3, resume=True)
    assert log.read_bytes() == older


def test_a_run_that_lost_its_only_round_has_nothing_to_release(tmp_path: Path) -> None:
    killed(tmp_path / "run", 1, doomed=1)
    with pytest.raises(OutputExistsError):
        run(tmp_path / "run")
    with pytest.raises(CheckpointError, match="nothing to finish"):
        run(tmp_path / "run", 1, resume=True)


def test_a_resumed_run_draws_the_same_pools(tmp_path: Path) -> None:
    killed(tmp_path / "run", 2, doomed=2)
    saved = (tmp_path / "run" / "votes-0001.safetensors").read_bytes()
    with pytest.raises(CheckpointError, match="other settings: claim, nearest"):
        run(tmp_path / "run", 2, settings=replace(SMALL, nearest=4), resume=True)
    with pytest.raises(CheckpointError, match="documents"):
        run(tmp_path / "run", 2, documents=PRIVATE[:-1], resume=True)
    (tmp_path / "run" / "votes-0001.safetensors").write_bytes(saved[:-3])
    with pytest.raises(CheckpointError, match="can't be read"):
        run(tmp_path / "run", 2, resume=True)


def test_what_is_refused_before_a_charge_takes_no_folder(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(AnnotationError, match="no document to vote"):
        run(out, documents=[])
    small = Ledger.create(tmp_path / "ledger", data="receipts", epsilon=1, delta=1e-5)
    with pytest.raises(PrivacyError) as refused:
        run(out, ledger=small)
    assert refused.value.code == "BUDGET_EXCEEDED"
    half = replace(ONE_ROUND, sampling_rate=0.5)
    with pytest.raises(ValueError, match="sampling rate 0.5"):
        evolve(PRIVATE, half, SMALL, out=out, name="receipts")
    assert not out.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"vote": "most"},
        {"labels": "none"},
        {"pool": 0},
        {"nearest": 9},
        {"fits": 0},
        {"documents": 5001},
        {"document_types": ("poem",)},
        {"document_types": ()},
        {"seed": -1},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(SMALL, **wrong)


def test_factors_share_the_norm_of_a_vote() -> None:
    weights = weights_of_factors()
    assert weights.sum() == pytest.approx(1.0)
    assert (weights > 0).all()


def test_many_like_documents_move_the_proposal_towards_them() -> None:
    """Forms alone vote, and forms are proposed; types that nobody asked for are not."""
    settings = replace(SMALL, pool=16, nearest=3, document_types=("receipt", "form"))
    generator = Generator(settings=settings)
    start = generator.start()
    specifications = generator.drawn(start, settings.pool, 1)
    pool = generator.pool_of(specifications)
    mine = [place for place, one in enumerate(specifications) if one["document_type"] == "form"]
    cast = ballots.ballot("factors", pool, nearest=settings.nearest)
    sums = np.sum([cast(pool.points[place]) for place in mine for _ in range(9)], axis=0)
    after = evolution.after(start, specifications, pool, sums, settings, 0.5)
    kinds = dict(zip(invented.KNOWN_TYPES, after.weights["document_type"], strict=True))
    assert kinds["form"] > 2 * kinds["receipt"]
    assert kinds["invoice"] == kinds["till-receipt"] == 0
