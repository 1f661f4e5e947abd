"""Provider membership: was a provider's data trained on? Told by answers about its other documents.

PADQ: Tito et al.: Privacy-Aware Document Visual Question Answering (2023), sections 5.2 and 7.2 and
tables 4, 10 and 11. The attacker has documents of each provider that were not trained on, asks the
model about them and averages over a provider's questions. Without knowledge (AZK) it clusters
providers; with some members and others known (APK) it learns from them, and also sees loss,
confidence and the model that training began with. An ensemble adds two votes of the memorisation
test (`hushdoc_training.audit.memorization`).

Members and others are two fixed groups, so what is measured is a table and no bound of epsilon: the
groups may differ in more than having been trained on, and nobody drew them by coins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.arguments import short_repr
from hushdoc.errors import AnnotationError, InputError, needs_extra
from hushdoc_training.audit import roc
from hushdoc_training.audit.binomial import Floats
from hushdoc_training.data.providers import folded
from hushdoc_training.question_scores import QuestionScore

G1, G2 = ("accuracy", "nls"), ("loss", "confidence")
G3, G4 = ("loss_change", "confidence_change"), ("memorised_nls", "unasked_nls")
"""The groups of features of PADQ, section 5.2.2; a change is the model's minus its start's."""

FEATURES = (*G1, *G2, *G3, *G4)

SEEDS = (1026, 1027, 1028, 1029, 1030)
LEAST_QUESTIONS = (0, 5, 10)
KNOWN_SHARE = 0.15
FALSE_POSITIVE_RATES = (0.1, 0.03, 0.01)

LEAST_PROVIDERS = 4
"""Of either group: two are known to APK, and as many are left to be attacked."""

DRAWS = 5
_TREES, _DEPTHS = (50, 501), (1, 21)

Bools = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Method:
    """One row of PADQ's tables.

    Attributes:
        name: As in the paper.
        features: Some of FEATURES.
        supervised: Whether some members and others are known, and a forest learns from them.
        ensemble: Whether the two votes of the memorisation test are added.
    """

    name: str
    features: tuple[str, ...]
    supervised: bool = False
    ensemble: bool = False


METHODS = (
    Method(name="AZK", features=G1),
    Method(name="AZK with G4", features=(*G1, *G4)),
    Method(name="AZK, supervised", features=G1, supervised=True),
    Method(name="APK", features=(*G1, *G2, *G3), supervised=True),
    Method(name="APK with G4", features=FEATURES, supervised=True),
    Method(name="AZK+CLS1+CLS2", features=G1, ensemble=True),
    Method(name="APK+CLS1+CLS2", features=(*G1, *G2, *G3), supervised=True, ensemble=True),
)
"""The rows of table 4, in its order."""

ABLATION = (
    Method(name="K-Means", features=G1[:1]),
    Method(name="K-Means", features=G1),
    Method(name="forest", features=G1[:1], supervised=True),
    Method(name="forest", features=G1, supervised=True),
    Method(name="forest", features=(*G1, *G2), supervised=True),
    Method(name="forest", features=(*G1, *G2, *G3), supervised=True),
    Method(name="K-Means", features=(*G1, *G2, *G3)),
)
"""The rows of table 11."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Providers:
    """What the attacker sees of each provider, and what is true.

    Attributes:
        names: In alphabetical order.
        is_member: Whether it was trained on, shape [providers].
        questions: How many were asked about it, shape [providers].
        features: Means over its questions, in the order of FEATURES, shape [providers, 8]; those of
            G4 are NaN where no memorisation test was made of anybody, those of losses where a model
            tells none.
    """

    names: tuple[str, ...]
    is_member: Bools
    questions: Integers
    features: Floats

    def of_more_than(self, questions: int) -> Providers:
        """Returns those about which more than so many questions were asked."""
        kept = self.questions > questions
        return Providers(
            names=tuple(name for name, there in zip(self.names, kept, strict=True) if there),
            is_member=self.is_member[kept],
            questions=self.questions[kept],
            features=self.features[kept],
        )

    @property
    def seen(self) -> tuple[str, ...]:
        """The names of the features that are there."""
        there = zip(FEATURES, self.features.T, strict=True)
        return tuple(name for name, values in there if not np.isnan(values).any())

    def sizes(self) -> tuple[int, int]:
        """Returns how many members there are, and others."""
        members = int(self.is_member.sum())
        return members, len(self.names) - members


