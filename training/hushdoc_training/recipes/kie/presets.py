"""Presets: the settings of a published training, under its name, to train so again.

Each sets options of `hushdoc train kie` by their names. A preset's guarantee is the paper's: of
windows of tokens, not of documents, at a delta of one over their number, which lets one random
window be published. Only a preset's name asks for such a delta.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EPOCHS = 50
"""Passes of private training in PrIeD-KIE (table 6): steps are so many over the sampling rate."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A published training.

    Attributes:
        source: The paper and its table.
        windows: Records of its training part (table 1); None where that is left open.
        learned: The public data that its start had learned from.
        settings: Options by their names without dashes.
    """

    source: str
    windows: int | None = None
    learned: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """Returns what it is, for people."""
        learned = f"; its start had learned from {self.learned}" if self.learned else ""
        return f"{self.source}{learned}"


_TABLE_6 = {
    "privacy-unit": "sequence",
    "accountant": "rdp",  # section 4.3
    "clipping-norm": 0.1,
    "decay": False,
    "epochs": 40.0,  # without privacy
    "trained": "all",
}


def _row(
    *, windows: int, learned: str | None, batch: int, batches: int, tokens: int, dropout: float
) -> Preset:
    """Returns a row of table 7: windows of an epoch by table 1, and their batches in it."""
    return Preset(
        source="PrIeD-KIE, table 7",
        windows=windows,
        learned=learned,
        settings={
            **_TABLE_6,
            "delta": 1 / windows,
            "max-tokens": tokens,
            "batch-size": batch,
            "expected-records": batch,
            "sampling-rate": 1 / batches,
            "steps": EPOCHS * batches,
            "learning-rate": 5e-4,
            "dropout": dropout,
        },
    )


PRESETS: Mapping[str, Preset] = {
    "pried-kie": Preset(
        source="PrIeD-KIE, table 6", settings={**_TABLE_6, "epsilon": 20.0, "learning-rate": 1e-3}
    ),
    "pried-kie-funsd": _row(
        windows=389, learned="CORD", batch=64, batches=7, tokens=128, dropout=0.1
    ),
    "pried-kie-cord": _row(
        windows=840, learned="WildReceipts", batch=384, batches=3, tokens=128, dropout=0.0
    ),
    "pried-kie-sroie": _row(
        windows=1601, learned="DOCILE-Synthetic", batch=384, batches=5, tokens=128, dropout=0.0
    ),
    "pried-kie-wildreceipts": _row(
        windows=2204, learned="CORD", batch=384, batches=6, tokens=128, dropout=0.0
    ),
    # As printed; with a rate of 1/9, 562 windows make batches of 62, not of 384.
    "pried-kie-xfund": _row(
        windows=562, learned=None, batch=384, batches=9, tokens=128, dropout=0.1
    ),
    "pried-kie-docile": _row(
        windows=9768, learned="DOCILE-Synthetic", batch=3256, batches=3, tokens=512, dropout=0.0
    ),
}
"""All of them by name. Of table 6, the rows of federated clients set nothing here, and weight decay
is 0 in private training whatever is set."""
