"""OCR: the engines that are installed, read really; what is kept, and where."""

from __future__ import annotations

import io
import itertools
import os
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import hushdoc_pdf_files as pdfs
import pytest
from hushdoc_processes import in_python
from PIL import Image

from hushdoc.document.document import Document
from hushdoc.document.page import Box, Word
from hushdoc.errors import (
    BoxError,
    EmptyDocumentError,
    InputError,
    MissingExtraError,
    OCRError,
    OCRRequiredError,
    UnsupportedFormatError,
)
from hushdoc.reading import (
    OCRCache,
    OCREngine,
    RapidOCREngine,
    ReadingWarning,
    TesseractEngine,
    open_document,
    rapidocr,
    tesseract,
)
from hushdoc.system import telemetry

PAGE = "Hollis Supply Ltd. Invoice INV-2207 Date 2026-03-14 Total due 12.50 EUR"
TEXT = PAGE.split(" ")
ENGINES = ("rapidocr", pytest.param("tesseract", marks=pytest.mark.tesseract))


def texts(document: Document) -> list[list[str]]:
    return [[word.text for word in page.words] for page in document.pages]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_reads_the_page_word_by_word(fixtures: Path, engine: str) -> None:
    document = open_document(fixtures / "page.png", ocr=engine)
    (page,) = document.pages
    assert [word.text for word in page.words] == TEXT
    assert [word.segment for word in page.words] == [0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 3]
    assert document.source.ocr.startswith(f"{engine} ")
    assert document.source.ocr_pages == (0,)
    seen = open_document(fixtures / "tesseract.tsv").pages[0].words
    for word, other in zip(page.words, seen, strict=True):
        shared = min(word.box.x1, other.box.x1) - max(word.box.x0, other.box.x0)
        assert shared > 0.8 * (other.box.x1 - other.box.x0)


def test_auto_takes_rapidocr_where_it_is_installed(fixtures: Path) -> None:
    document = open_document(fixtures / "page.png")
    assert document.source.ocr == f"rapidocr {rapidocr.default_engine().version}"


@pytest.mark.tesseract
def test_auto_reads_only_the_pages_without_text(fixtures: Path) -> None:
    scan = image_page(fixtures / "page.png")
    document = open_document(scan)
    assert [word.text for word in document.pages[0].words] == ["typed"]
    assert [word.text for word in document.pages[1].words] == TEXT
    assert document.source.ocr_pages == (1,)
    assert "page 1 by rapidocr" in str(document.source)
    named = open_document(scan, ocr="tesseract")
    assert named.source.ocr_pages == (0, 1)
    assert named.pages[0].words[0].text == "typed"
    bare = open_document(scan, ocr="none")
    assert bare.num_words == 1
    assert bare.source.ocr is None


def test_a_number_stamped_on_a_scan_does_not_hide_its_text(fixtures: Path) -> None:
    stamped = image_page(fixtures / "page.png", stamp=pdfs.shown("A-0017", x=230, y=20))
    document = open_document(stamped)
    assert document.source.ocr_pages == (1,)
    assert {*TEXT, "A-0017"} <= {word.text for word in document.pages[1].words}


def test_a_stamped_scan_in_strips_is_read_whole(fixtures: Path) -> None:
    stamped = image_page(fixtures / "page.png", stamp=pdfs.shown("A-0017", x=230, y=20), strips=3)
    document = open_document(stamped)
    assert {*TEXT, "A-0017"} <= {word.text for word in document.pages[1].words}


def image_page(path: Path, stamp: bytes = b"", strips: int = 1) -> bytes:
    """Returns a PDF file: a page of text, then one that shows an image, in strips."""
    with Image.open(path) as image:
        grey = image.convert("L")
    each = grey.height // strips
    parts = [grey.crop((0, each * n, grey.width, each * (n + 1))) for n in range(strips)]
    high = 183.5 / strips
    shown = b"".join(
        b"q 306 0 0 %f 0 %f cm /Im%d Do Q\n" % (high, 100 + high * (strips - 1 - n), n)
        for n in range(strips)
    )
    names = " ".join(f"/Im{n} {14 + n} 0 R" for n in range(strips))
    content: bytes = pdfs.file(
        [pdfs.shown("typed", y=250), shown + stamp],
        box="[0 0 306 300]",
        objects=[pdfs.image(*part.size, part.tobytes()) for part in parts],
        shows=f"/XObject << {names} >>",
    )
    return content


