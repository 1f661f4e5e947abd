"""Plain words: what is promised, and above all what is not."""

from __future__ import annotations

import math
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc import arguments, explanation
from hushdoc.accounting import mechanism
from hushdoc.certificate import claim as claims
from hushdoc.certificate import vocabulary
from hushdoc.certificate.audit_reports import Audit, PreRegisteredAudit


def test_every_word_of_the_vocabulary_has_an_explanation() -> None:
    assert set(explanation.UNIT_WORDS) == set(vocabulary.PRIVACY_UNITS)
    assert set(explanation.UNIT_LIMITS) == set(vocabulary.PRIVACY_UNITS)
    assert set(explanation.ADVERSARY_WORDS) == set(vocabulary.ADVERSARIES)
    assert set(explanation.ADJACENCY_WORDS) == set(mechanism.ADJACENCIES)
    assert set(explanation.ADJACENCY_PITFALLS) == set(mechanism.ADJACENCIES)
    assert set(explanation.ASSURANCE_WORDS) == set(vocabulary.ASSURANCES)
    assert set(explanation.ACCOUNTANT_WORDS) == set(vocabulary.ACCOUNTANTS)
    assert set(explanation.AGGREGATION_WORDS) == set(claims.AGGREGATIONS)
    assert set(explanation.RELEASE_WORDS) == set(claims.RELEASES)
    assert set(explanation.WEIGHTS) <= set(claims.RELEASES)


def test_a_promise_names_whom_what_and_how_much(build: ModuleType) -> None:
    words = explanation.promise(build.guarantee(epsilon=8.0, profile=()))
    for part in ("single document", "receives the model file", "2,981", "epsilon 8", "1e-05"):
        assert part in words


def test_document_privacy_says_that_authors_are_not_protected(build: ModuleType) -> None:
    text = explanation.explain_claim(build.claim())
    assert "person, author or issuer of several documents is not protected" in text
    assert "Nothing is promised without condition against: whoever receives the synth" in text
    nothing = explanation.explain_claim(build.claim(build.no_guarantee()))
    assert "Nothing is promised without condition against: whoever receives the model" in nothing


def test_kind_none_says_so_first(build: ModuleType) -> None:
    text = explanation.explain_claim(
        build.claim(build.guarantee(), build.no_guarantee(unit="user"))
    )
    assert text.startswith("NO PROMISE\n  - No privacy is promised to any person")
    assert text.index("NO PROMISE") < text.index("WHAT IS PROMISED")
    alone = explanation.explain_claim(build.claim(build.no_guarantee()))
    assert "WHAT IS PROMISED" not in alone


def test_what_is_measured_or_conditional_never_stands_under_what_is_promised(
    build: ModuleType,
) -> None:
    empirical = build.guarantee(kind="empirical", epsilon=2.0)
    text = explanation.explain_claim(build.claim(empirical))
    assert text.startswith("MEASURED, NOT PROVEN\n  - Nothing is proven about any document")
    assert "WHAT IS PROMISED\n" not in text
    assert "epsilon 2 that is stated was measured. It rests on a model and bounds nothing" in text
    conditional = build.guarantee(kind="dp-conditional", condition="clients do not collude.")
    text = explanation.explain_claim(build.claim(conditional))
    assert text.startswith("WHAT IS PROMISED ON A CONDITION")
    assert "WHAT IS PROMISED\n" not in text


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


def test_an_accountant_that_does_not_bound_is_a_gap(build: ModuleType) -> None:
    weak = build.Accountant(name="gdp-clt", library="x", version="1", error_bound=None)
    text = explanation.explain_claim(build.claim(build.guarantee(accountant=weak)))
    assert "gdp-clt, which does not bound it" in text
    assert "the central limit theorem, which underestimates" in text
    assert "does not bound it" not in explanation.explain_claim(build.claim())


def test_the_central_limit_theorem_is_a_comparison_only(build: ModuleType) -> None:
    text = explanation.explain_claim(build.claim(build.guarantee(gdp_mu=1.25)))
    assert "For comparison alone: the central limit theorem gives mu 1.25" in text
    assert "nothing is promised with it" in text
    assert explanation.comparison(build.guarantee()) == ()


@pytest.mark.parametrize(
    ("unit", "words"),
    [("sequence", "cut into several windows"), ("page", "several pages"), ("user", "in common")],
)
def test_the_pitfall_of_each_unit_is_told(build: ModuleType, unit: str, words: str) -> None:
    limits = explanation.not_promised(build.claim(build.guarantee(unit=unit)))
    assert any(words in line for line in limits)


def test_replacing_is_told_from_adding(build: ModuleType) -> None:
    replaced = explanation.explain_claim(build.claim(build.guarantee(adjacency="replace-one")))
    assert "can't be compared with one for adding or removing" in replaced
    assert "can't be compared" not in explanation.explain_claim(build.claim())


def test_who_watches_training_is_told_what_they_see(build: ModuleType) -> None:
    server = build.guarantee(adversary="server", aggregation="individual-updates")
    assert "only the noise that this client added" in explanation.explain_claim(build.claim(server))
    summed = build.guarantee(adversary="server", aggregation="secure-sum")
    assert "this falls with the secure summation" in explanation.explain_claim(build.claim(summed))
    assert "Of training they see" not in explanation.explain_claim(build.claim())


