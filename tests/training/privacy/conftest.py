"""Lets tests import `private_simulator` by name; tests are no package to import from."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
