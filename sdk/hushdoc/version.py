"""The version of hushdoc, which certificates name as that of their accountant."""

from __future__ import annotations

__version__ = "0.1.0"
