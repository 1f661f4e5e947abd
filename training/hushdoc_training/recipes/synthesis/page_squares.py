"""Pages as a diffusion model reads them: squares of shades, layouts, and their latents."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageFilter

from hushdoc.arguments import short_repr
from hushdoc.document.page import Box, Page
from hushdoc.errors import AnnotationError, EmptyDocumentError
from hushdoc.labels import LabelledDocument
from hushdoc.reading import drawing
from hushdoc_training import duplicates
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.data.image_sets import content_digest
from hushdoc_training.models.autoencoder import PageAutoencoder
from hushdoc_training.recipes.synthesis.denoising import PageExample
from hushdoc_training.synthesis import masks

Floats = npt.NDArray[np.float32]
Seen = Callable[[int, int], None]

BATCH = 32
"""Squares that are encoded together."""

_TURNED, _MOVED, _SCALED = 2.0, 0.05, 0.08  # degrees, and shares of a page, at most


@dataclass(frozen=True, kw_only=True, eq=False)
class PageSquare:
    """One page as a square.

    Attributes:
        shades: From -1 (black) to 1 (white), shape [size, size].
        mask: Its layout, of the same shape; None where none is read.
        label: The number of its class; 0 where none is read.
    """

    shades: Floats
    mask: Floats | None
    label: int

    def blurred(self, radius: float) -> PageSquare:
        """Returns it with a blurred layout; a radius is in pixels."""
        if self.mask is None:
            return self
        sharp = Image.fromarray(((self.mask + 1) * 127.5).astype(np.uint8))
        soft = np.asarray(sharp.filter(ImageFilter.GaussianBlur(radius)), dtype=np.float32)
        return replace(self, mask=soft / np.float32(127.5) - 1)


def unseen(done: int, total: int) -> None:
    """Tells nobody."""


def require_documents(documents: Sequence[ImageDocument]) -> None:
    """Raises unless there is a document."""
    if not documents:
        raise EmptyDocumentError(
            "There is no document to learn from; at least one is needed. Check the data path."
        )


def require_known(documents: Sequence[ImageDocument], classes: Sequence[str]) -> None:
    """Raises unless there are documents, and each is of a class that was declared, if any was.

    It is of training without privacy: of private documents it would tell without noise.
    """
    require_documents(documents)
    for one in documents:
        if classes and one.label not in classes:
            raise AnnotationError(
                f"Document {short_repr(one.id)} is of the class {short_repr(one.label)}; declared "
                f"are {short_repr(list(classes), 300)}. Declare it with --label, or leave "
                "documents of that class out."
            )


def digest(documents: Sequence[ImageDocument]) -> str:
    """Returns a digest of all that training reads, whatever the order of the documents.

    It answers whether a guessed document is among them, so it stays with the trainer.
    """
    return duplicates.digest_of(
        f"{content_digest(one)} {_known(one)}".encode() for one in documents
    )


def distinct(documents: Sequence[ImageDocument]) -> list[ImageDocument]:
    """Returns one document of all that have the same images: which one, they alone decide."""
    kept: dict[str, ImageDocument] = {}
    for one in sorted(documents, key=lambda one: (_known(one), one.id)):
        kept.setdefault(content_digest(one), one)
    return list(kept.values())


def squares_of(
    documents: Sequence[ImageDocument],
    size: int,
    *,
    classes: Mapping[str, int],  # empty where none is read
    layout: bool,
    copies: int = 0,  # of each page, slightly moved; of public pages
    blur: float = 0.0,  # largest, in shares of a side, of one more of each; of public pages
    seen: Seen = unseen,
) -> list[list[PageSquare]]:
    """Returns the squares of each document, of each of its pages one and its copies.

    Each is computed of its own page and of public values alone.
    """
    made = []
    for number, one in enumerate(documents):
        square = partial(_square, size=size, layout=layout, label=classes.get(one.label, 0))
        squares = []
        for place, page in enumerate(one.pages):
            image = _image_of(page, one.id)
            known = shares(one.lines[place], page) if place < len(one.lines) else None
            squares.append(square(image, known))
            for copy in range(copies):
                squares.append(square(_moved(image, (number, place, copy)), None))
        if blur:
            chance = np.random.default_rng((number, len(squares)))
            squares += [one.blurred(blur * size * chance.uniform()) for one in squares]
        made.append(squares)
        seen(number + 1, len(documents))
    return made


def masks_of(documents: Sequence[LabelledDocument], size: int) -> list[Floats]:
    """Returns the layouts of labelled documents' pages, of those that have text."""
    made = []
    for labelled in documents:
        for page in labelled.document.pages:
            found = masks.of_boxes(shares(tuple(page.segment_boxes()), page), size)
            if masks.has_text(found):
                made.append(found)
    return made


