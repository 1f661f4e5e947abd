"""Models on a Python that lacks what Windows lacks: a simulation, on Linux."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import hushdoc_tiny as tiny
from hushdoc_processes import in_python

WINDOWS = """
import os, sys
for name in ("O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY"):
    delattr(os, name)
for name in ("sched_getaffinity", "geteuid", "fork"):
    delattr(os, name)
for found in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
    found.clear()
for name in ("fcntl", "resource", "grp", "pwd"):
    sys.modules[name] = None
real_open, real_scandir = os.open, os.scandir
def only_files(path, flags, mode=0o777, *, dir_fd=None):
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied")
    return real_open(path, flags, mode)
def only_paths(path="."):
    if isinstance(path, int):
        raise TypeError("scandir: path should be string")
    return real_scandir(path)
os.open, os.scandir = only_files, only_paths
"""
"""Takes from Python on Linux what Python on Windows does not have. Names, links and locks stay."""

USE = """
import json
from datetime import UTC, datetime
from pathlib import Path
import hushdoc
from hushdoc.system import atomic_files as files
from hushdoc.artifact.directory_handle import HAS_DESCRIPTORS
model, trust, home = sys.argv[1], sys.argv[2], Path(sys.argv[3])
policy = hushdoc.Policy(
    trust=hushdoc.TrustStore.from_file(trust), max_epsilon=8, max_delta=1e-5,
    privacy_units=frozenset({"document"}),
)
told = {"by descriptor": HAS_DESCRIPTORS, "verified": hushdoc.verify(model, policy).passed}
words = hushdoc.Document.from_words(
    ["Total", "12.50"], [(0, 0, 9, 9), (10, 0, 19, 9)], width=99, height=99
)
for loaded in (hushdoc.KIEModel.load(model, policy=policy), hushdoc.load(model, policy=policy)):
    told.setdefault("coverage", []).append(loaded.extract(words).coverage)
files.write_file(home / "a.txt", b"one\\r\\ntwo\\n")
files.write_file(home / "a.txt", b"Total\\r\\n12.50\\n")
told["written"] = (home / "a.txt").read_bytes().decode()
told["words"] = hushdoc.open_document(home / "a.txt").text
with files.new_folder(home / "made") as made:
    (made / "b").write_bytes(b"b")
told["made"] = sorted(path.name for path in home.iterdir())
(Path(model) / "evil.so").write_bytes(b"x")
for change in (lambda: None, lambda: (Path(model) / "evil.so").unlink()):
    change()
    try:
        told.setdefault("codes", []).append(hushdoc.verify(model, policy).passed)
    except hushdoc.HushdocError as problem:
        told.setdefault("codes", []).append(problem.code)
print(json.dumps(told))
"""


def test_models_and_documents_are_read_without_what_windows_lacks(tmp_path: Path) -> None:
    """A simulation: verify, load, run, write and refuse; what else Windows does is not tried."""
    shutil.copytree(tiny.sealed(), tmp_path / "model")
    (tmp_path / "trust.json").write_bytes(tiny.TRUST.to_json())
    (tmp_path / "home").mkdir()
    done = in_python(WINDOWS + USE, *(tmp_path / name for name in ("model", "trust.json", "home")))
    assert json.loads(done.stdout) == {
        "by descriptor": False,
        "verified": True,
        "coverage": [1.0, 1.0],
        "written": "Total\r\n12.50\n",
        "words": "Total\r\n12.50\n",
        "made": ["a.txt", "made"],
        "codes": ["UNLISTED_FILE", True],
    }