@pytest.mark.parametrize("reader", ["here", "process"])
def test_slender_pages_of_a_pdf_file_are_not_read_by_ocr(reader: str) -> None:
    engine, box = Counting(), "[0 0 3000 30]"
    drawn, shown = b"0 0 9 9 re f\n", pdfs.shown("typed", x=9, y=9)
    with pytest.raises(UnsupportedFormatError, match="Page 0 of 'document' can't be read by OCR"):
        open_document(pdfs.file([drawn], box=box), ocr=engine, reader=reader)
    with pytest.warns(ReadingWarning, match="Pages 0, 1 of 'document' can't be read by OCR: each"):
        document = open_document(pdfs.file([drawn, shown], box=box), ocr=engine, reader=reader)
    assert texts(document) == [[], ["typed"]]
    assert document.source.unread_pages == (0, 1)
    assert engine.calls == 0
    assert texts(open_document(pdfs.file([shown], box=box), reader=reader)) == [["typed"]]


class Counting:
    """An engine that counts its calls."""

    name = "counting"

    def __init__(self, version: str = "1") -> None:
        self.version = version
        self.calls = 0

    def read(self, image: Image.Image) -> Sequence[Word]:
        self.calls += 1
        return [Word(text=f"call{self.calls}", box=Box(x0=1, y0=1, x1=2, y1=2), segment=3)]


@pytest.mark.tesseract
@pytest.mark.parametrize(
    "size",
    [(1, 3000), (3000, 2), pytest.param((40000, 4), marks=pytest.mark.slow), (33, 40000)],
)
def test_slender_images_are_read_and_say_nothing(size: tuple[int, int]) -> None:
    blank = Image.new("RGB", size, "white")
    engines = [TesseractEngine(), rapidocr.default_engine()]
    assert all(isinstance(engine, OCREngine) for engine in engines)
    assert [list(engine.read(blank)) for engine in engines] == [[], []]


@pytest.mark.tesseract
@pytest.mark.parametrize("engine", ENGINES)
def test_a_slender_page_does_not_cost_the_others(
    fixtures: Path, tmp_path: Path, engine: str
) -> None:
    path = tmp_path / "fax.tif"
    with Image.open(fixtures / "page.png") as image:
        rest = Image.new("RGB", (3000, 2), "white")
        rest.save(path, save_all=True, append_images=[image.convert("RGB")])
    document = open_document(path, ocr=engine)
    assert texts(document) == [[], TEXT]
    rest.save(path)
    with pytest.raises(EmptyDocumentError, match=rf"OCR by {engine} .* found no word on page 0 "):
        open_document(path, ocr=engine)


@pytest.mark.tesseract
def test_words_of_a_shrunk_image_stand_where_they_are(fixtures: Path) -> None:
    with Image.open(fixtures / "page.png") as image:
        page = image.convert("RGB").resize((400, 240))
    long = Image.new("RGB", (34_000, 240), "white")  # too long for Tesseract
    long.paste(page, (33_000, 0))
    by_word = {word.text: word.box for word in TesseractEngine().read(page)}
    found = {word.text: word.box for word in TesseractEngine().read(long)}
    assert len(found) > 5
    for text in by_word.keys() & found.keys():
        assert found[text].x0 == pytest.approx(33_000 + by_word[text].x0, abs=12)


