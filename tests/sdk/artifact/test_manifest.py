"""Contents: tables are mapped where they lie, and all files share what looking in may cost."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hushdoc_mutation import COLUMNS, NOW, ROWS, TABLE, TableToy, Toy

from hushdoc.accounting.mechanism import Grouped, HashFill, Sequence
from hushdoc.artifact import artifact
from hushdoc.artifact import manifest as contents
from hushdoc.artifact.scan_budget import ScanBudget
from hushdoc.artifact.signed_file import Memory
from hushdoc.errors import ArtifactError


def test_a_table_is_mapped_where_it_lies(build: ModuleType, tmp_path: Path) -> None:
    toy = TableToy(build, tmp_path, "a")
    with artifact.open_artifact(toy.folder, toy.policy, now=NOW, low_memory=True) as opened:
        mapped = np.frombuffer(opened.view(TABLE)[-ROWS * COLUMNS * 4 :], "<f4")
    assert mapped.tolist() == list(range(1, ROWS * COLUMNS + 1))


def test_the_entry_has_the_declared_format_whatever_its_name(build: ModuleType) -> None:
    odd = dataclasses.replace(build.certify().model, entry="weights.bin")
    assert contents.format_of("weights.bin", odd) == "onnx"
    assert contents.format_of("other/Model.ONNX", odd) == "onnx"
    assert contents.format_of("table.safetensors", odd) == "safetensors"
    assert contents.format_of("tokenizer.json", odd) is None


@pytest.mark.parametrize(
    ("graphs", "sound"),
    [
        ({}, True),
        ({"decoder": {"entry": "onnx/decoder.onnx"}}, True),
        ({"decoder": {"entry": "onnx/other.onnx"}}, False),
        ({"decoder": {"entry": "tokenizer.json"}}, False),  # signed, and never looked into
        ({"decoder": {"entry": 7}}, False),
        ({"decoder": {}}, False),
        ({"decoder": None}, False),
        (["onnx/decoder.onnx"], False),
        (None, False),
    ],
)
def test_graphs_beside_the_entry_are_signed_files(
    build: ModuleType, tmp_path: Path, graphs: object, sound: bool
) -> None:
    class Several(Toy):
        def files(self) -> dict[str, bytes]:
            declared = {**self.build.MANIFEST, "preprocessing": {"graphs": graphs}}
            files: dict[str, bytes] = self.build.files(
                hushdoc_DOT_json=json.dumps(declared).encode()
            )
            return {**files, "onnx/decoder.onnx": files["onnx/model.onnx"]}

    toy = Several(build, tmp_path, "a")
    if sound:
        assert artifact.verify(toy.folder, toy.policy, now=NOW).passed
        return
    with pytest.raises(ArtifactError, match="no signed ONNX file") as caught:
        artifact.verify(toy.folder, toy.policy, now=NOW)
    assert caught.value.code == "BAD_MANIFEST"


def test_many_files_share_the_fields_that_one_may_have(build: ModuleType) -> None:
    """Twenty graphs of 3,000 nodes each are as much work as one of 60,000."""
    graph = build.onnx(graph=build.message(1, b"") * 3_000)
    budget = ScanBudget(fields=50_000)
    for _ in range(16):
        contents.scan(Memory(graph), "onnx", budget)
    with pytest.raises(ArtifactError, match="all ONNX files of an artifact") as caught:
        contents.scan(Memory(graph), "onnx", budget)
    assert caught.value.code == "BAD_ONNX"


def test_many_files_share_the_headers_that_one_may_have() -> None:
    header = b"{" + b" " * 299_998 + b"}"
    table = len(header).to_bytes(8, "little") + header
    budget = ScanBudget()
    for _ in range(3):
        contents.scan(Memory(table), "safetensors", budget)
    with pytest.raises(ArtifactError, match="all files of an artifact") as caught:
        contents.scan(Memory(table), "safetensors", budget)
    assert caught.value.code == "BAD_SAFETENSORS"


def test_a_table_is_no_graph() -> None:
    tensors: Any = object()
    table = contents.Finding(metadata={}, tensors=tensors)
    with pytest.raises(ArtifactError, match="no signed ONNX file") as caught:
        contents._require_signed_graphs({"t": table}, {"decoder": {"entry": "t"}})
    assert caught.value.code == "BAD_MANIFEST"


def test_fills_inside_of_other_events_have_the_size_of_the_table() -> None:
    one, other = HashFill(rows=1, columns=2), HashFill(rows=3, columns=2)
    event = Sequence(events=(one, Grouped(size=2, event=other)))
    assert [*contents._fills(event)] == [one, other]
