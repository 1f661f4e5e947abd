"""FederatedPlan: noise for a target, what each adversary sees, and what a plan refuses."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hushdoc_federated import receipt_of

from hushdoc.accounting import calibration, pld
from hushdoc.accounting.mechanism import ClusterSampled, Composed, Gaussian, Grouped, PoissonSampled
from hushdoc.errors import CertificateError, PrivacyError
from hushdoc_training.federated.plan import FederatedPlan

PROVIDER: dict[str, Any] = {
    "algorithm": "fl-provider-dp",
    "clients": 10,
    "clients_per_round": 2,
    "rounds": 10,
    "sampling_rate": 0.2,
    "clipping_norm": 0.5,
    "expected_records": 80,
    "privacy_unit": "provider",
    "numbers": 1000,
    "against": ("model-recipient",),
}
FEAM: dict[str, Any] = {
    **PROVIDER,
    "algorithm": "feam-dp",
    "clients": 16,
    "clients_per_round": 8,
    "rounds": 350,
    "sampling_rate": 1 / 7,
    "privacy_unit": "sequence",
}
FORMS: dict[str, Any] = {
    **FEAM,
    "clients_per_round": 16,
    "rounds": 60,
    "sampling_rate": 0.5,
    "privacy_unit": "document",
    "numbers": 33_415,
    "clipping_norm": 0.1,
    "expected_records": 75,
}
FORMS_NOISE = 2.62561323997
"""What Renyi accounting needs for epsilon 8 at 60 steps, rate 1/2, delta 1e-5."""


def plan(settings: dict[str, Any], **change: Any) -> FederatedPlan:
    """A plan of a given noise, whatever it spends."""
    given = {"epsilon": math.inf, "delta": 1e-5, **settings, **change}
    return FederatedPlan(**given)


@pytest.mark.parametrize(
    ("settings", "how", "delta", "noise"),
    [
        (PROVIDER, "all", 1e-5, 0.771),
        (PROVIDER, "rota", 1e-5, 0.849),
        (PROVIDER, "drawn", 1e-5, 1.204),
        (FEAM, "rota", 1 / 389, 1.836),
        (FEAM, "drawn", 1 / 389, 1.842),
    ],
)
def test_the_noise_for_a_true_8(
    settings: dict[str, Any], how: str, delta: float, noise: float
) -> None:
    everybody = {"clients_per_round": settings["clients"]} if how == "all" else {}
    made = FederatedPlan.calibrated(
        epsilon=8.0, delta=delta, **{**settings, **everybody, "participation": how}
    )
    assert made.noise_multiplier == pytest.approx(noise, abs=5.1e-4)
    assert 7.99 < made.epsilon_against("model-recipient") <= 8.0
    with pytest.raises(ValueError, match="more than its target 8"):
        replace(made, noise_multiplier=made.noise_multiplier * 0.999)


def test_what_a_server_sees_without_a_secure_sum_and_what_one_fellow_client() -> None:
    """FUNSD by documents: 60 steps at a half, Renyi noise for 8, as the design has it."""
    noise = calibration.noise_multiplier(epsilon=8, delta=1e-5, sampling_rate=0.5, steps=60)
    assert noise == FORMS_NOISE
    for clients, alone, fellow in ((16, 58.3, 7.69), (4, 19.0, 8.89)):
        shown = plan(
            FORMS,
            clients=clients,
            clients_per_round=clients,
            noise_multiplier=noise,
            mode="individual-updates",
        )
        found = {whom: shown.epsilon_against(whom) for whom in ("model-recipient", "server")}
        assert found["model-recipient"] == pytest.approx(7.38, abs=0.005)
        assert found["server"] == pytest.approx(alone, abs=0.05)
        assert shown.epsilon_against("network-observer") == found["server"]
        assert shown.epsilon_against("co-client") == pytest.approx(fellow, abs=0.005)
        summed = replace(shown, mode="all-or-nothing")
        assert summed.epsilon_against("server") == found["model-recipient"]


def test_the_noise_of_a_share_by_hand() -> None:
    """Renyi divergences of Gaussians at one rate of 1: T alpha / (2 s^2), for s of a share."""
    shown = plan(
        PROVIDER,
        participation="rota",
        noise_multiplier=2.0,
        mode="individual-updates",
        clients_per_round=5,
        sampling_rate=0.5,
        silent=0,
        colluding=1,
    )
    assert shown.mechanism("server") == Composed(event=Gaussian(noise_multiplier=1.0), count=5)
    assert shown.mechanism("co-client") == Composed(event=Gaussian(noise_multiplier=2.0), count=5)


def test_a_secure_sum_costs_the_same_against_all_while_few_collude() -> None:
    made = plan(
        FORMS, noise_multiplier=3.0, mode="threshold", silent=1, colluding=2, against=("server",)
    )
    events = {
        made.mechanism(whom)
        for whom in ("model-recipient", "server", "co-client", "network-observer")
    }
    assert events == {
        Composed(
            event=PoissonSampled(sampling_rate=0.5, event=Gaussian(noise_multiplier=3.0)), count=60
        )
    }
    more = made.exposure.event("server", listening=9)
    assert isinstance(more, Composed)
    assert isinstance(more.event, PoissonSampled)
    assert more.event.event == Gaussian(noise_multiplier=3.0 * math.sqrt(6 / 13))


def test_a_co_client_knows_its_own_share_also_where_none_was_planned_for() -> None:
    made = plan(PROVIDER, participation="rota", noise_multiplier=1.0)
    assert made.mechanism("co-client") == Composed(
        event=Gaussian(noise_multiplier=math.sqrt(0.5)), count=2
    )
    alone = replace(made, clients_per_round=1, sampling_rate=0.1)
    assert alone.mechanism("co-client") == Composed(event=Gaussian(noise_multiplier=1.0), count=1)


def test_the_draw_of_a_server_is_no_chance_against_it() -> None:
    made = plan(PROVIDER, participation="drawn", most_rounds=5, noise_multiplier=1.0)
    gaussian = Gaussian(noise_multiplier=1.0)
    assert made.mechanism("server") == Composed(event=gaussian, count=5)
    drawn = ClusterSampled(sampling_rate=0.2, event=gaussian)
    assert made.mechanism("network-observer") == Composed(event=drawn, count=10)
    assert made.epsilon_against("server") > made.epsilon_against("model-recipient")


def test_noise_is_made_for_the_worst_adversary_that_is_named() -> None:
    drawn = {**PROVIDER, "participation": "drawn", "most_rounds": 5}
    recipient = FederatedPlan.calibrated(epsilon=8.0, **drawn)
    everybody = FederatedPlan.calibrated(
        epsilon=8.0, **{**drawn, "against": ("model-recipient", "server", "co-client")}
    )
    worst = max(("server", "co-client"), key=everybody.epsilon_against)
    assert everybody.epsilon_against(worst) == pytest.approx(8.0, abs=0.01)
    assert everybody.noise_multiplier > 1.1 * recipient.noise_multiplier
    assert everybody.epsilon_against("model-recipient") < 7.5


def test_each_client_of_fedavg_dp_has_its_own_noise() -> None:
    made = plan(
        FORMS,
        algorithm="fedavg-dp",
        participation="rota",
        clients_per_round=8,
        rounds=10,
        local_steps=6,
        noise_multiplier=1.1,
    )
    own = PoissonSampled(sampling_rate=0.5, event=Gaussian(noise_multiplier=1.1))
    for whom in ("model-recipient", "server", "co-client"):
        assert made.mechanism(whom) == Composed(event=Composed(event=own, count=6), count=5)
    assert made.share_width == 0
    assert made.client_sampling_rate == 0.5


def test_a_client_s_ledger_counts_what_the_worst_adversary_sees_of_a_round() -> None:
    settings = {**PROVIDER, "participation": "rota", "clients_per_round": 5, "sampling_rate": 0.5}
    made = plan(settings, colluding=1, noise_multiplier=1.0)
    assert made.own_round == Gaussian(noise_multiplier=1.0)
    assert made.cap == 5
    # Whomever the roster's target is for: its server sees single updates, and counts.
    seen = replace(made, mode="individual-updates")
    assert seen.against == ("model-recipient",)
    assert seen.own_round == Gaussian(noise_multiplier=0.5)
    fellow = replace(made, colluding=0)
    assert fellow.own_round == Gaussian(noise_multiplier=math.sqrt(4 / 5))


def test_a_ledger_tells_adversaries_apart_by_noise_where_one_round_has_epsilon_0() -> None:
    for noise in range(50, 60):
        change = {"sampling_rate": 1e-4, "noise_multiplier": float(noise)}
        made = plan(FORMS, **change, mode="individual-updates")
        seen = made.exposure.one_round("server")
        assert pld.epsilon(seen, 1e-5) == 0
        assert made.own_round == seen


def test_a_ledger_counts_all_places_of_a_unit() -> None:
    made = plan(FORMS, noise_multiplier=FORMS_NOISE, places=2)
    spent = pld.epsilon(Composed(event=made.own_round, count=made.cap), 1e-5)
    assert spent >= made.epsilon_against("model-recipient") * (1 - 1e-6)


def test_a_unit_at_several_places_is_a_group() -> None:
    made = plan(PROVIDER, participation="rota", noise_multiplier=0.771484375, places=2)
    assert isinstance(made.mechanism(), Grouped)
    assert made.epsilon_against("model-recipient") == pytest.approx(21.7, abs=0.05)


def test_plain_averages_have_no_privacy_to_plan() -> None:
    none = {"noise_multiplier": 0.0, "epsilon": None, "delta": None}
    made = plan(FORMS, algorithm="fedavg", **none)
    assert made.share_width == 0
    for ask in (made.mechanism, lambda: made.epsilon_against("server"), lambda: made.own_round):
        with pytest.raises(ValueError, match="no noise"):
            ask()


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise_multiplier": 0.0},
        {"delta": None},
        {"delta": 1.0},
        {"algorithm": "fedavg"},
        {"local_steps": 3},
        {"silent": 1},
        {"mode": "threshold", "silent": 5, "colluding": 6},
        {"colluding": 16},
        {"against": ()},
        {"against": ("server", "server")},
        {"against": ("api-user",)},
        {"participation": "rota", "clients": 32, "sampling_rate": 0.6},
        {"participation": "all", "clients": 32},
        {"most_rounds": 9},
        {"mode": "masks"},
        {"algorithm": "feam"},
        {"accountant": "gdp-clt"},
        {"privacy_unit": "form"},
        {"places": 0},
        {"numbers": 0},
        {"clipping_norm": 0.0},
        {"expected_records": 0},
    ],
)
def test_plans_that_contradict_themselves_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected|Choose|only"):
        plan(FORMS, **{"noise_multiplier": 1.0, **wrong})


def test_a_plan_is_what_the_roster_carries() -> None:
    made = FederatedPlan.calibrated(epsilon=8.0, **{**PROVIDER, "participation": "rota"})
    text = json.dumps(made.to_dict())
    assert FederatedPlan.from_dict(json.loads(text)) == made
    data = json.loads(text)
    for change in ({"noiseMultiplier": 0.1}, {"rounds": 16}):
        with pytest.raises((CertificateError, ValueError)):
            FederatedPlan.from_dict({**data, **change})
    assert data["noiseMultiplier"] == made.noise_multiplier


def test_what_a_client_executed_has_to_be_what_was_planned() -> None:
    made = plan(FORMS, noise_multiplier=3.0)

    made.require_executed(receipt_of(made))
    more = plan(FORMS, noise_multiplier=3.0, clients=17, clients_per_round=17)
    for executed in (
        receipt_of(made, rate=0.51),
        receipt_of(made, norm=0.11 * 0.9),
        receipt_of(made, steps=61),
        receipt_of(made, unit="page"),
        receipt_of(plan(FORMS, noise_multiplier=2.9)),
        receipt_of(more),
    ):
        with pytest.raises(PrivacyError) as refused:
            made.require_executed(executed)
        assert refused.value.code == "NOT_AS_PLANNED"


def test_all_costs_least_and_drawing_most() -> None:
    """What `--plan` shows: the same settings, three ways to take part."""
    found = []
    for how, each in (("all", 10), ("rota", 2), ("drawn", 2)):
        made = plan(
            PROVIDER, participation=how, clients_per_round=each, noise_multiplier=0.771484375
        )
        found.append(pld.epsilon(made.mechanism(), 1e-5))
    assert [round(epsilon, 2) for epsilon in found] == [7.98, 8.98, 14.46]
