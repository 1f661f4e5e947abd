"""Gives every hostile test its scene; builders and corruption are importable by name."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent


def _named(name: str, path: Path) -> ModuleType:
    """Returns a module that tests share; tests are no package that could be imported from."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


BUILD = _named("hushdoc_builders", HERE.parent / "sdk" / "builders.py")
CORRUPTION = _named("hushdoc_corruption", HERE / "corruption.py")
_named("hushdoc_attacker", HERE / "attacker.py")
_named("hushdoc_damage", HERE / "damage.py")
_named("hushdoc_mutation", HERE / "mutation.py")
_named("hushdoc_oracles", HERE / "oracles.py")


@pytest.fixture(scope="session")
def build() -> ModuleType:
    return BUILD


@pytest.fixture(scope="session")
def key(build: ModuleType) -> Any:
    return build.known_key(1)


@pytest.fixture(scope="session")
def other_key(build: ModuleType) -> Any:
    return build.known_key(2)


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
    return CORRUPTION.Scene(
        build=build,
        folder=outside / "invoice-kie",
        outside=outside,
        key=key,
        other_key=other_key,
        policy=build.policy(key),
        patch=patch,
    )
