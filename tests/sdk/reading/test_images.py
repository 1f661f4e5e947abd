"""Images: upright, in eight bits, and refused before they are decoded where they are too large."""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps, TiffImagePlugin

from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc.errors import (
    EmptyDocumentError,
    HushdocError,
    InputError,
    LimitExceededError,
    OCRRequiredError,
    UnsupportedFormatError,
)
from hushdoc.reading import OCRCache, ReadingLimits, ReadingWarning, open_document, page_image
from hushdoc.reading.images import frame_sizes, frames
from hushdoc.runtime.images import with_image


class Corner:
    """An engine that says where the darkest corner is: enough to see how an image was turned."""

    name = "corner"
    version = "1"

    def __init__(self) -> None:
        self.modes: list[str] = []

    def read(self, image: Image.Image) -> Sequence[Word]:
        self.modes.append(image.mode)
        corners = {
            "north-west": (0, 0),
            "north-east": (image.width - 1, 0),
            "south-west": (0, image.height - 1),
            "south-east": (image.width - 1, image.height - 1),
        }
        grey = image.convert("L")
        name = min(corners, key=lambda name: grey.getpixel(corners[name]))
        x, y = corners[name]
        return [Word(text=name, box=Box(x0=x, y0=y, x1=x + 1, y1=y + 1))]


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format=form, **options)
    return stream.getvalue()


def marked(mode: str = "L", size: tuple[int, int] = (64, 32), ink: Any = 0) -> Image.Image:
    """Returns a white image whose corner in the north-west is dark."""
    white: Any = {"L": 255, "RGB": (255,) * 3, "CMYK": (0,) * 4, "I;16": 65535, "1": 1}[mode]
    image = Image.new(mode, size, white)
    image.paste(ink, (0, 0, 8, 8))
    return image


def looked_at(content: bytes, **options: Any) -> tuple[str, Page]:
    document = open_document(content, ocr=Corner(), **options)
    (page,) = document.pages
    return page.words[0].text, page


@pytest.mark.parametrize(
    ("orientation", "corner", "size"),
    [
        (1, "north-west", (64, 32)),
        (2, "north-east", (64, 32)),
        (3, "south-east", (64, 32)),
        (4, "south-west", (64, 32)),
        (5, "north-west", (32, 64)),
        (6, "north-east", (32, 64)),
        (7, "south-east", (32, 64)),
        (8, "south-west", (32, 64)),
    ],
)
@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF"])
def test_photos_are_upright(
    tmp_path: Path, form: str, orientation: int, corner: str, size: tuple[int, int]
) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    path = tmp_path / "photo"
    path.write_bytes(saved(marked(), form, exif=exif))
    (page,) = open_document(path, ocr=Corner()).pages
    assert page.words[0].text == corner
    assert (page.width, page.height) == size
    drawn = page_image(page)
    assert drawn.size == size
    assert Corner().read(drawn)[0].text == corner
    assert with_image(path).pages[0].width == size[0]


