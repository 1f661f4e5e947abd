"""The witness of tables with noise for single terms: `--mode term-dp`.

Such a run is one release, so all is seen in the table that it leaves. Its runs: all documents; the
same from other entropy, so that one table minus the other is noise alone; and all places of one
term emptied, from the first entropy, so that the difference is what the term moves.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hushdoc_training import table_checkpoint
from hushdoc_training.witness import canaries, claimed, findings
from hushdoc_training.witness.command_runs import CommandRuns, entropy
from hushdoc_training.witness.findings import Finding
from hushdoc_training.witness.tables_witness import LEAST_DOCUMENTS, OTHER_SEED, SEED, Write

WORDS, PLACE = 4000, 4
ROWS = 1
"""Rows of a term: its own, as no such run has clusters."""


def testify(options: argparse.Namespace, runs: CommandRuns, *, write: Write) -> list[Finding]:
    """Runs a command that releases a table with noise and returns what was found."""
    data, other = runs.folder / "documents.jsonl", runs.folder / "without.jsonl"
    write(data, LEAST_DOCUMENTS, WORDS // LEAST_DOCUMENTS, shrunk=False)
    text = data.read_text(encoding="utf-8")
    term = str(json.loads(text.partition("\n")[0])["text"].split()[PLACE])
    # As many characters, so that offsets of spans stay.
    other.write_text(text.replace(term, " " * len(term)), encoding="utf-8")
    out, whole = _run(runs, data, SEED)
    claim = claimed.of_run(out)
    _, renewed = _run(runs, data, OTHER_SEED)
    _, without = _run(runs, other, SEED)
    bound = 2 * claim.number("bound") * math.sqrt(ROWS)
    rows = np.linalg.norm((whole - without).astype(np.float64), axis=1)
    return [
        findings.steps(claim.steps, 1),
        findings.true("every number released is finite", bool(np.isfinite(whole).all())),
        *findings.noise(
            "noise of a cell", renewed - whole, expected=claim.noise_multiplier * bound, draws=2
        ),
        findings.moved("rows that a term moves", float((rows > 0).sum()), most=ROWS),
        findings.moved("a term moves the table by", float(np.linalg.norm(rows)), most=bound),
    ]


def _run(runs: CommandRuns, data: Path, seed: int) -> tuple[Path, npt.NDArray[np.float32]]:
    out = runs.run(data, entropy=entropy(seed), spy=contextlib.nullcontext())
    return out, table_checkpoint.load(out).weights


clauses = partial(testify, write=canaries.contracts)
classifier = partial(testify, write=canaries.messages)
