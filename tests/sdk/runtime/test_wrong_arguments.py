"""Values of any type where others belong: one typed error, and the next call is as the one before.

Data of a wrong type is an InputError; a wrong setting is a ValueError that says what was expected.
Whatever else came out would be an accident deeper inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import hushdoc_tiny as tiny
import numpy as np
import pytest

import hushdoc
from hushdoc import reading
from hushdoc.document.document import Document
from hushdoc.errors import HushdocError, InputError
from hushdoc.reading.opening import open_document
from hushdoc.reports import cyclonedx, opendp
from hushdoc.runtime.classification import ClassificationModel
from hushdoc.runtime.embedding import EmbeddingModel
from hushdoc.runtime.extraction import Extraction, Failure, Field, Timings
from hushdoc.runtime.hashed.model import HashedCRFModel
from hushdoc.runtime.kie import KIEModel


def nested(depth: int) -> Any:
    """Returns a list in a list in a list."""
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


BAD: Mapping[str, Any] = {
    "nothing": None,
    "a boolean": True,
    "zero": 0,
    "a number below": -1,
    "a number": 7,
    "a number that is none": math.nan,
    "very many digits": 10**5000,
    "a text": "high",
    "an empty text": "",
    "half a character": "a\ud800",
    "a text with a NUL": "a\x00b",
    "bytes": b"%PDF",
    "no bytes": b"",
    "a list": [None],
    "a list of texts": ["a", "b"],
    "a list of numbers": [1, 2],
    "an empty list": [],
    "a deep list": nested(20_000),
    "an object of JSON": {"id": 3},
    "a set": {1},
    "a function": lambda: 3,
    "a class": Document,
    "an object": object(),
    "an array": np.zeros((2, 2)),
    "an array without dimensions": np.zeros(()),
    "a generator": (number for number in (1, 2)),
}
WORDS = ["Total", "due", "12.50"]
BOXES = [(10, 10, 60, 30), (66, 10, 90, 30), (160, 10, 190, 30)]
DOCUMENT = Document.from_words(WORDS, BOXES, width=200, height=100, id="good")
TEXT = Document.from_text("It is governed by the laws of Utah.", id="law")
WORD = DOCUMENT.pages[0].words[0]


@dataclass(frozen=True, kw_only=True)
class Models:
    """A model of each task, and the verified artifact of one."""

    kie: KIEModel
    crf: HashedCRFModel
    classification: ClassificationModel
    embedding: EmbeddingModel
    folder: Path
    policy: hushdoc.Policy


@pytest.fixture(scope="module")
def models() -> Models:
    policy = tiny.policy()
    return Models(
        kie=KIEModel.load(tiny.sealed(), policy=policy),
        crf=HashedCRFModel.load(tiny.sealed_table("kie"), policy=policy),
        classification=ClassificationModel.load(tiny.sealed_classifier("text"), policy=policy),
        embedding=EmbeddingModel.load(tiny.sealed_embedding(), policy=policy),
        folder=tiny.sealed(),
        policy=policy,
    )


def of_word(**change: Any) -> Document:
    """Returns a document of one word, or of what takes its place."""
    return of_page(words=(replace(WORD, **change),))


def of_page(**change: Any) -> Document:
    page = replace(DOCUMENT.pages[0], **change)
    return Document(id="odd", pages=(page,))


def odd(bad: Any) -> list[Document]:
    """Returns documents that were put together by hand with a value where another belongs."""
    return [
        Document(id="odd", pages=bad),
        Document(id="odd", pages=(bad,)),
        Document(id="odd", pages=(), text=bad),
        of_page(words=bad),
        of_page(words=(bad,)),
        of_page(width=bad),
        of_page(height=bad),
        of_word(text=bad),
        of_word(box=bad),
        of_word(box=replace(WORD.box, x0=bad)),
        of_word(box=replace(WORD.box, y1=bad)),
        of_word(segment=bad),
    ]


def from_words(**change: Any) -> Document:
    told = {"words": WORDS, "boxes": BOXES, "width": 200, "height": 100, **change}
    return Document.from_words(told.pop("words"), told.pop("boxes"), **told)


Call = Callable[[Models, Any], Any]
HTML = "<div class='ocr_page' title='bbox 0 0 9 9'></div>"
ADAPTERS = {name: getattr(reading, name) for name in reading.__all__ if name.startswith("from_")}
OPTIONS = ("format", "ocr", "id", "password", "limits")

ASKED: Mapping[str, Call] = {
    "KIEModel.extract": lambda m, bad: m.kie.extract(bad),
    "HashedCRFModel.extract": lambda m, bad: m.crf.extract(bad),
    "ClassificationModel.classify": lambda m, bad: m.classification.classify(bad),
    "EmbeddingModel.embed": lambda m, bad: m.embedding.embed(bad),
}
"""What asks a model for one document, or a file's path."""

