"""What all tests share."""

from __future__ import annotations

import gc
import shutil
import signal
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from hushdoc.system import telemetry

# A test that fails one day and not the next is no test: the same examples in every run, and no
# bound on the time of one, which a busy machine may take. `--hypothesis-profile=default` searches.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


# Every collection would walk all that torch and transformers have made, for a tenth of the time.
gc.set_threshold(20_000, 20, 20)

# Some tests import onnxruntime themselves, and none may have it send anything.
telemetry.keep_off()

# A shell without job control, such as make's, has what it runs in the background ignore Ctrl-C,
# and with it every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def build() -> ModuleType:
    """Returns the builders of toy certificates and sealed artifacts."""
    import hushdoc_builders

    return hushdoc_builders


@pytest.fixture(scope="session")
def key(build: ModuleType) -> Any:
    return build.known_key(1)


@pytest.fixture(scope="session")
def other_key(build: ModuleType) -> Any:
    return build.known_key(2)


def pytest_collection_finish() -> None:
    """Leaves what was imported out of all later garbage collections."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests of programs that pip can't install, where they are not there."""
    if shutil.which("tesseract") is None:
        missing = pytest.mark.skip(reason="needs the program tesseract (apt-get: tesseract-ocr)")
        for item in items:
            if item.get_closest_marker("tesseract") is not None:
                item.add_marker(missing)
