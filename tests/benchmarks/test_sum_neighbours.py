from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.slow
def test_more_liars_need_more_neighbours_and_no_graph_falls_apart(run: Any) -> None:
    result, _ = run("sum_neighbours", "--quick")
    found = [value for value in result.values() if isinstance(value, dict)]
    assert len(found) == 6
    for listener, liar in zip(found[::2], found[1::2], strict=True):
        assert listener["neighbours"] < liar["neighbours"] < 64 * 4
        assert listener["apart"] == liar["apart"] == 0
    degrees = [each["neighbours"] for each in found[::2]]
    assert degrees == sorted(degrees)
