"""Claimed files: what the claim of a checkpoint is about, by digests.

A claim holds for what its own training wrote. Weights that were trained on elsewhere, or documents
that were changed by hand, would be certified by it where they stand in their place, and these by
another run's claim. So checkpoint.json names digests of these files and of the claim, and whoever
reads a checkpoint compares them. Those of earlier versions name fewer, or none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hushdoc.arguments import short_repr
from hushdoc.errors import CheckpointError

KEY = "sha256"
"""The key of checkpoint.json: an object of digests, in hexadecimal digits, by names of files."""

_SUFFIXES = (".jsonl", ".png", ".safetensors")
"""Of weights, documents and images."""

CLAIM = "claim.json"
"""The claim itself."""


def digests(folder: Path) -> dict[str, str]:
    """Returns digests of what was trained, drawn or chosen and of the claim, in a partial folder.

    Settings and names, which tell nothing that no option told, are left out.
    """
    return {
        path.relative_to(folder).as_posix(): _digest(path)
        for path in sorted(folder.rglob("*"))
        if path.suffix in _SUFFIXES or path.name == CLAIM
    }


def require_same(folder: Path, head: Mapping[str, Any]) -> None:
    """Raises CheckpointError unless the files that checkpoint.json names are what was written."""
    named = head.get(KEY, {})
    for name, digest in named.items() if isinstance(named, dict) else [(KEY, None)]:
        try:
            found = _digest(folder / name)
        except (OSError, ValueError):
            found = "no file that can be read"
        if found != digest:
            raise CheckpointError(
                f"'{folder}' holds another {short_repr(name)} than was written for its claim "
                f"about privacy: found the SHA-256 {found}, expected {short_repr(digest, 80)}. No "
                "claim holds for it. Restore the file that training wrote, or train again."
            )


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
