from __future__ import annotations

from typing import Any


def test_the_sample_finds_most_fields_of_unseen_invented_invoices(run: Any) -> None:
    result, _ = run("sample_fields", "--quick")
    assert result["text"] == "invented"
    assert "cores" in result["machine"]
    assert result["f1"] > 0.85
    assert all(result["f1_by_label"][label] > 0.5 for label in ("date", "document_number", "total"))
