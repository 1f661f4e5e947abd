"""Labelled texts to calibrate tables of hashed features on: from files, or invented contracts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hushdoc.claim import PublicData
from hushdoc.errors import InputError
from hushdoc_training.crf.corpus import LabelledText
from hushdoc_training.data import contracts, invented_contracts

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


def read(location: Path) -> list[contracts.Contract]:
    """Returns the texts of a file of JSON lines, or of the one such file that a folder holds.

    Raises:
        AnnotationError: There is no such file, or a line of it is malformed; names the line.
        InputError: The file is of another kind.
    """
    path = contracts.find(location)
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise InputError(
            f"'{path}' is no file of JSON lines; tables are calibrated on whole texts with spans, "
            'as applications read them. Give lines of {"id", "text", "spans": [[label, start, '
            "stop], ...]}."
        )
    return contracts.read_contracts(path)


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


def invented(fields: Sequence[str]) -> list[contracts.Contract]:
    """Returns invented contracts that no training draws from by itself.

    Args:
        fields: What the table finds.

    Raises:
        InputError: The generator does not know them.
    """
    strange = sorted(set(fields) - set(invented_contracts.CLAUSES))
    if strange or not fields:
        raise InputError(
            f"Invented contracts have no field {', '.join(strange)[:200] or 'at all'}, so they "
            "can't say how often the table is right about it. Calibrate it on texts that nobody "
            "has to protect: --calibrate-on."
        )
    return invented_contracts.contracts(NUM_INVENTED, seed=SEED)


def require_fields(fields: Iterable[str], texts: Sequence[LabelledText]) -> None:
    """Raises unless texts have every field that a table finds.

    Where one is missing, nobody looked for it, and what the table finds would count as wrong.

    Raises:
        InputError: A field has no span.
    """
    missing = sorted(set(fields) - {label for item in texts for label, _, _ in item.spans})
    if missing:
        raise InputError(
            f"None of the {len(texts)} texts has a span '{missing[0][:80]}', which the table "
            "finds, so they can't say how often it is right. Label every field of the table in "
            "them, or give others."
        )
