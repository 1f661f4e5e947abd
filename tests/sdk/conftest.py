"""What the SDK's tests share: which of them need the packages that train and export."""

from __future__ import annotations

from importlib.util import find_spec

# These hold answers against torch's. Others skip the single tests that do.
AGAINST_TORCH = [
    "runtime/test_classification.py",
    "runtime/test_docvqa_written.py",
    "runtime/test_embedding.py",
]
collect_ignore = [] if find_spec("torch") else AGAINST_TORCH


def pytest_report_header() -> list[str]:
    return [f"not run without torch: {name}" for name in collect_ignore]
