from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "samples"


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=280
    )


def test_the_demo_takes_its_whole_path(tmp_path: Path) -> None:
    done = run(SAMPLES / "demo.py", "--quick", "--out", "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for expected in ("ACCEPTED.", "REFUSED: 1 of", "EPSILON_TOO_LARGE", "Entity F1 on"):
        assert expected in done.stdout
    assert "DIGEST_MISMATCH" in done.stderr
    for name in ("overlay.png", "certificate.html", "runs/private/training.png", "score.json"):
        assert (tmp_path / "demo" / name).stat().st_size > 0


def test_the_demo_clears_no_folder_of_others(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine").write_text("kept")
    done = run(SAMPLES / "demo.py", "--quick", "--out", "demo", cwd=tmp_path)
    assert done.returncode == 1
    assert (tmp_path / "demo" / "mine").read_text() == "kept"
