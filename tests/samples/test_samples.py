from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hushdoc.__main__ import main

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"


def run(*command: str | Path, cwd: Path, timeout: float = 280) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def test_the_demo_takes_its_whole_path(tmp_path: Path) -> None:
    done = run(SAMPLES / "demo.py", "--quick", "--out", "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for expected in ("ACCEPTED.", "REFUSED: 1 of", "EPSILON_TOO_LARGE", "Entity F1 on"):
        assert expected in done.stdout
    assert "DIGEST_MISMATCH" in done.stderr
    for name in ("overlay.png", "certificate.html", "runs/private/training.png", "score.json"):
        assert (tmp_path / "demo" / name).stat().st_size > 0


def test_invented_documents_sample(tmp_path: Path) -> None:
    done = run(SAMPLES / "invented_documents.py", tmp_path / "invented", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "invented").rglob("*.png"))


def help_of(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_every_subcommand_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    subcommands = re.findall(r"^  (\w+)  ", help_of(capsys), flags=re.MULTILINE)
    assert set(subcommands) >= {"train", "export", "keygen", "inspect", "verify", "extract"}
    for subcommand in subcommands:
        assert "usage: hushdoc" in help_of(capsys, subcommand)


def test_the_demo_clears_no_folder_of_others(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine").write_text("kept")
    done = run(SAMPLES / "demo.py", "--quick", "--out", "demo", cwd=tmp_path)
    assert done.returncode == 1
    assert (tmp_path / "demo" / "mine").read_text() == "kept"


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_the_demo_reaches_its_goal(tmp_path: Path) -> None:
    done = run(SAMPLES / "demo.py", "--out", "demo", cwd=tmp_path, timeout=650)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    score = json.loads((tmp_path / "demo" / "score.json").read_text())
    assert score["f1"] >= 0.7