DOCUMENTS: Mapping[str, Call] = {
    **ASKED,
    "with_segments": lambda _, bad: reading.with_segments(bad),
    "in_reading_order": lambda _, bad: reading.in_reading_order(bad),
    "redact": lambda _, bad: hushdoc.redact(bad, ()),
    "to_html": lambda m, bad: hushdoc.to_html(bad, m.kie.extract(DOCUMENT)),
    "to_hocr": lambda _, bad: hushdoc.to_hocr(bad),
    "to_markdown": lambda _, bad: hushdoc.to_markdown(bad),
}
"""What asks for one document."""

MANY: Mapping[str, Call] = {
    "KIEModel.extract_many": lambda m, bad, **how: m.kie.extract_many(bad, **how),
    "HashedCRFModel.extract_many": lambda m, bad, **how: m.crf.extract_many(bad, **how),
    "ClassificationModel.classify_many": lambda m, bad, **how: m.classification.classify_many(
        bad, **how
    ),
    "EmbeddingModel.embed_many": lambda m, bad, **how: m.embedding.embed_many(bad, **how),
}
"""What asks for many."""

PARTS: Mapping[str, Call] = {
    **{
        f"open_document({name}=)": lambda _, bad, name=name: open_document(b"a", **{name: bad})
        for name in OPTIONS
    },
    "open_document": lambda _, bad: open_document(bad),
    "open_document(cache=)": lambda _, bad: reading.open_document(b"a", cache=bad),
    **{
        f"Document.from_words({name}=)": lambda _, bad, name=name: from_words(**{name: bad})
        for name in ("words", "boxes", "width", "height", "segments", "id")
    },
    "Document.from_words, a word": lambda _, bad: from_words(words=["a", bad, "b"]),
    "Document.from_words, a box": lambda _, bad: from_words(boxes=[*BOXES[:2], bad]),
    "Document.from_words, a side": lambda _, bad: from_words(boxes=[*BOXES[:2], (0, 0, bad, 9)]),
    "Document.from_words, a segment": lambda _, bad: from_words(segments=[0, None, bad]),
    "Document.from_text": lambda _, bad: Document.from_text(bad),
    "Document.from_text(id=)": lambda _, bad: Document.from_text("a", id=bad),
    "Document.from_dict": lambda _, bad: Document.from_dict(bad),
    "Document.from_dict(folder=)": lambda _, bad: Document.from_dict(
        DOCUMENT.to_dict(), folder=bad
    ),
    "Document.to_dict(folder=)": lambda _, bad: replace(
        DOCUMENT, pages=(replace(DOCUMENT.pages[0], image=Path("a.png")),)
    ).to_dict(folder=bad),
    "Box.normalized(width=)": lambda _, bad: WORD.box.normalized(width=bad, height=10),
    "Box.normalized": lambda _, bad: replace(WORD.box, x0=bad).normalized(width=9, height=9),
    "Box.problem": lambda _, bad: replace(WORD.box, x0=bad).problem(width=9, height=9),
    "EmbeddingModel.embed(level=)": lambda m, bad: m.embedding.embed(DOCUMENT, level=bad),
    "EmbeddingModel.embed(fields=)": lambda m, bad: m.embedding.embed(
        DOCUMENT, level="field", fields=bad
    ),
    "EmbeddingModel.embed, a field": lambda m, bad: m.embedding.embed(
        DOCUMENT, level="field", fields=[bad]
    ),
    "EmbeddingModel.embed_texts": lambda m, bad: m.embedding.embed_texts(bad),
    "EmbeddingModel.embed_texts, a text": lambda m, bad: m.embedding.embed_texts(["a", bad]),
    "EmbeddingModel.embed_many(level=)": lambda m, bad: list(
        m.embedding.embed_many([DOCUMENT], level=bad)
    ),
    "ClassificationModel.classify(top_k=)": lambda m, bad: m.classification.classify(
        DOCUMENT, top_k=bad
    ),
    "ClassificationModel.classify_many(top_k=)": lambda m, bad: list(
        m.classification.classify_many([DOCUMENT], top_k=bad)
    ),
    **{
        f"{name}({setting}=)": lambda m, bad, call=call, setting=setting: list(
            call(m, [DOCUMENT], **{setting: bad})
        )
        for name, call in MANY.items()
        for setting in ("workers", "on_error")
    },
    "to_pandas": lambda _, bad: hushdoc.to_pandas(bad),
    "to_pandas, an answer": lambda _, bad: hushdoc.to_pandas([bad]),
    "hushdoc.load": lambda m, bad: hushdoc.load(bad, policy=m.policy),
    "hushdoc.load(policy=)": lambda m, bad: hushdoc.load(m.folder, policy=bad),
    "hushdoc.load(device=)": lambda m, bad: hushdoc.load(m.folder, policy=m.policy, device=bad),
    "hushdoc.load(runtime=)": lambda m, bad: hushdoc.load(m.folder, policy=m.policy, runtime=bad),
    "KIEModel.load": lambda m, bad: KIEModel.load(bad, policy=m.policy),
    "KIEModel.load(device=)": lambda m, bad: KIEModel.load(m.folder, policy=m.policy, device=bad),
    "KIEModel.load(runtime=)": lambda m, bad: KIEModel.load(m.folder, policy=m.policy, runtime=bad),
    "HashedCRFModel.load": lambda m, bad: HashedCRFModel.load(bad, policy=m.policy),
    "verify": lambda m, bad: hushdoc.verify(bad, m.policy),
    "TrustStore.from_file": lambda _, bad: hushdoc.TrustStore.from_file(bad),
    "TrustStore.from_json": lambda _, bad: hushdoc.TrustStore.from_json(bad),
    "TrustStore.of": lambda _, bad: hushdoc.TrustStore.of(bad),
    "TrustStore.of, a key": lambda _, bad: hushdoc.TrustStore.of([bad]),
    **{
        f"Policy({name}=)": lambda m, bad, name=name: replace(m.policy, **{name: bad})
        for name in ("trust", "privacy_units", "adjacency", "kinds", "revocations")
    },
    "overlay": lambda _, bad: hushdoc.overlay(bad, ()),
    "overlay(fields=)": lambda _, bad: hushdoc.overlay(DOCUMENT.pages[0], bad),
    "overlay, a field": lambda _, bad: hushdoc.overlay(DOCUMENT.pages[0], [bad]),
    "overlay(labels=)": lambda _, bad: hushdoc.overlay(DOCUMENT.pages[0], (), labels=bad),
    "redact(fields=)": lambda _, bad: hushdoc.redact(DOCUMENT, bad),
    "redact, a field": lambda _, bad: hushdoc.redact(DOCUMENT, [bad]),
    "redact(labels=)": lambda m, bad: hushdoc.redact(
        DOCUMENT, m.kie.extract(DOCUMENT).fields, labels=bad
    ),
    "to_html(answer=)": lambda _, bad: hushdoc.to_html(DOCUMENT, bad),
    "to_html(labels=)": lambda m, bad: hushdoc.to_html(
        DOCUMENT, m.kie.extract(DOCUMENT), labels=bad
    ),
    "to_hocr(fields=)": lambda _, bad: hushdoc.to_hocr(DOCUMENT, bad),
    "to_hocr, a field": lambda _, bad: hushdoc.to_hocr(DOCUMENT, [bad]),
    "to_markdown(answer=)": lambda _, bad: hushdoc.to_markdown(DOCUMENT, bad),
    "Extraction.from_dict": lambda _, bad: Extraction.from_dict(bad),
    "Field.from_dict": lambda _, bad: Field.from_dict(bad),
    "Timings.from_dict": lambda _, bad: Timings.from_dict(bad),
    **{name: lambda _, bad, call=call: call(bad) for name, call in ADAPTERS.items()},
    "from_hocr(id=)": lambda _, bad: reading.from_hocr(HTML, id=bad),
    "from_hocr(limits=)": lambda _, bad: reading.from_hocr(HTML, limits=bad),
    "from_textract(page_sizes=)": lambda _, bad: reading.from_textract(
        {"Blocks": [{"BlockType": "PAGE", "Id": "p"}]}, page_sizes=bad
    ),
    "from_rapidocr(width=)": lambda _, bad: reading.from_rapidocr(
        [{"txt": "a", "box": [[0, 0], [9, 0], [9, 9], [0, 9]]}], width=bad
    ),
    "reading_order": lambda _, bad: reading.reading_order(bad),
    "page_image": lambda _, bad: reading.page_image(bad),
    "page_image, its file": lambda _, bad: reading.page_image(
        replace(DOCUMENT.pages[0], image=bad)
    ),
    "page_image(password=)": lambda _, bad: reading.page_image(DOCUMENT.pages[0], password=bad),
    "page_image(limits=)": lambda _, bad: reading.page_image(
        replace(DOCUMENT.pages[0], image=b"x"), limits=bad
    ),
    "OCRCache(max_pages=)": lambda _, bad: reading.OCRCache(max_pages=bad),
    "OCRCache(folder=)": lambda _, bad: reading.OCRCache(folder=bad),
    "RapidOCREngine(timeout_seconds=)": lambda _, bad: reading.RapidOCREngine(timeout_seconds=bad),
    "TesseractEngine(languages=)": lambda _, bad: reading.TesseractEngine(languages=bad),
    "TesseractEngine(timeout_seconds=)": lambda _, bad: reading.TesseractEngine(
        timeout_seconds=bad
    ),
    "bill_of_materials": lambda _, bad: cyclonedx.bill_of_materials(
        bad, (), payload_sha256="0" * 64
    ),
    "bill_of_materials(subjects=)": lambda m, bad: cyclonedx.bill_of_materials(
        m.kie.certificate, bad, payload_sha256="0" * 64
    ),
    "bill_of_materials(payload_sha256=)": lambda m, bad: cyclonedx.bill_of_materials(
        m.kie.certificate, (), payload_sha256=bad
    ),
    "bill_of_materials(spec_version=)": lambda m, bad: cyclonedx.bill_of_materials(
        m.kie.certificate, (), payload_sha256="0" * 64, spec_version=bad
    ),
    "registry_entries": lambda _, bad: opendp.registry_entries(bad, payload_sha256="0" * 64),
    "registry_entries(payload_sha256=)": lambda m, bad: opendp.registry_entries(
        m.kie.certificate, payload_sha256=bad
    ),
}