@dataclass(frozen=True, kw_only=True)
class Result:
    """How well a method told members from others, over all seeds.

    Attributes:
        method: Which row.
        least_questions: s: providers of at most so many questions are left out.
        members: Attacked in each seed.
        others: Attacked in each seed.
        accuracy: Mean over seeds, from 0 to 1.
        accuracy_deviation: Over seeds.
        auc: Area under the curve of all seeds' scores, ranked inside each seed; .5 is guessing.
        auc_interval: Of 95 %, with the scores of a provider as one cluster.
        tpr_at_fpr: True positive rate by the largest false positive rate.
    """

    method: Method
    least_questions: int
    members: int
    others: int
    accuracy: float
    accuracy_deviation: float
    auc: float
    auc_interval: tuple[float, float]
    tpr_at_fpr: Mapping[float, float]

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        data = asdict(self)
        return {**data, "tpr_at_fpr": {f"{rate:g}": tpr for rate, tpr in self.tpr_at_fpr.items()}}


def providers_of(
    model: Sequence[QuestionScore],
    start: Sequence[QuestionScore],
    members: Collection[str],
    *,
    memory: Mapping[str, tuple[float, float]] | None = None,
) -> Providers:
    """Returns the features of all providers.

    Args:
        model: Scores of the attacked model, about documents that it was not trained on.
        start: Those of the model that training began with, for the same questions in that order.
        members: The providers that were trained on; names are compared as `folded` has them.
        memory: By folded names, what `memorization.memory_of` measured; 0 for one that is missing.

    Raises:
        AnnotationError: A document has no provider.
        InputError: TOO_FEW_PROVIDERS.
    """
    found: dict[str, list[list[float]]] = {}
    for tuned, before in zip(model, start, strict=True):
        if (tuned.document_id, tuned.text) != (before.document_id, before.text):
            raise ValueError("model and start were asked other questions; expected the same.")
        name = folded(tuned.provider or "")
        if not name:
            raise AnnotationError(
                f"The document {short_repr(tuned.document_id)} has no provider; expected one for "
                "every document of an attack on providers. Name it, or leave the document out."
            )
        found.setdefault(name, []).append(
            [
                tuned.exact_match,
                tuned.nls,
                tuned.loss,
                tuned.confidence,
                tuned.loss - before.loss,
                tuned.confidence - before.confidence,
            ]
        )
    names, known = tuple(sorted(found)), {folded(name) for name in members}
    absent = (np.nan, np.nan) if memory is None else (0.0, 0.0)
    means = [[*np.mean(found[name], axis=0), *(memory or {}).get(name, absent)] for name in names]
    made = Providers(
        names=names,
        is_member=np.array([name in known for name in names], dtype=np.bool_),
        questions=np.array([len(found[name]) for name in names], dtype=np.int64),
        features=np.array(means, dtype=np.float64).reshape(len(names), len(FEATURES)),
    )
    if min(made.sizes()) < LEAST_PROVIDERS:
        raise InputError(
            f"There are questions about {made.sizes()[0]} providers that were trained on and "
            f"{made.sizes()[1]} others; expected at least {LEAST_PROVIDERS} of each. Give more.",
            code="TOO_FEW_PROVIDERS",
        )
    return made


def attacked(
    providers: Providers,
    *,
    methods: Sequence[Method] = METHODS,
    least_questions: Sequence[int] = LEAST_QUESTIONS,
    seeds: Sequence[int] = SEEDS,
    draws: int = DRAWS,
) -> list[Result]:
    """Returns the rows of PADQ's table 4, as far as there are enough providers and features.

    Args:
        providers: With their features.
        methods: Those that need G4 are left out where it is not there; features of losses are left
            out of them where there are none.
        least_questions: Values of s; those that leave too few providers are left out.
        seeds: One draw of the known, KNOWN_SHARE of each group, and of all that is random in an
            attack, for each; nobody who is known is attacked.
        draws: Settings of the forest that are tried.
    """
    found, seen = [], set(providers.seen)
    for least in least_questions:
        chosen = providers.of_more_than(least)
        if min(chosen.sizes()) < LEAST_PROVIDERS:
            continue
        attackers = [_Attacker(chosen, seed, draws) for seed in seeds]
        for method in methods:
            if set(G4) <= seen or not (method.ensemble or set(method.features) & set(G4)):
                kept = tuple(name for name in method.features if name in seen)
                found.append(_result(attackers, replace(method, features=kept), least))
    return found