def test_what_is_released_besides_the_model_is_a_limit(build: ModuleType) -> None:
    text = explanation.explain_claim(build.claim(releases=("final-weights", "logs")))
    assert "Besides the model itself these left the training site: logs" in text
    assert "Besides the model itself" not in explanation.explain_claim(build.claim())
    assert "Nothing is stated about it" in explanation.explain_claim(build.claim(releases=()))


def test_an_audit_is_told_with_its_ceiling(build: ModuleType) -> None:
    text = explanation.explain_claim(build.claim(audits=(build.audit(),)))
    for part in (
        "epsilon is at least 0.5 at delta 1e-05, with 95 % confidence",
        "so many guesses can show 5.81 at best",
        "recognised 2 % of the used ones while it wrongly accused 1 %",
        "can refute a promise and never prove one",
    ):
        assert part in text
    assert "No audit is stated" in explanation.explain_claim(build.claim())


def test_a_bound_that_counting_can_not_show_is_questioned(build: ModuleType) -> None:
    words = " ".join(explanation.audit_words(build.audit(canaries=10, epsilon_lower=4.0)))
    assert "was not found by counting them" in words
    unknown = " ".join(explanation.audit_words(build.audit(canaries=None)))
    assert "can't be told" in unknown
    silent = build.audit(epsilon_lower=None, delta=None, confidence=None, tpr_at_fpr=(), auc=None)
    assert explanation.audit_words(silent)[-1] == "It states no result."


@given(st.integers(1, 10**6), st.floats(0.5, 0.999))
def test_the_ceiling_is_where_perfect_guesses_become_unlikely_enough(
    canaries: int, confidence: float
) -> None:
    ceiling = explanation.audit_ceiling(_audit(canaries, confidence))
    assert ceiling is not None
    by_chance = (1 / (1 + math.exp(-ceiling))) ** canaries
    # Below 0 the bound is cut: one guess at 50 % confidence shows nothing.
    assert by_chance == pytest.approx(1 - confidence, rel=1e-6) or ceiling == 0.0


def test_an_issuers_own_bound_above_the_claim_refutes_it(build: ModuleType) -> None:
    refuted = build.guarantee(epsilon=1.0, profile=(), audit_lower_bound=2.0)
    assert "THAT REFUTES the epsilon 1" in explanation.explain_claim(build.claim(refuted))
    sound = build.guarantee(audit_lower_bound=0.5)
    text = explanation.explain_claim(build.claim(sound))
    assert "own audits show that epsilon is at least 0.5." in text
    assert "REFUTES" not in text


def test_invited_audits_and_reports_of_others_are_told(build: ModuleType) -> None:
    invited = PreRegisteredAudit(
        protocol="Guess.", population="others", query_budget=10**6, seed_commitment="sha256:x"
    )
    text = explanation.explain_claim(build.claim(pre_registered_audits=(invited,)))
    assert (
        "TESTS THAT ANYBODY IS INVITED TO RUN\n  - Guess. Population: others; up to 1,000,0" in text
    )
    lines = explanation.report_lines([build.audit_report()])
    assert lines[0] == "the tests, 2026-11-21T09:00:00Z:"
    assert "at least 0.5" in "".join(lines)


def test_no_text_of_a_claim_steers_a_terminal(build: ModuleType) -> None:
    hostile = "x\x1b[2J\u202ey\r\nz"
    text = explanation.explain_claim(
        build.claim(
            build.guarantee(
                unit_definition=hostile,
                observes=hostile,
                knows=hostile,
                assumes=(hostile,),
                kind="dp-conditional",
                condition=hostile,
            ),
            build.guarantee(
                accountant=build.Accountant(
                    name="rdp", library=hostile, version=hostile, error_bound=1.0
                )
            ),
            caveats=(hostile,),
            audits=(build.audit(method=hostile),),
            pre_registered_audits=(
                PreRegisteredAudit(
                    protocol=hostile, population=hostile, query_budget=1, seed_commitment="x"
                ),
            ),
        )
    )
    text += "\n".join(explanation.report_lines([build.audit_report(auditor=hostile)]))
    assert not {"\x1b", "\u202e", "\r"} & set(text)
    assert "x\\x1b[2J" in text


def test_a_large_delta_is_named_when_the_number_is_public(build: ModuleType) -> None:
    data = build.ProtectedData(
        name="invoices",
        units=(build.ProtectedUnit(unit="document", count=149, count_is_public=True),),
        contribution_bound="clipped",
        commitment=None,
    )
    claim = build.claim(build.guarantee(delta=1 / 149, profile=()), protected_data=(data,))
    assert "reveal 1 of them on average" in explanation.explain_claim(claim)


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
    assert letter not in arguments.printable(f"a{letter}b")
    claim = build.claim(build.guarantee(unit_definition=f"x{letter}y"), caveats=(f"a{letter}b",))
    text = explanation.explain_claim(claim)
    assert letter == "\n" or letter not in text
    assert "a\nb" not in text
    assert arguments.printable("x" * 5000, limit=10) == "x" * 10 + "..."


def _audit(canaries: int, confidence: float) -> Audit:
    return Audit(
        method="one-run audit",
        adversary="model-recipient",
        unit="document",
        canaries=canaries,
        runs=1,
        confidence=confidence,
        epsilon_lower=0.0,
        delta=1e-5,
        tpr_at_fpr=(),
        auc=None,
        evidence=None,
    )
