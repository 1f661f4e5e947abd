"""docs/synthesis.md: its commands and its sample run, and its numbers are those of the code."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import hushdoc_command_runs
import pytest
from PIL import Image

from hushdoc import labelled_files
from hushdoc.signing.trust_store import TrustStore
from hushdoc.synthetic_documents import MAX_SHARD_BYTES
from hushdoc_training import invented
from hushdoc_training.invented.specification import FACTORS
from hushdoc_training.synthesis import proposals
from hushdoc_training.synthesis.ballots import VOTES
from hushdoc_training.synthetic_checkpoint import MOST_DOCUMENTS

TEXT = (Path(__file__).parents[2] / "docs/synthesis.md").read_text("utf-8")
SMALL = {"synthesize evolution": " --pool 12 --nearest 3 --documents 3 --quiet"}


def _public_receipts(folder: Path) -> None:
    """Writes receipts with blank images."""
    folder.mkdir()
    made = []
    config = invented.InventedConfig(document_types=("receipt",), labels="sroie")
    for number, item in enumerate(invented.documents(seed=2, count=5, config=config)):
        (page,) = item.document.pages
        image = folder / f"{number}.png"
        Image.new("L", (page.width, page.height), 255).save(image)
        pages = (replace(page, image=image),)
        made.append(replace(item, document=replace(item.document, pages=pages)))
    labelled_files.write(folder / "documents.jsonl", made)


@pytest.mark.slow
def test_the_commands_and_the_sample_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = invented.InventedConfig(document_types=("receipt",), labels="sroie")
    documents = invented.documents(seed=1, count=4, config=config)
    labelled_files.write(Path("receipts.jsonl"), documents)
    assert hushdoc_command_runs.run("keygen", "--out", "release", "--name", "tests") == 0
    commands, public, *_ = re.findall(r"```sh\n(.*?)```", TEXT, flags=re.DOTALL)
    for line in commands.splitlines():
        name = " ".join(line.split()[1:3])
        assert hushdoc_command_runs.run(*shlex.split(line + SMALL.get(name, ""))[1:]) == 0
    assert "3 documents: each is what its specification gives" in capsys.readouterr().out
    shutil.move("run", "invented-run")
    shutil.move("given-away", "invented-set")
    _public_receipts(Path("public-receipts"))
    evolution, check = public.splitlines()
    for line in (evolution, commands.splitlines()[1], check):
        name = " ".join(line.split()[1:3])
        assert hushdoc_command_runs.run(*shlex.split(line + SMALL.get(name, ""))[1:]) == 0
    assert "3 documents: each is a public page" in capsys.readouterr().out
    shutil.rmtree("given-away")
    shutil.move("invented-set", "given-away")
    trust = TrustStore.from_file(Path("release.trust.json"))
    written = hushdoc_command_runs.write_policy(tmp_path, trust)
    written.write_text(f'{written.read_text()}adversary = "synthetic-data-recipient"\n')
    [sample] = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    exec(compile(sample, "docs/synthesis.md", "exec"), {})
    assert capsys.readouterr().out.startswith("3 Counter(")


def test_the_numbers_are_those_of_the_code() -> None:
    assert proposals._THRESHOLD == 2
    assert "two deviations of the noise" in TEXT
    assert f"{proposals._PRIOR:.0%}".replace("%", " %") + " of every proposal" in TEXT
    assert f"{sum(name.startswith('habit') for name in FACTORS)} habits" in TEXT
    assert re.findall(r"^\| `(\w+)` \|", TEXT, flags=re.MULTILINE) == list(VOTES)
    assert f"at most {MAX_SHARD_BYTES // 2**20} MiB" in TEXT
    assert f"at most {MOST_DOCUMENTS:,} documents" in TEXT
    # The numbers themselves are known answers in tests/training/privacy/test_votes.py.
    for joined in ("0.60, 0.85 and 1.20", "3.73, 5.28 and 7.46"):
        assert joined in TEXT
