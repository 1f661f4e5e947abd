"""Synthetic documents to a sealed artifact: drawn by generator or model, or chosen; in shards.

hushdoc.json  documents-00000.jsonl  images-00000.safetensors  labels.json  contact-sheet.png
privacy.intoto.jsonl  README.md
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from hushdoc import labelled_files
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Claim
from hushdoc.errors import LimitExceededError, needs_extra
from hushdoc.labels import LabelSet
from hushdoc.runtime.model import LABELS_FILE
from hushdoc.synthetic_documents import (
    CHOSEN,
    DRAWN,
    MAX_SHARD_BYTES,
    MAX_SHARDS,
    TASK,
    Contents,
    DrawnPage,
    Shard,
    line_of,
)
from hushdoc.system import atomic_files
from hushdoc.viewing.rendition import as_png
from hushdoc_export import sealing
from hushdoc_export.release import Release, Seen, unseen
from hushdoc_training import chosen_checkpoint, drawn_checkpoint, synthetic_checkpoint
from hushdoc_training.chosen_checkpoint import ChosenCheckpoint
from hushdoc_training.drawn_checkpoint import DrawnCheckpoint
from hushdoc_training.invented import released, specification
from hushdoc_training.synthetic_checkpoint import SyntheticCheckpoint

CONTACT_SHEET = "contact-sheet.png"
ENTRY = "images-00000.safetensors"

MOST_BYTES = 960 * 2**20
"""Bytes of all shards, below what default policies accept."""

NO_LABELS = "none"
"""What a set declares as its label set whose documents have classes alone."""

OWN_LABELS = "own"
"""What a set declares as its label set whose documents are public ones with labels of their own."""

_FULL = MAX_SHARD_BYTES - 2**20  # a header, and the last image
_THUMBNAIL, _ACROSS, _DOWN = 150, 6, 4


@dataclass(frozen=True, kw_only=True)
class _Set:
    """Documents to be sealed: how they were made, and each with its id, its line and its image."""

    claim: Claim
    method: str
    generator: int
    labels: str
    count: int
    fields: set[str]  # labels of the items that were yielded
    items: Iterator[tuple[str, bytes, bytes]]
    step: dict[str, object]


@dataclass(kw_only=True)
class _Drawn:
    """The documents of one shard while they are drawn."""

    lines: list[bytes] = field(default_factory=list)
    images: dict[str, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of its larger file, nearly."""
        return max(sum(map(len, self.lines)), sum(map(len, self.images.values())))


def export(checkpoint_folder: Path, out: Path, release: Release, *, seen: Seen = unseen) -> Path:
    """Returns the folder of the artifact of a checkpoint of specifications, or of pages.

    Raises:
        CheckpointError: It is no such checkpoint.
        LimitExceededError: The documents do not fit into as many shards as a policy accepts.
        OutputExistsError: Something already stands at `out`.
        OutputWriteError: The disk is full or not writable; nothing half-written stays.
        CertificateError: The claim can't be certified.
        PrivacyError: An audit of the claim refutes it.
    """
    atomic_files.require_free(out)
    if drawn_checkpoint.holds_pages(checkpoint_folder):
        made = _of_pages(drawn_checkpoint.load(checkpoint_folder))
    elif chosen_checkpoint.holds_chosen(checkpoint_folder):
        made = _of_chosen(chosen_checkpoint.load(checkpoint_folder))
    else:
        made = _of_specifications(synthetic_checkpoint.load(checkpoint_folder))
    certificate = release.certificate(made.claim, task=TASK, format="safetensors", entry=ENTRY)
    certificate = dataclasses.replace(certificate, derivation=(*certificate.derivation, made.step))
    contents: dict[str, bytes] = {}
    shards: list[Shard] = []
    for drawn in _shards(made, seen):
        number = f"{len(shards):05d}"
        if len(shards) == MAX_SHARDS or sum(map(len, contents.values())) > MOST_BYTES:
            raise LimitExceededError(
                f"{made.count} documents need more than {MAX_SHARDS} shards or "
                f"{MOST_BYTES} bytes, which default policies refuse. Make fewer documents."
            )
        shard = Shard(
            documents=f"documents-{number}.jsonl",
            images=f"images-{number}.safetensors",
            count=len(drawn.lines),
        )
        contents[shard.documents] = b"".join(drawn.lines)
        contents[shard.images] = _packed(drawn, certificate)
        if not shards:
            contents[CONTACT_SHEET] = contact_sheet(list(drawn.images.values()))
        shards.append(shard)
    labels = LabelSet(fields=tuple(sorted(made.fields)))
    declared = Contents(
        method=made.method,
        generator=made.generator,
        labels=made.labels,
        shards=tuple(shards),
    )
    contents["hushdoc.json"] = sealing.manifest(certificate, preprocessing=declared.to_dict())
    contents[LABELS_FILE] = sealing.dump({"fields": list(labels.fields)})
    return sealing.seal(out, contents, certificate, labels=labels, key=release.key)


