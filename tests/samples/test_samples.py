from __future__ import annotations

import re
from pathlib import Path

import pytest
from hushdoc_processes import interpreter

from hushdoc.__main__ import main

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"


def test_invented_documents_sample(tmp_path: Path) -> None:
    interpreter(SAMPLES / "invented_documents.py", tmp_path / "invented", cwd=tmp_path)
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


APPLICATIONS = ("browser/*.mjs", "desktop_search/*.py", "ray_folder/*.py", "release_check.py")


@pytest.mark.parametrize("pattern", APPLICATIONS)
def test_every_module_of_an_application_is_short(pattern: str) -> None:
    """The page of the browser is longer."""
    modules = [path for path in SAMPLES.glob(pattern) if path.name != "page.mjs"]
    assert modules
    for path in modules:
        assert len(path.read_text("utf-8").splitlines()) < 150, path
