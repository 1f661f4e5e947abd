"""Who takes part: schedules, caps, and the events of the figures in docs/federated.md."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from hushdoc.accounting import pld, rdp
from hushdoc.accounting.mechanism import (
    ClusterSampled,
    Composed,
    Gaussian,
    Grouped,
    Mechanism,
    PoissonSampled,
)
from hushdoc.errors import PrivacyError
from hushdoc_training.federated.participation import Participation
from hushdoc_training.randomness.secret_stream import SecretStream

RUN = "3f" * 16
G = Gaussian(noise_multiplier=0.771484375)
SAMPLED = PoissonSampled(sampling_rate=0.2, event=G)


def turns(how: str, clients: int = 10, each: int = 2, rounds: int = 10) -> Participation:
    each = clients if how == "all" else each
    return Participation(how=how, clients=clients, clients_per_round=each, rounds=rounds)


PROVIDERS = {
    "all": (turns("all").event(SAMPLED), 7.98),
    "rota": (turns("rota").event(G), 8.98),
    "drawn": (turns("drawn").event(G), 14.46),
    "rota, two places": (turns("rota").event(G, places=2), 21.7),
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_what_holds_for_the_settings_of_fl_provider_dp(name: str) -> None:
    event, expected = PROVIDERS[name]
    digits = len(str(expected).partition(".")[2])
    assert round(pld.epsilon(event, 1e-5), digits) == expected


def test_what_holds_for_the_settings_of_feam_dp() -> None:
    def sampled(rate: float) -> PoissonSampled:
        return PoissonSampled(sampling_rate=rate, event=Gaussian(noise_multiplier=1.5013))

    events = [
        turns("all", 16, 16, 350).event(sampled(1 / 7)),
        turns("rota", 16, 8, 350).event(sampled(2 / 7)),
        turns("drawn", 16, 8, 350).event(sampled(2 / 7)),
    ]
    found = [pld.epsilon(event, 1 / 389) for event in events]
    assert found == pytest.approx([7.00, 10.92, 10.98], abs=0.005)
    assert rdp.epsilon(events[2], 1 / 389) == pytest.approx(12.46, abs=0.005)


def test_a_rota_of_whole_batches_is_one_gaussian() -> None:
    """Balle, Wang 2018, theorem 8: two rounds of noise s are one of noise s / sqrt(2)."""
    epsilon, delta, noise = 8.984560711327697, 1e-5, G.noise_multiplier / math.sqrt(2)

    def below(z: float) -> float:
        return math.erfc(-z / math.sqrt(2)) / 2

    found = below(1 / (2 * noise) - epsilon * noise) - math.exp(epsilon) * below(
        -1 / (2 * noise) - epsilon * noise
    )
    assert found == pytest.approx(delta, rel=1e-3)
    assert pld.epsilon(turns("rota").event(G), delta) == pytest.approx(epsilon, rel=1e-4)


def test_events_are_landed_words() -> None:
    assert turns("all").event(SAMPLED) == Composed(event=SAMPLED, count=10)
    assert turns("rota").event(G) == Composed(event=G, count=2)
    drawn = ClusterSampled(sampling_rate=0.2, event=G)
    assert turns("drawn").event(G) == Composed(event=drawn, count=10)
    assert turns("drawn").event(G, places=2) == Grouped(
        size=2, event=Composed(event=drawn, count=10)
    )


def test_who_draws_clients_counts_with_every_round_that_a_client_may_take_part_in() -> None:
    drawn = Participation(how="drawn", clients=10, clients_per_round=2, rounds=10, most_rounds=4)
    assert drawn.event(G, by_chance=False) == Composed(event=G, count=4)
    for how in ("all", "rota"):
        assert turns(how).event(G, by_chance=False) == turns(how).event(G)


def test_places_in_different_rounds_are_counted_where_sampling_has_no_theorem() -> None:
    def count(event: Mechanism) -> int:
        assert isinstance(event, Grouped)
        assert isinstance(event.event, Composed)
        return event.event.count

    assert count(turns("rota").event(G, places=3)) == 2
    assert count(turns("rota").event(SAMPLED, places=3)) == 6
    assert count(turns("rota").event(SAMPLED, places=30)) == 10
    assert count(turns("all").event(SAMPLED, places=3)) == 10


@pytest.mark.parametrize("places", [2, 3])
def test_no_way_to_spread_places_over_rounds_costs_more_than_the_event(places: int) -> None:
    """Gaussians: the squares of how far each round is moved add up, whoever meets whom."""
    rota = turns("rota", 6, 2, 6)  # two rounds for each client
    bound = rota.event(G, places=places)
    assert isinstance(bound, Grouped)
    assert isinstance(bound.event, Composed)
    most = bound.size**2 * bound.event.count
    for run in range(50):
        at = np.random.default_rng(run).choice(6, places, replace=True)
        moved = [
            sum(rota.takes_part(int(client), number, f"{run:032x}") for client in at)
            for number in range(6)
        ]
        assert sum(moved) == 2 * places
        assert sum(steps**2 for steps in moved) <= most


@pytest.mark.parametrize(("clients", "each", "rounds"), [(10, 2, 10), (16, 8, 35), (7, 3, 5)])
def test_every_client_has_its_turn_equally_often(clients: int, each: int, rounds: int) -> None:
    rota = turns("rota", clients, each, rounds)
    taken = [rota.schedule(number, RUN) for number in range(rounds)]
    assert {len(set(part)) for part in taken} == {each}
    counts = Counter(client for part in taken for client in part)
    assert max(counts.values()) == rota.cap
    assert rota.cap - min(counts[client] for client in range(clients)) <= 1
    if clients * (rounds * each // clients) == rounds * each:
        assert set(counts.values()) == {rota.cap}


def test_the_rota_follows_from_the_run_alone() -> None:
    rota = turns("rota")
    assert rota.schedule(3, RUN) == rota.schedule(3, RUN)
    others = {tuple(rota.schedule(n, f"{run:032x}") for n in range(5)) for run in range(9)}
    assert len(others) > 5
    assert turns("all").schedule(3, RUN) == tuple(range(10))


def test_draws_are_of_every_client_equally_often() -> None:
    drawn, stream = turns("drawn", 6, 2), SecretStream()
    pairs = Counter(drawn.draw(stream) for _ in range(3000))
    assert len(pairs) == 15
    assert all(150 < count < 260 for count in pairs.values())  # 200 +- 4.4 deviations


def test_the_usual_cap_is_rarely_passed() -> None:
    for clients, each, rounds in ((10, 2, 10), (16, 8, 350), (100, 1, 50)):
        cap, share = turns("drawn", clients, each, rounds).cap, Fraction(each, clients)

        def beyond(cap: int, share: Fraction = share, rounds: int = rounds) -> Fraction:
            return sum(
                (
                    math.comb(rounds, n) * share**n * (1 - share) ** (rounds - n)
                    for n in range(cap + 1, rounds + 1)
                ),
                Fraction(0),
            )

        assert clients * beyond(cap) <= Fraction(1, 1000) < clients * beyond(cap - 1)


def test_a_coordinator_that_names_others_is_refused() -> None:
    rota, drawn = turns("rota"), turns("drawn")
    right = rota.schedule(1, RUN)
    rota.require(right, 1, RUN)
    drawn.require((4, 7), 1, RUN)
    other = tuple(client for client in range(10) if client not in right)[:2]
    for turn, clients, number in (
        (rota, other, 1),
        (rota, right[:1], 1),
        (rota, right, 10),
        (drawn, (4, 4), 1),
        (drawn, (4, 10), 1),
        (drawn, (4, 5, 6), 1),
        (drawn, (4, 5), -1),
        (drawn, (4, 5), 10),
    ):
        with pytest.raises(PrivacyError, match="The coordinator says") as refused:
            turn.require(clients, number, RUN)
        assert refused.value.code == "NOT_AS_PLANNED"


def test_rates_inside_a_client() -> None:
    assert turns("rota").client_rate(0.2) == 1.0
    assert turns("all").client_rate(0.2) == 0.2
    assert turns("drawn", 16, 8, 350).client_rate(1 / 7) == 2 / 7
    with pytest.raises(ValueError, match="inside a client"):
        turns("rota").client_rate(0.21)


@pytest.mark.parametrize(
    "wrong",
    [
        {"how": "rotaa"},
        {"clients": 0},
        {"clients_per_round": 11},
        {"how": "all"},
        {"most_rounds": 3},
        {"how": "drawn", "most_rounds": 11},
    ],
)
def test_contradictions_are_refused(wrong: dict[str, object]) -> None:
    sound: dict[str, object] = {"how": "rota", "clients": 10, "clients_per_round": 2, "rounds": 10}
    with pytest.raises(ValueError, match="expected|Choose"):
        Participation(**{**sound, **wrong})  # type: ignore[arg-type]
