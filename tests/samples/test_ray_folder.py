"""samples/ray_folder: two workers of Ray answer a folder, and one that is killed loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hushdoc
from hushdoc.errors import InputError
from hushdoc_training import invented

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "sdk/hushdoc/sample"
SAMPLE = ROOT / "samples/ray_folder/extract.py"
COUNT = 200


@pytest.fixture(scope="module")
def python() -> str:
    """Returns the interpreter of an environment that has Ray and hushdoc."""
    found = os.environ.get("HUSHDOC_RAY_PYTHON")
    if not found:
        pytest.skip("HUSHDOC_RAY_PYTHON names no interpreter with samples/ray_folder's packages")
    return found


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    config = invented.InventedConfig(document_types=("invoice",))
    for index in range(COUNT):
        made = invented.document(seed=3, index=index, config=config).document
        (folder / f"{index:03}.json").write_text(json.dumps(made.to_dict()))
    (folder / "torn.pdf").write_bytes(b"%PDF-1.4")
    return folder


def command(python: str, documents: Path, out: Path, *more: str) -> list[str]:
    arguments = [documents, "--model", MODEL / "model", "--policy", MODEL / "policy.toml"]
    return [python, str(SAMPLE), *map(str, arguments), "--out", str(out), "--part", "20", *more]


def results(out: Path) -> dict[str, Any]:
    """Returns what each document got; fails where one has two results."""
    found: dict[str, Any] = {}
    for name in json.loads((out / "parts.json").read_text()):
        about, *lines = (out / name).read_text().splitlines()
        assert json.loads(about)["documents"] == len(lines)
        for line in map(json.loads, lines):
            path = line.pop("path")
            assert path not in found
            found[path] = without_times(line)
    return found


def without_times(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != "timings"}


def workers() -> list[int]:
    """Returns the processes of Ray's that hold a model, by the name that Ray gives them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if line.startswith(b"ray::") and b"Worker" in line:
            found.append(int(folder.name))
    return found


def test_a_killed_worker_loses_nothing_and_doubles_nothing(
    python: str, documents: Path, tmp_path: Path
) -> None:
    out = tmp_path / "results"
    # Ray ends workers where the machine's memory is nearly full, whoever holds it.
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "sdk"),
        "RAY_memory_monitor_refresh_ms": "0",
    }
    with subprocess.Popen(
        command(python, documents, out), env=environment, text=True, stdout=subprocess.PIPE
    ) as job:
        while not list(out.glob("*.jsonl")):
            assert job.poll() is None
            time.sleep(0.02)
        os.kill(workers()[0], signal.SIGKILL)
        printed = job.communicate(timeout=240)[0]
    assert job.returncode == 7, printed
    assert "epsilon" in printed

    model = hushdoc.load(MODEL / "model", policy=hushdoc.Policy.from_toml(MODEL / "policy.toml"))
    paths = sorted(map(str, documents.iterdir()))
    alone = model.extract_many(paths, on_error="collect")
    expected = {
        path: without_times(answer.to_dict()) for path, answer in zip(paths, alone, strict=True)
    }
    assert results(out) == expected

    again = subprocess.run(
        command(python, documents, out), env=environment, text=True, capture_output=True, check=True
    )
    assert "11 parts, 0 of them to do" in again.stdout


def test_a_policy_that_refuses_the_model_starts_nothing(documents: Path, tmp_path: Path) -> None:
    strict = tmp_path / "strict.toml"
    text = (MODEL / "policy.toml").read_text().replace("max_epsilon = 8", "max_epsilon = 1")
    strict.write_text(text.replace('"trust.json"', f'"{MODEL}/trust.json"'))
    out = tmp_path / "results"
    found = subprocess.run(
        [*command(sys.executable, documents, out), "--policy", str(strict)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 5
    assert "EPSILON_TOO_LARGE" in found.stderr
    assert not out.exists()


@pytest.fixture
def extract(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The sample, whose driver needs Ray where there is something to do alone."""
    monkeypatch.syspath_prepend(str(SAMPLE.parent))
    import extract

    yield extract
    sys.modules.pop("extract", None)


def test_a_folder_that_can_not_be_listed_is_refused(
    extract: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The documents in it would be missing, and those of an earlier run no longer be named."""
    told = ["--model", str(MODEL / "model"), "--policy", str(MODEL / "policy.toml")]
    told += ["--out", str(tmp_path / "results")]
    assert extract.main([str(tmp_path / "mistyped"), *told]) == InputError.exit_code
    assert "mistyped' can't be listed: No such file" in capsys.readouterr().err
    closed = tmp_path / "documents" / "closed"
    closed.mkdir(parents=True)
    scandir = os.scandir

    def denied(path: Any) -> Any:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    assert extract.main([str(tmp_path / "documents"), *told]) == InputError.exit_code
    assert "closed' can't be listed: Permission denied" in capsys.readouterr().err
    assert not (tmp_path / "results" / "parts.json").exists()