def shares(lines: Sequence[Box], page: Page) -> npt.NDArray[np.float64]:
    """Returns boxes in shares of their page, shape [N, 4]."""
    corners = np.array([[box.x0, box.y0, box.x1, box.y1] for box in lines], dtype=np.float64)
    return corners.reshape(-1, 4) / [page.width, page.height, page.width, page.height]


def examples_of(
    squares: Sequence[Sequence[PageSquare]], codec: PageAutoencoder
) -> list[list[PageExample]]:
    """Returns the examples of each document, which is encoded alone.

    In one pass others would decide how its latents are rounded, and a start's weights may be made
    to turn a rounding into anything.
    """
    return [_examples(own, codec) if own else [] for own in squares]


def _examples(own: Sequence[PageSquare], codec: PageAutoencoder) -> list[PageExample]:
    latents = encoded(codec, [square.shades for square in own])
    masked = [square.mask for square in own if square.mask is not None]
    layouts = encoded(codec, masked) if masked else [None] * len(own)
    return [
        PageExample(latent=latent, layout=layout, label=square.label)
        for square, latent, layout in zip(own, latents, layouts, strict=True)
    ]


def encoded(codec: PageAutoencoder, squares: Sequence[Floats]) -> torch.Tensor:
    """Returns the latents of squares of shades, or of masks."""
    return torch.cat([codec.encode(part) for part in channels_of(squares, codec).split(BATCH)])


def channels_of(squares: Sequence[Floats], codec: PageAutoencoder) -> torch.Tensor:
    """Returns squares as the autoencoder reads them, shape [N, channels, size, size]."""
    read = torch.from_numpy(np.stack(squares))[:, None]
    return read.expand(-1, codec.preset.image_channels, -1, -1)


def _square(
    image: Image.Image,
    lines: npt.NDArray[np.float64] | None,
    *,
    size: int,
    layout: bool,
    label: int,
) -> PageSquare:
    mask = None
    if layout and lines is not None and len(lines):
        mask = masks.of_boxes(lines, size)
    elif layout:
        mask = masks.of_ink(_shades(image, size * masks.CELL))
    return PageSquare(shades=_shades(image, size), mask=mask, label=label)


def _image_of(page: Page, name: str) -> Image.Image:
    """Returns a page's image in shades of gray."""
    image = drawing.page_image(page)
    if image is None:
        raise AnnotationError(
            f"A page of document {short_repr(name)} has no image. Give documents with images."
        )
    return image.convert("L")


def _shades(image: Image.Image, size: int) -> Floats:
    small = image.resize((size, size), Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float32) / np.float32(127.5) - 1


def _moved(image: Image.Image, key: tuple[int, ...]) -> Image.Image:
    """Returns a public page slightly turned, scaled and shifted, white around it."""
    rng = np.random.default_rng(key)
    turned = image.rotate(rng.uniform(-_TURNED, _TURNED), fillcolor=255)
    scale = 1 + rng.uniform(-_SCALED, _SCALED)
    right, down = rng.uniform(-_MOVED, _MOVED, 2) * image.size
    return turned.transform(
        image.size, Image.Transform.AFFINE, (scale, 0, right, 0, scale, down), fillcolor=255
    )


def _known(one: ImageDocument) -> str:
    lines = [[[box.x0, box.y0, box.x1, box.y1] for box in page] for page in one.lines]
    return json.dumps([one.label, lines])
