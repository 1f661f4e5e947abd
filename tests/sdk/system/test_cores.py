"""Cores: what the process may use, and what its container's quota leaves of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hushdoc.system.cores import usable_cores

QUOTAS = {
    "none": ({}, None),
    "garbage": ({"proc/self/cgroup": "garbage", "sys/fs/cgroup/cpu.max": "x"}, None),
    "unlimited": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
    "own": (
        {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "50000 100000\n"},
        1,
    ),
    "above": (
        {"proc/self/cgroup": "0::/job/part\n", "sys/fs/cgroup/job/cpu.max": "100000 100000\n"},
        1,
    ),
    "first version": (
        {
            "proc/self/cgroup": "4:cpu,cpuacct:/job\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "90000\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
        },
        1,
    ),
}


@pytest.mark.parametrize("name", QUOTAS)
def test_cores_follow_the_containers_quota(tmp_path: Path, name: str) -> None:
    files, expected = QUOTAS[name]
    for place, text in files.items():
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert usable_cores(root=tmp_path) == (expected or len(os.sched_getaffinity(0)))
