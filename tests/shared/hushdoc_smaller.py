"""A smaller `--start small`, for tests that train it and ask for nothing that it learned.

`python hushdoc_smaller.py PROGRAM ARGUMENTS` runs another program with it.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

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


@contextmanager
def smaller_minilm() -> Iterator[None]:
    """Gives MiniLM the first of its layers alone, in this process."""
    import transformers

    read = transformers.BertModel.from_pretrained
    with pytest.MonkeyPatch.context() as patch:
        first = partial(read, num_hidden_layers=1)
        patch.setattr(transformers.BertModel, "from_pretrained", first)
        yield


if __name__ == "__main__":
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    with smaller():
        runpy.run_path(sys.argv[0], run_name="__main__")