ENTRIES: Mapping[str, Call] = {
    **DOCUMENTS,
    **{name: lambda m, bad, call=call: list(call(m, bad)) for name, call in MANY.items()},
    **{
        f"{name}, an item": lambda m, bad, call=call: list(call(m, [DOCUMENT, bad]))
        for name, call in MANY.items()
    },
    **PARTS,
}


def surprise(call: Callable[[], Any]) -> str | None:
    """Returns what came out of a call that is neither an answer nor an error of a known kind."""
    try:
        call()
    except HushdocError as error:
        return None if len(str(error)) < 2000 else "a very long message"
    except Exception as error:
        # Not its subclasses: those are Python's own, such as UnicodeEncodeError.
        if type(error) is ValueError and "expected" in str(error):
            return None
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def good(models: Models) -> list[Any]:
    """Returns what every model answers to what can be used."""
    return [
        models.kie.extract(DOCUMENT),
        models.crf.extract(TEXT),
        models.classification.classify(DOCUMENT),
        models.embedding.embed(DOCUMENT).vectors.tolist(),
        next(iter(models.kie.extract_many([DOCUMENT], workers=2))),
    ]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy, of sums with arrays
@pytest.mark.parametrize("name", ENTRIES)
def test_a_value_of_any_type_gets_an_answer_or_a_typed_error(models: Models, name: str) -> None:
    before = good(models)
    found = {kind: surprise(partial(ENTRIES[name], models, bad)) for kind, bad in BAD.items()}
    assert {kind: told for kind, told in found.items() if told is not None} == {}
    assert good(models) == before


