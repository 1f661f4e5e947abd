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
from hushdoc_training.labelled_texts import ClassifiedText, Contract, LabelledText, Message

USES = ("calibration of scores",)

NUM_INVENTED = 400

SEED = 2
"""Tables are trained on invented contracts of seed 0, and scaled by those of seed 1."""

INVENTED = PublicData(
    name="contracts of hushdoc's public generator",
    uses=USES,
    uri=None,
    digest=None,
    privacy_status="invented",
    overlap_with_protected="none",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Labelled:
    """A text of a line that says both of which kind it is and what stands where in it.

    Attributes:
        text: The text.
        label: Its kind.
        spans: Its labelled parts.
    """

    text: str
    label: str
    spans: tuple[tuple[str, int, int], ...]


def read(location: Path) -> list[Contract] | list[Message] | list[Labelled]:
    """Returns the texts of a file of JSON lines, or of the one such file that a folder holds.

    They have what the first line says that they have: spans, or a kind, or both.

    Raises:
        AnnotationError: There is no such file, a line of it is malformed, which is named then, or
            a document of a kind stands in two lines.
        InputError: The file is of another kind.
    """
    path = labelled_texts.find(location)
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise InputError(
            f"'{path}' is no file of JSON lines; tables are calibrated on whole texts, as "
            'applications read them. Give lines of {"id", "text", "spans": [[label, start, stop], '
            '...]}, or of {"id", "label", "text"} for a table of kinds of texts.'
        )
    keys = _keys(path)
    if "label" not in keys:
        return labelled_texts.read_contracts(path)
    messages = labelled_texts.read_messages(path)
    labelled_texts.require_distinct(messages, path)
    if "spans" not in keys:
        return messages
    return [
        Labelled(text=told.text, label=told.label, spans=also.spans)
        for told, also in zip(messages, labelled_texts.read_contracts(path), strict=True)
    ]


def _keys(path: Path) -> frozenset[str]:
    """Returns what the first line of a file has; nothing where it is no JSON object."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            told = json.loads(next((line for line in lines if line.strip()), b"{}"))
    except (OSError, EOFError, ValueError, zlib.error):
        return frozenset()  # which whoever reads all of it says better
    return frozenset(told) if isinstance(told, dict) else frozenset()


def declared(location: Path, *, status: str, overlap: str) -> PublicData:
    """Returns what a certificate says of texts that their owner declares to need no protection.

    Args:
        location: The file or folder, by whose name they are called, as training calls its own.
        status: Why nobody has to protect them.
        overlap: How far they hold documents that are to be protected.
    """
    return PublicData(
        name=location.resolve().name,
        uses=USES,
        uri=None,
        digest=None,
        privacy_status=f"declared by the exporter: {status}",
        overlap_with_protected=overlap,
    )


def invented(fields: Sequence[str]) -> list[labelled_texts.Contract]:
    """Returns invented contracts that no training draws from by itself.

    Args:
        fields: What the table finds.

    Raises:
        InputError: The generator does not know them.
    """
    strange = sorted(set(fields) - set(clause_contracts.CLAUSES))
    if strange or not fields:
        raise InputError(
            f"Invented contracts have no field {', '.join(strange)[:200] or 'at all'}, so they "
            "can't say how often the table is right about it. Calibrate it on texts that nobody "
            "has to protect: --calibrate-on."
        )
    return clause_contracts.contracts(NUM_INVENTED, seed=SEED)


def with_fields(fields: Iterable[str], texts: Sequence[Any]) -> Sequence[LabelledText]:
    """Returns texts that have every field that a table of clauses or entities finds.

    Where one is missing, nobody looked for it, and what the table finds would count as wrong.

    Args:
        fields: What the table finds.
        texts: Any.

    Raises:
        AnnotationError: They have kinds, and no spans.
        InputError: A field has no span.
    """
    if not all(hasattr(item, "spans") for item in texts):
        raise AnnotationError(
            "The texts say of which kind they are, and this table finds clauses or entities in "
            'them. Expected lines of {"id", "text", "spans"}, as hushdoc train clauses reads them; '
            "give such texts."
        )
    missing = sorted(set(fields) - {label for item in texts for label, _, _ in item.spans})
    if missing:
        raise InputError(
            f"None of the {len(texts)} texts has a span '{missing[0][:80]}', which the table "
            "finds, so they can't say how often it is right. Label every field of the table in "
            "them, or give others."
        )
    return texts


def with_classes(kinds: Sequence[str], texts: Sequence[Any]) -> Sequence[ClassifiedText]:
    """Returns texts of the kinds that a table tells apart, some of each.

    Args:
        kinds: What the table knows.
        texts: Any.

    Raises:
        AnnotationError: They have spans, and no kinds, or a kind that the table does not know.
        InputError: There is none of a kind.
    """
    if not all(hasattr(item, "label") for item in texts):
        raise AnnotationError(
            "The texts say what stands where in them, and this table tells of which kind whole "
            'texts are. Expected lines of {"id", "label", "text"}, as hushdoc train classifier '
            "reads them; give such texts."
        )
    there = {item.label for item in texts}
    strange, missing = sorted(there - {*kinds}), sorted({*kinds} - there)
    if strange:
        raise AnnotationError(
            f"Texts are of the kind '{strange[0][:80]}'; the table knows "
            f"{', '.join(kinds)[:200]}. Leave them out, or mend their label."
        )
    if missing:
        raise InputError(
            f"None of the {len(texts)} texts is of the kind '{missing[0][:80]}', which the table "
            "tells, so they can't say how often it is right. Give some texts of every kind."
        )
    return texts
