"""Gives every hostile test its scene."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hushdoc_corruption import Scene


@pytest.fixture(scope="session")
def sealed(
    build: ModuleType, key: Any, other_key: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Returns a sealed artifact that every scene begins as a copy of."""
    outside = tmp_path_factory.mktemp("sealed")
    with pytest.MonkeyPatch.context() as patch:
        scene = _scene(build, key, other_key, outside, patch)
        scene.folder.mkdir()
        scene.seal()
    return Path(scene.folder)


@pytest.fixture
def make_scene(
    build: ModuleType,
    key: Any,
    other_key: Any,
    sealed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], Any]:
    """Returns what makes a fresh sealed artifact each time."""
    numbers = iter(range(1000))

    def make() -> Any:
        scene = _scene(build, key, other_key, tmp_path / str(next(numbers)), monkeypatch)
        shutil.copytree(sealed, scene.folder, copy_function=shutil.copyfile)
        return scene

    return make


def _scene(
    build: ModuleType, key: Any, other_key: Any, outside: Path, patch: pytest.MonkeyPatch
) -> Any:
    return Scene(
        build=build,
        folder=outside / "invoice-kie",
        outside=outside,
        key=key,
        other_key=other_key,
        policy=build.policy(key),
        patch=patch,
    )
