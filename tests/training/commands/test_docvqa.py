from __future__ import annotations

from pathlib import Path

import pytest

from hushdoc.__main__ import main
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint

DATA = ("--data", "invented:receipt,questions=keyed,providers=0:4", "--documents", "6", "--quiet")
SHORT = ("--steps", "2", "--expected-records", "2", "--sampling-rate", "0.5")


def test_a_public_start_is_trained_on_privately_by_providers(tmp_path: Path) -> None:
    public, private = tmp_path / "public", tmp_path / "private"
    begin = ["train", "docvqa", *DATA, "--start", "small", "--max-tokens", "128"]
    assert main([*begin, "--public", "--out", str(public)]) == 0
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


@pytest.mark.parametrize("option", [("--ledger", "a"), ("--documents-changed",)])
def test_options_of_private_training_are_refused_without_it(
    option: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        main(["train", "docvqa", *DATA, "--public", *option, "--out", str(tmp_path / "run")])
