"""Labelled texts to calibrate tables of hashed features on: from files, or invented contracts."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.certificate.claim import PublicData
from hushdoc.errors import AnnotationError, InputError
from hushdoc_training import labelled_texts
from hushdoc_training.invented import clause_contracts
from hushdoc_training.labelled_texts import (
    ClassifiedText,
    Contract,
    LabelledText,
    Message,
    TextSpan,
)

USES = ("calibration of scores",)

NUM_INVENTED = 400

SEED = 2
"""Tables are trained on invented contracts of seed 0, and scaled by those of seed 1."""

INVENTED = PublicData(
    name="invented contracts of hushdoc's public generator",
    uses=USES,
    privacy_status="invented",
    overlap_with_protected="none",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Labelled:
    """A text that has both a class and labelled parts."""

    text: str
    label: str
    spans: tuple[TextSpan, ...]


def read(location: Path) -> list[Contract] | list[Message] | list[Labelled]:
    """Returns the texts of a file of JSON lines, or of the one such file that a folder holds.

    The first line decides whether they have spans, a class, or both.
    """
    path = labelled_texts.find(location)
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise InputError(
            f"'{path}' is not a file of JSON lines; tables are calibrated on whole texts, as "
            'applications read them. Give lines of {"id", "text", "spans": [[label, start, stop], '
            '...]}, or of {"id", "label", "text"} for a table that classifies texts.'
        )
    keys = _keys(path)
    if "pages" in keys:
        raise InputError(
            f"'{path}' holds documents of pages and words, and tables are calibrated on whole "
            "texts, whose places labels are counted by. Give the texts that the table was trained "
            'on the like of: lines of {"id", "text", "spans"}, or of {"id", "label", "text"}.'
        )
    if "label" not in keys:
        return labelled_texts.read_contracts(path)
    messages = labelled_texts.read_messages(path)
    labelled_texts.require_distinct(messages, path)
    if "spans" not in keys:
        return messages
    return [
        Labelled(text=message.text, label=message.label, spans=contract.spans)
        for message, contract in zip(messages, labelled_texts.read_contracts(path), strict=True)
    ]


def _keys(path: Path) -> frozenset[str]:
    """Returns the keys of a file's first line; none where it is not a JSON object."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            read = iter(lambda: lines.readline(labelled_texts.MAX_BYTES), b"")
            first = json.loads(next((line for line in read if line.strip()), b"{}"))
    except (OSError, EOFError, RecursionError, ValueError, zlib.error):
        return frozenset()  # reading the whole file gives a better message
    return frozenset(first) if isinstance(first, dict) else frozenset()


def declared(location: Path, *, status: str, overlap: str) -> PublicData:
    """Returns the certificate's entry for texts that their owner declares to need no protection.

    The file or folder gives them its name, as in training.
    """
    return PublicData(
        name=location.resolve().name,
        uses=USES,
        privacy_status=f"declared by the exporter: {status}",
        overlap_with_protected=overlap,
    )


def invented(fields: Sequence[str]) -> list[labelled_texts.Contract]:
    """Returns invented contracts that no training draws from by itself."""
    require_known(
        fields,
        clause_contracts.CLAUSES,
        "contracts",
        "Calibrate it on texts that need no protection: --calibrate-on.",
    )
    return clause_contracts.contracts(NUM_INVENTED, seed=SEED)


def require_known(fields: Sequence[str], known: Iterable[str], what: str, instead: str) -> None:
    """Raises InputError unless invented documents have every field that a model finds."""
    unknown = sorted(set(fields) - set(known))
    if unknown or not fields:
        raise InputError(
            f"Invented {what} have no field {', '.join(unknown)[:200] or 'at all'}, so they can't "
            f"measure how often the model is right about it. {instead}"
        )


def with_fields(fields: Iterable[str], texts: Sequence[Any]) -> Sequence[LabelledText]:
    """Returns texts in which every field that a table finds is labelled.

    A field that is missing was not looked for, and what the table finds would count as wrong.
    """
    if not all(hasattr(item, "spans") for item in texts):
        raise AnnotationError(
            "The texts have classes, and this table finds clauses or entities in "
            'them. Expected lines of {"id", "text", "spans"}, as hushdoc train clauses reads them; '
            "give such texts."
        )
    missing = sorted(set(fields) - {label for item in texts for label, _, _ in item.spans})
    if missing:
        raise InputError(
            f"None of the {len(texts)} texts has a span '{missing[0][:80]}', which the table "
            "finds, so they can't measure how often it is right. Label every field of the table in "
            "them, or give others."
        )
    return texts


def with_classes(classes: Sequence[str], texts: Sequence[Any]) -> Sequence[ClassifiedText]:
    """Returns texts of all the classes that a table knows."""
    if not all(hasattr(item, "label") for item in texts):
        raise AnnotationError(
            "The texts have spans, and this table classifies whole "
            'texts. Expected lines of {"id", "label", "text"}, as hushdoc train classifier '
            "reads them; give such texts."
        )
    labels = {item.label for item in texts}
    unknown, missing = sorted(labels - {*classes}), sorted({*classes} - labels)
    if unknown:
        raise AnnotationError(
            f"Texts have the class '{unknown[0][:80]}'; the table knows "
            f"{', '.join(classes)[:200]}. Leave them out, or correct their label."
        )
    if missing:
        raise InputError(
            f"None of the {len(texts)} texts has the class '{missing[0][:80]}', which the table "
            "knows, so they can't measure how often it is right. Give some texts of every class."
        )
    return texts
