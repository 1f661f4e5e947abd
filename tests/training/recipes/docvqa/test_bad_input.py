"""Documents that no private training on questions may begin with, and odd ones that it may."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hushdoc import labelled_files
from hushdoc.__main__ import main
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.invented import stream
from hushdoc_training.invented.settings import InventedConfig
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.docvqa.start import Start, start_from
from hushdoc_training.recipes.docvqa.training import train_private
from hushdoc_training.recipes.kie.settings import PrivateSettings

KEYED = InventedConfig(document_types=("receipt",), providers=(0, 4), questions="keyed")


@pytest.fixture(scope="module")
def bills() -> list[LabelledDocument]:
    return list(stream.documents(seed=3, count=4, config=KEYED))


def start_for(bills: list[LabelledDocument]) -> Start:
    texts = [word.text for item in bills for page in item.document.pages for word in page.words]
    return start_from("small", max_tokens=64, max_question=40, vocabulary=lambda: texts)


def train(bills: list[LabelledDocument], out: Path) -> dict[str, Any]:
    """Trains for a step and returns the claim."""
    plan = PrivacyPlan.calibrated(
        privacy_unit="provider", epsilon=3, sampling_rate=0.5, steps=1, expected_records=2
    )
    train_private(
        start_for(bills), bills, plan, PrivateSettings(trained="output"), out=out, name="bills",
        quiet=True,
    )  # fmt: skip
    claim: dict[str, Any] = json.loads(DocVQACheckpoint.load(out).claim.to_json())
    return claim


@pytest.mark.parametrize("name", [None, "", " -- ", "unknown", "N/A", "None."])
def test_a_provider_that_nobody_knows_is_refused_before_a_folder_is_taken(
    name: str | None, tmp_path: Path, bills: list[LabelledDocument]
) -> None:
    with pytest.raises(AnnotationError, match="of one provider alone"):
        train([replace(bills[0], provider=name), *bills[1:]], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_claim_tells_neither_spellings_nor_a_provider_with_most_documents(
    tmp_path: Path, bills: list[LabelledDocument], capsys: pytest.CaptureFixture[str]
) -> None:
    spelled = [replace(item, provider=f"Odd{' ' * place}Shop") for place, item in enumerate(bills)]
    odd = train([*spelled[:3], replace(bills[3], provider="Even Shop")], tmp_path / "odd")
    even = train([replace(item, provider=item.document.id) for item in bills], tmp_path / "even")
    assert odd == even
    said = capsys.readouterr()
    assert "Odd" not in said.out + said.err + json.dumps(odd)


def broken(line: dict[str, Any]) -> None:
    del line["pages"][0]["words"][0]["box"]


def outside(line: dict[str, Any]) -> None:
    line["pages"][0]["words"][0]["box"] = [0, 0, 10**6, 10**6]


@pytest.mark.parametrize("change", [broken, outside])
def test_words_without_a_box_on_their_page_are_refused(
    change: Callable[[dict[str, Any]], None],
    tmp_path: Path,
    bills: list[LabelledDocument],
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [json.loads(labelled_files.dumps(item)) for item in bills]
    change(lines[1])
    data = tmp_path / "bills.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    given = ["--data", str(data), "--out", str(tmp_path / "run"), "--quiet"]
    assert main(["train", "docvqa", *given, "--start", "small"]) == 3
    said = capsys.readouterr().err
    assert "box" in said
    assert "bills.jsonl" in said
    assert not (tmp_path / "run").exists()


def test_odd_providers_are_told_where_numbers_are_no_secret(
    tmp_path: Path, bills: list[LabelledDocument], capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "bills.jsonl"
    names = ("Odd Shop", "ODD-SHOP", "Odd  shop", "Even Shop")
    named = [replace(item, provider=name) for item, name in zip(bills, names, strict=True)]
    data.write_text("".join(map(labelled_files.dumps, named)))
    # A start that is not there ends the command after its documents were read.
    given = ["train", "docvqa", "--data", str(data), "--start", str(tmp_path / "gone"), "--quiet"]
    for how, told in ((("--not-private",), True), ((), False)):
        assert main([*given, *how, "--out", str(tmp_path / "run")]) == 4
        said = capsys.readouterr().err
        assert ("several spellings, which count as one: ODD-SHOP = Odd  shop" in said) == told
        assert ("has 3 of 4 documents" in said) == told