def _shards(made: _Set, seen: Seen) -> Iterator[_Drawn]:
    """Yields full shards."""
    drawn = _Drawn()
    for number, (name, line, image) in enumerate(made.items):
        if drawn.lines and drawn.size + max(len(line), len(image)) > _FULL:
            yield drawn
            drawn = _Drawn()
        drawn.lines.append(line)
        drawn.images[name] = image
        seen(number + 1, made.count)
    yield drawn


def _of_specifications(made: SyntheticCheckpoint) -> _Set:
    """Returns documents that are drawn from specifications: no private document is read."""
    fields: set[str] = set()

    def items() -> Iterator[tuple[str, bytes, bytes]]:
        for one in made.specifications:
            labelled = released.document_of(one, made.labels)
            fields.update(span.label for span in labelled.spans)
            line = line_of(labelled_files.to_dict(labelled), one.to_dict())
            yield one.id, line, released.image_of(one)

    text = "".join(json.dumps(one.to_dict(), sort_keys=True) for one in made.specifications)
    return _Set(
        claim=made.claim,
        method=synthetic_checkpoint.METHOD,
        generator=specification.VERSION,
        labels=made.labels,
        count=len(made.specifications),
        fields=fields,
        items=items(),
        step={
            "step": "draw-documents",
            "dataDependent": False,
            "from": _digest(text.encode()),
            "generator": specification.VERSION,
        },
    )


def _of_pages(made: DrawnCheckpoint) -> _Set:
    """Returns documents of pages that are images alone: their class, and no word."""

    def items() -> Iterator[tuple[str, bytes, bytes]]:
        for number, prompt in enumerate(made.prompts):
            image, name = made.image(number), drawn_checkpoint.id_of(number)
            with Image.open(io.BytesIO(image), formats=("PNG",)) as opened:
                width, height = opened.size
            page = DrawnPage(id=name, width=width, height=height, document_type=prompt["label"])
            yield name, line_of(page.to_dict(), prompt), image

    digests = "".join(_digest(made.image(number)) for number in range(len(made.prompts)))
    return _Set(
        claim=made.claim,
        method=made.method,
        generator=drawn_checkpoint.VERSION,
        labels=NO_LABELS,
        count=len(made.prompts),
        fields=set(),
        items=items(),
        step={
            "step": "seal-drawn-pages" if made.method == DRAWN else "seal-chosen-images",
            "dataDependent": False,
            "from": _digest(digests.encode()),
            "generator": drawn_checkpoint.VERSION,
        },
    )


def _of_chosen(made: ChosenCheckpoint) -> _Set:
    """Returns public documents that votes chose, which are handed on as they are."""

    def items() -> Iterator[tuple[str, bytes, bytes]]:
        for labelled in made.documents:
            line = line_of(
                labelled_files.to_dict(chosen_checkpoint.released(labelled)), {"public": True}
            )
            yield labelled.document.id, line, chosen_checkpoint.image_of(labelled.document.pages[0])

    return _Set(
        claim=made.claim,
        method=CHOSEN,
        generator=chosen_checkpoint.VERSION,
        labels=OWN_LABELS,
        count=len(made.documents),
        fields={span.label for labelled in made.documents for span in labelled.spans},
        items=items(),
        step={
            "step": "seal-chosen-pages",
            "dataDependent": False,
            "from": chosen_checkpoint.digest(made.documents),
            "generator": chosen_checkpoint.VERSION,
        },
    )


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _packed(drawn: _Drawn, certificate: Certificate) -> bytes:
    with needs_extra("safetensors", "export"):
        from safetensors.numpy import save
    tensors = {name: np.frombuffer(image, dtype=np.uint8) for name, image in drawn.images.items()}
    content: bytes = save(tensors, metadata=sealing.notes(certificate))
    return content


def contact_sheet(images: Sequence[bytes], *, rows: int = _DOWN) -> bytes:
    """Returns a PNG file with the first pages side by side, small, six a row."""
    sheet = Image.new("L", (_ACROSS * _THUMBNAIL, rows * _THUMBNAIL), 255)
    for place, content in enumerate(images[: _ACROSS * rows]):
        with Image.open(io.BytesIO(content)) as opened:
            page = opened.convert("L")
        page.thumbnail((_THUMBNAIL - 6, _THUMBNAIL - 6))
        down, across = divmod(place, _ACROSS)
        sheet.paste(page, (across * _THUMBNAIL + 3, down * _THUMBNAIL + 3))
    return as_png(sheet)
