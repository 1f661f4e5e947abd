"""Each part of docs/kie.md runs after the first, on invented documents and with tiny starts."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from pathlib import Path

import hushdoc_pdf_files as pdfs
import hushdoc_published as published
import pytest

from hushdoc.__main__ import main
from hushdoc_training import invented
from hushdoc_training.checkpoint import Checkpoint

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/kie.md").read_text("utf-8")
CORPORA = {"funsd": ("form", "form"), "sroie": ("till-receipt", "sroie"),
           "wildreceipt": ("till-receipt", "wildreceipt")}  # fmt: skip
SHORTER = {
    "train kie --": "--steps 2 --quiet",
    "train kie --config images.toml": "--start encoder",
}
"""What the test adds to a command, by its beginning: the model is then not worth having."""


BLOCKS = {
    part.split("\n")[0]: re.findall(r"cat > .*?\nEND\n|[^\n]+\n", block, re.DOTALL)
    for part in PAGE.split("\n## ")[1:]
    for block in re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
}
"""The files and commands of each part, in order."""


def run(step: str) -> None:
    """Writes a file or runs a command of the page, shortened."""
    if found := re.fullmatch(r"cat > (\S+) <<'END'\n(.*)END\n", step, re.DOTALL):
        Path(found[1]).write_text(found[2], "utf-8")
        return
    program, *words = shlex.split(step)
    if program == "python":
        script = str(ROOT / words[0])
        sys.argv = [script, *words[1:], "--share", "0.0005", "--start", "small"]
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(script, run_name="__main__")
        assert ended.value.code == 0, step
        return
    said = " ".join(words)
    added = " ".join(more for began, more in SHORTER.items() if said.startswith(began))
    assert (program, main([*words, *shlex.split(added)])) == ("hushdoc", 0), step


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("title", "name", "box_level"),
    [
        ("FUNSD", "funsd", "segment"),
        ("SROIE", "sroie", "segment"),
        ("WildReceipt", "wildreceipt", "segment"),
        ("Words alone", "words", "none"),
        ("Layout with images", "images", "word"),
    ],
)
def test_a_part_runs_to_a_sealed_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, title: str, name: str, box_level: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.delenv("HUSHDOC_POLICY", raising=False)
    for corpus, (kind, labels) in CORPORA.items():
        config = invented.InventedConfig(document_types=(kind,), labels=labels)
        for folder, seed in ((corpus, 1), (f"{corpus}-test", 2)):
            invented.write(Path("data", folder), seed=seed, count=4, config=config, images=True)
    Path("invoice.pdf").write_bytes(pdfs.file([pdfs.shown("Total 12.50 Date 2026-11-23")]))
    published.publish(
        Path("encoder"), "layoutlmv3", published.byte_level(["Total"]), **published.IMAGES
    )
    for step in (*BLOCKS["Once"], *BLOCKS[title]):
        run(step)
    made = Checkpoint.load(Path("runs", name))
    assert made.preprocessing.box_level == box_level
    assert (made.preprocessing.image is not None) == (name == "images")
    assert [one.hyperparameter_tuning for one in made.claim.guarantees] == ["unaccounted"]
    assert (Path("models", name) / "hushdoc.json").is_file()
    if name in CORPORA:
        assert not CORPORA.keys() & {data.name for data in made.claim.public_data}


def test_every_part_is_run() -> None:
    assert [*BLOCKS] == [
        "Once",
        *("FUNSD", "SROIE", "WildReceipt", "Words alone", "Layout with images"),
        "What privacy costs",  # benchmarks have tests of their own
    ]


def test_every_run_says_that_its_recipe_was_chosen_on_its_corpus() -> None:
    steps = [step for block in BLOCKS.values() for step in block]
    files = [step for step in steps if step.startswith("cat > ") and "\ndata = " in step]
    assert all('\ntuned-on = "unaccounted"\n' in step for step in files)
    pages = [(ROOT / f"docs/corpora/{name}.md").read_text("utf-8") for name in CORPORA]
    lines = [*steps, *(line for page in pages for line in page.splitlines())]
    runs = [line for line in lines if "train kie" in line and "--epsilon" in line]
    assert all("--tuned-on unaccounted" in line for line in runs)
    assert (len(files), len(runs)) == (3, 10)
