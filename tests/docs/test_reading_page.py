"""docs/reading.md: its samples run, and its tables are the code's."""

from __future__ import annotations

import re
import shutil
from dataclasses import fields
from pathlib import Path

import pytest
from PIL import Image

from hushdoc.document.limits import MAX_SIDE
from hushdoc.reading import ENGINES, FORMATS, ReadingLimits
from hushdoc.reading.drafting import NOMINAL, PIXELS_PER_INCH
from hushdoc.reading.pdf_forms import MAX_FIELDS, MAX_STEPS
from hushdoc.reading.pdf_text import MAX_PAGE_CHARACTERS
from hushdoc.reading.reader_process import MEMORY, SECONDS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/reading.md").read_text("utf-8")
PAGE = ROOT / "tests/sdk/reading/fixtures/page.png"


@pytest.mark.tesseract
def test_the_samples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(PAGE, tmp_path / "scan.png")
    with Image.open(PAGE) as image:
        image.save(tmp_path / "invoice.pdf")
    monkeypatch.chdir(tmp_path)
    samples = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert len(samples) == 3
    for sample in samples:
        exec(compile(f"import hushdoc\n{sample}", "docs/reading.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("pdf, page 0 by rapidocr")
    assert printed[2].startswith("image, page 0 by tesseract")


def test_every_format_and_engine_stands_in_its_table() -> None:
    stated = re.findall(r"^\| `([a-z-]+)` \|", TEXT, flags=re.MULTILINE)
    assert {*stated, "auto"} == set(FORMATS)
    for engine in ENGINES:
        assert f'`"{engine}"`' in TEXT


def test_limits_are_those_of_the_code() -> None:
    stated = {name: int(value) for name, value in re.findall(r"\| `(max_\w+)` \| (\d+)\b", TEXT)}
    expected = {found.name: found.default for found in fields(ReadingLimits)}
    assert stated == expected | {"max_seconds": SECONDS, "max_memory": MEMORY}
    assert f"has {PIXELS_PER_INCH} pixels an inch" in TEXT
    assert f"pages are {NOMINAL} x {NOMINAL}" in TEXT
    running = TEXT.replace("\n", " ")
    assert f"longer than {MAX_SIDE} pixels" in running
    assert f"more than {MAX_FIELDS} fields, or more than {MAX_STEPS} parents" in running
    assert f"text layer has more than {MAX_PAGE_CHARACTERS} characters" in running
