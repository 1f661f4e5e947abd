"""A hostile environment: wrong clocks, failing disks, odd interpreters, a full terminal.

Whatever fails, the answer is a refusal; nothing passes because something could not be looked at.
"""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hushdoc_corruption import ENVELOPE, MODEL, Act, Refused, Scene, acceptances, cases, refusals
from hushdoc_processes import in_python

from hushdoc.artifact import artifact
from hushdoc.errors import HushdocError
from hushdoc.signing import dsse

LABELS = "labels.json"


def _at(*moment: int, zone: timezone = UTC) -> Act:
    return lambda scene: setattr(scene, "now", datetime(*moment, tzinfo=zone))  # type: ignore[arg-type, misc]


class _Failing(io.FileIO):
    """A file whose disk fails after some bytes."""

    left = 0
    number = errno.EIO

    def _fail(self) -> None:
        raise OSError(self.number, os.strerror(self.number))

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        if self.left == 0:
            self._fail()
        got = super().readinto(view[: min(len(view), self.left)]) or 0
        self.left -= got
        return got

    def read(self, size: int | None = -1) -> bytes:
        return self.readall()

    def readall(self) -> bytes:
        self._fail()
        return b""


def _disk_fails(name: str, *, after: int, number: int = errno.EIO) -> Act:
    """The disk under one file answers with an error in the middle of it."""

    def act(scene: Scene) -> None:
        honest = os.fdopen
        inode = (scene / name).stat().st_ino

        def fdopen(descriptor: int, mode: str = "r", buffering: int = -1, **more: Any) -> Any:
            if os.fstat(descriptor).st_ino != inode:
                return honest(descriptor, mode, buffering, **more)
            file = _Failing(descriptor, "rb", **more)
            file.left, file.number = after, number
            return file

        scene.patch.setattr(os, "fdopen", fdopen)

    return act


def _open_fails(name: str, number: int) -> Act:
    """The system refuses to open one file: no handles left, no permission, a disk that is gone."""

    def act(scene: Scene) -> None:
        honest = os.open

        def opened(path: Any, *given: Any, **options: Any) -> int:
            if str(path) == name:
                raise OSError(number, os.strerror(number))
            return honest(path, *given, **options)

        scene.patch.setattr(os, "open", opened)

    return act


def _surprise(error: type[BaseException]) -> Act:
    """Something breaks that nobody foresaw."""

    def act(scene: Scene) -> None:
        def broken(*_: object) -> bytes:
            raise error("surprise")

        scene.patch.setattr(dsse, "pae", broken)

    return act


def _hardly_any_stack(scene: Scene) -> None:
    """The application calls from deep inside itself: reading runs out of stack."""

    def deep(*given: Any) -> bytes:
        return deep(*given)

    scene.patch.setattr(dsse, "pae", deep)


