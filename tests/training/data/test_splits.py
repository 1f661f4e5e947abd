"""Splits: the side of each document by itself, and no look-alike of a trained one in a score."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hushdoc.document.document import Document
from hushdoc.labels import LabelledDocument
from hushdoc_training.data import splits
from hushdoc_training.data.splits import Copy, Split, Traits


def split(documents: Sequence[Traits], held_out: float = 0.4, **further: str) -> Split[Traits]:
    return splits.split(documents, held_out=held_out, traits=lambda item: item, **further)


def essay(seed: int, count: int = 60) -> list[str]:
    draw = np.random.default_rng(seed)
    return [f"w{number}" for number in draw.integers(5000, size=count)]


def different(count: int) -> list[Traits]:
    return [Traits(f"d{number}", essay(number)) for number in range(count)]


def ids(found: Sequence[Traits]) -> set[str]:
    return {item.id for item in found}


def _providers() -> dict[bool, str]:
    """Returns a provider on each side, by whether it is held out."""
    found: dict[bool, str] = {}
    for number in range(50):
        name = f"provider{number}"
        found.setdefault(splits.is_held_out(("provider", name.encode()), 0.4), name)
    return found


PROVIDERS = _providers()

drawn = some.lists(
    some.builds(
        lambda words, provider: (words, provider),
        some.lists(some.sampled_from(["a", "b", "c", "."]), max_size=3),
        some.sampled_from([None, "!", PROVIDERS[True], f"{PROVIDERS[False].upper()}.", "Beta"]),
    ),
    max_size=12,
).map(
    lambda pairs: [
        Traits(f"d{number}", words, provider) for number, (words, provider) in enumerate(pairs)
    ]
)


def test_sides_are_what_they_were_when_this_was_written() -> None:
    """A split that moves between versions would train on what was scored before."""
    made = split([Traits(str(number), [f"word{number}"]) for number in range(20)], 0.3)
    assert sorted(map(int, ids(made.held_out))) == KNOWN
    inside = split([Traits("x", ["a"], "ACME Ltd."), Traits("y", ["b"], "acme ltd")], 0.5)
    assert len(inside.train) in (0, 2)


KNOWN = [5, 6, 7, 12, 14, 15, 19]


@given(drawn, some.randoms(use_true_random=False))
def test_sides_do_not_depend_on_the_order(documents: list[Traits], draw: random.Random) -> None:
    shuffled = list(documents)
    draw.shuffle(shuffled)
    one, other = split(documents), split(shuffled)
    assert ids(one.train) == ids(other.train)
    assert ids(one.held_out) == ids(other.held_out)
    assert {copy.id for copy in one.left_out} == {copy.id for copy in other.left_out}
    assert (one.groups, one.joined) == (other.groups, other.joined)


@given(drawn, some.data())
def test_one_document_more_changes_the_trained_part_by_itself_alone(
    documents: list[Traits], data: some.DataObject
) -> None:
    """What a guarantee for documents rests on: the neighbours' trained parts differ by one."""
    if not documents:
        return
    new = data.draw(some.sampled_from(documents))
    before, after = split([item for item in documents if item is not new]), split(documents)
    assert ids(after.train) - ids(before.train) <= {new.id}
    assert ids(before.train) <= ids(after.train)
    assert ids(after.held_out) <= ids(before.held_out) | {new.id}


@given(drawn)
def test_every_document_is_somewhere_and_no_group_on_both_sides(documents: list[Traits]) -> None:
    made = split(documents)
    sides = [ids(made.train), ids(made.held_out), {copy.id for copy in made.left_out}]
    assert set.union(*sides) == ids(documents)
    assert sum(map(len, sides)) == len(documents)

    def providers(found: Sequence[Traits]) -> set[str]:
        return {item.provider.casefold().strip(".!") for item in found if item.provider} - {""}

    assert not providers(made.train) & providers(made.held_out)


def test_look_alikes_of_trained_documents_leave_the_score_and_stay_untrained() -> None:
    base = essay(1, 200)
    near, far = [*base[:-3], *essay(2, 3)], [*base[:100], *essay(3, 100)]
    documents = [
        Traits("trained", base, PROVIDERS[False]),
        Traits("same", base[::-1], PROVIDERS[True]),
        Traits("near", near, PROVIDERS[True]),
        Traits("far", far, PROVIDERS[True]),
    ]
    made = split(documents)
    assert ids(made.train) == {"trained"}
    assert ids(made.held_out) == {"far"}
    assert set(made.left_out) == {
        Copy("same", "trained", "the same words"),
        Copy("near", "trained", "nearly the same words"),
    }
    assert made.lines() == [
        "1 document of 1 group to train on, 1 of 1 held out",
        "joined to groups: 3 by provider",
        "left out of the score, beside documents to train on: 1 with nearly the same words, "
        "1 with the same words",
    ]


