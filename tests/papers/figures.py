"""The figures of docs/papers.md, computed: what was published, and what holds."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from statistics import NormalDist

from hushdoc.accounting import calibration, pld, rdp
from hushdoc.accounting.calibration import calibrated
from hushdoc.accounting.mechanism import (
    Composed,
    Gaussian,
    Grouped,
    Mechanism,
    PoissonSampled,
    WithoutReplacement,
)
from hushdoc_training.federated.adversaries import Exposure
from hushdoc_training.federated.participation import Participation
from hushdoc_training.federated.shares import Shares

NORMAL = NormalDist()

# PrIeD-KIE on FUNSD: 149 forms are 389 windows; batches of a seventh, 50 epochs.
FUNSD_RATE, FUNSD_STEPS, FUNSD_NOISE, FUNSD_DELTA = 1 / 7, 350, 1.5013, 1 / 389
XFUND_RATE, XFUND_STEPS, XFUND_DELTA = 1 / 9, 450, 1 / 562
# Privacy-Aware DocVQA, table 12.
PROVIDER_RATE, PROVIDER_ROUNDS, PROVIDER_NOISE, PROVIDER_DELTA = 0.2, 10, 0.771484375, 1e-5
# Forms by documents at several clients, as docs/federated.md has them.
FORMS_RATE, FORMS_ROUNDS, FORMS_DELTA = 0.5, 60, 1e-5
CENTRAL_RATE = 1000 / 4149
CENTRAL_NOISE = {8: 0.83251953125, 4: 1.25244140625, 1: 3.3203125}


def sampled(rate: float, noise: float, count: int) -> Composed:
    """Returns steps of a Gaussian on Poisson samples."""
    step = PoissonSampled(sampling_rate=rate, event=Gaussian(noise_multiplier=noise))
    return Composed(event=step, count=count)


def windows(noise: float = FUNSD_NOISE) -> Composed:
    """Returns DP-Adam as one window of 128 tokens sees it."""
    return sampled(FUNSD_RATE, noise, FUNSD_STEPS)


def form(num_windows: int) -> Grouped:
    """Returns DP-Adam as a form of so many windows sees it."""
    return Grouped(size=num_windows, event=windows())


def feam(
    num_clients: int,
    client_rate: float,
    adversary: str,
    noise: float = FUNSD_NOISE,
    how: str = "drawn",
) -> Mechanism:
    """Returns FeAm-DP as an adversary sees it, the server single updates."""
    turns = Participation(
        how=how,
        clients=num_clients,
        clients_per_round=round(num_clients * client_rate),
        rounds=FUNSD_STEPS,
    )
    return exposed(turns, FUNSD_RATE, noise).event(adversary)


def providers(
    adversary: str = "model-recipient", noise: float = PROVIDER_NOISE, how: str = "drawn"
) -> Mechanism:
    """Returns FL-PROVIDER-DP as an adversary sees it, the server single updates."""
    return exposed(provider_turns(how), PROVIDER_RATE, noise).event(adversary)


def provider_turns(how: str, most_rounds: int | None = None) -> Participation:
    """Returns who takes part in FL-PROVIDER-DP."""
    return Participation(
        how=how,
        clients=10,
        clients_per_round=10 if how == "all" else 2,
        rounds=PROVIDER_ROUNDS,
        most_rounds=most_rounds,
    )


def exposed(turns: Participation, rate: float, noise: float) -> Exposure:
    """Returns what a published method shows: no margin in the shares, and draws that count."""
    return Exposure(
        participation=turns,
        client_rate=turns.client_rate(rate),
        noise_multiplier=noise,
        shares=Shares(clients=turns.clients_per_round),
        aggregation="individual-updates",
        server_draws_by_chance=True,
    )


def forms(num_clients: int, adversary: str) -> Mechanism:
    """Returns forms by documents at clients that all take part, the server seeing updates."""
    turns = Participation(
        how="all", clients=num_clients, clients_per_round=num_clients, rounds=FORMS_ROUNDS
    )
    return exposed(turns, FORMS_RATE, forms_noise()).event(adversary)


def forms_noise() -> float:
    """Returns the noise that Renyi accounting finds for an epsilon of 8."""
    return calibration.noise_multiplier(
        epsilon=8, delta=FORMS_DELTA, sampling_rate=FORMS_RATE, steps=FORMS_ROUNDS
    )


def chosen_by_the_server() -> Mechanism:
    """Returns FL-PROVIDER-DP where the server sees sums, and draws one client in every round."""
    shown = exposed(provider_turns("drawn", PROVIDER_ROUNDS), PROVIDER_RATE, PROVIDER_NOISE)
    return replace(shown, aggregation="secure-sum", server_draws_by_chance=False).event("server")


def fixed_size() -> Composed:
    """Returns the steps of `windows`, with batches of a fixed size."""
    step = WithoutReplacement(
        population=389, sample_size=56, event=Gaussian(noise_multiplier=FUNSD_NOISE)
    )
    return Composed(event=step, count=FUNSD_STEPS)


def each_epoch_once() -> Composed:
    """Returns the epochs of `windows`, with shuffled batches: in one batch of each, surely."""
    return Composed(event=Gaussian(noise_multiplier=FUNSD_NOISE), count=50)


def at_renyi(target: float, rate: float, count: int, delta: float) -> float:
    """Returns what holds where the noise is made for a target by Renyi accounting."""
    noise = calibration.noise_multiplier(
        epsilon=target, delta=delta, sampling_rate=rate, steps=count, accountant="rdp"
    )
    return pld.epsilon(sampled(rate, noise, count), delta)


def gdp_epsilon(rate: float, noise: float, count: int, delta: float) -> float:
    """Returns what the central limit theorem says (Bu, Dong, Long, Su 2020, corollary 1)."""
    mu = rate * math.sqrt(count * math.expm1(1 / noise**2))
    low, high = 0.0, 100.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        left = NORMAL.cdf(-middle / mu + mu / 2)
        found = left - math.exp(middle) * NORMAL.cdf(-middle / mu - mu / 2)
        low, high = (middle, high) if found > delta else (low, middle)
    return high


def renyi_of_normals(order: float, one: float, other: float, distance: float = 0.0) -> float:
    """Returns D(N(m1, s1^2) || N(m2, s2^2)) of an order above 1; infinity where it diverges.

    Args:
        order: Above 1.
        one: s1.
        other: s2.
        distance: m1 - m2.
    """
    mixed = order * other**2 + (1 - order) * one**2
    if mixed <= 0:
        return math.inf
    spread = math.log(other / one) + math.log(other**2 / mixed) / (2 * (order - 1))
    return spread + order * distance**2 / (2 * mixed)


def fitted_without(share: float) -> float:
    """Returns the deviation of a standard normal distribution without its farthest share."""
    cut = NORMAL.inv_cdf(1 - share / 2)
    return math.sqrt(1 - 2 * cut * NORMAL.pdf(cut) / (1 - share))


def published_cost(one: float, other: float, delta: float = 1e-5) -> float:
    """Returns the paper's cost of two labels' weights: the best order, then its lemma 3."""
    orders = (1 + 10 ** (step / 4000) for step in range(-8000, 24000))
    return min(
        2 * renyi_of_normals(order, one, other) + math.log(1 / delta) / (order - 1)
        for order in orders
    )


@cache
def computed() -> dict[str, float]:
    """Returns every computed figure of the page by name."""

    def at(mechanism: Mechanism, delta: float = FUNSD_DELTA) -> float:
        return pld.epsilon(mechanism, delta)

    found = {
        "window": at(windows()),
        "window, RDP": rdp.epsilon(windows(), FUNSD_DELTA),
        "window, GDP": gdp_epsilon(FUNSD_RATE, FUNSD_NOISE, FUNSD_STEPS, FUNSD_DELTA),
        **{f"form of {size}": at(form(size)) for size in (2, 3, 4, 8)},
        "noise for forms, delta 1/149": calibrated(windows, epsilon=8, delta=1 / 149),
        "noise for forms, delta 1e-5": calibrated(windows, epsilon=8, delta=1e-5),
        "FUNSD at 20": at_renyi(20, FUNSD_RATE, FUNSD_STEPS, FUNSD_DELTA),
        "XFUND at 20": at_renyi(20, XFUND_RATE, XFUND_STEPS, XFUND_DELTA),
        "shuffled": at(each_epoch_once()),
        "fixed size": pld.epsilon(fixed_size(), FUNSD_DELTA, adjacency="replace-one"),
    }
    for num_clients, client_rate in ((2, 1.0), (4, 0.5), (8, 0.5), (16, 0.5)):
        for adversary in ("model-recipient", "co-client", "server"):
            name = f"FeAm-DP, {num_clients} clients, {adversary}"
            found[name] = at(feam(num_clients, client_rate, adversary))
    found["FeAm-DP, RDP"] = rdp.epsilon(feam(16, 0.5, "model-recipient"), FUNSD_DELTA)
    found["FeAm-DP, rota"] = at(feam(16, 0.5, "model-recipient", how="rota"))
    for how in ("drawn", "rota"):
        found[f"FeAm-DP, noise, {how}"] = calibrated(
            lambda noise, how=how: feam(16, 0.5, "model-recipient", noise, how),
            epsilon=8,
            delta=FUNSD_DELTA,
        )
    found["forms, noise"] = forms_noise()
    for num_clients in (4, 16):
        for adversary in ("model-recipient", "co-client", "server"):
            found[f"forms, {num_clients} clients, {adversary}"] = at(
                forms(num_clients, adversary), FORMS_DELTA
            )
    for m, t, c in ((16, 1, 2), (8, 1, 1), (2, 0, 1)):
        found[f"overhead of {m}, {t}, {c}"] = Shares(clients=m, silent=t, colluding=c).overhead
    counted = sampled(PROVIDER_RATE, PROVIDER_NOISE, PROVIDER_ROUNDS)
    found |= {
        "providers, as published": at(counted, PROVIDER_DELTA),
        "providers, GDP": gdp_epsilon(
            PROVIDER_RATE, PROVIDER_NOISE, PROVIDER_ROUNDS, PROVIDER_DELTA
        ),
        "providers": at(providers(), PROVIDER_DELTA),
        "providers, server": at(providers("server"), PROVIDER_DELTA),
        "providers, chosen": at(chosen_by_the_server(), PROVIDER_DELTA),
        "providers, rota": at(providers(how="rota"), PROVIDER_DELTA),
        "providers, rota, two places": at(
            Grouped(size=2, event=providers(how="rota")), PROVIDER_DELTA
        ),
        **{
            f"providers, noise, {how}": calibrated(
                lambda noise, how=how: providers(noise=noise, how=how),
                epsilon=8,
                delta=PROVIDER_DELTA,
            )
            for how in ("all", "rota", "drawn")
        },
        "central, GDP": gdp_epsilon(
            CENTRAL_RATE, CENTRAL_NOISE[8], PROVIDER_ROUNDS, PROVIDER_DELTA
        ),
    }
    for target, noise in CENTRAL_NOISE.items():
        run = sampled(CENTRAL_RATE, noise, PROVIDER_ROUNDS)
        found[f"central, {target}"] = at(run, PROVIDER_DELTA)
    for share in (0.0007, 0.07):
        rest = fitted_without(share)
        found[f"filling {share:.2%}, one way"] = published_cost(rest, 1.0)
        found[f"filling {share:.2%}, other way"] = published_cost(1.0, rest)
    return found