UNFORESEEN = (
    RuntimeError,
    KeyError,
    AssertionError,
    UnicodeError,
    OverflowError,
    StopIteration,
    OSError,
)
REFUSED: Refused = {
    "CLOCK_IMPLAUSIBLE": {
        "clock-of-1970": _at(1970, 1, 1),
        "clock-before-this-was-written": _at(2026, 10, 31, 23, 59),
        "clock-of-2200": _at(2200, 1, 1),
        "clock-of-the-first-year": _at(1, 1, 2),
        "clock-of-the-last-year": _at(9999, 12, 31),
        "clock-of-1970-in-another-zone": _at(1970, 1, 1, zone=timezone(timedelta(hours=14))),
        "clock-of-1970-though-only-integrity-is-asked": lambda s: (
            _at(1970, 1, 1)(s),
            setattr(s, "policy", type(s.policy).integrity_only(s.policy.trust)),
        ),
    },
    "READ_FAILED": {
        "disk-error-at-the-first-byte": _disk_fails(LABELS, after=0),
        "disk-error-in-the-middle": _disk_fails(LABELS, after=9),
        "disk-error-at-the-last-byte-of-the-model": _disk_fails(MODEL, after=20),
        "disk-error-of-a-lost-server": _disk_fails(MODEL, after=3, number=errno.ESTALE),
        "disk-error-of-a-full-disk": _disk_fails(MODEL, after=3, number=errno.ENOSPC),
        "disk-error-in-the-manifest": _disk_fails("hushdoc.json", after=0),
        "disk-error-in-the-envelope": _disk_fails(ENVELOPE, after=0),
    },
    "BAD_ARTIFACT": {
        "no-permission": _open_fails(LABELS, errno.EACCES),
        "no-permission-for-the-envelope": _open_fails(ENVELOPE, errno.EACCES),
        "no-handles-left": _open_fails(LABELS, errno.EMFILE),
        "disk-error-on-opening": _open_fails(LABELS, errno.EIO),
        "disk-error-on-opening-the-envelope": _open_fails(ENVELOPE, errno.EIO),
    },
    "INTERNAL_ERROR": {
        "hardly-any-stack": _hardly_any_stack,
        **{f"unforeseen-{error.__name__}": _surprise(error) for error in UNFORESEEN},
    },
}
CASES = cases("environment/", REFUSED)


test_is_refused = refusals(CASES)


test_what_is_harmless_is_accepted = acceptances(
    {
        "other-zone": _at(2026, 11, 22, 14, zone=timezone(timedelta(hours=14))),
        "disk-that-fails-later": _disk_fails(LABELS, after=1 << 20, number=errno.EIO),
    },
    ways=("verify",),
)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_what_stops_a_program_is_not_swallowed_and_not_a_pass(
    error: type[BaseException], make_scene: Callable[[], Scene]
) -> None:
    scene = make_scene()
    _surprise(error)(scene)
    with pytest.raises(error):
        artifact.open_artifact(scene.folder, scene.policy, now=scene.now)


def test_any_depth_of_stack_refuses_or_accepts_and_never_errs(
    make_scene: Callable[[], Scene],
) -> None:
    """With ever less stack a false claim is refused all the same, if only with another code."""
    scene = make_scene()
    scene.demand(max_epsilon=1)

    def deeper(levels: int) -> Any:
        if levels:
            return deeper(levels - 1)
        return artifact.open_artifact(scene.folder, scene.policy, now=scene.now)

    codes = set()
    here = len(_frames())
    for left in range(2, 200, 3):
        try:
            deeper(sys.getrecursionlimit() - here - left)
        except HushdocError as refused:
            codes.add(refused.code)
        except RecursionError:
            codes.add("RecursionError")
        else:
            raise AssertionError(f"a false claim passed with {left} frames left")
    assert "EPSILON_TOO_LARGE" in codes
    assert len(codes) > 1


def _frames() -> list[object]:
    frame: Any = sys._getframe()
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


# The command line, as a program of its own.

LIMITS = ("--max-epsilon", "8", "--max-delta", "1e-5", "--unit", "document")


@pytest.fixture
def scene(make_scene: Callable[[], Scene]) -> Scene:
    """Returns an artifact that is valid by the real clock, with its trust store beside it."""
    found = make_scene()
    found.seal(found.build.certify(issued_at="2026-11-01T00:00:00Z", issuer="M\u00fcller"))
    (found.outside / "trust.json").write_bytes(found.policy.trust.to_json())
    return found


def _run(
    scene: Scene,
    *arguments: str,
    options: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
    stdout: Any = subprocess.PIPE,
    limit: tuple[int, int] | None = None,
) -> subprocess.CompletedProcess[str]:
    verb, *rest = arguments or ("verify",)
    demanded = ("--trust", str(scene.outside / "trust.json"), *LIMITS) if verb == "verify" else ()

    def lower() -> None:
        if limit is not None:
            resource.setrlimit(limit[0], (limit[1], limit[1]))

    return subprocess.run(
        [sys.executable, *options, "-m", "hushdoc", verb, str(scene.folder), *demanded, *rest],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        preexec_fn=lower,
        timeout=280,
    )