@pytest.mark.parametrize("kind", BAD)
def test_documents_put_together_by_hand_are_looked_at(models: Models, kind: str) -> None:
    asks: list[Callable[[Document], Any]] = [
        models.kie.extract,
        models.classification.classify,
        models.embedding.embed,
        models.crf.extract,
    ]
    found = {
        (number, ask.__qualname__): surprise(partial(ask, document))
        for number, document in enumerate(odd(BAD[kind]))
        for ask in asks
    }
    assert {place: told for place, told in found.items() if told is not None} == {}


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (None, r"The document is NoneType; expected a Document\. .*open_document"),
        (7, r"is int; expected a Document"),
        (b"%PDF", r"is bytes; .*open_document\(content\)"),
        ([DOCUMENT], r"is list; .*one by one"),
        (DOCUMENT.to_dict(), r"is dict; "),
        (np.zeros(3), r"is ndarray; "),
    ],
)
def test_what_is_no_document_is_told_with_what_to_do(
    models: Models, name: str, bad: Any, says: str
) -> None:
    with pytest.raises(InputError, match=says) as raised:
        DOCUMENTS[name](models, bad)
    assert raised.value.code == "BAD_INPUT"


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("bad", ["gone.pdf", Path("gone.pdf")])
def test_a_path_is_opened_by_models_and_refused_by_others(
    models: Models, name: str, bad: Any
) -> None:
    if name == "EmbeddingModel.embed" and isinstance(bad, str):
        return  # a text
    says = "Check the path 'gone.pdf'" if name in ASKED else r"Pass open_document\(path\)"
    with pytest.raises(InputError, match=says):
        DOCUMENTS[name](models, bad)


