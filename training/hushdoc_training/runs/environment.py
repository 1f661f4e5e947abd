"""What a run was made with: Python, packages, processor and accelerator; nothing of its data."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import hushdoc

PACKAGES = ("numpy", "opacus", "safetensors", "tokenizers", "torch", "transformers")


def environment() -> str:
    """Returns this machine and its versions as JSON."""
    cuda = torch.cuda.is_available()
    found = {
        "hushdoc": hushdoc.__version__,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "accelerator": torch.cuda.get_device_name() if cuda else None,
    }
    return json.dumps(found, indent=2) + "\n"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # another system than Linux
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
