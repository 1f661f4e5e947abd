"""Receiver operating characteristic of an attack, with intervals, as an audit of a certificate.

The papers:

    DDC88   DeLong, DeLong, Clarke-Pearson: Comparing the Areas under Two or More Correlated ROC
            Curves, Biometrics 44, 1988: variance of the area from the placements of each score.
    Obu97   Obuchowski: Nonparametric Analysis of Clustered ROC Curve Data, Biometrics 53, 1997:
            the same where scores come in clusters that are not independent inside.
    New06   Newcombe: Confidence Intervals for an Effect Size Measure Based on the Mann-Whitney
            Statistic, part 2, Statistics in Medicine 25, 2006: method 5, which holds also of few
            scores and of areas near 1, where the found deviation is too small, or 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushdoc.certificate.audit_reports import Audit
from hushdoc_training.audit.binomial import Floats, clopper_pearson, crossing

Scores = Floats
Interval = tuple[float, float]

FALSE_POSITIVE_RATE = 0.001
CONFIDENCE = 0.95

_NORMAL = 1.959963984540054
"""Deviations of a normal within which CONFIDENCE of it lies."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """How well an attack distinguished what is in the training data from what is not.

    The intervals are of CONFIDENCE, the threshold taken as given; an area of .5 is guessing.
    """

    method: str
    unit: str
    auc: float
    auc_interval: Interval
    tpr: float
    tpr_interval: Interval
    fpr: float
    num_true: int
    num_false: int

    def audit(self, *, delta: float | None = None, error: float = 1 - CONFIDENCE) -> Audit:
        """Returns the record for a certificate; a `delta` adds the epsilon that the rates refute.

        Only where the two sets of scores come from neighbouring data sets is that a statement about
        the certificate's unit. `error` is how likely the bound may be wrong; divide it by the
        number of attacks whose bounds one certificate holds.
        """
        lower = None if delta is None else self.epsilon_lower(delta, error)
        return Audit(
            method=self.method,
            adversary="model-recipient",
            unit=self.unit,
            canaries=self.num_true,
            runs=1,
            confidence=None if delta is None else 1 - error,
            epsilon_lower=lower,
            delta=delta,
            tpr_at_fpr=((self.tpr, self.fpr),),
            auc=self.auc,
        )

    def epsilon_lower(self, delta: float, error: float = 1 - CONFIDENCE) -> float:
        """Returns an epsilon below which no guarantee can hold, given both rates.

        Each rate is bounded with half of the error, and then holds with the other's bound in both
        directions: TPR <= e^epsilon FPR + delta, TNR <= e^epsilon FNR + delta. Scores are taken as
        independent. `measured` chooses its threshold by rank among the false scores, where the
        exact bound of a share is that of the order statistic, so the choice costs nothing.
        """
        hits, alarms = round(self.tpr * self.num_true), round(self.fpr * self.num_false)
        least = clopper_pearson(hits, self.num_true, error)[0]
        most = clopper_pearson(alarms, self.num_false, error)[1]
        ratios = ((least - delta, most), (1 - most - delta, 1 - least))
        return max(0.0, *(math.log(max(part, 1e-300) / whole) for part, whole in ratios))


def measured(
    method: str,
    true: Scores,
    false: Scores,
    *,
    unit: str = "token-term",
    fpr: float = FALSE_POSITIVE_RATE,
    clusters: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None,
) -> Attack:
    """Returns what an attack's scores say, higher meaning "was in the training data".

    True positives are counted at the largest false positive rate that the scores allow up to `fpr`.
    Scores of one number in `clusters` may depend on one another, such as those for one place.
    """
    if not len(true) or not len(false):
        raise ValueError(f"{len(true)} true and {len(false)} false scores; expected some of each.")
    if np.isnan(true).any() or np.isnan(false).any():
        raise ValueError("A score is NaN; expected numbers or infinities.")
    threshold = _threshold(false, fpr)
    hits, alarms = int((true > threshold).sum()), int((false > threshold).sum())
    auc, deviation = area(true, false, clusters)
    groups = (true, false) if clusters is None else tuple(map(np.unique, clusters))
    return Attack(
        method=method,
        unit=unit,
        auc=auc,
        auc_interval=_interval(auc, deviation, *map(len, groups)),
        tpr=hits / len(true),
        tpr_interval=clopper_pearson(hits, len(true), 1 - CONFIDENCE),
        fpr=alarms / len(false),
        num_true=len(true),
        num_false=len(false),
    )


def _threshold(false: Scores, fpr: float) -> float:
    """Returns the least threshold that not more than this share of false scores lie above."""
    allowed = int(fpr * len(false))
    return float(np.sort(false)[len(false) - 1 - allowed]) if allowed < len(false) else -math.inf


def _interval(auc: float, deviation: float, m: int, n: int) -> Interval:
    """Returns the areas that are within reach by the found deviation, or by New06 of m and n."""

    def is_near(area: float, found: float) -> bool:
        more = ((m + n) / 2 - 1) * ((1 - area) / (2 - area) + area / (1 + area))
        return found - area <= _NORMAL * math.sqrt(area * (1 - area) * (1 + more) / (m * n))

    least = crossing(lambda area: is_near(area, auc))
    most = 1 - crossing(lambda area: is_near(area, 1 - auc))
    reach = _NORMAL * deviation
    return max(0.0, min(least, auc - reach)), min(1.0, max(most, auc + reach))


def area(
    true: Scores,
    false: Scores,
    clusters: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None,
) -> tuple[float, float]:
    """Returns the area under the curve, ties counting half, and its deviation (DDC88, Obu97)."""
    m, n = len(true), len(false)
    above = placements(true, false)
    below = 1 - placements(false, true)
    auc = float(above.mean())
    parts = np.concatenate([(above - auc) / m, (below - auc) / n])
    if clusters is None:
        names = np.arange(m + n)
    else:
        names = np.unique(np.concatenate(clusters), return_inverse=True)[1]
    sums = np.bincount(names, parts)
    count = len(sums)
    return auc, float(np.sqrt(np.square(sums).sum() * count / max(1, count - 1)))


def placements(scores: Scores, others: Scores) -> Scores:
    """Returns for each score the share of others below it; equal ones count half."""
    ordered = np.sort(others)
    left = np.searchsorted(ordered, scores, side="left")
    right = np.searchsorted(ordered, scores, side="right")
    found: Scores = (left + right) / (2 * len(others))
    return found