def test_boxes_of_a_photo_that_was_not_turned_are_refused(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[274] = 6
    path = tmp_path / "photo"
    path.write_bytes(saved(marked(), "JPEG", exif=exif))

    def page(width: int, height: int) -> Page:
        boxes = [(0, 0, 8, 8)]
        found = Document.from_words(["a"], boxes, width=width, height=height, image=path)
        return found.pages[0]

    assert page_image(page(32, 64)).size == (32, 64)
    assert page_image(page(1000, 1000)).size == (1000, 1000)
    with pytest.raises(InputError, match="not turned upright"):
        page_image(page(64, 32))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF", "GIF", "BMP", "WEBP"])
def test_sizes_are_known_without_decoding(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = saved(marked(), form)
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: pytest.fail("decoded"))
    sizes = frame_sizes(content, id="a", limits=ReadingLimits())
    assert list(sizes) == [(0, (64, 32))]


def test_a_tiff_file_of_many_images_is_refused_before_all_are_looked_at() -> None:
    """Pillow counts them by comparing each with all before it: 7 MB took a minute."""
    content = bytearray(saved(Image.new("L", (9, 9)), "TIFF"))
    (start,) = struct.unpack_from("<I", content, 4)
    stop = start + 2 + 12 * struct.unpack_from("<H", content, start)[0]
    entries, size, first, count = bytes(content[start:stop]), stop - start + 4, len(content), 30_000
    content[stop : stop + 4] = struct.pack("<I", first)
    for number in range(1, count):
        content += entries + struct.pack("<I", first + size * number)
    content += entries + bytes(4)
    began = time.process_time()
    with pytest.raises(LimitExceededError, match="more than 1000 pages"):
        open_document(bytes(content), ocr=Corner())
    assert time.process_time() - began < 5


def test_a_tiff_file_has_a_page_for_each_image_but_thumbnails(tmp_path: Path) -> None:
    path = tmp_path / "scan.tif"
    second = marked(size=(40, 20)).rotate(180)
    with TiffImagePlugin.AppendingTiffWriter(path, True) as file:
        for image, subfile_type in ((marked(), 0), (marked(size=(8, 8)), 1), (second, 0)):
            image.save(file, "TIFF", tiffinfo={254: subfile_type})
            file.newFrame()
    document = open_document(path, ocr=Corner())
    assert [(page.width, page.frame) for page in document.pages] == [(64, 0), (40, 2)]
    assert [page.words[0].text for page in document.pages] == ["north-west", "south-east"]
    assert Document.from_dict(document.to_dict(), folder=tmp_path) == document
    drawn = page_image(document.pages[1])
    assert drawn is not None
    assert Corner().read(drawn)[0].text == "south-east"
    with pytest.raises(LimitExceededError, match="more than 2 pages; at most 2"):
        open_document(path, ocr=Corner(), limits=ReadingLimits(max_pages=2))
    assert len(open_document(path, ocr=Corner(), limits=ReadingLimits(max_pages=3)).pages) == 2
    lost = Page(width=9, height=9, words=(), image=path, frame=7)
    with pytest.raises(UnsupportedFormatError):
        page_image(lost)


@pytest.mark.parametrize(
    "content",
    [
        saved(marked("CMYK", ink=(0, 0, 0, 255)), "JPEG"),
        saved(marked("CMYK", ink=(0, 0, 0, 255)), "TIFF"),
        saved(marked("I;16"), "PNG"),
        saved(marked("I;16"), "TIFF"),
        saved(marked("1"), "TIFF"),
        saved(marked("1"), "PNG"),
        saved(marked("L").convert("P"), "GIF"),
        saved(marked("RGB", ink=(0, 0, 0)), "BMP"),
        saved(marked("RGB", ink=(0, 0, 0)), "WEBP", lossless=True),
    ],
)
def test_every_kind_of_pixel_becomes_rgb(content: bytes) -> None:
    engine = Corner()
    document = open_document(content, ocr=engine, cache=OCRCache())
    assert document.pages[0].words[0].text == "north-west"
    assert engine.modes == ["RGB"]


def test_sixteen_bits_are_scaled_and_not_cut() -> None:
    values = np.linspace(0, 65535, 256).astype(np.uint16).reshape(1, 256)
    ((_, image),) = frames(saved(Image.fromarray(values), "PNG"), id="x", limits=ReadingLimits())
    assert np.abs(np.asarray(image)[0, :, 0].astype(int) - np.arange(256)).max() <= 1


@pytest.mark.parametrize("mode", ["I;16", "I", "F"])
def test_all_grey_values_are_scaled_alike(mode: str) -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(1024, 64)
    kind = {"I;16": np.uint16, "I": np.int32, "F": np.float32}[mode]
    content = saved(Image.fromarray(values.astype(kind)), "TIFF")
    ((_, image),) = frames(content, id="x", limits=ReadingLimits())
    expected = (values.astype(np.int64) * 255 + 32767) // 65535
    assert np.array_equal(np.asarray(image)[:, :, 0], expected)


def test_many_pixels_of_sixteen_bits_take_little_memory() -> None:
    """Pillow holds the images themselves; this is what the scaling takes besides."""
    size = (4000, 2000)
    content = saved(Image.new("I;16", size, 3000), "PNG")
    tracemalloc.start()
    try:
        ((_, image),) = frames(content, id="x", limits=ReadingLimits())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert image.getpixel((0, 0)) == (12, 12, 12)
    assert peak < 3 * size[0] * size[1]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 70000.0])
def test_grey_values_that_are_none_are_told(value: float) -> None:
    values = np.ones((40, 30), np.float32)
    values[20, 20] = value
    content = saved(Image.fromarray(values), "TIFF")
    with pytest.raises(UnsupportedFormatError, match="grey values"):
        open_document(content, ocr=Corner())


CAPPED = [("PNG", {}), ("JPEG", {}), ("TIFF", {}), ("TIFF", {"compression": "tiff_deflate"}),
          ("GIF", {}), ("BMP", {})]  # fmt: skip


