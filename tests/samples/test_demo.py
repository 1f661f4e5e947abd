"""The demo on a terminal: interrupted by real Ctrl-C, gone on with, and nothing foreign in it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import hushdoc_smaller
import pytest
from hushdoc_terminal import Ended, on_terminal, require_stopped

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "samples" / "demo.py"
DONE = "done before"

OURS = re.compile(
    r"""
    | ==\ .* | \$\ hushdoc\ .* | Measuring\ this\ machine\ .*
    | A\ training\ step\ takes\ .*\.\ Training\ uses\ \d\.
    | .*\ takes\ about\ [\w ]+\ here\. | Ctrl-C\ stops,\ .*
    | Five\ minutes\ won't\ hold\ .* | command\ in\ about\ .*\ make\ demo\ QUICK=1
    | \S+:\ done\ before | (Recipe|Plan|Labels):\ .* | \ {12}but\ for\ .*
    | Documents\ read:\ \d+\ \(the\ labelled\ format\) | Reading\ the\ labelled\ format\.\ .*
    | ((public|private|unseen)\ )?(document|step|export)\ \d+/\d+\ .*\ left
    | (Checkpoint|Plot):\ .* | \S+:\ (secret|public|sealed\ and\ signed)\.\ .* | key\ id\ \w+
    | \ \ certificate:\ .* | hushdoc\ verify:\ DIGEST_MISMATCH:\ .*
    | \(exit\ code\ \d,\ as\ expected\)
    | invoice-\S+:\ \d+\ fields,\ .*
    | Entity\ F1\ .* | This\ F1\ means\ nothing:.* | show\ the\ commands\ .*
    | Look\ at\ .* | \ {10}\S+\ .* | Took\ .*
    | note:\ .* | Interrupted\.\ .*
    """,
    re.VERBOSE,
)
"""Lines that the demo and its commands print where they load, train and export."""

READS_ALONE = re.compile(
    r"^\$ hushdoc (inspect|verify) .*?(?=^(?:\$|==|hushdoc verify|\())", re.MULTILINE | re.DOTALL
)
"""What `inspect` and `verify` print: long, and of no foreign library."""


def quick(folder: Path, *, until: str | None = None, small: bool = False) -> Ended:
    """Runs the quick demo, with a smaller model if it shall be `small`."""
    program = (hushdoc_smaller.__file__, DEMO) if small else (DEMO,)
    return on_terminal(
        sys.executable, *program, "--quick", "--out", "demo", cwd=folder, until=until
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Ended]]:
    """Runs the quick demo, interrupted before anything is loaded and while it trains."""
    folder = tmp_path_factory.mktemp("demo")
    # Not every step is shown where steps are fast.
    stops = ("Measuring this machine", r"step \d/13", None)
    return folder, [quick(folder, until=stop, small=stop != stops[0]) for stop in stops]


def test_the_demo_goes_on_where_it_was_interrupted(runs: tuple[Path, list[Ended]]) -> None:
    folder, (first, second, last) = runs
    require_stopped(first)
    require_stopped(second)
    assert DONE not in second.printed
    assert last.code == 0, last.printed[-3000:]
    assert "What is left of the interrupted demo takes about" in last.printed
    assert [line for line in last.lines if line.endswith(DONE)] == [
        f"demo/{name}: done before" for name in ("public", "private", "unseen")
    ]
    taken = [json.loads(line) for line in (folder / "demo/runs/public/steps.jsonl").open()]
    assert [entry["charge"] for entry in taken if "charge" in entry] == list(range(1, 14))
    assert not list((folder / "demo").rglob("*.partial"))


def test_the_demo_takes_its_whole_path(runs: tuple[Path, list[Ended]]) -> None:
    folder, (*_, last) = runs
    for expected in ("ACCEPTED.", "REFUSED: 1 of", "EPSILON_TOO_LARGE", "DIGEST_MISMATCH"):
        assert expected in last.printed
    assert re.search(r"Entity F1 .*\r\nThis F1 means nothing", last.printed)
    for name in ("overlay.png", "certificate.html", "runs/private/training.png", "score.json"):
        assert (folder / "demo" / name).stat().st_size > 0
    assert json.loads((folder / "demo" / ".hushdoc-demo").read_text())["finished"]


def test_the_demo_prints_nothing_of_other_libraries(runs: tuple[Path, list[Ended]]) -> None:
    for ended in runs[1]:
        rest = READS_ALONE.sub("", "\n".join(ended.lines))
        assert [line for line in rest.split("\n") if not OURS.fullmatch(line)] == []


def test_the_demo_clears_no_folder_of_others(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine").write_text("kept")
    assert quick(tmp_path).code == 1
    assert (tmp_path / "demo" / "mine").read_text() == "kept"


def test_a_demo_of_the_other_scale_is_not_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / ".hushdoc-demo").write_text('{"scale": "full", "finished": false}')
    ended = quick(tmp_path)
    assert (ended.code, ended.printed.count("interrupted demo of the other scale")) == (1, 1)


def test_the_fewest_threads_are_chosen_that_no_more_beat_by_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(DEMO.parent)
    from demo_machine import Machine

    tried = ({1: 1.0}, {1: 1.0, 2: 0.95}, {1: 1.0, 2: 9.0, 4: 0.8}, {1: 1.0, 2: 0.6, 4: 0.58})
    machines = [
        Machine(steps=steps, more_are_slower=False, document=0.01, windows=2) for steps in tried
    ]
    assert [machine.threads for machine in machines] == [1, 1, 4, 2]


@pytest.mark.parametrize("step", [0.1, 1.0])
def test_the_demo_says_whether_five_minutes_hold(
    step: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(DEMO.parent)
    import demo
    from demo_machine import FULL, QUICK, Machine

    machine = Machine(steps={1: step}, more_are_slower=False, document=0.01, windows=2)
    takes = demo.announce(machine, tmp_path, FULL, goes_on=False)
    printed = capsys.readouterr().out
    assert sum(takes.values()) == pytest.approx(sum(machine.seconds(FULL).values()))
    assert ("Five minutes won't hold" in printed) == (sum(takes.values()) > 300) == (step == 1)
    assert ("make demo QUICK=1" in printed) == (step == 1)
    (tmp_path / "runs" / "public" / "checkpoint").mkdir(parents=True)
    rest = demo.announce(machine, tmp_path, FULL, goes_on=True)
    assert rest == {**takes, "pretrain": 0}
    assert sum(machine.seconds(QUICK).values()) < sum(takes.values()) / 4
    assert "What is left of the interrupted demo" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ctrl_c_at_any_moment_is_one_line(tmp_path: Path) -> None:
    require_stopped(quick(tmp_path, until="public document 1/"))
    require_stopped(quick(tmp_path, until="private document 1/"))
    assert {path.name for path in (tmp_path / "demo").glob("*")} >= {"public"}
    for until in (
        "unseen document 1/",
        r"hushdoc train kie",
        r"step 1/13",
        r"step 13/13",
        r"runs/private\r",
        r"step 1/3",
        r"hushdoc keygen",
        r"hushdoc export",
        r"export 25/",
        r"export 100/",
        r"hushdoc inspect",
        r"ACCEPTED",
        r"hushdoc extract",
    ):
        stopped = quick(tmp_path, until=until)
        assert stopped.code == 130, until
        require_stopped(stopped)
    assert quick(tmp_path).code == 0
    begun_anew = quick(tmp_path, until="public document 1/")
    require_stopped(begun_anew)
    assert not (tmp_path / "demo" / "score.json").exists()


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_the_demo_reaches_its_goal(tmp_path: Path) -> None:
    done = on_terminal(sys.executable, DEMO, "--out", "demo", cwd=tmp_path, limit=650)
    assert done.code == 0, done.printed[-3000:]
    score = json.loads((tmp_path / "demo" / "score.json").read_text())
    assert score["f1"] >= 0.7
