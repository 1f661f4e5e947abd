"""Hostile inputs around artifacts: documents, corpora, ledgers and public keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import hushdoc_pdf_files as pdfs
from hushdoc_damage import Random
from hushdoc_hostile_class import HostileClass, spoiled

from hushdoc.document.page import Box, Word
from hushdoc.reading import OCRCache, ReadingLimits, in_reading_order, open_document
from hushdoc.signing import keys

FIXTURES = Path(__file__).parents[1] / "sdk" / "reading" / "fixtures"
LIMITS = ReadingLimits(max_bytes=2**21, max_pages=20, max_pixels=2**21, max_words=50_000)
"""Documents are read under these limits: an application's own decide how much memory a page is."""


def public_keys(folder: Path) -> HostileClass:
    from cryptography.hazmat.primitives import serialization as forms

    def pem(algorithm: str) -> bytes:
        public = build.known_key(1, algorithm).public_key()
        found: bytes = public.public_bytes(
            forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo
        )
        return found

    sound = [pem(algorithm) for algorithm in keys.ALGORITHMS]

    def read(content: bytes) -> object:
        (folder / "key.pem").write_bytes(content)
        return keys.load_public_key(folder / "key.pem")

    def require_right(content: bytes, found: Any) -> None:
        algorithm, raw = found
        if algorithm == keys.ED25519:
            # Whitespace, of which the package takes less, changes nothing that a key says.
            found_key = re.search(
                b"(-----BEGIN.*?-----)(.*?)(-----END.*?-----)", content, re.DOTALL
            )
            assert found_key is not None
            head, body, tail = found_key.groups()
            content = head + b"\n" + b"".join(body.split()) + b"\n" + tail
        public = forms.load_pem_public_key(content)
        if algorithm == keys.ED25519:
            told = public.public_bytes(forms.Encoding.Raw, forms.PublicFormat.Raw)
        else:
            told = public.public_bytes(forms.Encoding.X962, forms.PublicFormat.UncompressedPoint)
        assert told == raw

    return HostileClass(
        name="public-keys", share=15, sound=sound[0], read=read, judge=require_right,
        make=lambda dice: spoiled(sound, dice),
    )  # fmt: skip


def ledgers(folder: Path) -> HostileClass:
    from hushdoc_training.ledger.ledger import Ledger

    path = folder / "ledger.db"
    made = Ledger.create(path, data="forms", epsilon=8.0, delta=1e-5)
    for number in range(2):
        made.reserve(
            f"run-{number}", title="a run", step=build.STEP, steps=9, claim="0" * 64,
            documents="1" * 64,
        )  # fmt: skip
        made.charge(f"run-{number}", 3)
    sound = path.read_bytes()

    def read(content: bytes) -> object:
        path.write_bytes(content)
        opened = Ledger.open(path)
        return opened, opened.runs(), opened.head()

    honest = read(sound)

    def require_right(_: bytes, found: object) -> None:
        assert found == honest

    return HostileClass(
        name="ledgers", share=25, sound=sound, read=read, judge=require_right,
        make=lambda dice: spoiled([sound], dice),
    )  # fmt: skip


class OneWord:
    """An OCR engine that sees one word on every image, as it is decoders that are fed."""

    name, version = "one word", "1"

    def read(self, image: Any) -> list[Word]:
        """Returns the word."""
        return [Word(text="a", box=Box(x0=0, y0=0, x1=1, y1=1))]


NO_CACHE = OCRCache(max_pages=0)


def documents() -> Iterator[HostileClass]:
    """Yields documents in every format."""
    answers = [path.read_bytes() for path in sorted(FIXTURES.rglob("*.json"))]
    lines = [path.read_bytes() for path in sorted(FIXTURES.glob("*.hocr"))]
    shown = [pdfs.shown("Total due 12.50"), pdfs.shown("second page")]
    written = [
        pdfs.file(shown),
        pdfs.file(shown, extra="/Rotate 90"),
        pdfs.file(shown, password=""),
    ]
    texts = ["A text. It has 2 sentences.\n".encode(form) for form in ("utf-8", "utf-16")]
    for name, share, sound in (
        ("hocr", 40, lines),
        ("tesseract-tsv", 30, [(FIXTURES / "tesseract.tsv").read_bytes()]),
        ("ocr-json", 80, answers),
        ("plain-text", 25, texts),
        ("pdf", 40, written),
        ("images", 40, _images()),
    ):
        yield _documents_of(name, share, sound)


