"""Audits of private tables, for which no protected document is read.

What is attacked is the code and the plan that made a table: the same training runs once more on
invented documents with canaries among them, and what its table reveals of these is written into
the certificate. Nothing more is learned about the protected documents, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hushdoc import hashing
from hushdoc.certificate.claim import Claim
from hushdoc.hashing import Features, FeatureScheme
from hushdoc_training.audit import canaries
from hushdoc_training.audit.canaries import Data
from hushdoc_training.audit.roc import Attack, Scores, measured
from hushdoc_training.crf import corpus, private_fitting, term_release, whole_texts
from hushdoc_training.crf.private_fitting import Plan, Settings, Start
from hushdoc_training.invented import clause_contracts
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed.table_attacks import LEAST_ROWS, ROW_ATTACKS

CANARIES = 200
"""Canaries that are trained on, and as many that are not, where the table has rows for them."""

DOCUMENTS, PLACES = 40, 64
LABEL = "Governing Law"
METHOD_OF_TERMS = "canary terms"

CAVEAT = (
    "The audits are of a training under the same settings on invented documents: they test how "
    "this table was made, and read none of the protected documents."
)

Weights = npt.NDArray[np.floating]


def with_attacks(claim: Claim, attacks: Sequence[Attack]) -> Claim:
    """Returns a claim with the results of attacks; without attacks the same claim."""
    if not attacks:
        return claim
    found = tuple(attack.audit() for attack in attacks)
    return replace(claim, audits=(*claim.audits, *found), caveats=(*claim.caveats, CAVEAT))


def attacks_on_documents(
    scheme: FeatureScheme,
    plan: Plan,
    *,
    public: Features,
    settings: Settings,
    unseen_scale: float = private_fitting.UNSEEN_SCALE,
) -> list[Attack]:
    """Attacks DP-SGD under a plan: canary documents, and rows."""
    make = corpus.token_corpus if scheme.level == "token" else corpus.sentence_corpus
    texts = make(clause_contracts.contracts(DOCUMENTS, seed=2), [LABEL])
    data = Data(
        features=texts.features(scheme),
        labels=texts.labels,
        sequences=texts.documents,
        records=texts.records,
    )
    start = Start(
        tags=texts.names,
        scales=private_fitting.public_scales(public, scheme.rows, unseen_scale=unseen_scale),
        transitions=private_fitting.transitions_of(texts.names),
    )
    return _attacked(data, scheme, plan, start=start, settings=settings)


def _attacked(
    data: Data, scheme: FeatureScheme, plan: Plan, *, start: Start, settings: Settings
) -> list[Attack]:
    """Attacks a training: canaries among its documents, and rows."""
    had = np.bincount(data.features.indices, minlength=scheme.rows) > 0
    count = min(CANARIES, int((~had).sum()) // 2)
    if count < LEAST_ROWS:
        return []
    data, planted = canaries.plant(
        data,
        rows=scheme.rows,
        count=count,
        label=len(start.tags) - 1,
        # An audit's choice, and no secret.
        generator=np.random.default_rng(0),
    )
    table = private_fitting.fit_private(
        data.features,
        data.labels,
        sequences=data.sequences,
        records=data.records,
        start=start,
        plan=plan,
        settings=settings,
        stream=SecretStream(),
    )
    rows = (table.weights / start.scales[:, None]).astype(np.float32)
    return [planted.attack(rows), *_on_rows(rows, had)]


def attacks_on_whole_texts(
    scheme: FeatureScheme, plan: Plan, *, scales: npt.NDArray[np.float64], settings: Settings
) -> list[Attack]:
    """Attacks DP-SGD of classes of whole texts: canary texts, and rows."""
    texts = corpus.sentence_corpus(clause_contracts.contracts(DOCUMENTS, seed=2), [])
    whole = whole_texts.whole(texts.features(scheme), texts)
    each = np.arange(whole.num_items + 1)
    # Two classes that their words do not distinguish: canaries are all that can be learned.
    data = Data(features=whole, labels=each[:-1] % 2, sequences=each, records=each)
    names = ("one class", "another")
    start = Start(tags=names, scales=scales, transitions=np.zeros((2, 2)))
    return _attacked(data, scheme, plan, start=start, settings=settings)


def attacks_on_terms(scheme: FeatureScheme, *, bound: float, noise_std: float) -> list[Attack]:
    """Attacks one release of log-odds: canary terms, and rows."""
    planted, left_out = _own_rows(scheme)
    if len(planted) < LEAST_ROWS:
        return []
    labelled = [[term] for term in planted for _ in range(PLACES)]
    # As many sentences without a label: without them no word would speak for one.
    sentences = labelled + [["headings"]] * len(labelled)
    labels = np.repeat([1, 0], len(labelled))
    table = term_release.log_odds(sentences, labels, scheme, num_labels=2, bound=bound)
    weights = term_release.released(table, noise_std=noise_std, stream=SecretStream())
    true, false = (_scores_of(weights, scheme, terms) for terms in (planted, left_out))
    attack = measured(METHOD_OF_TERMS, true, false, unit="token-term")
    had = np.zeros(scheme.rows, dtype=bool)
    had[hashing.features([[term] for term in planted], scheme).indices] = True
    return [attack, *_on_rows(weights, had)]


def _own_rows(scheme: FeatureScheme) -> tuple[list[str], list[str]]:
    """Returns invented terms, none with a row of another: half for each side."""
    names = clause_contracts.names(2 * CANARIES, seed=3)
    rows = hashing.features([[name] for name in names], scheme)
    first = [rows.rows_of(number)[0] for number in range(len(names))]
    taken = hashing.features([["headings"]], scheme).indices.tolist()
    alone = [
        name
        for name, row in zip(names, first, strict=True)
        if first.count(row) == 1 and row not in taken
    ]
    half = len(alone) // 2
    return alone[:half], alone[half : 2 * half]


def _scores_of(weights: Weights, scheme: FeatureScheme, terms: Sequence[str]) -> Scores:
    """Returns how much the rows of terms speak for the label."""
    found = hashing.features([[term] for term in terms], scheme)
    rows = weights[found.indices[found.offsets[:-1]]].astype(np.float64)
    scores: Scores = rows[:, 1] - rows[:, 0]
    return scores


def _on_rows(weights: Weights, had: npt.NDArray[np.bool_]) -> Iterator[Attack]:
    """Yields how well rows that documents had are distinguished from the others."""
    if min(had.sum(), (~had).sum()) >= LEAST_ROWS:
        for attack in ROW_ATTACKS:
            yield attack(weights, had)
