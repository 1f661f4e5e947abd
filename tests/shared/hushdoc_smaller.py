"""A smaller `--start small`, for tests that train it and ask for nothing that it learned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hushdoc_training.models import layout

SIZE = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": layout.SMALL["max_position_embeddings"],
}


@contextmanager
def smaller() -> Iterator[None]:
    """Gives `--start small` half of its layers, in this process."""
    assert layout.small.__kwdefaults__ is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(layout.small.__kwdefaults__, "size", SIZE)
        yield