def _documents_of(name: str, share: int, sound: Sequence[bytes]) -> HostileClass:
    form = {"hocr": "hocr", "tesseract-tsv": "tesseract-tsv"}.get(name, "auto")

    engine = OneWord() if name == "images" else "none"

    def read(content: bytes) -> object:
        return open_document(content, ocr=engine, cache=NO_CACHE, limits=LIMITS, format=form)

    def require_right(_: bytes, document: Any) -> None:
        (document.check_text if document.text is not None else document.check)()
        assert in_reading_order(document).num_words == document.num_words

    return HostileClass(
        name=name, share=share, sound=sound[0], read=read, judge=require_right,
        make=lambda dice: spoiled(sound, dice, is_json=name == "ocr-json"),
    )  # fmt: skip


def _images() -> list[bytes]:
    import io

    from PIL import Image

    found = []
    with Image.open(FIXTURES / "page.png") as image:
        small = image.convert("L").resize((160, 96))
    for form in ("PNG", "JPEG", "TIFF", "GIF", "BMP", "WEBP"):
        stream = io.BytesIO()
        small.save(stream, format=form)
        found.append(stream.getvalue())
    return found


def tokenizers() -> HostileClass:
    """Tokenizers of several kinds, each used once on a text."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    from hushdoc.runtime.encoding import Encoder, Preprocessing

    words = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2, "c": 3}, unk_token="[UNK]"))
    words.normalizer = normalizers.BertNormalizer()
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pairs = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel()
    likely = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0))
    likely.normalizer = normalizers.Replace("a", "b")
    sound = [item.to_str().encode() for item in (words, pairs, likely)]
    preprocessing = Preprocessing(
        max_tokens=64, overlap=8, box_level="word", cls_id=0, sep_id=0, pad_id=0
    )

    def read(content: bytes) -> object:
        return Encoder(content, preprocessing).encode_text("a ab c").ids.tolist()

    def require_right(content: bytes, found: object) -> None:
        used = Tokenizer.from_str(content.decode())
        used.no_truncation()
        assert found == used.encode("a ab c", add_special_tokens=False).ids

    return HostileClass(
        name="tokenizers", share=20, sound=sound[0], read=read, judge=require_right,
        make=lambda dice: spoiled(sound, dice, is_json=True),
    )  # fmt: skip


def corpora(folder: Path) -> HostileClass:
    """Labelled texts and forms, each under the name of a file of its kind."""
    from hushdoc import labelled_files
    from hushdoc_training import invented, labelled_texts
    from hushdoc_training.data import xfund
    from hushdoc_training.data.corpus import Problems

    folder.mkdir()
    spans = [["law", 0, 4]]
    line = json.dumps({"id": "a", "label": "x", "text": "Utah law.", "spans": spans}).encode()
    word = {"text": "Total", "box": [1, 1, 9, 9]}
    item = {"box": [1, 1, 9, 9], "text": "Total", "label": "question", "words": [word], "id": 1}
    image = {"width": 99, "height": 99}
    form = json.dumps(
        {"documents": [{"id": "a", "img": image, "document": [{**item, "linking": [[1, 1]]}]}]}
    ).encode()
    (made,) = invented.documents(seed=1, count=1)
    own = labelled_files.dumps(made).encode()
    tagged = b"-DOCSTART- O\n\nUtah B-law\nlaw I-law\n\nrules O\n"
    readers: dict[bytes, tuple[bytes, Callable[[Path], Any]]] = {
        b"contracts": (line, labelled_texts.read_contracts),
        b"messages": (line, labelled_texts.read_messages),
        b"tagged": (tagged, labelled_texts.read_conll),
        b"form": (form, lambda path: list(xfund.read(path, Problems()))),
        b"invented": (own, labelled_files.read_one),
    }

    def make(dice: Random) -> bytes:
        kind = dice.choice(sorted(readers))
        sound = readers[kind][0]
        is_json = kind != b"tagged"
        return kind + b"\n" + spoiled([sound], dice, is_json=is_json)

    def read(content: bytes) -> object:
        kind, _, rest = content.partition(b"\n")
        path = folder / "corpus.json"
        path.write_bytes(rest)
        return readers[kind][1](path)

    def require_right(content: bytes, found: Any) -> None:
        if content.startswith(b"contracts"):
            for contract in found:
                assert all(0 <= a < b <= len(contract.text) for _, a, b in contract.spans)

    return HostileClass(
        name="corpora", share=40, sound=b"contracts\n" + line, make=make, read=read,
        judge=require_right,
    )  # fmt: skip
