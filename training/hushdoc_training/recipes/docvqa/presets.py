"""Presets: the central trainings of Privacy-aware DocVQA, to train so again.

Each sets options of `hushdoc train docvqa` by their names, from table 12 and section 5.3 (Tito et
al. 2024): VT5, providers as the unit, FL-PROVIDER-DP with one client. A target epsilon stands in
the place of the noise multiplier, which is calibrated anew. The federated rows are none: what they
claim does not hold for a client that is drawn in secret (docs/papers.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from hushdoc_training.recipes.kie.presets import Preset

PROVIDERS = 4149
"""All providers of the training part (table 12), of which 1000 are expected in a step."""

_SOURCE = "Privacy-aware DocVQA, table 12"
_VT5 = {"architecture": "vt5", "learning-rate": 2e-4}


def _private(epsilon: float, *, clipping_norm: float) -> Preset:
    return Preset(
        source=_SOURCE,
        settings={
            **_VT5,
            "algorithm": "fl-provider-dp",
            "privacy-unit": "provider",
            "trained": "all",
            "epsilon": epsilon,
            "delta": 1e-5,
            "clipping-norm": clipping_norm,
            "sampling-rate": 1000 / PROVIDERS,
            "expected-records": 1000,
            "steps": 10,
            "batch-size": 8,
        },
    )


PRESETS: Mapping[str, Preset] = {
    "pa-docvqa": Preset(
        source=_SOURCE, settings={**_VT5, "not-private": True, "batch-size": 10, "epochs": 10.0}
    ),
    "pa-docvqa-eps1": _private(1.0, clipping_norm=1.0),
    "pa-docvqa-eps4": _private(4.0, clipping_norm=5.0),
    "pa-docvqa-eps8": _private(8.0, clipping_norm=5.0),
}
"""All of them by name. The first is of training without privacy."""
