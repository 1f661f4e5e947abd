"""What a plan spends as each accountant counts it, and the noise that each would ask for."""

from __future__ import annotations

import math

from hushdoc.accounting import calibration, gdp
from hushdoc.accounting.mechanism import Composed, Gaussian, PoissonSampled
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.spending import ACCOUNTANTS

APPROXIMATION = "no bound: an approximation by a central limit theorem, never claimed"


def lines(plan: PrivacyPlan) -> list[str]:
    """Returns a table for people, in which only upper bounds stand as such."""
    wanted, made = f"noise for {plan.epsilon:g}", f"epsilon of {plan.noise_multiplier:.4g}"
    found = [f"{'Accountant':<12}{wanted:<18}{made:<22}which is"]
    for name, epsilon in ACCOUNTANTS.items():
        if name == plan.accountant:
            noise, spent = plan.noise_multiplier, plan.spending.epsilon(plan.delta)
            what = "an upper bound, and the one that is claimed"
        else:
            noise = calibration.noise_multiplier(
                epsilon=plan.epsilon,
                delta=plan.delta,
                sampling_rate=plan.sampling_rate,
                steps=plan.steps,
                accountant=name,
            )
            spent, what = epsilon(plan.mechanism(), plan.delta), "an upper bound"
        found.append(_row(name, noise, spent, what))
    estimate = gdp.epsilon(plan.mechanism(), plan.delta)
    if estimate is not None:
        found.append(_row("gdp", _noise_by_gdp(plan), estimate, APPROXIMATION))
    return found


def _row(name: str, noise: float, epsilon: float, what: str) -> str:
    return f"{name.upper():<12}{noise:<18.4g}{epsilon:<22.4g}{what}"


def _noise_by_gdp(plan: PrivacyPlan) -> float:
    """Returns the noise for which the approximation is the plan's epsilon; it keeps none."""
    low, high = plan.noise_multiplier / 100, plan.noise_multiplier * 100
    while high > low * (1 + calibration.RELATIVE_TOLERANCE):
        middle = math.sqrt(low * high)
        step = PoissonSampled(
            sampling_rate=plan.sampling_rate, event=Gaussian(noise_multiplier=middle)
        )
        spent = gdp.epsilon(Composed(event=step, count=plan.steps), plan.delta)
        low, high = (low, middle) if spent is None or spent <= plan.epsilon else (middle, high)
    return high
