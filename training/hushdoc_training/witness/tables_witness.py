"""The witness of tables trained by DP-SGD: `train clauses` and `train classifier`.

Such a run takes all records in every step, and draws coins and noise from one stream. Where its
first step counts rows instead, the counts are held to the claim as the steps are that learn. Its
runs, the last document being the canary:

    whole      all documents
    renewed    the same, from other entropy: one first step minus the other is noise alone
    shrunk     the canary has one common word, entropy as in `whole`: the difference is its part
    poisoned   the canary's gradient is no number, entropy as in `whole`
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from hushdoc_training import table_checkpoint
from hushdoc_training.witness import canaries, claimed, findings
from hushdoc_training.witness.claimed import Claimed
from hushdoc_training.witness.command_runs import CommandRuns, entropy
from hushdoc_training.witness.findings import Finding
from hushdoc_training.witness.table_spy import Seen, TableSpy

LEAST_DOCUMENTS, WORDS = 41, 60000
"""Documents, and words of all of them: as many as it takes to see one percent of noise."""
SEED, OTHER_SEED = 1, 2
"""Of the entropy that stands for the operating system's."""

Write = Callable[..., None]
"""Writes the canary documents: a path, how many, words of each, whether shrunk."""


def testify(options: argparse.Namespace, runs: CommandRuns, *, write: Write) -> list[Finding]:
    """Runs a command that trains a table by DP-SGD and returns what was found."""
    count = max(LEAST_DOCUMENTS, options.expected_records + 1)
    documents = {shrunk: runs.folder / f"documents-{shrunk}.jsonl" for shrunk in (False, True)}
    for shrunk, path in documents.items():
        write(path, count, WORDS // count, shrunk=shrunk)
    run = partial(_run, runs, records=count)
    out, whole = run(documents[False], SEED)
    claim = claimed.of_run(out)
    made = [findings.true("the fitting of these documents was seen", whole is not None)]
    if whole is None:
        return made
    made += _of_whole_run(claim, whole, out)
    _, renewed = run(documents[False], OTHER_SEED)
    _, shrunk_run = run(documents[True], SEED)
    _, poisoned = run(documents[False], SEED, poisoned=True)
    if not (renewed and shrunk_run and poisoned):
        return [*made, findings.true("the fitting was seen in every run", False)]
    made += _of_counts(claim, whole, renewed, shrunk_run)
    return made + _of_first_steps(claim, whole, renewed, shrunk_run, poisoned)


def _run(
    runs: CommandRuns, data: Path, seed: int, *, records: int, poisoned: bool = False
) -> tuple[Path, Seen | None]:
    spy = TableSpy(records=records, poisoned=poisoned)
    out = runs.run(data, entropy=entropy(seed), spy=spy)
    return out, spy.seen


def _learning(claim: Claimed, seen: Seen) -> int:
    """Returns how many steps are left to learn by, after those that count."""
    return claim.steps - seen.counted


def _rate(claim: Claimed, seen: Seen) -> float:
    """Returns what a sum is multiplied by, of which a record is at most one clipping norm."""
    divisor = claim.divisor * claim.number("clipping_norm")
    return claim.number("total_learning_rate") / _learning(claim, seen) / divisor


def _of_whole_run(claim: Claimed, seen: Seen, out: Path) -> list[Finding]:
    """Compares steps, and the noise of what no record reads in the table that was released."""
    made = [
        findings.steps(claim.steps, seen.steps + seen.counted),
        findings.true("every move of the table is finite", seen.finite),
    ]
    table = table_checkpoint.load(out)
    unread = np.ones(len(table.weights), dtype=bool)
    unread[seen.read] = False
    numbers = table.weights[unread] / seen.scales[unread, None]
    learning = _learning(claim, seen)
    averaged = max(1, round(claim.number("averaged") * learning))
    shares = np.minimum(1.0, np.arange(learning, 0, -1) / averaged)
    std = claim.noise_multiplier * claim.number("clipping_norm") * _rate(claim, seen)
    std *= math.sqrt(float(np.square(shares).sum()))
    if numbers.size < 2:
        return made
    return made + findings.noise("noise of rows that nobody reads", numbers, expected=std)


def _of_counts(claim: Claimed, whole: Seen, renewed: Seen, shrunk: Seen) -> list[Finding]:
    """Compares the counts of the first step, if it counts, as the claim has to say."""
    says = "scales" in claim.settings
    made = [findings.true("rows are counted as the claim says", (whole.counted == 1) == says)]
    if not whole.counted:
        return made
    if not whole.counts.shape == renewed.counts.shape == shrunk.counts.shape:
        return [*made, findings.true("all runs count the same rows", False)]
    bound = claim.number("clipping_norm")
    return [
        *made,
        *findings.noise(
            "noise of counts",
            renewed.counts - whole.counts,
            expected=claim.noise_multiplier * bound,
            draws=2,
        ),
        findings.moved(
            "a document of many words moves the counts by",
            float(np.linalg.norm(whole.counts - shrunk.counts)),
            most=math.sqrt(2) * bound,  # one of a single word is in its place; no count is below 0
        ),
    ]


def _of_first_steps(
    claim: Claimed, whole: Seen, renewed: Seen, shrunk: Seen, poisoned: Seen
) -> list[Finding]:
    bound = claim.number("clipping_norm") * _rate(claim, whole)
    same = [seen.first.shape == whole.first.shape for seen in (renewed, shrunk, poisoned)]
    if not all(same):
        return [findings.true("all runs read the same rows", False)]
    part = float(np.linalg.norm(whole.first - shrunk.first))
    without = float(np.linalg.norm(whole.first - poisoned.first))
    return [
        *findings.noise(
            "noise of a step",
            renewed.first - whole.first,
            expected=claim.noise_multiplier * bound,
            draws=2,
        ),
        findings.true(
            "equal entropy gives equal noise", math.isfinite(part) and part <= 2.02 * bound
        ),
        findings.coin(
            f"a coin below the sampling rate {claim.sampling_rate:g}", drawn=part > 0, expected=True
        ),
        # One of a single word is in its place; what a document adds alone is seen by the last.
        findings.moved("a document of many sentences moves the sum by", part, most=2 * bound),
        findings.true("every move is finite where a record's gradient is not", poisoned.finite),
        findings.moved("a record without a finite gradient moves the sum by", without, most=bound),
    ]


clauses = partial(testify, write=canaries.contracts)
classifier = partial(testify, write=canaries.messages)
