"""Plain words: what is promised, and above all what is not."""

from __future__ import annotations

import math
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc import explanation
from hushdoc.accounting import mechanism


def test_every_word_of_the_vocabulary_has_an_explanation() -> None:
    assert set(explanation.UNIT_WORDS) == set(mechanism.PRIVACY_UNITS)
    assert set(explanation.UNIT_LIMITS) == set(mechanism.PRIVACY_UNITS)
    assert set(explanation.ADVERSARY_WORDS) == set(mechanism.ADVERSARIES)
    assert set(explanation.ADJACENCY_WORDS) == set(mechanism.ADJACENCIES)
    assert set(explanation.ASSURANCE_WORDS) == set(mechanism.ASSURANCES)


def test_a_promise_names_whom_what_and_how_much(build: ModuleType) -> None:
    words = explanation.promise(build.guarantee(epsilon=8.0, profile=()))
    for part in ("single document", "receives the model file", "2,981", "epsilon 8", "1e-05"):
        assert part in words


def test_document_privacy_says_that_authors_are_not_protected(build: ModuleType) -> None:
    text = explanation.explain(build.claim())
    assert "person, author or issuer of several documents is not protected" in text
    assert "Nothing is promised without condition against: whoever receives the synth" in text
    nothing = explanation.explain(build.claim(build.no_guarantee()))
    assert "Nothing is promised without condition against: whoever receives the model" in nothing


def test_kind_none_says_so_first(build: ModuleType) -> None:
    text = explanation.explain(build.claim(build.guarantee(), build.no_guarantee(unit="user")))
    assert text.startswith("NO PROMISE\n  - No privacy is promised to any person")
    assert text.index("NO PROMISE") < text.index("WHAT IS PROMISED")
    alone = explanation.explain(build.claim(build.no_guarantee()))
    assert "WHAT IS PROMISED" not in alone


def test_gaps_are_named(build: ModuleType) -> None:
    gaps = explanation.not_promised(
        build.claim(
            build.guarantee(
                covers_all_private_accesses=False,
                sampling_as_implemented="shuffled",
                hyperparameter_tuning="unaccounted",
                rng="seeded",
            )
        )
    )
    text = "\n".join(gaps)
    for part in ("outside the promise", "'shuffled'", "Settings were chosen", "seeded"):
        assert part in text


def test_a_large_delta_is_named_when_the_number_is_public(build: ModuleType) -> None:
    data = build.ProtectedData(
        name="invoices",
        units=(build.ProtectedUnit(unit="document", count=149, count_is_public=True),),
        contribution_bound="clipped",
        commitment=None,
    )
    claim = build.claim(build.guarantee(delta=1 / 149, profile=()), protected_data=(data,))
    assert "reveal 1 of them on average" in explanation.explain(claim)


def test_an_empirical_result_proves_nothing(build: ModuleType) -> None:
    words = explanation.promise(build.guarantee(kind="empirical"))
    assert words.startswith("Nothing is proven")
    assert explanation.meaning(build.guarantee(kind="empirical")) == ()


def test_a_condition_is_part_of_the_promise(build: ModuleType) -> None:
    words = explanation.promise(build.guarantee(kind="dp-conditional", condition="if secure."))
    assert words.endswith("This holds only if: if secure.")


@given(st.floats(0, 50), st.floats(0, 0.1), st.floats(0, 1))
def test_the_bound_on_attackers_is_a_share_and_holds_at_the_ends(
    epsilon: float, delta: float, rate: float
) -> None:
    bound = explanation.hit_rate_bound(epsilon, delta, rate)
    assert 0 <= bound <= 1
    assert bound >= min(1.0, rate + delta) - 1e-9
    assert explanation.hit_rate_bound(0.0, 0.0, rate) == pytest.approx(rate)


def test_words_for_numbers_never_round_downwards() -> None:
    assert explanation.odds(math.log(2)) in ("2", "2.01")
    assert explanation.odds(8) == "2,981"
    assert explanation.odds(1000).startswith("more than")
    assert explanation.percent(0.123401) == "12.4 %"
    assert explanation.percent(0.0000101) == "0.002 %"
    assert explanation.percent(0.99961) == "99.961 %"


@pytest.mark.parametrize("letter", ["\x1b", "\x07", "\n", "\u202e", "\u2066", "\u200b", "\x9b"])
def test_no_text_can_steer_a_terminal(build: ModuleType, letter: str) -> None:
    assert letter not in explanation.printable(f"a{letter}b")
    claim = build.claim(build.guarantee(unit_definition=f"x{letter}y"), caveats=(f"a{letter}b",))
    text = explanation.explain(claim)
    assert letter == "\n" or letter not in text
    assert "a\nb" not in text
    assert explanation.printable("x" * 5000, limit=10) == "x" * 10 + "..."