@pytest.mark.parametrize("name", MANY)
def test_what_is_no_document_among_many_is_told_by_its_number(models: Models, name: str) -> None:
    given = [DOCUMENT, None, DOCUMENT]
    first, failed, last = MANY[name](models, given, on_error="collect")
    assert isinstance(failed, Failure)
    assert failed.error.code == "BAD_INPUT"
    assert str(failed.error).startswith("Item 1 of the documents is NoneType; expected a Document")
    assert not isinstance(first, Failure)
    assert not isinstance(last, Failure)
    stream = MANY[name](models, given)
    next(stream)
    with pytest.raises(InputError, match="Item 1 of the documents"):
        next(stream)


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("bad", [None, 7, "a.pdf", b"%PDF", DOCUMENT, {}])
def test_one_document_is_not_many(models: Models, name: str, bad: Any) -> None:
    with pytest.raises(InputError, match="expected a list, or another iterable, of documents"):
        MANY[name](models, bad)


def test_texts_of_a_generator_are_all_embedded(models: Models) -> None:
    texts = ["the laws of Utah", "the total due"]
    told = models.embedding.embed_texts(texts).vectors
    assert (models.embedding.embed_texts(text for text in texts).vectors == told).all()  # type: ignore[arg-type]
    assert len(told) == 2


def test_numbers_of_numpy_are_segments_and_sides() -> None:
    made = from_words(
        boxes=np.array(BOXES, dtype=np.float32), segments=np.array([0, 0, 1], dtype=np.int64)
    )
    assert made == from_words(segments=[0, 0, 1])
    assert [type(word.segment) for word in made.pages[0].words] == [int] * 3