@pytest.mark.parametrize("size", [(8000, 60), (33, 40_000)])
def test_slender_images_are_laid_on_paper_before_rapidocr_looks(size: tuple[int, int]) -> None:
    drawn, part = rapidocr._fitting(Image.new("RGB", size, "black"))
    assert max(drawn.size) == max(part) == rapidocr.LONGEST
    assert max(drawn.size) <= rapidocr.TALL * min(drawn.size)
    assert max(size) / part[size.index(max(size))] == pytest.approx(min(size) / min(part), rel=0.4)
    assert drawn.crop((0, 0, *part)).getextrema() == ((0, 0),) * 3
    assert drawn.getpixel((drawn.width - 1, drawn.height - 1)) == (255, 255, 255)


@pytest.mark.slow
def test_a_slender_line_is_read_by_rapidocr(fixtures: Path) -> None:
    with Image.open(fixtures / "page.png") as image:
        page = image.convert("RGB").resize((400, 240))
    line = Image.new("RGB", (8000, 60), "white")
    line.paste(page.crop((0, 0, 400, 60)), (500, 0))
    found = rapidocr.default_engine().read(line)
    assert all(0 <= word.box.x0 <= word.box.x1 <= 8000 for word in found)


def test_rapidocr_takes_no_more_threads_than_the_container_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rapidocr, "usable_cores", lambda: 3)
    for engine, expected in ((RapidOCREngine(), 3), (RapidOCREngine(threads=1), 1)):
        assert engine._engine.cfg.EngineConfig.onnxruntime.intra_op_num_threads == expected


def test_a_image_is_read_once_by_each_engine() -> None:
    engine, cache = Counting(), OCRCache(max_pages=2)
    images = [Image.new("RGB", (9, 9), (grey,) * 3) for grey in range(3)]
    first = cache.read(engine, images[0])
    assert cache.read(engine, images[0].copy()) == first
    assert engine.calls == 1
    assert cache.read(Counting("2"), images[0]) == first  # it read anew and counts from one
    other = Counting("3")
    cache.read(other, images[1])
    cache.read(other, images[2])
    assert len(cache) == 2
    cache.read(other, images[1])
    assert other.calls == 2
    cache.clear()
    cache.read(other, images[1])
    assert other.calls == 3


def test_a_folder_keeps_pages_only_where_the_application_names_it(tmp_path: Path) -> None:
    image = Image.new("RGB", (9, 9))
    engine = Counting()
    folder = tmp_path / "kept"
    kept = OCRCache(folder=folder).read(engine, image)
    (path,) = folder.iterdir()
    assert path.stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0
    assert OCRCache(folder=folder).read(engine, image) == kept
    assert engine.calls == 1
    for damage in (b"", b"[[1]]", b"{", b'[["a", [0, 0, "x", 1], null]]'):
        path.write_bytes(damage)
        assert OCRCache(folder=folder).read(engine, image)[0].segment == 3
    assert engine.calls == 5


def test_telemetry_is_off_and_no_page_is_written_to_disk(fixtures: Path, tmp_path: Path) -> None:
    """Everything that a fresh process opens for writing while each engine reads a page."""
    code = (
        "import os, sys\n"
        "os.environ.pop('ORT_DISABLE_TELEMETRY', None)\n"
        "opened = []\n"
        "def watch(event, arguments):\n"
        "    if event == 'open' and isinstance(arguments[0], (str, bytes)) and arguments[2] & 3:\n"
        "        opened.append(str(arguments[0]))\n"
        "from hushdoc.reading.opening import open_document\n"
        "sys.dont_write_bytecode = True\n"
        "sys.addaudithook(watch)\n"
        "for engine in sys.argv[2:]:\n"
        "    open_document(sys.argv[1], ocr=engine)\n"
        "print([name for name in opened if name != os.devnull])\n"
        "print(os.environ['ORT_DISABLE_TELEMETRY'], 'onnxruntime' in sys.modules)"
    )
    quiet = {"TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    engines = ["rapidocr", *(["tesseract"] if tesseract.program() else [])]
    done = in_python(code, fixtures / "page.png", *engines, cwd=tmp_path, environment=quiet)
    assert (done.stdout, done.stderr) == ("[]\n1 True\n", "")
    assert list(tmp_path.iterdir()) == []


def test_telemetry_that_was_on_before_rapidocr_is_refused(fixtures: Path) -> None:
    late = (
        "import os, sys\n"
        "os.environ.pop('ORT_DISABLE_TELEMETRY', None)\n"
        "import onnxruntime\n"
        "onnxruntime.__version__ = '1.31.1'\n"
        "from hushdoc.reading.opening import open_document\n"
        "open_document(sys.argv[1], ocr='rapidocr')\n"
    )
    done = in_python(late, fixtures / "page.png", check=False)
    assert "TelemetryActiveError" in done.stderr


def test_rapidocr_without_its_runtime_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"hushdoc\[cpu\]"):
        RapidOCREngine()