def test_a_provider_in_another_spelling_is_in_no_score_beside_its_own_documents() -> None:
    """Names are one provider's whatever blanks they have, and words of a name decide on a side."""
    pairs = [(f"co m{number}", f"com{number}") for number in range(50)]
    trained, other = next(
        pair
        for pair in pairs
        if [splits.is_held_out(("provider", name.encode()), 0.4) for name in pair] == [False, True]
    )
    documents = [
        Traits("trained", essay(1), trained),
        Traits("spelled otherwise", essay(2), other),
        Traits("another", essay(3), PROVIDERS[True]),
    ]
    made = split(documents)
    assert (ids(made.train), ids(made.held_out)) == ({"trained"}, {"another"})
    assert made.left_out == (Copy("spelled otherwise", "trained", "the same provider"),)
    found = splits.providers_shared(documents[1:], documents[:1], traits=lambda item: item)
    assert found == [trained, None]


def test_the_share_is_about_that_of_the_groups_and_salts_are_other_splits() -> None:
    documents = [Traits(str(number), [f"n{number}"]) for number in range(2000)]
    # Four standard deviations of a binomial share.
    for share in (0.1, 0.5):
        found = len(split(documents, share).held_out) / len(documents)
        assert found == pytest.approx(share, abs=4 * (share * (1 - share) / 2000) ** 0.5)
    outer, inner, other = (
        ids(split(documents, 0.5, salt=salt).held_out)
        for salt in (splits.SALT, splits.inner(0), splits.inner(1))
    )
    for left, right in ((outer, inner), (outer, other), (inner, other)):
        assert len(left & right) == pytest.approx(500, abs=4 * (2000 * 0.25 * 0.75) ** 0.5)


def test_boundaries_of_documents_and_shares() -> None:
    assert split([]).lines() == ["0 documents of 0 groups to train on, 0 of 0 held out"]
    one = split([Traits("a", ["x"])])
    assert len(one.train) + len(one.held_out) == 1
    documents = [Traits(str(number), essay(number), "ACME") for number in range(30)]
    provider = split(documents)
    assert sorted([len(provider.train), len(provider.held_out)]) == [0, 30]
    alike = split([Traits(str(number), ["same", "words"]) for number in range(30)])
    assert sorted([len(alike.train), len(alike.held_out)]) == [0, 30]
    assert alike.joined == {"the same words": 30}
    assert split(different(9), 0.0).held_out == ()
    for share in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="expected a share"):
            split(different(2), share)


def test_documents_without_words_are_told_apart_by_their_ids() -> None:
    blank = [Traits(f"scan{number}", []) for number in range(400)]
    made = split(blank, 0.5)
    assert 150 < len(made.train) < 250
    assert made.left_out == ()
    assert splits.shared(blank, blank, traits=lambda item: item) == [None] * 400


def test_labelled_documents_are_read_by_words_and_provider() -> None:
    document = Document.from_words(["Total", "9"], [(0, 0, 5, 5)] * 2, width=10, height=10, id="a")
    labelled = LabelledDocument(document=document, spans=(), provider="ACME")
    assert splits.traits_of(labelled) == Traits("a", ["Total", "9"], "ACME")
    text = LabelledDocument(document=Document.from_text("one two", id="b"), spans=())
    assert splits.traits_of(text) == Traits("b", ["one two"])


def test_what_a_test_file_shares_with_training_is_found() -> None:
    train = different(40)
    shuffled = Traits("same", train[7].texts[::-1], "somebody else")
    edited = Traits("near", [*train[9].texts[:-1], "edited"])
    found = splits.shared([shuffled, edited, Traits("new", essay(99))], train, traits=lambda t: t)
    assert found == [
        Copy("same", "d7", "the same words"),
        Copy("near", "d9", "nearly the same words"),
        None,
    ]


@pytest.mark.parametrize("similarity", [0.6, 1.0])
def test_time_stays_small_where_thousands_resemble_one_another(similarity: float) -> None:
    """Bands of such documents agree often, which must not become every pair of them."""
    template = essay(0, int(60 * similarity))
    documents = [
        Traits(str(number), [*template, *essay(number + 1, 60 - len(template)), f"n{number}"])
        for number in range(3000)
    ]
    began = time.process_time()
    split(documents)
    assert time.process_time() - began < 8
