"""docs/runtime.md: its samples run, and what it states is what the code does."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hushdoc_tiny as tiny
import pytest

import hushdoc
from hushdoc.artifact.artifact import read_unverified
from hushdoc.runtime import session
from hushdoc_export import agreement, field_agreement, parity, probes
from hushdoc_export.quantize import VARIANTS

TEXT = (Path(__file__).parents[2] / "docs/runtime.md").read_text("utf-8")
EXPORT, LOAD, CLOSE, AWAIT = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


def test_every_variant_stands_in_its_table_with_its_file() -> None:
    stated = dict(re.findall(r"^\| `(\w+)` \| `([\w/.]+)` \|", TEXT, flags=re.MULTILINE))
    assert stated == {name: variant.entry for name, variant in VARIANTS.items()}


def test_limits_are_those_of_the_code() -> None:
    plain = " ".join(TEXT.split())
    assert f"on {field_agreement.NUM_DOCUMENTS} invented documents" in plain
    assert f"at least half of them (F1 {field_agreement.MEANINGFUL_F1:g})" in plain
    assert f"more than {agreement.MAX_F1_LOSS:g} points of F1" in plain
    assert f"five shapes, at most {parity.TOLERANCE:.0e}".replace("e-04", "e-4") in plain
    assert len(probes.SHAPES) + 1 == 5
    assert "every quarter of a second" in plain
    assert session.TRIM_SECONDS == 0.25


def test_the_sample_that_exports_runs_but_for_the_loss_of_random_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field_agreement, "NUM_DOCUMENTS", 20)
    names = {
        "checkpoint": tiny.sealed().parent / "checkpoint",
        "out": tmp_path / "artifact",
        "key": tiny.KEY,
    }
    with pytest.raises(hushdoc.HushdocError) as raised:
        exec(compile(EXPORT, "docs/runtime.md", "exec"), dict(names))
    assert raised.value.code == "VARIANT_LOSES_TOO_MUCH"
    named = EXPORT.replace('variant="int8"', 'variant="int8", max_f1_loss=100')
    exec(compile(named, "docs/runtime.md", "exec"), dict(names))
    assert read_unverified(tmp_path / "artifact").certificate.model.name == "forms"


def test_the_sample_that_loads_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tiny.sealed().parent)
    names = {"hushdoc": hushdoc, "policy": tiny.policy()}
    exec(compile(LOAD.replace('"model"', '"artifact"'), "docs/runtime.md", "exec"), names)
    assert isinstance(names["model"], hushdoc.KIEModel)


PAGE = hushdoc.Document.from_words(["Total"], [(1, 2, 30, 9)], width=90, height=40, id="invoice")


def test_the_sample_that_closes_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "invoice.pdf").write_text(json.dumps(PAGE.to_dict()))  # told by its content
    names = {"hushdoc": hushdoc, "policy": tiny.policy()}
    (tmp_path / "model").symlink_to(tiny.sealed())
    exec(compile(CLOSE, "docs/runtime.md", "exec"), names)
    shown, coverage = capsys.readouterr().out.splitlines()
    assert shown.startswith("<hushdoc.KIEModel 'tiny-kie' version 1: 3 fields, epsilon ")
    assert coverage == "1.0"
    with pytest.raises(hushdoc.ModelClosedError):
        names["model"].extract(PAGE)


def test_the_sample_that_awaits_runs(tmp_path: Path) -> None:
    content = json.dumps(PAGE.to_dict())
    (tmp_path / "a.json").write_text(content)
    handlers: dict[str, Any] = {}

    class UploadFile:
        async def read(self) -> bytes:
            return content.encode()

    def post(path: str) -> Any:
        return lambda handler: handlers.setdefault(path, handler)

    model = hushdoc.KIEModel.load(tiny.sealed(), policy=tiny.policy())
    names: dict[str, Any] = {"hushdoc": hushdoc, "asyncio": asyncio, "partial": partial}
    names |= {"app": SimpleNamespace(post=post), "UploadFile": UploadFile, "model": model}
    exec(compile(AWAIT, "docs/runtime.md", "exec"), names)
    expected = model.extract(PAGE)
    found = asyncio.run(handlers["/fields"](UploadFile()))
    assert [row["label"] for row in found] == [field.label for field in expected.fields]
    assert asyncio.run(names["all_of"]([tmp_path / "a.json"] * 3)) == [expected] * 3
