"""The figures of docs/papers.md, computed: what was published, and what holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist

from hushdoc.accounting import calibration, pld, rdp
from hushdoc.accounting.mechanism import (
    ClusterSampled,
    Composed,
    Gaussian,
    Grouped,
    Mechanism,
    PoissonSampled,
    WithoutReplacement,
)

NORMAL = NormalDist()

# PrIeD-KIE on FUNSD: 149 forms are 389 windows; batches of a seventh, 50 epochs.
FUNSD_RATE, FUNSD_STEPS, FUNSD_NOISE, FUNSD_DELTA = 1 / 7, 350, 1.5013, 1 / 389
XFUND_RATE, XFUND_STEPS, XFUND_DELTA = 1 / 9, 450, 1 / 562
# Privacy-Aware DocVQA, table 12.
PROVIDER_RATE, PROVIDER_ROUNDS, PROVIDER_NOISE, PROVIDER_DELTA = 0.2, 10, 0.771484375, 1e-5
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
    num_clients: int, client_rate: float, adversary: str, noise: float = FUNSD_NOISE
) -> Composed:
    """Returns FeAm-DP as "released", a "fellow" client or the "server" sees it."""
    drawn = num_clients * client_rate
    part = {"released": 1.0, "fellow": (drawn - 1) / drawn, "server": 1 / drawn}[adversary]
    step = PoissonSampled(
        sampling_rate=FUNSD_RATE / client_rate,
        event=Gaussian(noise_multiplier=noise * math.sqrt(part)),
    )
    round_ = ClusterSampled(sampling_rate=client_rate, event=step)
    return Composed(event=round_, count=FUNSD_STEPS)


def providers(noise: float = PROVIDER_NOISE) -> Composed:
    """Returns FL-PROVIDER-DP: clients are drawn, and all of their providers take part."""
    step = ClusterSampled(sampling_rate=PROVIDER_RATE, event=Gaussian(noise_multiplier=noise))
    return Composed(event=step, count=PROVIDER_ROUNDS)


def fixed_size() -> Composed:
    """Returns the steps of `windows`, with batches of a fixed size."""
    step = WithoutReplacement(
        population=389, sample_size=56, event=Gaussian(noise_multiplier=FUNSD_NOISE)
    )
    return Composed(event=step, count=FUNSD_STEPS)


def each_epoch_once() -> Composed:
    """Returns the epochs of `windows`, with shuffled batches: in one batch of each, surely."""
    return Composed(event=Gaussian(noise_multiplier=FUNSD_NOISE), count=50)


def least_noise(
    mechanism: Callable[[float], Mechanism], epsilon: float, delta: float, *, upto: float = 4.0
) -> float:
    """Returns the least noise, to four digits, whose mechanism keeps epsilon."""
    low, high = 0.0, upto
    while high - low > 1e-4:
        middle = (low + high) / 2
        keeps = middle > 0.1 and pld.epsilon(mechanism(middle), delta) <= epsilon
        low, high = (low, middle) if keeps else (middle, high)
    return high


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
        "noise for forms, delta 1/149": least_noise(windows, 8, 1 / 149),
        "noise for forms, delta 1e-5": least_noise(windows, 8, 1e-5),
        "FUNSD at 20": at_renyi(20, FUNSD_RATE, FUNSD_STEPS, FUNSD_DELTA),
        "XFUND at 20": at_renyi(20, XFUND_RATE, XFUND_STEPS, XFUND_DELTA),
        "shuffled": at(each_epoch_once()),
        "fixed size": pld.epsilon(fixed_size(), FUNSD_DELTA, adjacency="replace-one"),
    }
    for num_clients, client_rate in ((2, 1.0), (4, 0.5), (8, 0.5), (16, 0.5)):
        for adversary in ("released", "fellow", "server"):
            name = f"FeAm-DP, {num_clients} clients, {adversary}"
            found[name] = at(feam(num_clients, client_rate, adversary))
    found["FeAm-DP, RDP"] = rdp.epsilon(feam(16, 0.5, "released"), FUNSD_DELTA)
    found["FeAm-DP, noise"] = least_noise(
        lambda noise: feam(16, 0.5, "released", noise), 8, FUNSD_DELTA
    )
    counted = sampled(PROVIDER_RATE, PROVIDER_NOISE, PROVIDER_ROUNDS)
    found |= {
        "providers, as published": at(counted, PROVIDER_DELTA),
        "providers, GDP": gdp_epsilon(
            PROVIDER_RATE, PROVIDER_NOISE, PROVIDER_ROUNDS, PROVIDER_DELTA
        ),
        "providers": at(providers(), PROVIDER_DELTA),
        "providers, server": at(providers(PROVIDER_NOISE / math.sqrt(2)), PROVIDER_DELTA),
        "providers, noise": least_noise(providers, 8, PROVIDER_DELTA),
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