def test_without_assertions_and_docstrings_it_refuses_the_same(scene: Scene) -> None:
    """Nothing that guards is an `assert`: python -OO removes those."""
    assert _run(scene, options=("-OO",)).returncode == 0
    (scene / "libevil.so").write_bytes(b"x")
    refused = _run(scene, options=("-OO",))
    assert (refused.returncode, refused.stdout) == (4, "")
    assert "UNLISTED_FILE" in refused.stderr


def test_no_variable_of_the_environment_loosens_a_check(scene: Scene) -> None:
    (scene / LABELS).write_bytes(b"x")
    loose = {
        f"HUSHDOC_{name}": "1"
        for name in ("INSECURE", "SKIP_VERIFY", "NO_VERIFY", "TRUST", "POLICY", "DEBUG", "DEV")
    }
    assert _run(scene, environment=loose).returncode == 4


def test_refusing_imports_no_runtime(scene: Scene) -> None:
    """onnxruntime, tokenizers and the rest are not even loaded for what is refused."""
    (scene / LABELS).write_bytes(b"x")
    script = (
        "import sys\n"
        "import hushdoc\n"
        "from hushdoc.policy.rules import Policy\n"
        "from hushdoc.signing.trust_store import TrustStore\n"
        "folder, store = sys.argv[1:]\n"
        "policy = Policy(trust=TrustStore.from_file(store), max_epsilon=8, max_delta=1e-5,\n"
        "                privacy_units={'document'})\n"
        "try:\n"
        "    hushdoc.load(folder, policy=policy)\n"
        "except hushdoc.HushdocError as error:\n"
        "    found = {'onnxruntime', 'tokenizers', 'torch', 'onnx'} & set(sys.modules)\n"
        "    print(error.code, sorted(found))\n"
    )
    done = in_python(script, scene.folder, scene.outside / "trust.json")
    assert (done.stdout.strip(), done.stderr) == ("SIZE_MISMATCH []", "")


def test_a_full_terminal_is_no_verdict(scene: Scene) -> None:
    with Path("/dev/full").open("w") as full:
        done = _run(scene, stdout=full)
    assert done.returncode not in (0, 2, 3, 4, 5)


def test_a_page_that_does_not_fit_leaves_nothing_half_written(scene: Scene) -> None:
    """Files may grow to a kilobyte: as on a full disk, writing fails in the middle."""
    page = scene.outside / "page.html"
    done = _run(scene, "verify", "--html", str(page), limit=(resource.RLIMIT_FSIZE, 1024))
    assert done.returncode == 6
    assert "OUTPUT_NOT_WRITTEN" in done.stderr
    assert {path.name for path in scene.outside.iterdir()} == {scene.folder.name, "trust.json"}


def test_hardly_any_handles_are_no_pass(scene: Scene) -> None:
    """The interpreter needs a few; from some number on verifying works, below it says so."""
    assert _run(scene, limit=(resource.RLIMIT_NOFILE, 64)).returncode == 0
    (scene / LABELS).write_bytes(b"x")
    for number in (4, 5, 6, 64):
        assert _run(scene, limit=(resource.RLIMIT_NOFILE, number)).returncode != 0


def test_the_verdict_is_the_same_in_every_time_zone(scene: Scene) -> None:
    for zone in ("Pacific/Kiritimati", "Etc/GMT+12"):
        assert _run(scene, environment={"TZ": zone}).returncode == 0


def test_a_terminal_without_unicode_is_told_in_ascii(scene: Scene) -> None:
    done = _run(scene, "inspect", environment={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "ller" in done.stdout


def test_json_is_ascii_wherever_it_goes(scene: Scene) -> None:
    done = _run(scene, "inspect", "--json", environment={"PYTHONIOENCODING": "ascii"})
    assert json.loads(done.stdout)["certificate"]["issuer"] == "M\u00fcller"