def test_a_missing_program_is_told(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OCRError, match="apt-get install tesseract-ocr") as raised:
        open_document(fixtures / "page.png", ocr="tesseract")
    assert (raised.value.code, raised.value.exit_code) == ("OCR_FAILED", 6)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'no such language' >&2; exit 1", "failed with code 1: 'no such language'"),
        ("sleep 20", "took more than 0.5 seconds"),
        ("echo level", "first row names"),
        ("cat", "first row names"),
    ],
)
def test_a_program_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    path = tmp_path / "tesseract"
    path.write_text(
        '#!/bin/sh\ncase "$*" in *hocr) cat > /dev/null; '
        "echo \"<meta name='ocr-system' content='tesseract 9'/>\"; exit;; esac\n"
        f"{script}\n"
    )
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    engine = TesseractEngine(timeout_seconds=0.5)
    assert engine.version == "9 (eng)"
    with pytest.raises((OCRError, InputError), match=said):
        engine.read(Image.new("RGB", (50, 50)))


@pytest.mark.tesseract
def test_languages_are_names() -> None:
    for bad in ("", "eng;rm", "--help", "eng +deu"):
        with pytest.raises(ValueError, match="languages"):
            TesseractEngine(languages=bad)
    with pytest.raises(OCRError, match="xyz"):
        TesseractEngine(languages="xyz").read(Image.new("RGB", (50, 50)))


def test_a_missing_package_names_its_extra(fixtures: Path, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules[sys.argv[2]] = None\n"
        "from hushdoc.reading.opening import open_document\n"
        "from hushdoc.errors import MissingExtraError\n"
        "try:\n"
        "    open_document(sys.argv[1], ocr=sys.argv[3])\n"
        "except MissingExtraError as error:\n"
        "    print(error)"
    )
    pdf = tmp_path / "a.pdf"
    pdf.write_bytes(b"%PDF-1.7")
    for path, package, ocr, extra in (
        (pdf, "pypdfium2", "none", "hushdoc[pdf]"),
        (fixtures / "page.png", "PIL", "none", "hushdoc[ocr]"),
        (fixtures / "page.png", "rapidocr", "rapidocr", "hushdoc[ocr]"),
    ):
        told = in_python(code, path, package, ocr).stdout
        assert f"'{package}'" in told
        assert extra in told


def test_wrong_names_are_the_callers_mistake(fixtures: Path) -> None:
    with pytest.raises(ValueError, match="ocr is 'magic'"):
        open_document(fixtures / "page.png", ocr="magic")
    with pytest.raises(ValueError, match="format is 'docx'"):
        open_document(fixtures / "page.png", format="docx")
    with pytest.raises(OCRRequiredError):
        open_document(fixtures / "page.png", ocr="none")


def test_models_are_never_downloaded(tmp_path: Path) -> None:
    with pytest.raises(OCRError, match="nothing is downloaded"):
        rapidocr._models(tmp_path)


def test_many_threads_share_one_engine(fixtures: Path) -> None:
    alone = open_document(fixtures / "page.png", ocr="rapidocr")
    engine = RapidOCREngine(threads=1)
    found: list[Document] = []

    def work() -> None:
        cache = OCRCache()
        found.append(open_document(fixtures / "page.png", ocr=engine, cache=cache))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 3


