"""SyntheticDocuments: a sealed set of documents to give away, read only once it is verified.

hushdoc.json                  its preprocessing names the shards in their order
documents-00000.jsonl         a labelled document a line, with what it was drawn from
images-00000.safetensors      the PNG file of each document's page as bytes, by the document's id
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from hushdoc import labelled_files
from hushdoc.arguments import failure_of, printable, short_repr
from hushdoc.artifact import artifact as artifacts
from hushdoc.artifact import safetensors_scan
from hushdoc.artifact.artifact import Artifact
from hushdoc.artifact.manifest import MANIFEST_FILE
from hushdoc.certificate.certificate import Certificate
from hushdoc.document.document import Document
from hushdoc.document.page import Page
from hushdoc.errors import ArtifactError, HushdocError, TaskMismatchError
from hushdoc.labels import LabelledDocument
from hushdoc.policy.policy import Policy
from hushdoc.serialization import strict_json
from hushdoc.serialization.records import Record, integer, listed, optional, record, stored, text
from hushdoc.signing.trust_store import TrustedKey

TASK = "synthetic-documents"
ADVERSARY = "synthetic-data-recipient"
"""Whom a policy has to name for a set of synthetic documents."""

DRAWN = "diffusion"
"""The method of a set whose pages a model drew."""

CHOSEN = "selection"
"""The method of a set whose pages are public ones that private votes chose."""

MOVED = "image-selection"
"""The method of a set whose pages are images of public ones, slightly moved, that votes chose."""

SPECIFICATION = "specification"
"""Key of a line beside those of a labelled document."""

MAX_SHARD_BYTES = 64 * 2**20
MAX_SHARDS = 28
"""Pairs of files; with the others they stay within the 64 files of default policies."""

_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


@dataclass(frozen=True, kw_only=True)
class Shard(Record):
    """One pair of files: labelled documents, and the images of their pages."""

    documents: str = stored(text)
    images: str = stored(text)
    count: int = stored(integer(minimum=1))


@dataclass(frozen=True, kw_only=True)
class DrawnPage(Record):
    """A line of a set of images alone: a page of no words, its class, and its size in pixels."""

    id: str = stored(text)
    width: int = stored(integer(minimum=1))
    height: int = stored(integer(minimum=1))
    document_type: str | None = stored(optional(text), default=None)

    def labelled(self) -> LabelledDocument:
        """Returns it as a document."""
        page = Page(width=self.width, height=self.height, words=())
        return LabelledDocument(
            document=Document(id=self.id, pages=(page,)),
            spans=(),
            document_type=self.document_type,
        )


@dataclass(frozen=True, kw_only=True)
class Contents(Record):
    """What the manifest's preprocessing declares of a set.

    Attributes:
        method: How it was made: "evolution", "selection", "image-selection" or "diffusion".
        generator: Version of what makes a page of its specification.
        labels: The label set of the documents; "none" where they have classes alone.
        shards: Its files, in the order of the documents.
    """

    method: str = stored(text)
    generator: int = stored(integer(minimum=1))
    labels: str = stored(text)
    shards: tuple[Shard, ...] = stored(listed(record(Shard)))


@dataclass(frozen=True, kw_only=True)
class SyntheticDocument:
    """A document, its page's image in memory, and what it was drawn from.

    What a model drew has no words, and a class as its document type where the model read classes;
    its specification is the class, the number of the layout, and the seed. That of a public
    page that was chosen says so, and is no more; of a moved one it is the class, the number of the
    page and that of the copy. The digest of its line tells whether that holds anything besides.
    """

    labelled: LabelledDocument
    specification: Mapping[str, Any]
    digest: str


@dataclass(frozen=True, kw_only=True)
class SyntheticDocuments:
    """A verified set of synthetic documents; make one with `open`.

    Attributes:
        certificate: What was signed.
        signers: The trusted keys that signed.
        manifest: The SHA-256 of the manifest, in hexadecimal digits.
        contents: What the manifest declares.
        documents: All documents, in their order.
    """

    certificate: Certificate
    signers: tuple[TrustedKey, ...]
    manifest: str
    contents: Contents
    documents: tuple[SyntheticDocument, ...]

    @classmethod
    def open(
        cls, path: str | Path, *, policy: Policy, now: datetime | None = None
    ) -> SyntheticDocuments:
        """Returns the documents of an artifact that passes every check; anything else raises.

        Args:
            path: The artifact's folder, or "hf://ORGANISATION/NAME@REVISION" of a model hub.
            policy: What the application demands; its adversary is "synthetic-data-recipient".
            now: The time, with its zone; the clock's by default.

        Raises:
            ArtifactError: A file is missing, changed, unlisted or unsafe; BAD_DOCUMENTS where
                shards do not hold what they declare.
            CertificateError: The certificate is missing, malformed or unsigned.
            PolicyViolationError: The policy refuses it.
            TaskMismatchError: The artifact is a model.
        """
        with artifacts.open_artifact(path, policy, now=now) as opened:
            model = opened.certificate.model
            if model.task != TASK:
                raise TaskMismatchError(
                    f"'{printable(path)}' was built for the task '{model.task}'; expected "
                    f"'{TASK}'. Load models with `hushdoc.load`."
                )
            try:
                contents = Contents.from_dict(opened.manifest["preprocessing"], "preprocessing")
                documents = tuple(_read(opened, contents))
            except ArtifactError:
                raise
            except (HushdocError, KeyError, TypeError, ValueError) as error:
                raise bad_documents(failure_of(error)) from error
            return cls(
                certificate=opened.certificate,
                signers=opened.signers,
                manifest=_digest_of(MANIFEST_FILE, opened),
                contents=contents,
                documents=documents,
            )

    def __iter__(self) -> Iterator[LabelledDocument]:
        """Yields the labelled documents, in their order."""
        return (item.labelled for item in self.documents)

    def __len__(self) -> int:
        """Returns how many there are."""
        return len(self.documents)


def line_of(document: Mapping[str, Any], specification: Mapping[str, Any]) -> bytes:
    """Returns the line that a set has for a document."""
    record = {**document, SPECIFICATION: specification}
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def digest_of(line: bytes) -> str:
    """Returns the digest of a document's line."""
    return hashlib.sha256(line.removesuffix(b"\n")).hexdigest()


