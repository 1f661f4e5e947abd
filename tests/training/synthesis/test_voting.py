"""Embedding, ballots and proposals: norms, neighbours, known answers, and documents without use."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc_training.privacy.votes import summed
from hushdoc_training.synthesis import ballots, embedding, proposals
from hushdoc_training.synthesis.ballots import VOTES, Pool

LONGEST = 1.0 + 1e-12
"""Norm of the longest vote before the sum, which would shorten it, but for rounding in float64."""


def document(*texts: str, pages: int = 1, x: float = 10.0) -> Document:
    words = tuple(
        Word(text=text, box=Box(x0=x, y0=20.0 * place, x1=x + 50, y1=20.0 * place + 12))
        for place, text in enumerate(texts)
    )
    page = Page(width=300, height=900, words=words)
    return Document(id="one", pages=(page,) * pages)


def random_pool(rng: np.random.Generator, size: int = 40) -> Pool:
    points = rng.random((size, 30))
    sizes = (4, 7, 3)
    return Pool(
        points=points / np.linalg.norm(points, axis=1, keepdims=True),
        levels=np.stack([rng.integers(0, count, size) for count in sizes], axis=1),
        sizes=sizes,
        weights=np.array([0.5, 0.3, 0.2]),
    )


def test_points_have_norm_one_and_the_mean_of_pages_no_more() -> None:
    one = embedding.embed(document("Total:", "RM12.50", "25/12/2018", "JALAN"))
    assert one.shape == (embedding.SIZE,)
    assert np.linalg.norm(one) == pytest.approx(1.0)
    assert np.allclose(embedding.embed(document("Total:", "RM12.50", pages=3)), embedding.embed(
        document("Total:", "RM12.50")
    ))  # fmt: skip


def test_a_document_is_embedded_alone_and_values_by_their_shapes() -> None:
    first, second = (
        embedding.embed(document("Date", date)) for date in ("01/02/2019", "31/12/1987")
    )
    assert np.allclose(first, second)
    other = embedding.embed(document("Date", "2019-02-01"))
    assert np.linalg.norm(first - other) > 0.3
    assert embedding.words_of(document("TOTAL: 12,50", "total")) == {"total", "00,00"}


def test_images_are_a_fifth_of_a_point_and_a_page_without_one_is_white() -> None:
    def shown(shades: np.ndarray) -> Document:
        stream = io.BytesIO()
        Image.fromarray(shades.astype(np.uint8)).save(stream, format="PNG")
        one = document("Total:", "RM12.50")
        return replace(one, pages=(replace(one.pages[0], image=stream.getvalue()),))

    def point(one: Document) -> np.ndarray:
        return embedding.embed(one, features="words+image")

    words = embedding.embed(document("Total:", "RM12.50"))
    half = np.full((32, 32), 255)
    half[:, :16] = 0
    dark = point(shown(half))
    assert dark.shape == (embedding.size_of("words+image"),)
    assert np.linalg.norm(dark) == pytest.approx(1.0)
    assert np.allclose(dark[: embedding.SIZE], words * 0.8**0.5)
    # Eight of sixteen columns are black: 128 cells share the norm, the others have none; the page
    # is drawn in its own size first, which blurs the edge between them.
    cells = dark[embedding.SIZE :].reshape(16, 16)
    assert np.allclose(cells[:, :7], (0.2 / 128) ** 0.5, rtol=0.01)
    assert np.allclose(cells[:, 9:], 0.0)
    white, none = point(shown(np.full((8, 8), 255))), point(document("Total:", "RM12.50"))
    assert np.allclose(white, none)
    assert np.linalg.norm(none) == pytest.approx(0.8**0.5)
    assert not point(document()).any()


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("vote", VOTES)
@pytest.mark.parametrize(
    ("strange", "counted"),
    [
        (document(), 0),
        (document("a", x=float("nan")), 1),
        (document("a", x=float("inf")), 1),
    ],
)
def test_what_has_no_words_or_no_finite_box_votes_for_nothing_and_the_second_is_counted(
    strange: Document, counted: int, vote: str, words: bool
) -> None:
    pool = random_pool(np.random.default_rng(1))
    point = embedding.embed(strange)
    assert not np.nan_to_num(point).any()
    cast, size = ballots.ballot(vote, pool, nearest=3), ballots.size_of(vote, pool)
    if words:
        cast, size = ballots.with_words(cast, 30), size + 1
    voted = np.concatenate([point[:30], [0.125] * words])
    total, found = summed([voted], cast, size, norm=1.0, step=2.0**-20)
    assert found == counted
    assert not total.any()


def moves_of(points: list[np.ndarray], cast: ballots.Ballot, size: int) -> list[float]:
    """Returns how far the noiseless sum moves without each of the points."""
    step = 2.0**-20
    whole, _ = summed(points, cast, size, norm=1.0, step=step)
    moves = []
    for place in range(len(points)):
        fewer, _ = summed([*points[:place], *points[place + 1 :]], cast, size, norm=1.0, step=step)
        moves.append(float(np.linalg.norm(whole - fewer)) * step)
    return moves


@pytest.mark.parametrize("vote", VOTES)
@pytest.mark.parametrize("nearest", [1, 7, 40])
def test_one_document_more_moves_the_noiseless_sum_by_at_most_one(vote: str, nearest: int) -> None:
    rng = np.random.default_rng(nearest)
    pool = random_pool(rng)
    points = [*rng.random((25, 30)) * rng.choice([0.01, 1.0, 50.0], (25, 1)), np.zeros(30)]
    cast, size = ballots.ballot(vote, pool, nearest=nearest), ballots.size_of(vote, pool)
    assert max(float(np.linalg.norm(cast(point))) for point in points) <= LONGEST
    moves = moves_of(points, cast, size)
    assert max(moves) <= 1.0
    assert max(moves) > 0.4  # and the bound is nearly reached
    assert min(moves) == 0.0


@pytest.mark.parametrize("vote", VOTES)
def test_one_document_more_moves_the_sum_with_words_by_at_most_one(vote: str) -> None:
    rng = np.random.default_rng(2)
    pool, listed = random_pool(rng), tuple(f"{chr(97 + place % 26)}{place}" for place in range(200))
    cast = ballots.with_words(ballots.ballot(vote, pool, nearest=3), 30)
    size = ballots.size_of(vote, pool) + len(listed)
    points = []
    for number in (0, 1, 63, 64, 65, 200):
        said = {*rng.permutation(listed)[:number].tolist(), "beside"}
        points.append(np.concatenate([rng.random(30), ballots.presence(said, listed)]))
    assert max(float(np.linalg.norm(cast(point))) for point in points) <= LONGEST
    moves = moves_of(points, cast, size)
    assert max(moves) <= 1.0
    if vote != "factors":  # whose nearest pages differ in some factors
        assert max(moves) == pytest.approx(1.0, abs=1e-4)  # of 64 words, and no more of 200
    points[-1][:30] = 0.0  # a document that can't be embedded says no word either
    assert not cast(points[-1]).any()


def test_words_stand_out_of_the_noise_or_are_absent() -> None:
    listed = ("jalan", "total", "quagga")
    sums = np.array([0.9, 0.4, 0.0416]) / 8
    assert proposals.shares_of_words(sums, listed, deviation=0.01 / 8) == {
        "jalan": pytest.approx(0.9),
        "total": pytest.approx(0.4),
    }
    assert proposals.shares_of_words(8 * sums, listed, deviation=0.2) == {"jalan": 1.0}
    assert proposals.shares_of_words(-sums, listed, deviation=0.0001) == {}


def test_a_vote_of_one_document_hangs_on_no_other() -> None:
    rng = np.random.default_rng(3)
    pool = random_pool(rng)
    points = list(rng.random((6, 30)))
    for vote in VOTES:
        cast = ballots.ballot(vote, pool, nearest=5)
        alone = [cast(point) for point in points]
        together, _ = summed(points, cast, len(alone[0]), norm=1.0, step=2.0**-20)
        assert np.allclose(together * 2.0**-20, np.sum(alone, axis=0), atol=1e-4)


def test_nearest_pages_and_what_they_were_made_from() -> None:
    pool = Pool(
        points=np.eye(3),
        levels=np.array([[0, 1], [0, 0], [1, 2]]),
        sizes=(2, 3),
        weights=np.array([0.64, 0.36]),
    )
    near = np.array([1.0, 0.5, 0.0])
    pages = ballots.ballot("pages", pool, nearest=2)(near)
    assert pages.tolist() == pytest.approx([2**-0.5, 2**-0.5, 0])
    factors = ballots.ballot("factors", pool, nearest=2)(near)
    assert factors.tolist() == pytest.approx([0.8, 0, 0.3, 0.3, 0])
    with pytest.raises(ValueError, match="nearest is 4"):
        ballots.ballot("pages", pool, nearest=4)
    with pytest.raises(ValueError, match="vote is 'most'"):
        ballots.ballot("most", pool, nearest=1)


def test_proposals_forget_what_does_not_stand_out_of_the_noise() -> None:
    assert proposals.shares_of_pages(np.array([1.0, -4, 0]), deviation=2.0).tolist() == [1 / 3] * 3
    sums = np.array([40.0, 1.0, 1.0, -2.0])
    (found,) = proposals.shares_of_values(sums, [4], np.ones(1), deviation=3.0)
    assert found.sum() == pytest.approx(1.0)
    assert found[0] > 0.8
    assert found[1] == pytest.approx(found[3])
    (nothing,) = proposals.shares_of_values(-sums, [4], np.ones(1), deviation=99.0)
    assert nothing.tolist() == [0.25] * 4


def test_fitted_shares_reproduce_a_mixture_of_pages() -> None:
    rng = np.random.default_rng(5)
    points = np.abs(rng.normal(size=(12, 60)))
    shares = np.zeros(12)
    shares[[2, 5, 7]] = 0.5, 0.3, 0.2
    found = proposals.shares_fitted(426 * shares @ points, points)
    assert np.abs(found - shares).sum() < 0.25
    assert proposals.shares_fitted(np.zeros(60), points).tolist() == [1 / 12] * 12


def test_chosen_pages_have_nearly_the_mean_that_was_found_and_none_is_taken_twice() -> None:
    rng = np.random.default_rng(6)
    points = np.abs(rng.normal(size=(80, 20)))
    goal = points[[3, 9, 40]].mean(axis=0)
    taken = proposals.herded(goal, points, 10)
    apart = [np.linalg.norm(points[kept].mean(axis=0) - goal) for kept in (taken, range(10))]
    assert len({*taken}) == 10
    assert apart[0] < 0.5 * apart[1]
    assert taken[:4] == proposals.herded(goal, points, 4)
    assert sorted(proposals.herded(goal, points, 80)) == [*range(80)]
