"""The generator's names of corpora and labels are those of the readers, and of the command."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from hushdoc.__main__ import main
from hushdoc_training import invented
from hushdoc_training.data import cord, docile, sroie, wildreceipt
from hushdoc_training.invented import label_sets


@pytest.mark.parametrize("reader", [cord, docile, sroie, wildreceipt])
def test_labels_of_a_corpus_are_spelled_as_its_reader_spells_them(reader: ModuleType) -> None:
    named = set(label_sets.CORPORA[reader.CORPUS.name].values())
    assert named <= set(reader.CORPUS.labels.fields)
    assert len(named) >= 4


def test_the_command_offers_every_label_set(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "kie", "--data", "invented:form", "--out", "x", "--labels", "nothing"])
    offered = capsys.readouterr().err.partition("choose from ")[2].partition(")")[0]
    assert set(re.findall(r"\w+", offered)) == set(invented.LABEL_SETS)
