"""Parties of federated runs, with keys that tests know."""

from __future__ import annotations

from typing import Any

import hushdoc_builders as build

from hushdoc_training.federated.roster import COORDINATOR, Party, Roster

SERVER, FIRST, SECOND = (build.known_key(number) for number in (1, 2, 3))


def roster(**change: Any) -> Roster:
    parts = {
        "run": "ab" * 16,
        "plan": {"clients": 2},
        "task": {"model": "tiny"},
        "start": "sha256:" + "0" * 64,
        "coordinator": Party.of(COORDINATOR, SERVER),
        "clients": (Party.of("first", FIRST), Party.of("second", SECOND)),
        **change,
    }
    return Roster(**parts)
