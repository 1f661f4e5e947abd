"""One model, many threads, many documents: the same answers, and memory that stays."""

from __future__ import annotations

import json
from pathlib import Path

import hushdoc_tiny as tiny
import pytest
from hushdoc_command_runs import write_policy
from hushdoc_processes import in_python

CODE = """
import hashlib, json, random, statistics, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import hushdoc

THREADS, WARM = 8, 100
count = int(sys.argv[3])

def document(index):
    # Lengths from one word to several windows, so that batches have many shapes.
    dice = random.Random(index)
    words = ["".join(dice.choices("abcdefgh0123456789", k=dice.randint(1, 9)))
             for _ in range(dice.choice((1, 5, 20, 60, 150)))]
    boxes = []
    for _ in words:
        x, y = dice.randrange(900), dice.randrange(900)
        boxes.append((x, y, x + 50, y + 20))
    return hushdoc.Document.from_words(words, boxes, width=1000, height=1000, id=str(index))

def answer(index):
    found = model.extract(document(index))
    sizes.append(resident())
    told = [(f.label, f.text, f.word_ids, f.score) for f in found.fields]
    return hashlib.sha256(repr((found.document_id, told)).encode()).digest(), len(told)

def resident():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])

policy = hushdoc.Policy.from_toml(Path(sys.argv[2]))
model = hushdoc.load(sys.argv[1], policy=policy, runtime=hushdoc.Runtime(threads=1))
sizes = []
with ThreadPoolExecutor(THREADS) as pool:
    threaded = list(pool.map(answer, range(count)))
# What eight threads hold at one moment varies by some per cent; so the median of a hundred.
early, late = (statistics.median(part) for part in (sizes[WARM : 2 * WARM], sizes[-WARM:]))
alone = [answer(index) for index in range(count)]
print(json.dumps({
    "differ": sum(a != b for a, b in zip(threaded, alone)),
    "fields": sum(found for _, found in alone),
    "different_answers": len(set(alone)),
    "growth": late / early,
}))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_threads_change_no_answer_and_memory_stays(tmp_path: Path, count: int) -> None:
    policy = write_policy(tmp_path, tiny.TRUST)
    found = json.loads(in_python(CODE, tiny.sealed(), policy, count).stdout)
    assert found["differ"] == 0
    # A model that finds nothing, or the same everywhere, would agree with itself.
    assert found["fields"] > count
    assert found["different_answers"] > 0.9 * count
    assert found["growth"] <= 1.1
