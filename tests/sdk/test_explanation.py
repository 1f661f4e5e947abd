"""Plain words: what is guaranteed, and above all what is not."""

from __future__ import annotations

import math
from collections.abc import Callable

import hushdoc_builders as build
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc import arguments, explanation
from hushdoc.accounting import mechanism
from hushdoc.certificate import claim as claims
from hushdoc.certificate import vocabulary
from hushdoc.explanation import guarantees, measurements, terms

Explained = Callable[..., str]


@pytest.fixture
def explained() -> Explained:
    """Returns the explanation of a toy claim: its guarantees, and changes of its fields."""
    return lambda *guarantees, **change: explanation.explain_claim(
        build.claim(*guarantees, **change)
    )


def test_every_word_of_the_vocabulary_has_an_explanation() -> None:
    assert set(terms.UNIT_WORDS) == set(vocabulary.PRIVACY_UNITS)
    assert set(terms.UNIT_LIMITS) == set(vocabulary.PRIVACY_UNITS)
    assert set(terms.ADVERSARY_WORDS) == set(vocabulary.ADVERSARIES)
    assert set(terms.ADJACENCY_WORDS) == set(mechanism.ADJACENCIES)
    assert set(terms.ADJACENCY_PITFALLS) == set(mechanism.ADJACENCIES)
    assert set(terms.ASSURANCE_WORDS) == set(vocabulary.ASSURANCES)
    assert set(terms.ACCOUNTANT_WORDS) == set(vocabulary.ACCOUNTANTS)
    assert set(terms.AGGREGATION_WORDS) == set(claims.AGGREGATIONS)
    assert set(terms.CLUSTER_SAMPLING_WORDS) == set(vocabulary.CLUSTER_SAMPLINGS)
    assert set(terms.RELEASE_WORDS) == set(claims.RELEASES)
    assert set(terms.WEIGHTS) <= set(claims.RELEASES)


def test_a_guarantee_names_whom_what_and_how_much() -> None:
    words = guarantees.guarantee_words(build.guarantee(epsilon=8.0, profile=()))
    for part in ("single document", "receives the model file", "2,981", "epsilon 8", "1e-05"):
        assert part in words


@pytest.mark.parametrize("assurance", vocabulary.ASSURANCES[1:])
def test_assurance_is_called_the_issuers_word(assurance: str) -> None:
    text = explanation.explain(build.certify(assurance=assurance))
    assert "by the tests; it says that " in text


def test_document_privacy_says_that_authors_are_not_protected(explained: Explained) -> None:
    text = explained()
    assert "person, author or issuer of several documents is not protected" in text
    assert "There is no unconditional guarantee against: anyone who receives the synth" in text
    nothing = explained(build.no_guarantee())
    assert "There is no unconditional guarantee against: anyone who receives the model" in nothing


def test_kind_none_says_so_first(explained: Explained) -> None:
    text = explained(build.guarantee(), build.no_guarantee(unit="user"))
    assert text.startswith("NO GUARANTEE\n  - No privacy guarantee for any person")
    assert text.index("NO GUARANTEE") < text.index("\nGUARANTEES\n")
    assert "\nGUARANTEES\n" not in explained(build.no_guarantee())


def test_what_is_measured_or_conditional_never_stands_under_guarantees(
    explained: Explained,
) -> None:
    text = explained(build.guarantee(kind="empirical", epsilon=2.0))
    assert text.startswith("MEASURED, NOT PROVEN\n  - Nothing is proven about any document")
    assert "\nGUARANTEES\n" not in text
    assert "The declared epsilon 2 was measured. It rests on a model and bounds nothing" in text
    text = explained(build.guarantee(kind="dp-conditional", condition="clients do not collude."))
    assert text.startswith("CONDITIONAL GUARANTEES\n")
    assert "\nGUARANTEES\n" not in text


def test_gaps_are_named(explained: Explained) -> None:
    text = explained(
        build.guarantee(
            covers_all_private_accesses=False,
            sampling_as_implemented="shuffled",
            hyperparameter_tuning="unaccounted",
            rng="seeded",
        )
    )
    for part in ("outside the guarantee", "'shuffled'", "Settings were chosen", "seeded"):
        assert part in text


def test_an_accountant_that_does_not_bound_is_a_gap(explained: Explained) -> None:
    weak = build.Accountant(name="gdp-clt", library="x", version="1", error_bound=None)
    text = explained(build.guarantee(accountant=weak))
    assert "gdp-clt, which does not bound it" in text
    assert "the central limit theorem, which underestimates" in text
    assert "does not bound it" not in explained()


