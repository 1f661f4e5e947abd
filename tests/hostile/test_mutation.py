"""Random damage: refused with an error of ours, or still saying what was said, and never more.

What is accepted although it differs goes to oracles that share no code with the readers: json,
hashlib, onnx, safetensors, tomllib, and the exact accountant where the fast one decided.
"""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from hushdoc_damage import damaged, edited
from hushdoc_judge import Judge
from hushdoc_mutation import run, targets
from hushdoc_processes import interpreter

WORKER = Path(__file__).parents[1] / "shared" / "hushdoc_mutation_worker.py"


def test_damage_is_refused_or_says_the_same(build: ModuleType, tmp_path: Path) -> None:
    found = targets(build, tmp_path)
    tally = run(found, seed=1, number=500)
    assert tally.wrong == []
    assert tally.tried.total() == 500
    assert set(tally.tried) == {target.name for target in found}
    assert len(tally.codes) >= 20
    judge = Judge(build, tmp_path / "judge")
    for name, content in tally.accepted:
        judge.require_right(name, content)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 4, 5])
def test_much_damage_in_little_memory(build: ModuleType, tmp_path: Path, seed: int) -> None:
    """In a process of its own, without the oracles, so that memory is that of reading alone."""
    (tmp_path / "worker").mkdir()
    done = interpreter(WORKER, tmp_path / "worker", seed, 6000)
    told = json.loads(done.stdout)
    assert told["wrong"] == []
    assert sum(told["tried"].values()) == 6_000
    assert told["memory"]["after"] <= 200e6
    assert len(told["codes"]) >= 25
    refused, accepted = sum(told["refused"].values()), Counter(name for name, _ in told["accepted"])
    assert refused + accepted.total() == 6_000
    print(f"\ntried {told['tried']}\naccepted {accepted}\ncodes {told['codes']}\n{told['memory']}")
    judge = Judge(build, tmp_path / "judge")
    for name, content in told["accepted"]:
        judge.require_right(name, base64.b64decode(content))


def test_every_sound_input_is_read(build: ModuleType, tmp_path: Path) -> None:
    """Without this, refusing everything would pass."""
    for target in targets(build, tmp_path):
        assert target.read(target.sound) is not None, target.name


def test_the_judge_refuses_what_is_wrong(build: ModuleType, tmp_path: Path) -> None:
    """The oracle can say no: of a lie in each kind of input."""
    judge = Judge(build, tmp_path)
    statement = json.loads(judge.sound["statement"])
    statement["predicate"]["guarantees"][0]["epsilon"] = 1.0
    lies = {
        "statement": json.dumps(statement).encode(),
        "manifest": judge.sound["manifest"].replace(b'"kie"', b'"docvqa"'),
        "onnx": build.onnx(metadata={}),
        "safetensors": judge.sound["safetensors"][:-4] + b"\0\0\xc0\x7f",
        "unsigned-onnx": judge.sound["onnx"],
    }
    for name, content in lies.items():
        with pytest.raises((AssertionError, KeyError)):
            judge.require_right(name, content)


def test_damage_differs_and_can_be_repeated() -> None:
    content = json.dumps({"a": [1, {"b": "c"}], "d": "e"}).encode()
    made = {damaged(content, random.Random(seed), content) for seed in range(200)}
    knowing = {edited(content, random.Random(seed)) for seed in range(200)}
    assert len(made) > 150
    assert len(knowing) > 60
    assert damaged(content, random.Random(7), content) == damaged(
        content, random.Random(7), content
    )
    assert sum(_is_json(item) for item in knowing) == len(knowing)


def _is_json(content: bytes) -> bool:
    json.loads(content)
    return True
