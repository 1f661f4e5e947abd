"""The witness of training on questions: pages of several providers, the canary's last.

Where providers are protected, the canary is one of several documents, and else one document of
several questions: what it moves is bounded as a whole. The runs are those of `forms_witness`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint, holds_questions
from hushdoc_training.recipes.docvqa import settings
from hushdoc_training.recipes.docvqa.start import architecture_of
from hushdoc_training.witness import canaries, federated_witness, forms_witness, providers_witness
from hushdoc_training.witness.command_runs import CommandRuns
from hushdoc_training.witness.federation import Alone, Federation
from hushdoc_training.witness.findings import Finding
from hushdoc_training.witness.forms_witness import LEAST_FORMS, Asked, Forms


def testify(options: argparse.Namespace, runs: CommandRuns) -> list[Finding]:
    """Runs `train docvqa` and returns what was found.

    Raises:
        InputError: What is released is not what is summed, but was multiplied by something.
    """
    settings.complete(options, options.architecture or architecture_of(options.start))
    several = options.privacy_unit == "provider"
    forms = _written(options, runs.folder, documents=canaries.WINDOWS if several else 1)
    canary = f"{canaries.WINDOWS} {'documents' if several else 'questions'}"
    if options.algorithm == settings.PROVIDER:
        return providers_witness.changes(options, runs, Alone(forms=forms), canary=canary)
    start = Path(options.start or "")
    return forms_witness.witnessed(
        runs,
        forms,
        Asked(rate=options.sampling_rate, unit=options.privacy_unit),
        before=forms_witness.weights_in(start) if holds_questions(start) else {},
        canary=canary,
    )


def providers(options: argparse.Namespace, runs: CommandRuns) -> list[Finding]:
    """Runs `federated simulate --task docvqa --algorithm fl-provider-dp`; see `testify`."""
    # The witness divides documents evenly, so each provider has one.
    forms = _written(options, runs.folder, documents=1)
    return providers_witness.changes(
        options, runs, Federation.of(options, forms), canary=f"{canaries.WINDOWS} questions"
    )


def clients(options: argparse.Namespace, runs: CommandRuns) -> list[Finding]:
    """Runs `federated simulate --task docvqa` by sums of gradients; see `providers`."""
    start = Path(options.start)
    return federated_witness.witnessed(
        options,
        runs,
        _written(options, runs.folder, documents=1),
        before=forms_witness.weights_in(start) if holds_questions(start) else {},
        canary=f"{canaries.WINDOWS} questions",
    )


def _written(options: argparse.Namespace, folder: Path, *, documents: int) -> Forms:
    """Writes the pages of both kinds of runs; so many of them are the canary's."""
    start, capacity = Path(options.start or ""), options.max_tokens
    if holds_questions(start):
        capacity = DocVQACheckpoint.load(start).asking.least_capacity
    count = max(LEAST_FORMS, options.expected_records)
    for name, last in (("few", False), ("all", True)):
        canaries.questions(
            folder / name,
            count,
            length=min(canaries.FORM_WORDS, capacity or canaries.FORM_WORDS),
            documents=documents,
            last=last,
        )
    return Forms(few=folder / "few", all=folder / "all", count=count)