def test_the_central_limit_theorem_is_a_comparison_only(explained: Explained) -> None:
    text = explained(build.guarantee(gdp_mu=1.25))
    assert "For comparison alone: the central limit theorem gives mu 1.25" in text
    assert "no guarantee rests on it" in text
    assert guarantees.comparison(build.guarantee()) == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unit": "sequence"}, "cut into several windows"),
        ({"unit": "page"}, "several pages"),
        ({"unit": "user"}, "What several persons have in common"),
        ({"adjacency": "replace-one"}, "can't be compared with one for adding or removing"),
        (
            {"adversary": "server", "aggregation": "individual-updates"},
            "Of training they see the update of every single client, which carries only the noise "
            "that this client added",
        ),
        (
            {"adversary": "server", "aggregation": "secure-sum"},
            "this falls with the secure summation",
        ),
    ],
)
def test_pitfalls_are_named_where_they_apply(
    explained: Explained, change: dict[str, str], words: str
) -> None:
    assert words in explained(build.guarantee(**change))
    assert words not in explained()


def test_what_is_released_besides_the_model_is_a_limit(explained: Explained) -> None:
    text = explained(releases=("final-weights", "logs"))
    assert "Besides the model itself these left the training site: logs" in text
    assert "Besides the model itself" not in explained()
    assert "No release is declared" in explained(releases=())


def test_an_audit_is_shown_with_its_ceiling(explained: Explained) -> None:
    text = explained(audits=(build.audit(),))
    for part in (
        "epsilon is at least 0.5 at delta 1e-05, with 95 % confidence",
        "so many guesses can show 5.81 at best",
        "recognised 2 % of the members and wrongly accused 1 %",
        "can refute a guarantee and never prove one",
    ):
        assert part in text
    assert "No audit is declared" in explained()


def test_rates_without_a_bound_are_explained(explained: Explained) -> None:
    silent = {"epsilon_lower": None, "delta": None, "confidence": None}
    perfect = build.audit(**silent, tpr_at_fpr=((1.0, 0.0),), canaries=None)
    assert "no epsilon holds at delta 0 (the rates are taken as exact" in explained(
        audits=(perfect,)
    )
    counted = build.audit(**silent, tpr_at_fpr=((1.0, 0.0),), canaries=10_000)
    assert "epsilon is at least 6" in explained(audits=(counted,))
    assert "95 % confidence" in explained(audits=(counted,))
    useless = build.audit(**silent, tpr_at_fpr=((0.5, 0.5),))
    assert "No bound is declared" not in explained(audits=(useless,))


def test_what_lies_outside_of_the_guarantee_is_named(explained: Explained) -> None:
    accesses = [
        build.DataAccess(data="invoices", purpose=word, accounted_in=(), treatment=word)
        for word in ("declared-public", "post-processing")
    ]
    words = explained(data_accesses=tuple(accesses))
    assert "its result was declared public: access to invoices: declared-public." in words
    assert "said to read only what was released: access to invoices: post-processing." in words
    assert "No guarantee is about invoices" in words
    assert "No guarantee is about invoices" not in explained()


def test_guarantees_that_contradict_one_another_are_named(explained: Explained) -> None:
    server = build.guarantee(adversary="server", aggregation="secure-sum")
    weaker = build.guarantee(epsilon=20.0, profile=())
    words = "against anyone who receives the model file is weaker than that against the server"
    assert words in explained(server, weaker)
    assert "leaves something out" not in explained(server, build.guarantee())


def test_how_clusters_were_drawn_is_named(explained: Explained) -> None:
    words = explained(build.guarantee(cluster_sampling_as_implemented="each-round"))
    assert "Clusters of records, such as clients, were drawn: drawn anew" not in words
    assert "Clusters of records, such as clients: drawn anew in every round" in words
    assert "Clusters" not in explained()
    unknown = explained(build.guarantee(cluster_sampling_as_implemented="unknown"))
    assert "were drawn in a way that is not declared" in unknown


def test_a_bound_that_counting_can_not_show_is_questioned() -> None:
    words = " ".join(measurements.audit_words(build.audit(canaries=10, epsilon_lower=4.0)))
    assert "does not come from counting them" in words
    unknown = " ".join(measurements.audit_words(build.audit(canaries=None)))
    assert "does not follow from what is declared" in unknown
    silent = build.audit(epsilon_lower=None, delta=None, confidence=None, tpr_at_fpr=(), auc=None)
    assert measurements.audit_words(silent)[-1] == "No result is declared."


def test_guesses_about_some_canaries_alone_show_no_more_than_they_could(
    explained: Explained,
) -> None:
    """A certificate said 5.81 of an audit whose guesses could not have shown more than 3.9."""
    found = build.audit(method="earlier table: one-run audit")
    entry = {
        "method": "one-run audit",
        "epsilon_lower": found.epsilon_lower,
        "delta": found.delta,
        "confidence": found.confidence,
        "ceiling": 3.9,
    }
    text = explained(audits=(found,), training={"startedFrom": {"audits": [entry]}})
    assert "Its guesses, had all been right, would have shown 3.9: it says nothing about" in text
    assert "5.81 at best" in explained(audits=(found,), training={})
    most = measurements.audit_ceiling(found)
    assert most is not None
    for change in ({"ceiling": 99.0}, {"ceiling": 0.4}, {"ceiling": True}, {"delta": 0.5},
                   {"method": ""}, {"method": "another"}):  # fmt: skip
        stated = {"audits": [entry | change, "none"]}
        assert measurements.audit_ceiling(found, stated) == most
    assert measurements.audit_ceiling(found, {"audits": entry}) == most


