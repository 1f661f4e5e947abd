"""Providers: apart, each by itself alone; doubtful names are told, none is joined by likeness."""

from __future__ import annotations

import pytest
from hushdoc_documents import document
from hypothesis import given, settings
from hypothesis import strategies as some

from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument
from hushdoc_training.data import providers
from hushdoc_training.recipes.docvqa import rows


def of(provider: str | None, name: str) -> LabelledDocument:
    return LabelledDocument(document=document(3, id=name), spans=(), provider=provider)


def documents(sizes: dict[str, int]) -> list[LabelledDocument]:
    return [of(name, f"{name}-{n}") for name, size in sizes.items() for n in range(size)]


MANY = {f"Company {number}": 1 + number % 9 for number in range(60)}


def parts(found: providers.ProviderSplit) -> dict[str, set[str]]:
    return {
        part: {item.document.id for item in getattr(found, part)}
        for part in ("train", "valid", "members", "non_members")
    }


def test_parts_are_disjoint_by_document_and_sides_by_provider() -> None:
    whole = documents(MANY)
    found = providers.split(whole, seed=1)
    sets = parts(found)
    assert sum(map(len, sets.values())) == len(whole)
    assert set.union(*sets.values()) == {item.document.id for item in whole}
    trained = {item.provider for item in found.train}
    assert trained >= {item.provider for item in (*found.members, *found.valid)}
    assert not trained & {item.provider for item in found.non_members}
    assert {item.provider for item in found.members} == {
        name for name in trained if name is not None and MANY[name] > 1
    }
    assert 0.3 < len(trained) / len(MANY) < 0.7
    assert 0.15 < len(found.members) / (len(found.members) + len(found.train)) < 0.4
    assert found.lines()[0].startswith(f"{len(found.train)} documents to train on")
    assert parts(providers.split(whole[::-1], seed=1)) == sets
    assert parts(providers.split(whole, seed=2)) != sets


@settings(max_examples=30, deadline=None)
@given(some.sets(some.sampled_from(sorted(MANY)), min_size=1))
def test_one_provider_more_or_less_moves_no_other(gone: set[str]) -> None:
    """What private training needs: a record's side is a function of that record alone."""
    kept = [item for item in documents(MANY) if item.provider not in gone]
    before = parts(providers.split(documents(MANY), seed=3))
    try:
        after = parts(providers.split(kept, seed=3))
    except AnnotationError:
        return  # nothing stays on a side
    ids = {item.document.id for item in kept}
    assert after == {part: found & ids for part, found in before.items()}


def test_spellings_of_one_provider_are_on_one_side() -> None:
    whole = documents(MANY)
    found = providers.split([*whole, *documents({"COMPANY  7.": 4})], seed=1)
    sides = [
        {providers.name_of(item) for item in part}
        for part in ((*found.train, *found.members, *found.valid), found.non_members)
    ]
    assert sum("company7" in side for side in sides) == 1


@pytest.mark.parametrize(
    ("name", "other"),
    [("\u0930\u093e\u091c", "\u0930\u094b\u091c"), ("\u0e14\u0e35", "\u0e14\u0e39")],
)
def test_names_that_differ_in_a_vowel_sign_are_two(name: str, other: str) -> None:
    """Of Hindi and Thai: of one record, either could be taken for the other's."""
    assert len(providers.grouped([of(name, "a"), of(other, "b")])) == 2


@pytest.mark.parametrize("name", ["Unbekannt", "desconocido.", "Others", "\u4e0d\u660e", "TBD"])
def test_documents_of_whoever_is_not_known_are_of_no_provider(name: str) -> None:
    """One of the providers behind such a name more or less changes the record of all."""
    assert {providers.folded(known) for known in providers.UNKNOWN} == providers.UNKNOWN
    with pytest.raises(AnnotationError, match="expected a name of letters or digits"):
        providers.name_of(of(name, "a"))
    assert "1 document without a provider" in providers.doubts([name, "Acme"])


