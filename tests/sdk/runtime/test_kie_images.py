"""Models that read the images of pages beside their words: real artifacts, drawn pages."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_command_runs
import hushdoc_tiny as tiny
import numpy as np
import pytest
from PIL import Image

import hushdoc
from hushdoc.__main__ import main
from hushdoc.commands import doctor_proof
from hushdoc.commands.outcomes import PARTIAL
from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc.errors import ArtifactError, InputError
from hushdoc.runtime import extraction, images, kie
from hushdoc.runtime.kie import KIEModel
from hushdoc.runtime.session import Runtime

WORDS = ["Total", "12.50", "EUR", "from", "acme", "on", "2026-11-21"]


def image(path: Path, *, seed: int) -> Path:
    """Draws a page of coarse noise, so that no two pages look alike even when they are small."""
    colours = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    Image.fromarray(colours, "RGB").resize((320, 200), Image.Resampling.NEAREST).save(path)
    return path


def page(num_words: int, image: Path | None) -> Page:
    words = tuple(
        Word(
            text=WORDS[index % len(WORDS)],
            box=Box(
                x0=5 + 30 * (index % 10),
                y0=5 + 10 * (index // 10),
                x1=30 + 30 * (index % 10),
                y1=13 + 10 * (index // 10),
            ),
        )
        for index in range(num_words)
    )
    return Page(width=320, height=200, words=words, image=image)


@pytest.fixture(scope="module")
def model() -> KIEModel:
    return KIEModel.load(
        tiny.sealed_with_images(), policy=tiny.policy(), runtime=Runtime(threads=1)
    )


@pytest.fixture
def pages(tmp_path: Path) -> tuple[Page, ...]:
    """Three pages with the same words and different images, the second longer than a window."""
    return tuple(
        page(count, image(tmp_path / f"{number}.png", seed=number))
        for number, count in enumerate((9, 60, 9))
    )


def told(document: Document, model: KIEModel) -> list[Any]:
    found = model.extract(document).fields
    return [(field.page, field.label, field.word_ids, field.score) for field in found]


def expected(asked: Page) -> list[Any]:
    """Returns what torch answers for a page of one window."""
    with Image.open(asked.image) as opened:
        small = opened.convert("RGB").resize((32, 32), Image.Resampling.BILINEAR)
    pixels = (np.asarray(small, dtype=np.float32) / 255 - 0.5) / 0.5
    shown = [pixels.transpose(2, 0, 1)]
    tiny_models = pytest.importorskip("hushdoc_tiny_models")
    return tiny_models.fields_by_torch(tiny_models.image_model(), asked, pixel_values=shown)


def test_images_in_memory_answer_like_images_in_files(
    model: KIEModel, pages: tuple[Page, ...]
) -> None:
    kept = tuple(replace(page, image=Path(str(page.image)).read_bytes()) for page in pages)
    asked, in_memory = (Document(id="d", pages=group) for group in (pages, kept))
    assert told(in_memory, model) == told(asked, model)


def test_an_exported_model_answers_like_its_checkpoint(
    model: KIEModel, pages: tuple[Page, ...]
) -> None:
    assert hushdoc.verify(tiny.sealed_with_images(), tiny.policy()).passed
    for asked in (pages[0], pages[2]):
        found = told(Document(id="d", pages=(asked,)), model)
        wanted = expected(asked)
        assert [item[1:3] for item in found] == [item[:2] for item in wanted]
        assert [item[3] for item in found] == pytest.approx([item[2] for item in wanted], abs=1e-5)
        assert len(found) > 1


def test_the_image_counts_and_each_page_has_its_own(
    model: KIEModel, pages: tuple[Page, ...]
) -> None:
    together = told(Document(id="d", pages=pages), model)
    for number, asked in enumerate(pages):
        alone = told(Document(id="d", pages=(asked,)), model)
        mine = [item for item in together if item[0] == number]
        assert [item[1:3] for item in mine] == [item[1:3] for item in alone]
        assert [item[3] for item in mine] == pytest.approx([item[3] for item in alone], abs=1e-5)
    swapped = replace(pages[0], image=pages[2].image)
    scores = [item[3] for item in told(Document(id="d", pages=(swapped,)), model)]
    assert scores != pytest.approx([item[3] for item in together if item[0] == 0], abs=1e-3)


def test_a_page_is_drawn_once_for_all_its_windows_and_few_are_kept(
    model: KIEModel, pages: tuple[Page, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = told(Document(id="d", pages=pages), model)
    drawn: list[int] = []
    kept: list[int] = []
    draw, run = images.pixels_of_page, model._run

    def counted(document: Document, number: int, settings: Any, how: Any) -> Any:
        drawn.append(number)
        return draw(document, number, settings, how)

    def watched(encoded: Any, parts: Any, drawings: Any = None) -> Any:
        kept.append(len(drawings))
        return run(encoded, parts, drawings)

    monkeypatch.setattr(images, "pixels_of_page", counted)
    monkeypatch.setattr(model, "_run", watched)
    monkeypatch.setattr(kie, "PAGES_AT_ONCE", 2)
    after = told(Document(id="d", pages=pages), model)
    assert drawn == [0, 1, 2]
    assert kept == [2, 1]
    assert [item[:3] for item in after] == [item[:3] for item in before]
    assert [item[3] for item in after] == pytest.approx([item[3] for item in before], abs=1e-5)


def test_a_page_without_image_is_refused_and_blanks_are_never_fed(
    model: KIEModel, pages: tuple[Page, ...]
) -> None:
    bare = (pages[0], replace(pages[1], image=None))
    with pytest.raises(InputError, match="Page 1 of document 'd' has no image") as raised:
        model.extract(Document(id="d", pages=bare))
    assert raised.value.code == "NO_IMAGE"
    assert "Open the document from its file" in str(raised.value)
    gone = replace(pages[0], image=Path("gone.png"))
    with pytest.raises(InputError, match="gone.png"):
        model.extract(Document(id="d", pages=(gone,)))


def test_a_page_without_words_needs_no_image(model: KIEModel, pages: tuple[Page, ...]) -> None:
    answer = model.extract(Document(id="d", pages=(pages[0], page(0, None), pages[2])))
    assert {field.page for field in answer.fields} == {0, 2}


def test_drawing_counts_as_encoding(
    model: KIEModel, pages: tuple[Page, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = images.pixels_of_page
    later = 0.0

    def slow(document: Document, number: int, settings: Any, how: Any) -> Any:
        nonlocal later
        later += 1000
        return draw(document, number, settings, how)

    monkeypatch.setattr(images, "pixels_of_page", slow)
    monkeypatch.setattr(extraction, "perf_counter", lambda: time.perf_counter() + later)
    timings = model.extract(Document(id="d", pages=pages)).timings
    assert timings.encoding_seconds >= 3000
    assert 0 < timings.model_seconds < 1000


def test_contract_and_graph_must_tell_of_the_same_images(tmp_path: Path) -> None:
    origin = tiny.sealed_with_images()
    without = tiny.resealed(tmp_path / "without", origin=origin)
    with pytest.raises(ArtifactError, match="reads .*pixel_values.*; a model"):
        KIEModel.load(without, policy=tiny.policy())
    image = replace(tiny.image_preprocessing().image, height=64)
    other = replace(tiny.image_preprocessing(), image=image)
    wrong = tiny.resealed(tmp_path / "wrong", origin=origin, settings=other)
    with pytest.raises(ArtifactError, match=r"\[3, 64, 32\] each"):
        KIEModel.load(wrong, policy=tiny.policy())
    needless = tiny.resealed(tmp_path / "needless", settings=tiny.image_preprocessing())
    with pytest.raises(ArtifactError, match="a model for 'kie' reads .*pixel_values"):
        KIEModel.load(needless, policy=tiny.policy())


def test_the_command_reads_the_image_of_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    invented = pytest.importorskip("hushdoc_training.invented")
    config = invented.InventedConfig(document_types=("receipt",), labels="fields")
    invented.image(seed=5, index=1, config=config).save(tmp_path / "scan.png")
    blank = Document.from_words(["total"], [(1, 1, 9, 9)], width=20, height=20, id="blank")
    (tmp_path / "blank.json").write_text(json.dumps(blank.to_dict()))
    hushdoc_command_runs.write_policy(tmp_path, tiny.TRUST)
    monkeypatch.chdir(tmp_path)
    asked = ["extract", str(tiny.sealed_with_images()), "scan.png", "blank.json", "--jsonl"]
    assert hushdoc_command_runs.run(*asked, "--policy", "policy.toml") == PARTIAL
    printed, warned = capfd.readouterr()
    answers = [json.loads(line) for line in printed.splitlines()]
    assert answers[0]["fields"]
    assert answers[1]["error"]["code"] == "NO_IMAGE"
    assert "NO_IMAGE: blank.json" in warned


def test_bench_and_doctor_ask_with_a_image(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trust.json").write_bytes(tiny.TRUST.to_json())
    trust = ("--trust", str(tmp_path / "trust.json"), "--integrity-only")
    model = str(tiny.sealed_with_images())
    assert main(["bench", model, *trust, "--words", "5", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["documents"][0]["words"] == 5
    assert "KIEModel" in doctor_proof._run_model(Path(model), tiny.policy())