def _result(attackers: Sequence[_Attacker], method: Method, least: int) -> Result:
    accuracies, ranks, truths, numbers = [], [], [], []
    for attacker in attackers:
        rest = np.flatnonzero(~attacker.known)
        guesses, scores = attacker.guesses(method)
        truth = attacker.providers.is_member[rest]
        accuracies.append(float((guesses == truth).mean()))
        ranks.append(roc.placements(scores, scores))
        truths.append(truth)
        numbers.append(rest)
    score, number = np.concatenate(ranks), np.concatenate(numbers)
    true = np.concatenate(truths)
    curves = [
        roc.measured(
            method.name,
            score[true],
            score[~true],
            unit="provider",
            fpr=rate,
            clusters=(number[true], number[~true]),
        )
        for rate in FALSE_POSITIVE_RATES
    ]
    return Result(
        method=method,
        least_questions=least,
        members=int(truths[0].sum()),
        others=int((~truths[0]).sum()),
        accuracy=fmean(accuracies),
        accuracy_deviation=pstdev(accuracies),
        auc=curves[0].auc,
        auc_interval=curves[0].auc_interval,
        tpr_at_fpr={
            rate: curve.tpr for rate, curve in zip(FALSE_POSITIVE_RATES, curves, strict=True)
        },
    )


def _known(is_member: Bools, generator: np.random.Generator) -> Bools:
    """Returns who is known to the attacker: KNOWN_SHARE of each group, and at least two of it."""
    known = np.zeros(len(is_member), dtype=np.bool_)
    for side in (True, False):
        group = np.flatnonzero(is_member == side)
        known[generator.permutation(group)[: max(2, round(KNOWN_SHARE * len(group)))]] = True
    return known


class _Attacker:
    """Who knows some providers, and guesses at the others by any method."""

    def __init__(self, providers: Providers, seed: int, draws: int) -> None:
        self.providers = providers
        generator = np.random.default_rng(seed)
        self.known = _known(providers.is_member, generator)
        self._seed, self._draws = seed, draws
        self._scores: dict[tuple[bool, tuple[str, ...]], Floats] = {}

    def guesses(self, method: Method) -> tuple[Bools, Floats]:
        """Returns a guess and a score for each provider that is not known."""
        scores = self._base(method)
        guesses = scores > 0
        if not method.ensemble:
            return guesses, scores
        memorised, unasked = self.providers.features[~self.known][:, -2:].T
        votes = np.stack([guesses, memorised > 0, _clusters(unasked[:, None], self._seed) > 0])
        share: Floats = votes.mean(axis=0)
        return share > 0.5, share

    def _base(self, method: Method) -> Floats:
        """Returns scores without an ensemble's votes, above 0 for members; once for each forest."""
        key = method.supervised, method.features
        if key not in self._scores:
            seen = self.providers.features[:, [FEATURES.index(name) for name in method.features]]
            truth, known = self.providers.is_member, self.known
            self._scores[key] = (
                _forest(seen[known], truth[known], seen[~known], self._seed, self._draws) - 0.5
                if method.supervised
                else _clusters(seen[~known], self._seed)
            )
        return self._scores[key]


def _clusters(seen: Floats, seed: int) -> Floats:
    """Returns how much nearer each is to the cluster whose first feature is larger; K-Means."""
    if len(np.unique(seen, axis=0)) < 2:
        return np.zeros(len(seen))
    with needs_extra("scikit-learn", "crf"):
        from sklearn.cluster import KMeans
    model = KMeans(n_clusters=2, init="random", n_init=10, max_iter=300, random_state=seed)
    distances = model.fit_transform(seen)
    member = int(model.cluster_centers_[:, 0].argmax())
    found: Floats = distances[:, 1 - member] - distances[:, member]
    return found


def _forest(seen: Floats, truth: Bools, others: Floats, seed: int, draws: int) -> Floats:
    """Returns the probability of a member, by the best of some forests of random settings.

    The best is that of the highest accuracy out of bag, where PADQ's code has five folds: for a
    fifth of the time.
    """
    with needs_extra("scikit-learn", "crf"):
        from sklearn.ensemble import RandomForestClassifier
    generator = np.random.default_rng(seed)
    forests = [
        RandomForestClassifier(
            int(generator.integers(*_TREES)),
            max_depth=int(generator.integers(*_DEPTHS)),
            oob_score=True,
            random_state=seed,
        ).fit(seen, truth)
        for _ in range(draws)
    ]
    best = max(forests, key=lambda forest: float(forest.oob_score_))
    found: Floats = best.predict_proba(others)[:, 1]
    return found
