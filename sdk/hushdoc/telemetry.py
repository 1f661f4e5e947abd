"""Keeps the telemetry of ONNX Runtime off, for everything here that has it imported.

Contract: `keep_off` runs before the first import of onnxruntime, ours or that of a package that we
use. From 1.29 on onnxruntime sends telemetry unless ORT_DISABLE_TELEMETRY=1 stands in the
environment before its first import; nothing stops it afterwards.
"""

from __future__ import annotations

import os
import sys

from hushdoc.errors import TelemetryActiveError

VARIABLE = "ORT_DISABLE_TELEMETRY"


def keep_off() -> None:
    """Switches telemetry off, or refuses where the application was quicker.

    Raises:
        TelemetryActiveError: The application imported onnxruntime with telemetry on.
    """
    if "onnxruntime" in sys.modules and os.environ.get(VARIABLE) != "1":
        raise TelemetryActiveError(
            f"The application imported onnxruntime before hushdoc without {VARIABLE}=1, so it may "
            "send file and model names over the network, and nothing can stop it any more. Set "
            f"{VARIABLE}=1 in the environment, or use hushdoc before importing onnxruntime."
        )
    os.environ[VARIABLE] = "1"
