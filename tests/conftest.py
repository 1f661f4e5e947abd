"""What all tests share."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from hushdoc.commands import command_line
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

# The parser of commands is the same in every call, and making it takes longer than many of them.
command_line.build_parser = functools.cache(command_line.build_parser)

# Some tests import onnxruntime themselves, and none may have it send anything.
telemetry.keep_off()

_MEMORY = Path("/dev/shm")
"""Files that stay in memory, on Linux. The product waits until a disk has what it writes, up
to half of a test's time on a slow one."""

_FREE_BYTES = 2 << 30
"""Of memory, for its use: a half of the tests takes a tenth of it."""


def _in_memory() -> Path | None:
    """Keeps temporary files of tests, and of what they start, in memory where it is roomy."""
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK):
        return None
    found = os.statvfs(_MEMORY)
    if found.f_flag & os.ST_NOEXEC or found.f_bavail * found.f_frsize < _FREE_BYTES:
        return None
    folder = tempfile.mkdtemp(prefix="tests-", dir=_MEMORY)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    return Path(folder)


_temporary = _in_memory()


def pytest_sessionfinish(exitstatus: int) -> None:
    """Frees the memory, unless files may show why a test failed."""
    if _temporary is not None and exitstatus in (
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        shutil.rmtree(_temporary, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says where files of failed tests are."""
    if _temporary is not None and _temporary.exists():
        terminalreporter.write_line(f"Temporary files stay in memory until you delete {_temporary}")


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
