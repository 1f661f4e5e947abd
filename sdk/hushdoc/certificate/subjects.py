"""Subjects: the signed files of an artifact, and which names they may have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hushdoc.arguments import short_repr
from hushdoc.errors import CertificateError
from hushdoc.serialization.records import MAX_ITEMS, json_type

ENVELOPE_FILE = "privacy.intoto.jsonl"
"""Holds the signature, so it can't be signed itself."""

MAX_NAME = 200
"""Characters in a name."""

MAX_SEGMENTS = 4
"""Folders and file of a name."""

_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{name}{n}" for name in ("com", "lpt") for n in range(10)}
)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A file of the artifact as it was signed: path with slashes, lower-case digest, bytes."""

    name: str
    sha256: str
    size: int


def name_problem(name: str) -> str | None:
    """Returns why a file name is not portable to every system, or None."""
    segments = name.split("/")
    if len(name) > MAX_NAME or len(segments) > MAX_SEGMENTS:
        return f"is longer than {MAX_NAME} characters or {MAX_SEGMENTS} segments"
    for segment in segments:
        if _SEGMENT.fullmatch(segment) is None:
            return (
                f"has the segment {short_repr(segment)}, expected letters, digits, '.', '_' and '-'"
            )
        if segment.endswith(".") or segment.split(".")[0].lower() in _DEVICES:
            return f"has the segment '{segment}', which some systems read as another file"
    return None


def names_problem(names: Iterable[str]) -> str | None:
    """Returns which two names are one file or file and folder on some systems, or None."""
    spellings: dict[str, str] = {}
    files: set[str] = set()
    folders: set[str] = set()
    for name in names:
        segments = name.split("/")
        for length in range(1, len(segments) + 1):
            path = "/".join(segments[:length])
            if spellings.setdefault(path.casefold(), path) != path:
                return f"'{path}' and '{spellings[path.casefold()]}' are one name on some systems"
        if name in files:
            return f"'{name}' is named twice"
        files.add(name)
        folders |= {"/".join(segments[:length]) for length in range(1, len(segments))}
    both = sorted(files & folders)
    return f"'{both[0]}' is both a file and a folder" if both else None


def read_subjects(data: Any) -> tuple[Subject, ...]:
    """Returns the subjects of an in-toto statement; CertificateError BAD_SUBJECT or BAD_PATH."""
    if not isinstance(data, list) or not 0 < len(data) <= MAX_ITEMS:
        raise _bad_subject(f"found {json_type(data)}, expected 1 to {MAX_ITEMS} files")
    subjects = tuple(_read_subject(item, f"subject[{index}]") for index, item in enumerate(data))
    problem = names_problem(subject.name for subject in subjects)
    if problem is not None:
        raise _bad_subject(problem)
    return subjects


def _read_subject(data: Any, where: str) -> Subject:
    match data:
        case {
            "name": str(name),
            "digest": {"sha256": str(sha256), **other_digests},
            "annotations": {"size": int(size), **other_notes},
            **other,
        } if not (other or other_digests or other_notes):
            pass
        case _:
            raise _bad_subject(f"{where} is not a name with digest.sha256 and annotations.size")
    problem = name_problem(name)
    if problem is not None or name.casefold() == ENVELOPE_FILE:
        raise CertificateError(
            f"{where}: the name {short_repr(name)} {problem or 'is that of the envelope'}. "
            "Refused; a sound artifact has no such file.",
            code="BAD_PATH",
        )
    if _DIGEST.fullmatch(sha256) is None or isinstance(size, bool) or size < 0:
        raise _bad_subject(f"{where} has no lower-case SHA-256 and size in bytes")
    return Subject(name=name, sha256=sha256, size=size)


def _bad_subject(found: str) -> CertificateError:
    return CertificateError(
        f"The signed list of files is malformed: {found}. Ask its issuer for a sound artifact.",
        code="BAD_SUBJECT",
    )
