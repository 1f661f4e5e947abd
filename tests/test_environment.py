from __future__ import annotations

import shutil
from importlib.metadata import distributions

import pytest


def test_a_cpu_machine_has_no_cuda_packages() -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has an NVIDIA GPU")
    names = {str(found.metadata["Name"]).lower() for found in distributions()}
    assert not {name for name in names if name.startswith(("nvidia-", "triton"))}
