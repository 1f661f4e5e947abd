"""An answer as a web page: linked both ways, self-contained, and hostile words are only words."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hushdoc_documents import Found
from PIL import Image

from hushdoc.document.document import Document
from hushdoc.document.page import union
from hushdoc.document.provenance import Source
from hushdoc.errors import InputError
from hushdoc.viewing.html import to_html

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' style='position:fixed",
    "javascript:alert(1)",
    "</style></td></table>",
    "\u202egnp.exe",
    "&lt;b&gt;",
    "]]>--><!--",
]


@dataclass(frozen=True, kw_only=True)
class Answer:
    fields: list[Found]
    below_threshold: list[Found] = field(default_factory=list)
    coverage: float = 1.0
    warnings: tuple[str, ...] = ()
    source: Source | None = None
    calibrated_on: str | None = None


def document(words: list[str], *, image: Path | None = None) -> Document:
    boxes = [(10, 10 + 30 * index, 180, 30 + 30 * index) for index in range(len(words))]
    return Document.from_words(
        words, boxes, width=200, height=30 * len(words) + 40, image=image, id=words[0]
    )


def found(asked: Document, label: str, *ids: int) -> Found:
    words = [asked.pages[0].words[index] for index in ids]
    return Found(
        label=label,
        text=" ".join(word.text for word in words),
        box=union(word.box for word in words),
        word_ids=ids,
    )


class Tags(HTMLParser):
    """What a browser would make of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    return tags


def test_fields_and_boxes_are_linked_both_ways() -> None:
    asked = document(["Total", "12.50"])
    answer = Answer(
        fields=[found(asked, "total", 1)],
        below_threshold=[found(asked, "date", 0)],
        warnings=("Look here.",),
    )
    tags = parsed(to_html(asked, answer, labels=["total", "date"]))
    ids = {str(attributes.get("id")) for _, attributes in tags.tags if "id" in attributes}
    links = {str(attributes["href"]) for attributes in tags.named("a")}
    assert links == {"#field-0", "#box-0", "#field-1", "#box-1"}
    assert {link[1:] for link in links} <= ids
    anchors = {str(item.get("id")): str(item.get("style")) for item in tags.named("a")}
    assert anchors["box-0"].startswith("left:5.000%;top:40.000%;width:85.000%;height:20.000%;")
    told = " ".join(tags.words)
    for text in ("Look here.", "12.50", "0.50", "below the threshold", "not calibrated"):
        assert text in told
    assert "came from" not in told


def test_where_the_words_came_from_is_told() -> None:
    asked = document(["Total"])
    scanned = Answer(fields=[], source=Source(reader="image", ocr="<b>engine</b>", ocr_pages=(0,)))
    told = " ".join(parsed(to_html(asked, scanned)).words)
    assert "Where the words came from image, page 0 by <b>engine</b>" in " ".join(told.split())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_labels_and_ids_are_only_text(text: str) -> None:
    asked = document([text, text])
    answer = Answer(
        fields=[found(asked, text, 0)], below_threshold=[found(asked, text, 1)], warnings=(text,)
    )
    plain = Answer(fields=[Found(label=text, text=text, start=0, stop=len(text))])
    for page in (
        to_html(asked, answer, labels=[text]),
        to_html(Document.from_text(text, id=text), plain),
    ):
        tags = parsed(page)
        assert not tags.named("script")
        assert not [name for _, attributes in tags.tags for name in attributes if name[:2] == "on"]
        assert "\u202e" not in page
        for attributes in tags.named("a"):
            assert str(attributes["href"]).startswith("#")
            assert set(attributes) <= {"id", "href", "title", "aria-label", "style"}
            assert "position:fixed" not in str(attributes["style"])
        for attributes in tags.named("img"):
            assert str(attributes["src"]).startswith("data:image/")
        assert page.count("</style>") == 1


def test_the_page_loads_and_runs_nothing() -> None:
    asked = document(["a"])
    page = to_html(asked, Answer(fields=[]))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert "http://" not in page
    assert "https://" not in page
    assert "No field was found" in page


def test_the_image_of_the_page_stands_in_it(tmp_path: Path) -> None:
    Image.new("RGB", (200, 70), (200, 30, 30)).save(tmp_path / "scan.png")
    tags = parsed(to_html(document(["a"], image=tmp_path / "scan.png"), Answer(fields=[])))
    (image,) = tags.named("img")
    kind, content = str(image["src"]).split(";base64,")
    assert kind == "data:image/jpeg"
    (tmp_path / "back.jpeg").write_bytes(base64.b64decode(content))
    with Image.open(tmp_path / "back.jpeg") as back:
        pixel = back.getpixel((5, 5))
    assert max(abs(one - other) for one, other in zip(pixel, (200, 30, 30), strict=True)) < 12
    (tmp_path / "scan.png").write_bytes(b"no image")
    with pytest.raises(InputError):
        to_html(document(["a"], image=tmp_path / "scan.png"), Answer(fields=[]))


def test_a_plain_text_is_shown_whole_with_its_fields() -> None:
    text = "First line\n\nSecond <line> here"
    inner = Found(label="b", text="line", start=6, stop=10)
    fields = [Found(label="a", text="First line", start=0, stop=10), inner]
    page = to_html(Document.from_text(text, id="t"), Answer(fields=fields))
    told = "".join(parsed(page).words)
    assert text in told
    assert page.count('id="box-0"') == page.count('href="#box-0"') == 1
    # A field inside another has its row, not an underline of its own.
    assert 'id="field-1"' in page


def test_blanks_of_a_plain_text_are_shown_as_blanks() -> None:
    text = "Price:\t12\xa0500\r\nis\rdue\u2028now\u3000\u202e."
    fields = [Found(label="a", text=text, start=0, stop=len(text))]
    page = to_html(Document.from_text(text, id="t"), Answer(fields=fields))
    shown = "Price:\t12\xa0500\nis\ndue\nnow\u3000\\u202e."
    assert "".join(parsed(page).words).count(shown) == page.count(shown) == 2


def test_an_image_that_is_too_long_for_jpeg_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "long.png"
    Image.new("L", (20, 66_000), 255).save(path)
    asked = Document.from_words(["a"], [(1, 1, 9, 9)], width=20, height=66_000, image=path)
    assert "data:image/png;base64," in to_html(asked, Answer(fields=[]))