def bad_documents(found: str) -> ArtifactError:
    """Returns the error of a set whose files do not hold what they declare."""
    return ArtifactError(
        f"The synthetic documents are refused: {found}. Fetch the artifact again, or ask its "
        "issuer for a sound one.",
        code="BAD_DOCUMENTS",
    )


def _digest_of(name: str, opened: Artifact) -> str:
    (digest,) = (subject.sha256 for subject in opened.subjects if subject.name == name)
    return digest


def _read(opened: Artifact, contents: Contents) -> Iterator[SyntheticDocument]:
    names: set[str] = set()
    listed_files = [name for one in contents.shards for name in (one.documents, one.images)]
    if not listed_files or len(set(listed_files)) != len(listed_files):
        raise bad_documents("its manifest lists no shard, or one twice")
    for shard in contents.shards:
        lines = opened.read(shard.documents).splitlines()
        images = _images(opened.read(shard.images))
        if len(lines) != shard.count or len(images) != shard.count:
            raise bad_documents(
                f"'{shard.documents}' has {len(lines)} documents and '{shard.images}' "
                f"{len(images)} images; declared are {shard.count}"
            )
        for line in lines:
            made = _document(line, drawn=contents.method in (DRAWN, MOVED))
            name = made.labelled.document.id
            if name in names or name not in images:
                raise bad_documents(
                    f"{short_repr(name)} stands twice, or its image is not in '{shard.images}'"
                )
            names.add(name)
            yield replace(made, labelled=_with_image(made.labelled, images[name]))


def _document(line: bytes, *, drawn: bool) -> SyntheticDocument:
    data = strict_json.loads(line, what="A synthetic document", max_bytes=MAX_SHARD_BYTES)
    if not isinstance(data, dict):
        raise bad_documents(f"a document is {type(data).__name__}")
    specification = data.pop(SPECIFICATION)
    if type(specification) is not dict:
        raise bad_documents(f"a specification is {type(specification).__name__}")
    if drawn:
        labelled = DrawnPage.from_dict(data, "a drawn page").labelled()
    else:
        labelled = labelled_files.from_dict(data)
    return SyntheticDocument(labelled=labelled, specification=specification, digest=digest_of(line))


def _images(content: bytes) -> dict[str, bytes]:
    tensors = safetensors_scan.scan(content).tensors
    if strange := [tensor.name for tensor in tensors if tensor.dtype != "U8"]:
        raise bad_documents(f"{short_repr(strange[0])} among its images holds no bytes")
    return {tensor.name: content[tensor.start : tensor.stop] for tensor in tensors}


def _with_image(labelled: LabelledDocument, image: bytes) -> LabelledDocument:
    """Returns the document with its page's image, which has to have the page's size."""
    (page,) = labelled.document.pages
    declared = struct.pack(">II", page.width, page.height)
    if image[:24] != _PNG + declared:
        raise bad_documents(
            f"the image of {short_repr(labelled.document.id)} is no PNG file of {page.width} x "
            f"{page.height} pixels, which its page has"
        )
    pages = (replace(page, image=image),)
    return replace(labelled, document=replace(labelled.document, pages=pages))