@pytest.mark.parametrize(("form", "options"), CAPPED)
def test_the_limits_alone_decide_how_many_pixels_are_read(
    monkeypatch: pytest.MonkeyPatch, form: str, options: dict[str, Any]
) -> None:
    """Pillow has a limit for the whole process, which is the host's and stays as it is."""
    content = saved(marked(), form, **options)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert looked_at(content)[0] == "north-west"
    assert Image.MAX_IMAGE_PIXELS == 100
    with pytest.raises(LimitExceededError, match="64 x 32 pixels; at most 2047"):
        open_document(content, ocr=Corner(), limits=ReadingLimits(max_pixels=2047))


def test_a_image_that_only_its_decoder_finds_too_large_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = saved(marked("RGB", ink=(0, 0, 0)), "WEBP")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    try:
        assert looked_at(content)[0] == "north-west"  # decoders of older Pillow find nothing
    except LimitExceededError as error:
        assert "too many pixels for its decoder" in str(error)  # noqa: PT017


def test_what_is_transparent_shows_white_paper() -> None:
    clear = Image.new("RGBA", (16, 16), (0, 0, 0, 0))
    ((_, image),) = frames(saved(clear, "PNG"), id="x", limits=ReadingLimits())
    assert image.getpixel((3, 3)) == (255, 255, 255)


def test_nothing_of_the_files_metadata_is_passed_on() -> None:
    exif = Image.Exif()
    exif[271] = "camera"
    content = saved(marked("RGB", ink=(0, 0, 0)), "JPEG", exif=exif, comment=b"secret")
    ((_, image),) = frames(content, id="x", limits=ReadingLimits())
    assert image.info == {}
    assert len(image.getexif()) == 0


@pytest.mark.parametrize(
    ("tags", "pages"),
    [
        ([{254: 0}, {254: 4}, {254: 2}], [0, 2]),  # the second is a mask
        ([{254: 1}, {254: 0}], [1]),  # cameras put the thumbnail first
        ([{254: 1}, {254: 1}], [0]),
        ([{255: 1}, {255: 2}, {255: 3}], [0, 2]),  # the tag of older scanners
    ],
)
def test_what_tiff_calls_no_page_is_none(tags: list[dict[int, int]], pages: list[int]) -> None:
    stream = io.BytesIO()
    with TiffImagePlugin.AppendingTiffWriter(stream, True) as file:
        for number, tag in enumerate(tags):
            marked(size=(40 + number, 20)).save(file, "TIFF", tiffinfo=tag)
            file.newFrame()
    document = open_document(stream.getvalue(), ocr=Corner())
    assert [page.width for page in document.pages] == [40 + number for number in pages]


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_animations_are_no_documents(form: str) -> None:
    frames = [marked(), marked().rotate(180)]
    content = saved(frames[0], form, save_all=True, append_images=frames[1:])
    with pytest.raises(UnsupportedFormatError, match="animated: it has 2 images"):
        open_document(content, ocr=Corner())


def test_a_photo_with_its_preview_is_the_photo() -> None:
    frames = [marked("RGB", ink=(0, 0, 0)), marked("RGB", ink=(0, 0, 0), size=(16, 8))]
    content = saved(frames[0], "MPO", save_all=True, append_images=frames[1:])
    assert looked_at(content)[1].width == 64


