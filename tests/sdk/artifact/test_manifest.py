"""Contents: tables of hashed features as the manifest and the transcript state them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from hushdoc.accounting.mechanism import Composed, HashFill
from hushdoc.artifact import artifact
from hushdoc.artifact import manifest as contents
from hushdoc.artifact.signed_file import Memory
from hushdoc.certificate.certificate import ModelIdentity
from hushdoc.policy.policy import Policy

ENTRY = "table.safetensors"
STATED = {"tensor": "weights", "rows": 64, "columns": 3, "reference": None}


def table(rows: int = 64, columns: int = 3) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(rows, columns)).astype("f4")


def encoded(build: ModuleType, weights: np.ndarray, metadata: Any = None) -> bytes:
    """Returns the file of a table and transitions, spelled without any library."""
    header = {
        "__metadata__": metadata or {"hushdoc.certificate_id": build.CERTIFICATE_ID},
        "weights": {
            "dtype": "F32",
            "shape": list(weights.shape),
            "data_offsets": [0, weights.nbytes],
        },
        "transitions": {
            "dtype": "F32",
            "shape": [2, 2],
            "data_offsets": [weights.nbytes, weights.nbytes + 16],
        },
    }
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + weights.tobytes() + bytes(16)


def seal(
    build: ModuleType,
    key: Any,
    folder: Path,
    content: bytes,
    *,
    stated: Any = STATED,
    fill: HashFill | None = None,
    name: str = ENTRY,
) -> Path:
    """Writes a sealed artifact whose model is a table."""
    preprocessing = {} if stated is None else {contents.TABLE_KEY: stated}
    manifest = {**build.MANIFEST, "entry": name, "preprocessing": preprocessing}
    certified = build.certify(
        build.no_guarantee(),
        model=ModelIdentity(name="tags", version=1, task="kie", format="safetensors", entry=name),
        data_accesses=(),
        transcripts={"fill": Composed(event=fill, count=1)} if fill else {},
    )
    files = {"hushdoc.json": json.dumps(manifest).encode(), name: content}
    return build.seal(folder, key, certified, files)


def test_a_table_is_sealed_and_opened(build: ModuleType, key: Any, tmp_path: Path) -> None:
    fill = HashFill(rows=64, columns=3)
    path = seal(build, key, tmp_path / "a", encoded(build, table()), fill=fill)
    policy = Policy.integrity_only(build.trust(key))
    assert artifact.verify(path, policy).passed
    with artifact.open_artifact(path, policy, low_memory=True) as opened:
        view = opened.view(ENTRY)
        start = len(view) - 16 - table().nbytes
        mapped = np.frombuffer(view[start : start + table().nbytes], "<f4").reshape(64, 3)
    assert (mapped == table()).all()


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
