"""The demo of questions: how long it says it takes, and its whole path."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hushdoc_terminal import on_terminal, require_stopped

QUOTED = ("date", "total")
"""What is also asked for by the label on the page, in every wording."""

DEMO = Path(__file__).parents[2] / "samples" / "docvqa_demo.py"


def test_it_says_what_is_left_of_six_minutes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(DEMO.parent)
    import docvqa_demo
    from demo_machine import Machine

    def takes(step: float, scale: docvqa_demo.Scale = docvqa_demo.FULL) -> dict[str, float]:
        machine = Machine(steps={1: step}, more_are_slower=False, document=0.01, windows=1)
        return docvqa_demo.seconds_of(machine, scale)

    everything = takes(0.1)
    assert sum(takes(0.1, docvqa_demo.QUICK).values()) < sum(everything.values()) / 4
    assert takes(0.2) == pytest.approx({name: 2 * each for name, each in everything.items()})
    (tmp_path / "runs" / "public" / "checkpoint").mkdir(parents=True)
    assert docvqa_demo.left(tmp_path, everything) == {**everything, "public": 0.0}


def test_what_is_asked_for_is_what_the_demo_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DEMO.parent)
    import docvqa_demo

    from hushdoc_training import invented
    from hushdoc_training.data import providers

    texts = []
    for wordings in (docvqa_demo.WORDINGS, docvqa_demo.OTHER_WORDINGS):
        config = docvqa_demo.config(docvqa_demo.KNOWN, wordings)
        made = [*docvqa_demo.asked(invented.documents(seed=1, count=20, config=config))]
        named = [asked for item in made for asked in item.questions if asked.key not in QUOTED]
        texts.append({asked.text for asked in named})
    assert texts[0]
    assert not texts[0] & texts[1]  # the start was not asked what private documents teach
    found = {(asked.key, bool(asked.answers)) for item in made for asked in item.questions}
    assert {key for key, _ in found} == {*docvqa_demo.KEYS}
    assert {("total", True), ("iban", False)} <= found
    assert not {("total", False), ("iban", True)} & found
    full = docvqa_demo.config(docvqa_demo.PROTECTED, docvqa_demo.OTHER_WORDINGS)
    private = invented.documents(seed=2, count=docvqa_demo.FULL.private, config=full)
    assert docvqa_demo.FULL.providers == pytest.approx(len(providers.grouped(private)), rel=0.1)
    others = docvqa_demo.config(docvqa_demo.OTHERS)
    shown = invented.document(seed=docvqa_demo.SHOWN, index=0, config=others)
    assert any(question.key == "date" and question.answers for question in shown.questions)
    words = {word.text.lower() for word in shown.document.pages[0].words}
    assert not words & {"iban", "iban:", "account"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_goes_on_and_takes_its_whole_path(tmp_path: Path) -> None:
    command = (sys.executable, DEMO, "--quick", "--out", "demo")
    require_stopped(on_terminal(*command, cwd=tmp_path, until=r"step \d/"))
    last = on_terminal(*command, cwd=tmp_path, limit=600)
    assert last.code == 0, last.printed[-3000:]
    for expected in ("ACCEPTED.", "EPSILON_TOO_LARGE", "DIGEST_MISMATCH", "APK", "mean nothing"):
        assert expected in last.printed
    for name in ("answer.png", "certificate.html", "runs/private/training.png", "score.json"):
        assert (tmp_path / "demo" / name).stat().st_size > 0
    assert json.loads((tmp_path / "demo" / ".hushdoc-demo").read_text())["finished"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_reaches_its_goal(tmp_path: Path) -> None:
    done = on_terminal(sys.executable, DEMO, "--out", "demo", cwd=tmp_path, limit=800)
    assert done.code == 0, done.printed[-3000:]