def png_of(width: int, height: int) -> bytes:
    """Returns a small file that says it has so many pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress(b"\x00" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("size", "said"),
    [((30_000, 30_000), "30000 x 30000 pixels"), ((10_000, 8_001), "10000 x 8001 pixels")],
)
def test_bombs_are_refused_undecoded(tmp_path: Path, size: tuple[int, int], said: str) -> None:
    (tmp_path / "bomb.png").write_bytes(png_of(*size))
    for width, height in ((10, 10), size):
        page = Page(width=width, height=height, words=(), image=tmp_path / "bomb.png")
        with pytest.raises(LimitExceededError):
            page_image(page)
    with pytest.raises(LimitExceededError, match=said) as raised:
        open_document(png_of(*size))
    assert raised.value.code == "LIMIT_EXCEEDED"


@pytest.mark.tesseract
def test_one_pixel_holds_no_word() -> None:
    content = saved(Image.new("L", (1, 1), 255), "PNG")
    for ocr in ("rapidocr", "tesseract"):
        with pytest.raises(EmptyDocumentError):
            open_document(content, ocr=ocr, limits=ReadingLimits())
    with pytest.raises(OCRRequiredError):
        open_document(content, ocr="none")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF", "GIF", "BMP", "WEBP"])
@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_images_cut_short_are_told(form: str, keep: float) -> None:
    noise = Image.fromarray(np.random.default_rng(5).integers(0, 255, (99, 99, 3), np.uint8))
    content = saved(noise, form)
    with pytest.raises(InputError, match="can't be read") as raised:
        open_document(content[: int(keep * len(content))], ocr=Corner())
    assert raised.value.code == "UNSUPPORTED_FORMAT"
    assert looked_at(content)[1].width == 99


def test_decoders_of_rare_formats_never_see_a_file() -> None:
    for form in ("TGA", "PCX", "ICNS", "PPM", "EPS"):
        try:
            content = saved(marked("RGB", ink=(0, 0, 0)), form)
        except (OSError, KeyError):
            continue
        with pytest.raises(HushdocError) as raised:
            open_document(content, format="image", ocr=Corner())
        assert raised.value.code == "UNSUPPORTED_FORMAT"


def test_an_image_of_another_size_than_its_page_is_fitted(tmp_path: Path) -> None:
    marked().save(tmp_path / "a.png")
    drawn = page_image(Page(width=128, height=64, words=(), image=tmp_path / "a.png"))
    assert drawn.size == (128, 64)
    assert page_image(Page(width=1, height=1, words=())) is None
    with pytest.raises(InputError, match="can't be read"):
        page_image(Page(width=1, height=1, words=(), image=tmp_path / "none.png"))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda word: Word(text="\ud800", box=word.box),
        lambda word: Word(text="x", box=Box(x0=-50, y0=0, x1=1, y1=1)),
        lambda word: Word(text="x", box=Box(x0=0, y0=0, x1=float("nan"), y1=1)),
        lambda word: Word(text="a\x00", box=word.box),
    ],
)
def test_an_engine_of_ones_own_is_checked_too(spoil: Callable[[Word], Word]) -> None:
    class Careless(Corner):
        name = "careless"

        def read(self, image: Image.Image) -> Sequence[Word]:
            return [spoil(word) for word in super().read(image)]

    with pytest.raises(InputError):
        open_document(saved(marked(), "PNG"), ocr=Careless(), cache=(cache := OCRCache()))
    assert len(cache) == 0


@pytest.mark.parametrize("size", [(30_000, 310), (310, 30_000), (65_327, 169), (2001, 80)])
def test_images_too_slender_for_a_page_are_refused(size: tuple[int, int]) -> None:
    """One of 65,327 x 169 pixels took an OCR engine minutes, one of 30,000 x 310 more than one."""
    said = f"{size[0]} x {size[1]} pixels, and pages more than 25"
    with pytest.raises(UnsupportedFormatError, match=said):
        open_document(saved(Image.new("L", size, 255), "PNG"), ocr=Corner(), cache=OCRCache())


@pytest.mark.parametrize("size", [(400, 6000), (80, 2000), (2000, 80)])
def test_long_receipts_are_pages(size: tuple[int, int]) -> None:
    page = Image.new("RGB", size, "white")
    page.paste(marked(), (0, 0))
    document = open_document(saved(page, "PNG"), ocr=Corner(), cache=OCRCache())
    assert document.num_words == 1


def test_a_slender_image_does_not_cost_the_others(tmp_path: Path) -> None:
    line = Image.new("L", (6000, 50), 255)
    line.save(tmp_path / "scan.tif", save_all=True, append_images=[marked()])
    with pytest.warns(ReadingWarning, match="Page 0 of 'scan' is 6000 x 50"):
        document = open_document(tmp_path / "scan.tif", ocr=Corner())
    assert [len(page.words) for page in document.pages] == [0, 1]
    assert document.source is not None
    assert (document.source.ocr_pages, document.source.unread_pages) == ((1,), (0,))


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_an_upright_image_is_not_copied_to_be_turned(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def turned(image: Image.Image) -> Image.Image:
        raise AssertionError("320 MB of the largest images")

    monkeypatch.setattr(ImageOps, "exif_transpose", turned)
    stream = io.BytesIO()
    Image.new(mode, (20, 10), "white").save(stream, format="PNG")
    found = [image.size for _, image in frames(stream.getvalue(), id="x", limits=ReadingLimits())]
    assert found == [(20, 10)]
