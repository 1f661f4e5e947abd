"""Limits: how much one request, and all of them together, may take of a server."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

from hushdoc.arguments import short_repr
from hushdoc.document.limits import ReadingLimits
from hushdoc.system.cores import usable_cores

MAX_SECONDS = 86_400
"""Longest time that a limit may be: a day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a server takes; anything beyond is refused with a code, never cut.

    Attributes:
        max_body_bytes: Bytes of one request's body.
        max_held_bytes: Bytes of all bodies in memory together; beyond, clients are asked to wait.
        max_answer_bytes: Bytes of the files in one answer, such as images of redacted pages.
        max_files: Files of one request.
        max_connections: Open connections.
        upload_seconds: How long a client may take to send a request: its head, then its body.
        answer_seconds: How long a request may wait for its turn, how long answering may take, and
            how long its client may take to receive the answer.
        concurrency: Documents that are read and answered at the same time.
        queue: Requests that wait for their turn; beyond, clients are asked to come again.
        reading: How much of a file is read, and for how long.

    Example:
        >>> Limits(queue=8).queue
        8
    """

    max_body_bytes: int = 32 * 2**20
    max_held_bytes: int = 512 * 2**20
    max_answer_bytes: int = 128 * 2**20
    max_files: int = 20
    max_connections: int = 1000
    upload_seconds: float = 30.0
    answer_seconds: float = 120.0
    concurrency: int = field(default_factory=usable_cores)
    queue: int = 64
    reading: ReadingLimits = field(default_factory=lambda: ReadingLimits(max_pages=100))

    def __post_init__(self) -> None:
        """Refuses limits that let nothing through."""
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, ReadingLimits):
                continue
            whole = not item.name.endswith("_seconds")
            least, most = 0 if item.name == "queue" else 1, math.inf if whole else MAX_SECONDS
            known = type(value) is int or (not whole and type(value) is float)
            if not (known and least <= value <= most):
                expected = f"an integer >= {least}" if whole else f"a number from 1 to {most}"
                raise ValueError(f"{item.name} is {short_repr(value, 40)}; expected {expected}.")
        if self.max_body_bytes > self.max_held_bytes:
            raise ValueError(
                f"max_body_bytes is {self.max_body_bytes}; no request is larger than all of them "
                f"together may be, which is max_held_bytes {self.max_held_bytes}."
            )
