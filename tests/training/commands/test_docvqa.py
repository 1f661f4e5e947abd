from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch

from hushdoc.__main__ import main
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.models import vt5
from hushdoc_training.recipes.docvqa.settings import DEFAULTS
from hushdoc_training.recipes.docvqa.start import start_from
from hushdoc_training.runs.run_folder import CONFIGURATION

DATA = ("--data", "invented:receipt,questions=keyed,providers=0:4", "--documents", "6", "--quiet")
SHORT = ("--steps", "2", "--expected-records", "2", "--sampling-rate", "0.5")


def require_defaults(run: Path, architecture: str) -> None:
    """Requires that what nobody gave was set by the architecture's defaults."""
    kept, expected = tomllib.loads((run / CONFIGURATION).read_text()), DEFAULTS[architecture]
    for name in ("batch_size", "learning_rate", "trained"):
        assert kept[name.replace("_", "-")] == getattr(expected, name)


def test_a_pointer_reads_windows_of_its_default_length_where_nobody_says_another() -> None:
    asking = start_from("small", vocabulary=lambda: ["total"]).asking
    assert asking.max_tokens == DEFAULTS["pointer"].max_tokens == 384
    assert DEFAULTS["vt5"].max_tokens == 256


def test_a_public_start_is_trained_on_privately_by_providers(tmp_path: Path) -> None:
    public, private = tmp_path / "public", tmp_path / "private"
    begin = ["train", "docvqa", *DATA, "--start", "small", "--max-tokens", "128"]
    assert main([*begin, "--public", "--out", str(public)]) == 0
    require_defaults(public, "pointer")
    goes_on = ["train", "docvqa", *DATA, *SHORT, "--start", str(public), "--out", str(private)]
    assert main(goes_on) == 0
    stored = DocVQACheckpoint.load(private)
    (guarantee,) = stored.claim.guarantees
    assert guarantee.unit == "provider"
    assert stored.claim.training["architecture"] == "pointer"
    assert [data.name for data in stored.claim.public_data] == [DATA[1]]
    assert stored.asking.max_tokens == 128
    assert main(goes_on) == 3  # two runs are never mixed
    assert main([*goes_on, "--resume"]) == 0
    assert not any("vocabulary" in caveat for caveat in stored.claim.caveats)
    alone = tmp_path / "alone"  # whose vocabulary is of the very documents that are protected
    assert main([*begin, *SHORT, "--out", str(alone)]) == 0
    assert any("vocabulary" in said for said in DocVQACheckpoint.load(alone).claim.caveats)


def test_a_vt5_is_trained_by_the_same_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    public, private = tmp_path / "public", tmp_path / "private"
    begin = ["train", "docvqa", *DATA, "--architecture", "vt5", "--max-tokens", "96"]
    assert main([*begin, "--start", "tiny", "--public", "--out", str(public)]) == 0
    require_defaults(public, "vt5")
    goes_on = ["train", "docvqa", *DATA, "--start", str(public)]
    by_rank = ("--trained", "lora:2", "--privacy-unit", "document", "--out", str(private))
    assert main([*goes_on, *SHORT, *by_rank]) == 0
    stored = DocVQACheckpoint.load(private)
    assert (stored.architecture, stored.asking.max_tokens) == ("vt5", 96)
    (guarantee,) = stored.claim.guarantees
    assert guarantee.unit == "document"
    assert stored.claim.training["trained"] == "lora:2"
    before = vt5.load(public / "checkpoint").state_dict()
    after = vt5.load(stored.folder).state_dict()
    assert before.keys() == after.keys()
    query = "t5.decoder.block.0.layer.0.SelfAttention.q.weight"
    assert not torch.equal(before[query], after[query])
    assert torch.equal(before["t5.shared.weight"], after["t5.shared.weight"])
    again = str(tmp_path / "again")
    assert main([*goes_on, "--not-private", "--out", again]) == 0
    assert DocVQACheckpoint.load(Path(again)).claim.protected_data
    capsys.readouterr()
    assert main([*goes_on, "--architecture", "pointer", "--out", str(tmp_path / "no")]) == 4
    assert "is a vt5; expected a pointer" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("option", [("--ledger", "a"), ("--documents-changed",)])
def test_options_of_private_training_are_refused_without_it(
    option: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        main(["train", "docvqa", *DATA, "--public", *option, "--out", str(tmp_path / "run")])


def test_delta_is_at_most_a_tenth_of_one_over_the_declared_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    # 50 records in a step, of 1000.
    declared = ("--steps", "2", "--expected-records", "50", "--sampling-rate", "0.05")
    begin = ["train", "docvqa", *declared, "--start", "small", "--out", str(out)]
    assert main([*begin, *DATA, "--delta", "1.01e-4"]) == 5
    said = capsys.readouterr().err
    assert "DELTA_TOO_LARGE" in said
    assert "with about 1000 records at most 0.0001" in said
    ledger = tmp_path / "budget.ledger"
    begin_ledger = ["ledger", "init", str(ledger), "--data", "forms", "--unit", "document"]
    assert main([*begin_ledger, "--epsilon", "9", "--delta", "0.001"]) == 0
    by_document = ("--ledger", str(ledger), "--privacy-unit", "document")
    assert main([*begin, *DATA, *by_document]) == 5
    assert "DELTA_TOO_LARGE" in capsys.readouterr().err
    assert not out.exists()
    # At the limit it goes on, to documents that are not there.
    assert main([*begin, "--data", str(tmp_path / "gone"), "--delta", "1e-4"]) == 3
    # Of 100,000 records 1e-5 would be refused; where nobody says a delta, it is smaller.
    many = [*begin, "--sampling-rate", "0.0005", "--data", str(tmp_path / "gone")]
    assert main([*many, "--delta", "1e-5"]) == 5
    assert main(many) == 3
