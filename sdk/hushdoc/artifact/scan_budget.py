"""The work that looking into all files of an artifact may take together, counted and not timed.

Each file has to be read to its end, and each field of it costs time. What one file may hold, 64 of
them would hold 64 times, so they share.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_FIELDS = 500_000
"""Fields of all ONNX files; weights count as one. Large layout models have some 20,000."""

MAX_HEADER_BYTES = 1 << 20
"""Headers of all safetensors files; one describes at most a few thousand tensors."""


@dataclass(kw_only=True, slots=True)
class ScanBudget:
    """What is left for the files that are still to be looked into; below zero it is spent."""

    fields: int = MAX_FIELDS
    header_bytes: int = MAX_HEADER_BYTES
