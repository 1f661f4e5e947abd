"""The number of cores this process may use: one rule for everything that starts threads."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path


def usable_cores(*, root: Path = Path("/")) -> int:
    """Returns how many cores this process may use: affinity, then the container's quota."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota = _cgroup_quota(root)
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def _cgroup_quota(root: Path) -> float | None:
    """Returns the smallest quota, in cores, of this process's control groups, or None."""
    mount = root / "sys/fs/cgroup"
    quotas = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0":
            folders = _up(mount, path)
            quotas += [_quota(_text(folder / "cpu.max").split()) for folder in folders]
        elif "cpu" in controllers.split(","):
            for folder in [*_up(mount / controllers, path), *_up(mount / "cpu", path)]:
                names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                quotas.append(_quota([_text(folder / name).strip() for name in names]))
    return min((quota for quota in quotas if quota is not None), default=None)


def _up(mount: Path, path: str) -> list[Path]:
    """Returns a group's folder and all above it: each of them may hold a quota."""
    inside = Path(path.lstrip("/"))
    # Inside a container the path may name a folder that only the host sees.
    return [mount / inside, *(mount / parent for parent in inside.parents), mount]


def _quota(words: Sequence[str]) -> float | None:
    try:
        allowed, period = (int(word) for word in words)
    except ValueError:
        return None
    return allowed / period if allowed > 0 and period > 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