def test_a_turkish_name_is_one_in_capitals() -> None:
    assert (
        len(providers.grouped([of("\u0130stanbul A.\u015e.", "a"), of("istanbul a\u015f", "b")]))
        == 1
    )


@pytest.mark.parametrize("spelling", ["Acme SA", "ACME S.A.", "Ac-me/S. A.", "\uff21cme  sa"])
def test_names_are_one_that_differ_in_case_blanks_or_punctuation(spelling: str) -> None:
    """As the certificate of a guarantee for each provider says: all of these are one record."""
    whole = [of("acme s.a.", "a"), of(spelling, "b"), of("Acme SAS", "c")]
    assert [len(items) for items in providers.grouped(whole).values()] == [2, 1]
    both, *_ = providers.doubts(["acme s.a.", spelling, "Acme SAS"])
    assert both.startswith("1 x provider in several spellings")


def test_certificates_say_that_names_are_compared_by_letters_and_digits_alone() -> None:
    """Signs such as "+" tell no two providers apart."""
    names = ("C++ GmbH", "C GmbH")
    assert providers.folded(names[0]) == providers.folded(names[1])
    stated = rows.unit_definition("provider")
    assert "by their letters, the marks on these, and digits alone, without case" in stated
    (both,) = providers.doubts([*names, "Ocean Stores", "Acme SA"])[:1]
    assert both.startswith("1 x provider in several spellings")


def test_what_splits_and_ledgers_know_providers_by_stays() -> None:
    """Else an earlier split would be another one, and a ledger's documents would be others."""
    found = providers.split(documents({"Acme S.A.": 4, "Ocean Stores": 4}), seed=2)
    sides = [{item.provider for item in side} for side in (found.train, found.non_members)]
    assert sides == [{"Acme S.A."}, {"Ocean Stores"}]
    assert providers.spaced("ACME  S.A.") == "acme s a"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ([of(None, "a")], "'a' has no provider; expected a name"),
        ([of(" !", "a")], "'a' has the provider ' !'"),
        (documents({"Alone": 3}), "1 provider the split .* leaves none"),
    ],
)
def test_what_cannot_be_parted_is_refused(wrong: list[LabelledDocument], says: str) -> None:
    with pytest.raises(AnnotationError, match=says):
        providers.split(wrong)


@pytest.mark.parametrize(
    "wrong", [{"members": 1.0}, {"asked": 0.0}, {"valid": -0.1}, {"asked": 0.6, "valid": 0.4}]
)
def test_shares_that_are_none_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected shares"):
        providers.split(documents(MANY), **wrong)


def test_doubtful_providers_are_told() -> None:
    names = ["Ocean Stores Ltd.", "OCEAN  STORES LTD", "Ocean Stores", "Harbour Books"]
    names += ["Harbor Books", "Shop 1234", "Shop 1235", "Ab", "Ac"]
    assert providers.doubts([*names, None, "!"]) == [
        "2 documents without a provider",
        "1 x provider in several spellings, which count as one: OCEAN  STORES LTD = Ocean Stores "
        "Ltd.",
        "2 x providers whose names differ little and count as two; if they are one, name it in one "
        "way: harbor books = harbour books; ocean stores = ocean stores ltd",
    ]
    assert providers.doubts(["Large"] * 3 + ["Small"] * 2) == [
        "the provider Large has 3 of 5 documents: one record of many, hidden like any other"
    ]
    assert providers.doubts(["Alone"] * 3) == []


def test_providers_with_half_of_the_documents_are_told() -> None:
    assert providers.doubts(["Large"] * 2 + ["Small", "Odd"]) == [
        "the provider Large has 2 of 4 documents: one record of many, hidden like any other"
    ]
    both = providers.doubts(["Even", "Odd"] * 2)
    assert [line.split(":")[0] for line in both] == [
        "the provider Even has 2 of 4 documents",
        "the provider Odd has 2 of 4 documents",
    ]
    assert providers.doubts(["Large"] * 2 + ["Small", "Odd", "Third"]) == []
