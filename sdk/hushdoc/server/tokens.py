"""Bearer tokens: a file holds their digests alone, so that whoever reads it can't use one."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hushdoc.arguments import counted, short_repr
from hushdoc.errors import InputError
from hushdoc.system import atomic_files, locks

MAX_BYTES = 2**20
"""A file of tokens is never larger."""

_LINE = re.compile(r"sha256:([0-9a-f]{64})[ \t]+([\w.@-]{1,100})")


@dataclass
class Tokens:
    """Who may ask: the names of the clients, by the SHA-256 of their tokens in hexadecimal.

    Attributes:
        names: The names by the digests.
        path: The file that they are from.
    """

    names: Mapping[str, str]
    path: Path | None = None

    @classmethod
    def from_file(cls, path: Path) -> Tokens:
        """Returns the tokens of a file, a line `sha256:DIGEST NAME` each; # begins a comment.

        Raises:
            InputError: BAD_TOKENS: it can't be read, a line is malformed, or there is none.
        """
        return cls(_names(path), path)

    def reread(self) -> None:
        """Reads their file again; nobody is known while it can't be read."""
        if self.path is not None:
            try:
                self.names = _names(self.path)
            except InputError:
                self.names = {}

    def name_of(self, token: str) -> str | None:
        """Returns whose token this is, or None."""
        return self.names.get(_digest(token))


def add(path: Path, name: str) -> str:
    """Returns a new token, whose digest is added to the file under a client's name.

    Raises:
        InputError: BAD_TOKENS: the name or the file can't be used.
        OutputWriteError: The disk is full or not writable.
    """
    token = secrets.token_urlsafe(32)
    line = f"sha256:{_digest(token)} {name}"
    if not _LINE.fullmatch(line):
        advice = "letters, digits and . _ @ -, at most 100"
        raise _bad(path, f"{short_repr(name)} is no name of a client; expected {advice}")
    with locks.locked(path.parent):
        before = [] if not path.exists() else _lines(path)
        content = "".join(f"{item}\n" for item in (*before, line))
        atomic_files.write_file(path, content.encode(), mode=0o600)
    return token


def _names(path: Path) -> Mapping[str, str]:
    names: dict[str, str] = {}
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None or found[1] in names:
            # The line itself may be a token that somebody pasted.
            what = "names a token twice" if found else "is no line 'sha256:DIGEST NAME'"
            raise _bad(path, f"line {number} {what}")
        names[found[1]] = found[2]
    if not names:
        raise _bad(path, "it holds no token")
    return names


def _lines(path: Path) -> list[str]:
    try:
        content = atomic_files.read_file(path, max_bytes=MAX_BYTES)
        if len(content) > MAX_BYTES:
            raise ValueError(f"it has more than {counted(MAX_BYTES, 'byte')}")
        return content.decode("utf-8").splitlines()
    except (OSError, ValueError) as problem:
        raise _bad(path, f"it can't be read: {str(problem)[:200]}") from problem


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _bad(path: Path, problem: str) -> InputError:
    return InputError(
        f"The tokens in '{path}' can't be used: {problem}. `hushdoc serve --tokens FILE "
        "--add-token NAME` adds one.",
        code="BAD_TOKENS",
    )
