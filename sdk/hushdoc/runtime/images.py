"""Images to model inputs: sizes, crops and colours as the model was trained with them.

The settings that shaped a model's training (`ImagePreprocessing`) are part of its artifact, so an
application feeds it exactly what it was trained on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hushdoc.document.document import Document
from hushdoc.errors import EmptyDocumentError, InputError
from hushdoc.runtime.scoring import Scoring, settings_errors

if TYPE_CHECKING:
    from PIL import Image

    from hushdoc.reading import ReadingLimits
    from hushdoc.reading.drawing import DrawPage

FITS = ("stretch", "crop")
RESAMPLES = ("nearest", "bilinear", "bicubic", "lanczos")
MAX_SIDE = 4096

Pixels = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagePreprocessing:
    """How a page's image becomes an input; part of the artifact's signed manifest.

    Attributes:
        height, width: Of the input, in pixels.
        fit: "stretch" squeezes the whole image into that size; "crop" keeps its proportions and
            cuts the middle out.
        crop_share: For "crop": which share of the image's shorter side, once it is made smaller,
            the shorter side of the input shows.
        resample: One of RESAMPLES, as Pillow computes them.
        mean, std: What is subtracted from red, green and blue, each from 0 to 1, then divided by.
        scores: How scores are calibrated, and their threshold; None for raw scores.
    """

    height: int
    width: int
    fit: str = "stretch"
    crop_share: float = 1.0
    resample: str = "bicubic"
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    scores: Scoring | None = None

    def __post_init__(self) -> None:
        """Refuses settings that no image can satisfy."""
        sides = (self.height, self.width)
        if any(type(side) is not int or not 1 <= side <= MAX_SIDE for side in sides):
            raise ValueError(f"The size is {sides}; expected integers from 1 to {MAX_SIDE}.")
        if self.fit not in FITS or self.resample not in RESAMPLES:
            raise ValueError(
                f"fit is {self.fit!r} and resample {self.resample!r}; expected one of {FITS} and "
                f"one of {RESAMPLES}."
            )
        if not 0.1 <= self.crop_share <= 1:
            raise ValueError(f"crop_share is {self.crop_share!r}; expected 0.1 to 1.")
        if (
            len(self.mean) != 3
            or len(self.std) != 3
            or not all(map(math.isfinite, (*self.mean, *self.std)))
        ):
            raise ValueError(
                f"mean is {self.mean} and std {self.std}; expected three numbers each."
            )
        if min(self.std) <= 0:
            raise ValueError(f"std is {self.std}; expected numbers above 0.")

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the manifest; without calibration there is no key for it."""
        data = {item.name: getattr(self, item.name) for item in fields(self)}
        scores = data.pop("scores")
        data |= {"mean": list(self.mean), "std": list(self.std)}
        return data if scores is None else {**data, "scores": scores.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ImagePreprocessing:
        """Returns the settings in a manifest; ArtifactError where a key or type is wrong."""
        with settings_errors("The preprocessing contract"):
            scores = data.get("scores")
            return cls(
                **{
                    **data,
                    "mean": tuple(float(value) for value in data["mean"]),
                    "std": tuple(float(value) for value in data["std"]),
                    "crop_share": float(data["crop_share"]),
                    "scores": None if scores is None else Scoring.from_dict(scores),
                }
            )


def pixels(image: Image.Image, settings: ImagePreprocessing) -> Pixels:
    """Returns an upright image of any mode as a model reads it, shape [3, height, width]."""
    from PIL import Image

    resample = Image.Resampling[settings.resample.upper()]
    image = image.convert("RGB")
    if settings.fit == "stretch":
        image = image.resize((settings.width, settings.height), resample)
    else:
        image = _middle(image, settings, resample)
    values = np.asarray(image, dtype=np.float32) / np.float32(255)
    mean, std = (np.asarray(of, dtype=np.float32) for of in (settings.mean, settings.std))
    return np.ascontiguousarray(((values - mean) / std).transpose(2, 0, 1))


def _middle(
    image: Image.Image, settings: ImagePreprocessing, resample: Image.Resampling
) -> Image.Image:
    """Returns the middle of an image whose shorter side was made as long as the crop needs."""
    shorter = int(min(settings.height, settings.width) / settings.crop_share)
    # In integers: a quotient of floats can make the shorter side a pixel shorter. Wide inputs of
    # narrow pages: the crop must not leave the image.
    width = max(settings.width, image.width * shorter // min(image.size))
    height = max(settings.height, image.height * shorter // min(image.size))
    image = image.resize((width, height), resample)
    left, top = (width - settings.width) // 2, (height - settings.height) // 2
    return image.crop((left, top, left + settings.width, top + settings.height))


def pixels_of_page(
    document: Document,
    number: int,
    settings: ImagePreprocessing,
    draw: DrawPage | None = None,
) -> Pixels:
    """Returns one page's image as a model reads it, drawn anew at each call; or NO_IMAGE."""
    from hushdoc.reading import page_image

    image = (draw or page_image)(document.pages[number])
    if image is None:
        raise InputError(
            f"Page {number} of document '{document.id}' has no image, and the model reads the "
            "images of pages. Open the document from its file, or name the page's image.",
            code="NO_IMAGE",
        )
    return pixels(image, settings)


def page_pixels(document: Document, settings: ImagePreprocessing) -> Iterator[Pixels]:
    """Yields every page's image as `pixels_of_page` returns it, each drawn when it is asked for."""
    if not document.pages:
        raise EmptyDocumentError(
            f"Document '{document.id}' has no page, and the model reads images of pages. Open "
            "the file it came from."
        )
    from hushdoc.reading.drawing import kept_open

    with kept_open() as draw:
        for number in range(len(document.pages)):
            yield pixels_of_page(document, number, settings, draw)


def with_image(
    source: str | os.PathLike[str] | bytes,
    *,
    password: str | None = None,
    limits: ReadingLimits | None = None,
    reader: str = "here",
) -> Document:
    """Returns the pages of an image or PDF file, by path or as bytes, reading no word of them."""
    # Readers take longer to load than a table of hashed features.
    from hushdoc.reading.drawing import open_pages

    return open_pages(source, password=password, limits=limits, reader=reader)
