"""The witness of private votes: `synthesize evolution` and `synthesize selection`.

Such a run keeps the noisy sum of each round, which is what it releases, so nothing has to be spied
on. Its runs, the last document being the canary:

    whole      all documents
    renewed    the same, from other entropy: one sum minus the other is noise alone
    shrunk     the canary has one word, entropy as in `whole`: the difference is of its two votes;
               of images another page is in its place
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from hushdoc_training.recipes.synthesis.evolution import NORM
from hushdoc_training.witness import canaries, claimed, findings
from hushdoc_training.witness.command_runs import CommandRuns, entropy
from hushdoc_training.witness.findings import Finding

DOCUMENTS = 5
SEED, OTHER_SEED = 1, 2
"""Of the entropy that stands for the operating system's."""

Floats = npt.NDArray[np.float64]


def testify(options: argparse.Namespace, runs: CommandRuns) -> list[Finding]:
    """Runs a command that takes private votes of words and returns what was found."""
    paths = {shrunk: runs.folder / f"voters-{shrunk}.jsonl" for shrunk in (False, True)}
    for shrunk, path in paths.items():
        canaries.voters(path, DOCUMENTS, shrunk=shrunk)
    return _witnessed(runs, paths)


def selection(options: argparse.Namespace, runs: CommandRuns) -> list[Finding]:
    """Runs a command that takes private votes of images and returns what was found."""
    paths = {shrunk: runs.folder / f"voters-{shrunk}" for shrunk in (False, True)}
    for shrunk, path in paths.items():
        canaries.images(path, DOCUMENTS + shrunk, tuple(options.label), last=not shrunk)
    return _witnessed(runs, paths)


def _witnessed(runs: CommandRuns, paths: Mapping[bool, Path]) -> list[Finding]:
    """Returns what the runs of a command show, one of them without the canary as it is."""
    run = partial(_run, runs)
    out, whole = run(paths[False], SEED)
    claim = claimed.of_run(out)
    made = [findings.steps(claim.steps, len(whole))]
    if not whole:
        return made
    _, renewed = run(paths[False], OTHER_SEED)
    _, shrunk_run = run(paths[True], SEED)
    if not renewed or not shrunk_run or whole[0].shape != renewed[0].shape:
        return [*made, findings.true("all runs have sums of the same cells", False)]
    bound = claim.number("clipping_norm") / claim.divisor
    vote = float(np.linalg.norm(whole[0] - shrunk_run[0]))
    return [
        *made,
        findings.true("the claim's votes have norm 1", claim.number("clipping_norm") == NORM),
        findings.true("every sum is finite", all(np.isfinite(sums).all() for sums in whole)),
        *findings.noise(
            "noise of a round",
            renewed[0] - whole[0],
            expected=claim.noise_multiplier * bound,
            draws=2,
        ),
        findings.coin(
            f"a coin below the sampling rate {claim.sampling_rate:g}", drawn=vote > 0, expected=True
        ),
        # Another one is in its place.
        findings.moved("another document moves the first sum by", vote, most=2 * bound),
    ]


def _run(runs: CommandRuns, data: Path, seed: int) -> tuple[Path, list[Floats]]:
    """Returns the run's folder and the noisy sums of all rounds that it kept."""
    out = runs.run(data, entropy=entropy(seed), spy=nullcontext())
    return out, [load_file(path)["sums"] for path in sorted(out.glob("votes-*.safetensors"))]
