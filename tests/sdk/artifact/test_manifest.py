"""Contents: tables are mapped where they lie, and a malformed file is a finding, not an error."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import ModuleType

import numpy as np
from hushdoc_mutation import COLUMNS, NOW, ROWS, TABLE, TableToy

from hushdoc.artifact import artifact
from hushdoc.artifact import manifest as contents
from hushdoc.artifact.signed_file import Memory


def test_a_table_is_mapped_where_it_lies(build: ModuleType, tmp_path: Path) -> None:
    toy = TableToy(build, tmp_path, "a")
    with artifact.open_artifact(toy.folder, toy.policy, now=NOW, low_memory=True) as opened:
        mapped = np.frombuffer(opened.view(TABLE)[-ROWS * COLUMNS * 4 :], "<f4")
    assert mapped.tolist() == list(range(1, ROWS * COLUMNS + 1))


def test_a_malformed_file_is_a_finding_so_that_the_hash_has_the_first_word(
    build: ModuleType,
) -> None:
    model = build.certify().model
    found = contents.scan(build.ENTRY, Memory(b"no model"), model)
    assert found.problem is not None
    assert found.problem.code == "BAD_ONNX"
    odd = dataclasses.replace(model, entry="weights.bin")
    assert contents.scan("weights.bin", Memory(build.onnx()), odd).metadata
    assert contents.scan("tokenizer.json", Memory(b"{}"), odd) == contents.Finding()
