"""The witness of `train docvqa`: pages with questions, of several providers, the canary's last.

Where providers are protected, the canary is one of several documents, and else one document of
several questions: what it moves is bounded as a whole. The runs are those of `forms_witness`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hushdoc.errors import InputError
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint, holds_questions
from hushdoc_training.witness import canaries, forms_witness
from hushdoc_training.witness.command_runs import CommandRuns
from hushdoc_training.witness.findings import Finding
from hushdoc_training.witness.forms_witness import LEAST_FORMS, Asked, Forms


def testify(options: argparse.Namespace, runs: CommandRuns) -> list[Finding]:
    """Runs `train docvqa` and returns what was found.

    Raises:
        InputError: Its steps are not those of an optimizer, so that no gradient can be seen.
    """
    if options.algorithm != "dp-adam":
        raise InputError(
            f"--algorithm {options.algorithm} steps by what local training moves, which the "
            "witness sees in `federated simulate` alone. Witness that, or the default algorithm."
        )
    start = Path(options.start or "")
    asked = Asked(rate=options.sampling_rate, unit=options.privacy_unit)
    known = holds_questions(start)
    capacity = DocVQACheckpoint.load(start).asking.least_capacity if known else options.max_tokens
    several = asked.unit == "provider"
    count = max(LEAST_FORMS, options.expected_records)
    for name, last in (("few", False), ("all", True)):
        canaries.questions(
            runs.folder / name,
            count,
            length=min(canaries.FORM_WORDS, capacity),
            documents=canaries.WINDOWS if several else 1,
            last=last,
        )
    return forms_witness.witnessed(
        runs,
        Forms(few=runs.folder / "few", all=runs.folder / "all", count=count),
        asked,
        before=forms_witness.weights_in(start) if known else {},
        canary=f"{canaries.WINDOWS} {'documents' if several else 'questions'}",
    )