def test_the_program_of_this_machine_is_the_one_that_is_found() -> None:
    assert tesseract.program() == shutil.which("tesseract")


BURNED = 0.2


def burn(pixels: object) -> None:
    """Takes processor time, as an engine does, and finds nothing."""
    end = time.thread_time() + BURNED
    while time.thread_time() < end:
        pass


def test_a_page_that_takes_rapidocr_too_long_is_refused_between_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = RapidOCREngine(threads=1, timeout_seconds=1.5 * BURNED)
    read: list[object] = []
    monkeypatch.setattr(engine, "_engine", lambda pixels: (read.append(pixels), burn(pixels))[1])
    path = png(Image.new("RGB", (300, 7500), "white"))
    with pytest.raises(OCRError, match=r"took more than 0.3 seconds of processor time") as raised:
        open_document(path, ocr=engine, cache=OCRCache())
    assert (raised.value.code, raised.value.exit_code) == ("OCR_FAILED", 6)
    assert len(read) == 2  # of four pieces
    monkeypatch.setattr(engine, "_engine", lambda pixels: Line())
    assert open_document(png(Image.new("RGB", (100, 100))), ocr=engine).num_words == 2


def test_what_a_page_waits_is_not_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine, and other threads' pages, would else have a page refused by chance."""
    engine = RapidOCREngine(threads=1, timeout_seconds=BURNED)
    monkeypatch.setattr(engine, "_engine", lambda pixels: time.sleep(BURNED))
    assert engine.read(Image.new("RGB", (300, 7500), "white")) == []


def test_rapidocr_looks_at_the_time_before_each_run_of_a_model(
    fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece is read in up to hundreds of runs. This clock moves on when it is looked at."""
    monkeypatch.setattr(rapidocr, "time", SimpleNamespace(thread_time=itertools.count().__next__))
    image = Image.open(fixtures / "page.png")
    # Looked at when the piece begins, then before lines are found, turned and read.
    with pytest.raises(OCRError, match="took more than 3.5 seconds"):
        RapidOCREngine(threads=1, timeout_seconds=3.5).read(image)
    found = RapidOCREngine(threads=1, timeout_seconds=4.5).read(image)
    assert [word.text for word in found] == TEXT


def png(image: Image.Image) -> bytes:
    image.save(stream := io.BytesIO(), "PNG")
    return stream.getvalue()


class Line:
    """What RapidOCR's output object has, with a line that leans over the page's edge."""

    img = None
    txts = ("Total due",)
    boxes = (((-30, 10), (50, -20), (60, 20), (-20, 40)),)
    word_results: tuple[object, ...] = ()


def test_a_line_that_leans_over_the_edge_is_cut_there_by_the_engine_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = RapidOCREngine(threads=1)
    monkeypatch.setattr(engine, "_engine", lambda pixels: Line())
    first, second = engine.read(Image.new("RGB", (100, 100)))
    assert (first.text, second.text) == ("Total", "due")
    assert (first.box.x0, first.box.y0, second.box.x1, second.box.y1) == (0, 0, 60, 40)
    with pytest.raises(BoxError, match="word 0 "):
        rapidocr.from_rapidocr(Line(), width=100, height=100)


def test_the_output_object_is_read_as_its_json(fixtures: Path) -> None:
    telemetry.keep_off()
    from rapidocr import RapidOCR

    engine = RapidOCR(params={"Global.log_level": "critical"})
    answer = engine(str(fixtures / "page.png"))
    document = rapidocr.from_rapidocr(answer)
    assert (document.pages[0].width, document.pages[0].height) == (800, 480)
    assert document == rapidocr.from_rapidocr(answer.to_json(), width=800, height=480)
    by_word = engine(str(fixtures / "page.png"), return_word_box=True)
    assert [word.text for word in rapidocr.from_rapidocr(by_word).pages[0].words] == TEXT
