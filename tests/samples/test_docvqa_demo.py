"""The demo of questions: how long it says it takes, and its whole path."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import hushdoc_tiny as tiny
import pytest
from hushdoc_terminal import Ended, on_terminal, require_stopped

import hushdoc
from hushdoc_training.audit.provider_membership import METHODS

QUOTED = ("date", "total")
"""What is also asked for by the label on the page, in every wording."""

DEMO = Path(__file__).parents[2] / "samples" / "docvqa_demo.py"

DATE = "Nov. 18, 2005"
"""The date on the page that is shown."""

AN_ANSWER, NO_ANSWER = r".+  [01]\.\d\d  page 0", r"no answer \(none: [01]\.\d\d\)"


@pytest.fixture
def docvqa_demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The sample as a module."""
    monkeypatch.syspath_prepend(DEMO.parent)
    import docvqa_demo

    return docvqa_demo


def test_it_says_what_is_left_of_six_minutes(docvqa_demo: ModuleType, tmp_path: Path) -> None:
    from demo_machine import Machine

    def takes(step: float, scale: Any = docvqa_demo.FULL) -> dict[str, float]:
        machine = Machine(steps={1: step}, more_are_slower=False, document=0.01, windows=1)
        found: dict[str, float] = docvqa_demo.seconds_of(machine, scale)
        return found

    everything = takes(0.1)
    assert sum(takes(0.1, docvqa_demo.QUICK).values()) < sum(everything.values()) / 4
    assert takes(0.2) == pytest.approx({name: 2 * each for name, each in everything.items()})
    (tmp_path / "runs" / "public" / "checkpoint").mkdir(parents=True)
    assert docvqa_demo.left(tmp_path, everything) == {**everything, "public": 0.0}


