"""What a start brings along: output weights of labels in common, and what its claim says."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from kie_training import train_plain, train_private

from hushdoc.__main__ import main
from hushdoc.errors import PrivacyError
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc_training import invented
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.models import layout
from hushdoc_training.privacy import claims
from hushdoc_training.recipes.kie import training
from hushdoc_training.recipes.kie.start import Start, start_from
from hushdoc_training.runs import continued

FEW, OTHERS = LabelSet(fields=("a", "b", "c")), LabelSet(fields=("b", "c", "d"))
MANY = LabelSet(fields=("b", "c", "d", "e", "f", "g"))
MORE = LabelSet(fields=("a", "b", "c", "x", "y"))
IMAGES = {"coordinate_size": 8, "shape_size": 8, "input_size": 32, "patch_size": 16}


def logits(model: layout.TokenClassifier) -> torch.Tensor:
    ids = torch.arange(5, 11).reshape(1, 6)
    with torch.no_grad():
        found: torch.Tensor = model.eval()(
            ids, torch.zeros(1, 6, 4, dtype=torch.int64), torch.ones_like(ids)
        )
    return found


@pytest.mark.parametrize(
    ("architecture", "settings", "before", "after", "kept"),
    [
        ("layoutlm", {}, FEW, OTHERS, ("b", "c")),
        ("layoutlm", {}, FEW, MANY, ("b", "c")),
        ("lilt", {}, FEW, OTHERS, ("b", "c")),
        ("layoutlmv3", IMAGES, FEW, OTHERS, ("b", "c")),
        ("layoutlmv3", IMAGES, MORE, MANY, ("b", "c")),
        # LayoutLMv3 has another layer before the last from ten tags on, so no row means the same.
        ("layoutlmv3", IMAGES, FEW, MANY, ()),
        ("layoutlmv3", IMAGES, MANY, FEW, ()),
    ],
)
def test_labels_in_common_keep_their_scores(
    tmp_path: Path,
    publish: Callable[..., Path],
    architecture: str,
    settings: dict[str, int],
    before: LabelSet,
    after: LabelSet,
    kept: tuple[str, ...],
) -> None:
    model, _, _ = layout.pretrained(str(publish(architecture, **settings)), before)
    earlier = logits(model)
    assert layout.replace_output_layer(model, after, before=before) == kept
    found = logits(model)
    assert found.shape[-1] == len(after.tags)
    same = [
        tag
        for number, tag in enumerate(after.tags)
        if tag in before.tags
        and torch.allclose(found[..., number], earlier[..., before.tags.index(tag)], atol=1e-6)
    ]
    assert same == (["O", "B-b", "I-b", "B-c", "I-c"] if kept else [])
    model.save(tmp_path / "saved")
    assert torch.allclose(logits(layout.load(tmp_path / "saved", architecture)), found, atol=1e-6)


def test_the_claim_names_the_labels_whose_weights_were_kept(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    train_plain(small_start, receipts[:4], tmp_path / "run")
    known = small_start.labels.fields[0]
    assert Checkpoint.load(tmp_path / "run").claim.training["kept_labels"] == []
    same = start_from(str(tmp_path / "run"), small_start.labels)
    assert "kept_labels" not in training.described(same)  # nor in digests of runs begun before
    other = LabelSet(fields=(known, "strange"))
    start = start_from(str(tmp_path / "run"), other, new_labels=True)
    train_private(start, receipts[:4], tmp_path / "private")
    claim = Checkpoint.load(tmp_path / "private").claim
    assert claim.training["kept_labels"] == [known]


def test_a_start_that_shares_no_label_is_refused_before_a_folder_is_taken(
    tmp_path: Path,
    small_start: Start,
    receipts: list[LabelledDocument],
    capsys: pytest.CaptureFixture[str],
) -> None:
    train_plain(small_start, receipts[:4], tmp_path / "public")
    data, out = documents_in(tmp_path / "data", seed=1), tmp_path / "private"
    given = ["--data", str(data), "--start", str(tmp_path / "public"), "--label", "question"]
    told = ["train", "kie", *given, "--steps", "1", "--out", str(out), "--quiet"]
    assert main(told) == 4
    said = capsys.readouterr().err
    assert "LABEL_MISMATCH" in said
    assert "Among the labels to learn are some" in said  # which says nothing of documents
    assert "does not know: question. It knows: " in said
    assert "train kie --new-labels`" in said
    assert not out.exists()
    assert main([*told, "--new-labels"]) == 0
    expected = "Labels:     fresh for question; the start's encoder alone is kept"
    assert expected in capsys.readouterr().out
    assert Checkpoint.load(out).claim.training["kept_labels"] == []


@pytest.mark.parametrize(
    ("source", "told", "line", "claimed"),
    [
        ("run", [], "weights kept for all 2 labels", ["date", "total"]),
        ("run", ["total", "strange", "--new-labels"],
         "weights kept for total; fresh for strange", ["total"]),
        ("published", ["total", "date"], "fresh for all 2 labels", []),
    ],
)  # fmt: skip
def test_labels_that_the_start_knows_are_said_before_a_step_is_paid_and_claimed(
    tmp_path: Path,
    publish: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    told: list[str],
    line: str,
    claimed: list[str],
) -> None:
    data, out = documents_in(tmp_path / "data", seed=1), tmp_path / "private"
    short = ["train", "kie", "--data", str(data), "--max-tokens", "32", "--quiet"]
    if source == "run":
        folder = tmp_path / "public"
        public = ["--public", "--start", "small", "--label", "date", "--label", "total"]
        assert main([*short, *public, "--epochs", "1", "--out", str(folder)]) == 0
    else:
        folder = publish("layoutlm")
    said: list[tuple[str, bool]] = []

    class Watched(io.StringIO):
        def write(self, text: str, /) -> int:
            said.append((text, out.exists()))
            return super().write(text)

    labels = [word for one in told for word in ((one,) if one[0] == "-" else ("--label", one))]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Watched())
        private = ["--start", str(folder), "--steps", "1", "--out", str(out)]
        assert main([*short, *labels, *private]) == 0
    assert (f"Labels:     {line}", False) in said
    assert Checkpoint.load(out).claim.training["kept_labels"] == claimed


def documents_in(folder: Path, *, seed: int) -> Path:
    config = invented.InventedConfig(document_types=("receipt",))
    invented.write(folder, seed=seed, count=4, config=config, images=False)
    return folder


def test_training_without_privacy_goes_on_and_its_claim_says_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (documents_in(tmp_path / f"data{seed}", seed=seed) for seed in (1, 2))
    quick = ("--max-tokens", "64", "--quiet", "--data")
    kie = ("train", "kie", "--epochs", "1", *quick)
    runs = [str(tmp_path / f"run{number}") for number in range(4)]
    assert main([*kie, str(first), "--public", "--start", "small", "--out", runs[0]]) == 0
    leaky = ("--not-private", "--start")
    assert main([*kie, str(first), *leaky, runs[0], "--name", "first", "--out", runs[1]]) == 0
    more = ("--name", "second", "--new-labels", "--label", "total", "--label", "strange")
    assert main([*kie, str(second), *leaky, runs[1], *more, "--out", runs[2]]) == 0
    assert "weights kept for total; fresh for strange" in capsys.readouterr().out
    claim = Checkpoint.load(Path(runs[2])).claim
    assert [data.name for data in claim.protected_data] == ["first", "second"]
    assert {access.data for access in claim.data_accesses} == {"first", "second"}
    assert [data.name for data in claim.public_data] == ["public documents"]
    (guarantee,) = claim.guarantees
    assert (guarantee.kind, guarantee.composition) == ("none", continued.SEVERAL)
    # Public documents do not wash it, and nothing private is promised on top of it.
    told = ("--public", "--name", "third", "--start", runs[1], "--out", runs[3])
    assert main([*kie, str(second), *told]) == 0
    claim = Checkpoint.load(Path(runs[3])).claim
    assert [data.name for data in claim.protected_data] == ["first"]
    assert [data.name for data in claim.public_data] == ["public documents", "third"]
    assert "weights may hold any part" in str(claim.guarantees[0].reason)
    private = ("--steps", "1", "--trained", "output", "--start", runs[1])
    told = ("train", "kie", *quick, str(second), *private)
    assert main([*told, "--out", str(tmp_path / "no")]) == 5
    assert "trained on protected documents" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_training_without_privacy_takes_no_start_with_a_guarantee(
    tmp_path: Path, small_start: Start, receipts: list[LabelledDocument]
) -> None:
    train_private(small_start, receipts[:4], tmp_path / "run")
    start = start_from(str(tmp_path / "run"), small_start.labels)
    claim = claims.not_private("others", (), training={})
    with pytest.raises(PrivacyError, match="of kind dp"):
        continued.without_privacy(claim, start.claim)
    with pytest.raises(PrivacyError, match="protected documents"):
        train_plain(start, receipts, tmp_path / "second", claim=claim)
    assert not (tmp_path / "second").exists()