@given(st.integers(1, 10**6), st.floats(0.5, 0.999))
def test_the_ceiling_is_where_perfect_guesses_become_unlikely_enough(
    canaries: int, confidence: float
) -> None:
    ceiling = measurements.audit_ceiling(build.audit(canaries=canaries, confidence=confidence))
    assert ceiling is not None
    probability = (1 / (1 + math.exp(-ceiling))) ** canaries
    # Below 0 the bound is cut: one guess at 50 % confidence shows nothing.
    assert probability == pytest.approx(1 - confidence, rel=1e-6) or ceiling == 0.0


def test_an_issuers_own_bound_above_the_claim_refutes_it(explained: Explained) -> None:
    refuted = build.guarantee(epsilon=1.0, profile=(), audit_lower_bound=2.0)
    assert "THAT REFUTES the declared epsilon 1" in explained(refuted)
    text = explained(build.guarantee(audit_lower_bound=0.5))
    assert "own audits show that epsilon is at least 0.5." in text
    assert "REFUTES" not in text


def test_pre_registered_audits_and_reports_of_others_are_shown(explained: Explained) -> None:
    text = explained(pre_registered_audits=(build.pre_registered(query_budget=10**6),))
    assert "OPEN TO ANYBODY\n  - Guess. Population: others; up to 1,000,000 queries" in text
    lines = measurements.report_lines([build.audit_report()])
    assert lines[0] == "the tests, 2026-11-21T09:00:00Z:"
    assert "at least 0.5" in "".join(lines)


@pytest.mark.parametrize(
    "hostile", ["x\x1b[2J\u202ey\r\nz", *(f"a{x}b" for x in "\x07\n\u2066\u200b\x9b")]
)
def test_no_text_of_a_claim_steers_a_terminal(hostile: str) -> None:
    text = explanation.explain(build.hostile(hostile))
    text += "\n".join(measurements.report_lines([build.audit_report(auditor=hostile)]))
    assert not set("\x1b\u202e\r\x07\u2066\u200b\x9b") & set(text)
    assert hostile not in text
    assert arguments.printable(hostile) in text
    assert arguments.printable("x" * 5000, limit=10) == "x" * 10 + "..."


def test_a_large_delta_is_named_when_the_number_is_public(explained: Explained) -> None:
    data = build.ProtectedData(
        name="invoices",
        units=(build.ProtectedUnit(unit="document", count=149, count_is_public=True),),
        contribution_bound="clipped",
    )
    text = explained(build.guarantee(delta=1 / 149, profile=()), protected_data=(data,))
    assert "reveal 1 of them on average" in text


def test_an_empirical_result_proves_nothing() -> None:
    words = guarantees.guarantee_words(build.guarantee(kind="empirical"))
    assert words.startswith("Nothing is proven")
    assert guarantees.meaning(build.guarantee(kind="empirical")) == ()


def test_the_bound_on_attackers_is_given_for_every_rate_of_false_alarms() -> None:
    (words,) = guarantees.meaning(build.guarantee(epsilon=1.0))
    assert "at most 1 in 10, 100 or 1,000 documents" in words
    assert words.endswith(
        "recognises at most 27.2 %, 2.8 % or 0.273 % of those inside, respectively."
    )
    (words,) = guarantees.meaning(build.guarantee(epsilon=80.0))
    assert "at most 100 % of those inside: these numbers alone rule out next to nothing" in words


def test_a_condition_is_part_of_the_guarantee() -> None:
    words = guarantees.guarantee_words(
        build.guarantee(kind="dp-conditional", condition="if secure.")
    )
    assert words.endswith("This holds only if: if secure.")


@given(st.floats(0, 50), st.floats(0, 0.1), st.floats(0, 1))
def test_the_bound_on_attackers_is_a_share_and_holds_at_the_ends(
    epsilon: float, delta: float, rate: float
) -> None:
    bound = guarantees.hit_rate_bound(epsilon, delta, rate)
    assert 0 <= bound <= 1
    assert bound >= min(1.0, rate + delta) - 1e-9
    assert guarantees.hit_rate_bound(0.0, 0.0, rate) == pytest.approx(rate)


def test_words_for_numbers_never_round_downwards() -> None:
    assert guarantees.odds(math.log(2)) in ("2", "2.01")
    assert guarantees.odds(8) == "2,981"
    assert guarantees.odds(1000).startswith("more than")
    assert guarantees.percent(0.123401) == "12.4 %"
    assert guarantees.percent(0.0000101) == "0.002 %"
    assert guarantees.percent(0.99961) == "99.961 %"
