"""Telemetry is off before anything that has it is imported."""

from __future__ import annotations

import os
import sys
from types import ModuleType

import pytest

from hushdoc.errors import TelemetryActiveError
from hushdoc.system import telemetry


def test_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(telemetry.VARIABLE, raising=False)
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    telemetry.keep_off()
    assert os.environ[telemetry.VARIABLE] == "1"
    telemetry.keep_off()


@pytest.mark.parametrize("value", [None, "0", ""])
def test_an_application_that_was_quicker_is_told(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv(telemetry.VARIABLE, raising=False)
    else:
        monkeypatch.setenv(telemetry.VARIABLE, value)
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    monkeypatch.setattr(telemetry, "_was_first", False)
    with pytest.raises(TelemetryActiveError, match=telemetry.VARIABLE):
        telemetry.keep_off()
    assert os.environ.get(telemetry.VARIABLE) == value
