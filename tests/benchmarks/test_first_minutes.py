from __future__ import annotations

from typing import Any


def test_the_first_commands_of_the_readme_work_in_an_empty_home(run: Any) -> None:
    result, printed = run("first_minutes", "--quick")
    assert "$ hushdoc extract sample/model sample/invoice.pdf --html page.html" in printed
    assert "python - <<'END'" in printed
    assert result["commands_failed"] == 0
    assert result["sample_seconds"] > 0
    for name in ("install", "setup", "demo", "demo_quick"):
        assert result[f"{name}_seconds"] is None
