"""The witness of `train images` and `synthesize diffusion`: gray pages, and a canary of red ones.

The runs are those of `forms_witness`. What a denoiser draws for a page follows from a seed of that
page, so that a gradient with the canary minus one without is the canary's part alone; and as it
reads latents, the canary is not made a number that is none there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hushdoc_training.image_checkpoint import ImageCheckpoint
from hushdoc_training.witness import canaries, forms_witness
from hushdoc_training.witness.command_runs import CommandRuns
from hushdoc_training.witness.findings import Finding
from hushdoc_training.witness.forms_witness import LEAST_FORMS, Asked, Forms


def testify(options: argparse.Namespace, runs: CommandRuns) -> list[Finding]:
    """Runs `train images` and returns what was found."""
    classes: tuple[str, ...] = (canaries.LABEL, canaries.OTHER)
    if options.start is not None:
        classes = ImageCheckpoint.load(Path(options.start)).labels
    count = max(LEAST_FORMS, options.expected_records, len(classes))
    for name, last in (("few", False), ("all", True)):
        canaries.images(runs.folder / name, count, classes, last=last)
    return forms_witness.witnessed(
        runs,
        Forms(few=runs.folder / "few", all=runs.folder / "all", count=count),
        Asked(rate=options.sampling_rate, unit="document"),
        before=forms_witness.weights_in(Path(options.start or "")),
        canary=f"{canaries.WINDOWS} pages",
        marked=canaries.is_red,
    )


def diffusion(options: argparse.Namespace, runs: CommandRuns) -> list[Finding]:
    """Runs `synthesize diffusion` and returns what was found."""
    classes = tuple(options.label or (canaries.LABEL, canaries.OTHER))
    count = max(LEAST_FORMS, options.expected_records, len(classes))
    for name, last in (("few", False), ("all", True)):
        canaries.images(runs.folder / name, count, classes, last=last)
    return forms_witness.witnessed(
        runs,
        Forms(few=runs.folder / "few", all=runs.folder / "all", count=count),
        Asked(rate=options.sampling_rate, unit="document"),
        before={},
        canary=f"{canaries.WINDOWS} pages",
        marked=None,
    )
