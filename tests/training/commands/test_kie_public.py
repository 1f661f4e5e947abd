"""`train kie --public` over a list of sets, as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushdoc.__main__ import main
from hushdoc_training import invented
from hushdoc_training.checkpoint import Checkpoint

LIST = """
[[set]]
name = "till receipts"
data = "invented:till-receipt"
licence = "of this package"
documents = 5
labels = "sroie"

[[set]]
name = "forms"
data = "invented:form"
licence = "of this package"
documents = 3

[[set]]
name = "pages"
data = "pages"
licence = "CC0-1.0"
unlabelled = true
passes = 2
"""


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    invented.write(tmp_path / "pages", seed=1, count=3, images=False)
    path = tmp_path / "sets.toml"
    path.write_text(LIST)
    return path


def train(listed: Path, out: Path, *arguments: object) -> int:
    line = ["--data", listed, "--out", out, "--batch-size", "8", "--quiet", *arguments]
    return main(["train", "kie", *map(str, line)])


def test_words_and_boxes_first_and_then_the_labels_of_all_sets(
    tmp_path: Path, listed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    masked, out = tmp_path / "masked", tmp_path / "start"
    assert train(listed, masked, "--public", "--unlabelled", "--start", "small") == 0
    first = Checkpoint.load(masked)
    assert first.labels.fields == ()
    assert [data.name for data in first.claim.public_data] == ["till receipts", "forms", "pages"]
    assert train(listed, out, "--public", "--start", masked, "--new-labels") == 0
    told = "Labels:     fresh for all 7 labels; the start's encoder alone is kept"
    assert told in capsys.readouterr().out
    stored = Checkpoint.load(out)
    assert stored.labels.fields == (
        "address", "answer", "company", "date", "header", "question", "total",
    )  # fmt: skip
    assert stored.claim.public_data == first.claim.public_data
    statuses = [data.privacy_status for data in stored.claim.public_data]
    assert "licence: CC0-1.0" in statuses[2]
    overlaps = [data.overlap_with_protected for data in stored.claim.public_data]
    assert overlaps == ["none", "none", "unknown"]
    assert stored.claim.training["labels"]["till receipts"] == [
        "address", "company", "date", "total",
    ]  # fmt: skip


def test_a_set_that_is_private_later_is_left_out(tmp_path: Path, listed: Path) -> None:
    out = tmp_path / "start"
    assert train(listed, out, "--public", "--start", "small", "--without", "forms") == 0
    stored = Checkpoint.load(out)
    assert stored.labels.fields == ("address", "company", "date", "total")
    assert [data.name for data in stored.claim.public_data] == ["till receipts"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--epsilon", "8"], "--public"),
        (["--public", "--documents", "3"], "--documents"),
        (["--public", "--labels", "form"], "--labels"),
        (["--public", "--label", "date"], "--label"),
        (["--public", "--held-out", "0.2"], "--held-out"),
        (["--public", "--unlabelled", "--token-noise", "0.1"], "--token-noise"),
        (["--public", "--data", "invented:form", "--unlabelled"], "--unlabelled"),
        (["--public", "--data", "invented:form", "--without", "forms"], "--without"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    tmp_path: Path,
    listed: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    says: str,
) -> None:
    with pytest.raises(SystemExit) as stop:
        train(listed, tmp_path / "run", *arguments)
    assert stop.value.code == 2
    assert says in capsys.readouterr().err


def test_a_list_without_labels_teaches_none(
    tmp_path: Path, listed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left_out = ("--without", "till receipts", "--without", "forms")
    assert train(listed, tmp_path / "run", "--public", "--start", "small", *left_out) == 3
    assert "unlabelled" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