@pytest.mark.parametrize("step", [0.05, 1.0])
def test_it_says_whether_six_minutes_hold(
    step: float,
    docvqa_demo: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import torch
    from demo_machine import Machine

    machine = Machine(steps={1: step}, more_are_slower=False, document=0.01, windows=1)
    monkeypatch.setattr(docvqa_demo, "measure", lambda config: machine)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    takes = docvqa_demo.measured(tmp_path, docvqa_demo.FULL, goes_on=False)
    warned = "Six minutes won't hold" in capsys.readouterr().out
    assert warned == (sum(takes.values()) > 360) == (step == 1)


def test_what_is_asked_for_is_what_the_demo_names(docvqa_demo: ModuleType) -> None:
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
    assert not any(question.key == "iban" and question.answers for question in shown.questions)
    words = {word.text.lower() for word in shown.document.pages[0].words}
    assert not words & {"iban", "iban:", "account"}


def test_answers_are_compared_with_what_the_page_says(
    docvqa_demo: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from hushdoc_training import invented

    config = docvqa_demo.config(docvqa_demo.OTHERS)
    invented.write(tmp_path / "page", seed=docvqa_demo.SHOWN, count=1, config=config)
    (tmp_path / "model").symlink_to(tiny.sealed_pointer())
    (tmp_path / "trust.json").write_bytes(tiny.TRUST.to_json())
    trust = f"--trust {tmp_path}/trust.json --max-delta 1e-5 --unit document"
    monkeypatch.setattr(docvqa_demo.demo, "trust", lambda out, unit: trust)
    given = docvqa_demo.ask(tmp_path)
    assert [one.right for one in given] == [(DATE,), ()]
    model = hushdoc.DocVQAModel.load(tiny.sealed_pointer(), policy=tiny.policy())
    [page] = (tmp_path / "page").glob("*.json")
    asked = (docvqa_demo.ASKED, docvqa_demo.NOWHERE)
    expected = model.ask_all(hushdoc.open_document(page), asked)
    assert [(one.question, one.answer) for one in given] == [
        (answer.question, answer.text) for answer in expected
    ]
    printed = capsys.readouterr().out
    assert (
        f"{docvqa_demo.ASKED} Found: {expected[0].text or 'no answer'}. Expected: {DATE}."
        in printed
    )
    assert '"answers"' not in printed


@pytest.mark.parametrize(
    ("date", "iban", "private", "says"),
    [
        (DATE, None, 0.75, None),
        (None, None, 0.75, f"Found: no answer. Expected: {DATE}."),
        ("2005", None, 0.75, f"Found: 2005. Expected: {DATE}."),
        (DATE, "0342838-07", 0.75, "What is the IBAN? Found: 0342838-07. Expected: no answer."),
        (DATE, None, 0.69, "ANLS is 0.690; expected 0.700 or more."),
    ],
)
def test_the_full_demo_fails_unless_the_answers_are_right(
    docvqa_demo: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    date: str | None,
    iban: str | None,
    private: float,
    says: str | None,
) -> None:
    given = [
        docvqa_demo.Given(question=docvqa_demo.ASKED, answer=date, right=(DATE,)),
        docvqa_demo.Given(question=docvqa_demo.NOWHERE, answer=iban, right=()),
    ]
    worth = {"public": 0.7, "private": private}
    began = time.monotonic()
    code = docvqa_demo.report(tmp_path, given, worth, began, docvqa_demo.FULL)
    said = capsys.readouterr().err
    assert (code, said.count("\n")) == ((0, 0) if says is None else (1, 1))
    assert (says or "") in said
    assert docvqa_demo.report(tmp_path, given, worth, began, docvqa_demo.QUICK) == 0
    quick = capsys.readouterr()
    assert "Answers and scores mean nothing" in quick.out
    assert quick.err == ""


def shown(ended: Ended, demo: ModuleType) -> list[str]:
    """Returns what `hushdoc ask` printed below each of both questions."""
    below = zip(ended.lines, ended.lines[1:], strict=False)
    return [line.strip() for asked, line in below if asked.strip() in (demo.ASKED, demo.NOWHERE)]


def attacks(ended: Ended) -> dict[str, list[str]]:
    """Returns the attacks that were printed with an accuracy and an area, by the attacked run."""
    found = {}
    for told in "\n".join(ended.lines).split("\n$ hushdoc ")[1:]:
        if told.startswith("audit providers "):
            run = told.split()[2].rsplit("/", 1)[-1]
            row = r"^(\S.*?) +0 +[01]\.\d{3} \+-[01]\.\d{3} +[01]\.\d{3} \("
            found[run] = re.findall(row, told, flags=re.MULTILINE)
    return found


def require_shown(ended: Ended) -> None:
    """Requires all attacks, on what was trained without privacy and then with it."""
    names = [method.name for method in METHODS]
    assert list(attacks(ended).items()) == [("not-private", names), ("private", names)]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_goes_on_and_takes_its_whole_path(tmp_path: Path, docvqa_demo: ModuleType) -> None:
    command = (sys.executable, DEMO, "--quick", "--out", "demo")
    require_stopped(on_terminal(*command, cwd=tmp_path, until=r"step \d/"))
    last = on_terminal(*command, cwd=tmp_path, limit=600)
    assert last.code == 0, last.printed[-3000:]
    for expected in ("ACCEPTED.", "EPSILON_TOO_LARGE", "DIGEST_MISMATCH", "mean nothing"):
        assert expected in last.printed
    require_shown(last)
    answers = shown(last, docvqa_demo)  # of a model that has learned next to nothing
    assert len(answers) == 2
    assert all(re.fullmatch(f"{AN_ANSWER}|{NO_ANSWER}", line) for line in answers)
    assert f"Expected: {DATE}." in last.printed
    for name in ("answer.png", "certificate.html", "runs/private/training.png", "score.json"):
        assert (tmp_path / "demo" / name).stat().st_size > 0
    assert json.loads((tmp_path / "demo" / ".hushdoc-demo").read_text())["finished"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_it_reaches_its_goal_when_it_says(tmp_path: Path, docvqa_demo: ModuleType) -> None:
    began = time.monotonic()
    done = on_terminal(sys.executable, DEMO, "--out", "demo", cwd=tmp_path, limit=1700)
    seconds = time.monotonic() - began
    assert done.code == 0, done.printed[-3000:]
    assert seconds <= 360 or "Six minutes won't hold" in done.printed
    require_shown(done)
    answered, unanswered = shown(done, docvqa_demo)
    assert re.fullmatch(AN_ANSWER, answered)
    assert answered.startswith(f"{DATE}  ")
    assert re.fullmatch(NO_ANSWER, unanswered)
