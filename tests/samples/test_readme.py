"""README runs as one script, from top to bottom in one folder that holds a user's own documents."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import hushdoc_tiny_models  # noqa: F401 (one graph serves both exports of a checkpoint)
import numpy as np
import pytest
from hushdoc_smaller import smaller, smaller_minilm
from PIL import Image, ImageDraw

from hushdoc.__main__ import main
from hushdoc_export import field_agreement

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
SHORTER = {
    "train kie --data invented:invoice --public": "--start small --documents 24 --epochs 1",
    "train kie --data invented:invoice --seed 2 --start": "--documents 24 --steps 3 "
    "--expected-records 4",
    "train kie --data invented:invoice --seed 2 --epsilon": "--start small --documents 24 "
    "--steps 3 --expected-records 4",
    "train clauses": "--documents 40 --steps 3 --rows 4096",
    "train classifier": "--steps 5 --expected-records 40 --rows 4096",
    "doctor model": "--seconds 1",
    "export runs/private --out model-int8": "--max-f1-loss 100",
}
"""What the test adds to a command, by its beginning: the model is then not worth having."""

ELSEWHERE = ("make ", "pip ", "hushdoc serve ")
"""Commands that other tests and CI run."""


def own_documents(folder: Path) -> None:
    """Writes what README takes for granted: documents of the user's own."""
    page = Image.new("RGB", (400, 300), "white")
    ImageDraw.Draw(page).text((30, 30), "Invoice 4711  Total 12.50", fill="black", font_size=16)
    page.save(folder / "invoice.pdf")
    clause = "This Agreement is governed by the laws of Ohio."
    (folder / "contract.txt").write_text(f"Invoices are due monthly.\n\n{clause}\n", "utf-8")
    (folder / "contracts").mkdir()
    (folder / "contracts/supply.txt").write_text(clause, "utf-8")
    (folder / "letter.txt").write_text("Please deliver the goods we ordered.", "utf-8")
    draw = np.random.default_rng(0)
    words = {"bill": "invoice amount due payment", "order": "deliver quantity goods please"}
    for name in ("mail", "archive"):
        lines = [
            {"id": number, "label": label, "text": " ".join(draw.choice(words[label].split(), 9))}
            for number in range(60)
            for label in words
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")


def steps() -> list[tuple[str, str]]:
    """Returns what README does: ("file", ...), ("command", ...) and ("python", ...) in order."""
    found = []
    for language, block in re.findall(r"```(sh|python)\n(.*?)```", README, re.DOTALL):
        if language == "python":
            found.append(("python", block))
            continue
        for name, content, line in re.findall(
            r"cat > (\S+) <<'END'\n(.*?)END\n|([^\n]+)\n", block, re.DOTALL
        ):
            found.append(("file", f"{name}\n{content}") if name else ("command", line))
    return found


def test_models_from_published_weights_meet_the_page_s_own_policy() -> None:
    """Below no weights are read that anybody published, so that nothing would tell."""
    private = [
        text
        for what, text in steps()
        if what == "command" and text.startswith("hushdoc train kie") and "--epsilon" in text
    ]
    assert len(private) == 2
    assert all("--public-overlap none" in text for text in private)


@pytest.mark.timeout(280)
@smaller()
@smaller_minilm()
def test_readme_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    own_documents(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HUSHDOC_POLICY", raising=False)
    monkeypatch.setattr(field_agreement, "NUM_DOCUMENTS", 8)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    used = set()
    for what, text in steps():
        if what == "file":
            name, content = text.split("\n", 1)
            Path(name).write_text(content, "utf-8")
        elif what == "python":
            exec(compile(text, "README.md", "exec"), {})
        elif not text.startswith(ELSEWHERE):
            arguments = shlex.split(text, comments=True)
            assert arguments[0] == "hushdoc", text
            began = " ".join(arguments[1:])
            added = {start: more for start, more in SHORTER.items() if began.startswith(start)}
            used |= added.keys()
            code = main([*arguments[1:], *shlex.split(" ".join(added.values()))])
            assert code == 0, f"{text}\n{capfd.readouterr().err}"
    assert used == SHORTER.keys()
    assert {"page.png", "page.html", "certificate.html"} <= {path.name for path in Path().iterdir()}
