"""Work: what accounting does, counted in operations and not in seconds.

So that no transcript keeps a reader busy, whoever asks may hand in a limit. The count depends on
what is asked alone, never on the machine or on what was asked before: where it refuses, it refuses
everywhere. A unit is what a processor does in about a tenth of a microsecond.
"""

from __future__ import annotations

from dataclasses import dataclass

from hushdoc.errors import LimitExceededError


@dataclass(kw_only=True, slots=True)
class Work:
    """What has been done, and how much may be; `limit` of None is no limit."""

    limit: int | None = None
    done: int = 0

    def add(self, units: int) -> None:
        """Counts what was done, or is about to be; LIMIT_EXCEEDED beyond the limit."""
        self.done += units
        if self.limit is not None and self.done > self.limit:
            raise LimitExceededError(
                f"Recomputing takes more work than is done for one certificate: {self.done} units, "
                f"at most {self.limit}. Declare fewer points, or simpler transcripts."
            )
