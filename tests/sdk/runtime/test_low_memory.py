"""Loading in low memory: the same answers, from the very file that was checked."""

from __future__ import annotations

import os
from pathlib import Path

import hushdoc_graphs
import hushdoc_tiny as tiny
import numpy as np
import pytest
from hushdoc_documents import document
from hushdoc_processes import in_python

import hushdoc
from hushdoc.artifact import artifact
from hushdoc.errors import LimitExceededError
from hushdoc.runtime.kie import KIEModel
from hushdoc.runtime.session import Runtime, Session


def test_models_answer_alike_and_keep_no_file_open() -> None:
    options = {"policy": tiny.policy(), "runtime": Runtime(threads=1)}
    usual = KIEModel.load(tiny.sealed(), **options).extract(document(3))
    before = len(os.listdir("/proc/self/fd"))
    for load in (KIEModel.load, hushdoc.load):
        model = load(tiny.sealed(), low_memory=True, **options)
        assert len(os.listdir("/proc/self/fd")) <= before
        assert model.extract(document(3)).fields == usual.fields


def graph(bias: float, *, size: int = 1) -> bytes:
    """Returns x plus a weight."""
    add = hushdoc_graphs.node("Add", ["x", "w"], "y")
    return hushdoc_graphs.model([add], {"x": [1]}, {"y": [size]}, {"w": np.full(size, bias)})


def test_the_runtime_opens_the_held_file_and_not_its_name(tmp_path: Path) -> None:
    """The package must not resolve the path: the name it would find belongs to a racer."""
    path = tiny.resealed(tmp_path / "a")
    opened = artifact.open_artifact(path, tiny.policy(), low_memory=True)
    entry = opened.manifest["entry"]
    with opened, opened.source(entry) as source:
        path.rename(tmp_path / "moved")
        (path / entry).parent.mkdir(parents=True)
        (path / entry).write_bytes(graph(2.0))
        session = Session(source, runtime=Runtime(threads=1))
    assert list(session.inputs) == ["input_ids", "bbox", "attention_mask"]
    assert list(Session(str(path / entry), runtime=Runtime(threads=1)).inputs) == ["x"]


def test_the_memory_limit_counts_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(graph(1.0, size=1000))
    with pytest.raises(LimitExceededError, match="memory_limit allows 2000"):
        Session(str(path), runtime=Runtime(threads=1, memory_limit=2000))


def peak_mib(code: str, path: Path) -> float:
    """Returns the most memory that a fresh interpreter held while it ran some code."""
    report = "print([line for line in open('/proc/self/status') if line.startswith('VmHWM')][0])"
    head = "import sys; from hushdoc.runtime.session import Runtime, Session; "
    return int(in_python(f"{head}{code}; {report}", path).stdout.split()[1]) / 1024


def test_the_file_itself_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(graph(1.0, size=20_000_000))
    one_thread = "runtime=Runtime(threads=1)"
    from_path = peak_mib(f"Session(sys.argv[1], {one_thread})", path)
    from_bytes = peak_mib(f"Session(open(sys.argv[1], 'rb').read(), {one_thread})", path)
    assert from_bytes - from_path > 60  # of 76 MiB
