"""Synthetic documents to a sealed artifact: drawn from their specifications, in shards.

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
from hushdoc.errors import LimitExceededError, needs_extra
from hushdoc.labels import LabelSet
from hushdoc.runtime.model import LABELS_FILE
from hushdoc.synthetic_documents import (
    MAX_SHARD_BYTES,
    MAX_SHARDS,
    SPECIFICATION,
    TASK,
    Contents,
    Shard,
)
from hushdoc.system import atomic_files
from hushdoc_export import sealing
from hushdoc_export.release import Release, Seen, unseen
from hushdoc_training import synthetic_checkpoint
from hushdoc_training.invented import released, specification
from hushdoc_training.invented.specification import Specification
from hushdoc_training.synthetic_checkpoint import SyntheticCheckpoint

CONTACT_SHEET = "contact-sheet.png"
ENTRY = "images-00000.safetensors"

MOST_BYTES = 960 * 2**20
"""Bytes of all shards, below what default policies accept."""

_FULL = MAX_SHARD_BYTES - 2**20  # a header, and the last image
_THUMBNAIL, _ACROSS, _DOWN = 150, 6, 4


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
    """Returns the folder of the artifact that was made from a checkpoint of specifications.

    Raises:
        CheckpointError: It is no such checkpoint.
        LimitExceededError: The documents do not fit into as many shards as a policy accepts.
        OutputExistsError: Something already stands at `out`.
        OutputWriteError: The disk is full or not writable; nothing half-written stays.
        CertificateError: The claim can't be certified.
        PrivacyError: An audit of the claim refutes it.
    """
    atomic_files.require_free(out)
    made = synthetic_checkpoint.load(checkpoint_folder)
    certificate = dataclasses.replace(
        release.certificate(made.claim, task=TASK, format="safetensors", entry=ENTRY),
        derivation=(_step(made),),
    )
    contents: dict[str, bytes] = {}
    shards: list[Shard] = []
    fields: set[str] = set()
    for drawn in _shards(made, fields, seen):
        number = f"{len(shards):05d}"
        if len(shards) == MAX_SHARDS or sum(map(len, contents.values())) > MOST_BYTES:
            raise LimitExceededError(
                f"{len(made.specifications)} documents need more than {MAX_SHARDS} shards or "
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
    labels = LabelSet(fields=tuple(sorted(fields)))
    declared = Contents(
        method=synthetic_checkpoint.METHOD,
        generator=specification.VERSION,
        labels=made.labels,
        shards=tuple(shards),
    )
    contents["hushdoc.json"] = sealing.manifest(certificate, preprocessing=declared.to_dict())
    contents[LABELS_FILE] = sealing.dump({"fields": list(labels.fields)})
    return sealing.seal(out, contents, certificate, labels=labels, key=release.key)


def _shards(made: SyntheticCheckpoint, fields: set[str], seen: Seen) -> Iterator[_Drawn]:
    """Yields full shards, and notes which labels their documents have."""
    drawn = _Drawn()
    for number, one in enumerate(made.specifications):
        line, image = _line(one, made.labels, fields), released.image_of(one)
        if drawn.lines and drawn.size + max(len(line), len(image)) > _FULL:
            yield drawn
            drawn = _Drawn()
        drawn.lines.append(line)
        drawn.images[one.id] = image
        seen(number + 1, len(made.specifications))
    yield drawn


def _line(one: Specification, labels: str, fields: set[str]) -> bytes:
    labelled = released.document_of(one, labels)
    fields.update(span.label for span in labelled.spans)
    data = {**labelled_files.to_dict(labelled), SPECIFICATION: one.to_dict()}
    return json.dumps(data, ensure_ascii=False).encode() + b"\n"


def _step(made: SyntheticCheckpoint) -> dict[str, object]:
    """Returns what was done here: pages were drawn, and no private document was read."""
    text = "".join(json.dumps(one.to_dict(), sort_keys=True) for one in made.specifications)
    return {
        "step": "draw-documents",
        "dataDependent": False,
        "from": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
        "generator": specification.VERSION,
    }


def _packed(drawn: _Drawn, certificate: Certificate) -> bytes:
    with needs_extra("safetensors", "export"):
        from safetensors.numpy import save
    tensors = {name: np.frombuffer(image, dtype=np.uint8) for name, image in drawn.images.items()}
    content: bytes = save(tensors, metadata=sealing.notes(certificate))
    return content


def contact_sheet(images: Sequence[bytes]) -> bytes:
    """Returns a PNG file with the first pages side by side, small."""
    sheet = Image.new("L", (_ACROSS * _THUMBNAIL, _DOWN * _THUMBNAIL), 255)
    for place, content in enumerate(images[: _ACROSS * _DOWN]):
        with Image.open(io.BytesIO(content)) as opened:
            page = opened.convert("L")
        page.thumbnail((_THUMBNAIL - 6, _THUMBNAIL - 6))
        down, across = divmod(place, _ACROSS)
        sheet.paste(page, (across * _THUMBNAIL + 3, down * _THUMBNAIL + 3))
    stream = io.BytesIO()
    sheet.save(stream, format="PNG")
    return stream.getvalue()
