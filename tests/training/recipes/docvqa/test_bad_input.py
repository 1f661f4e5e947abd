"""Documents that no private training on questions may begin with, and odd ones that it may."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from hushdoc import labelled_files
from hushdoc.__main__ import main
from hushdoc.errors import AnnotationError, EmptyDocumentError, InputError
from hushdoc.labels import LabelledDocument
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.invented import stream
from hushdoc_training.invented.settings import InventedConfig
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.docvqa.start import Start, start_from
from hushdoc_training.recipes.docvqa.training import train_plain, train_private
from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings

KEYED = InventedConfig(document_types=("receipt",), providers=(0, 4), questions="keyed")


@pytest.fixture(scope="module")
def bills() -> list[LabelledDocument]:
    return list(stream.documents(seed=3, count=4, config=KEYED))


@cache
def made_for(texts: tuple[str, ...], **how: Any) -> Start:
    size = "tiny" if how else "small"
    return start_from(size, max_tokens=64, max_question=40, vocabulary=lambda: texts, **how)


def start_for(bills: list[LabelledDocument], **how: Any) -> Start:
    texts = (word.text for item in bills for page in item.document.pages for word in page.words)
    made = made_for(tuple(texts), **how)
    return replace(made, model=copy.deepcopy(made.model))


def train(bills: list[LabelledDocument], out: Path, **how: Any) -> dict[str, Any]:
    """Trains for a step and returns the claim."""
    plan = PrivacyPlan.calibrated(
        privacy_unit="provider", epsilon=3, sampling_rate=0.5, steps=1, expected_records=2
    )
    train_private(
        start_for(bills, **how), bills, plan, PrivateSettings(trained="output"), out=out,
        name="bills", quiet=True,
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


def with_blanks(item: LabelledDocument) -> LabelledDocument:
    """Returns a document with a page that has neither words nor an image before and after it."""
    blank = replace(item.document.pages[0], words=(), image=None)
    document = replace(item.document, pages=(blank, *item.document.pages, blank))
    questions = tuple(replace(asked, page=asked.page + 1) for asked in item.questions)
    return replace(item, document=document, spans=(), questions=questions)


def shown(item: LabelledDocument) -> LabelledDocument:
    """Returns a document whose pages have an image."""
    stream = io.BytesIO()
    Image.new("RGB", (40, 60), "white").save(stream, "PNG")
    pages = tuple(replace(page, image=stream.getvalue()) for page in item.document.pages)
    return replace(item, document=replace(item.document, pages=pages), spans=())


VT5: dict[str, Any] = {"architecture": "vt5"}


@pytest.mark.parametrize("how", [{}, VT5, {**VT5, "image_encoder": "tiny"}])
def test_pages_without_words_change_nothing_that_is_learned(
    how: dict[str, Any], tmp_path: Path, bills: list[LabelledDocument]
) -> None:
    plain = [shown(item) for item in bills]
    blanks = [with_blanks(item) for item in plain]
    begun = start_for(bills, **how)
    learned = []
    for name, documents in (("plain", plain), ("blanks", blanks)):
        start = replace(begun, model=copy.deepcopy(begun.model))
        train_plain(
            start, documents, PlainSettings(epochs=1, batch_size=8), out=tmp_path / name,
            claim=claims.public((), training={}), quiet=True, device=torch.device("cpu"),
        )  # fmt: skip
        learned.append(start.model.state_dict())
    before = begun.model.state_dict()
    assert any(not torch.equal(value, before[name]) for name, value in learned[0].items())
    assert all(torch.equal(value, learned[1][name]) for name, value in learned[0].items())
    claimed = train(plain, tmp_path / "private", **how)
    assert train(blanks, tmp_path / "private-blanks", **how) == claimed


def test_a_document_of_blank_pages_or_without_an_image_is_refused_before_a_folder_is_taken(
    tmp_path: Path, bills: list[LabelledDocument]
) -> None:
    one = with_blanks(bills[0])
    empty = replace(one, document=replace(one.document, pages=one.document.pages[:1]), questions=())
    with pytest.raises(EmptyDocumentError, match="1 page and no word"):
        train([*bills[1:], empty], tmp_path / "run")
    with pytest.raises(InputError, match="Page 1 of document .* has no image") as raised:
        train([one, *map(shown, bills[1:])], tmp_path / "run", **VT5, image_encoder="tiny")
    assert raised.value.code == "NO_IMAGE"
    assert not (tmp_path / "run").exists()


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
    assert main(["train", "docvqa", *given, "--start", "minilm"]) == 3
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
    # A start without a model ends the command after its documents were read.
    (tmp_path / "empty").mkdir()
    given = ["train", "docvqa", "--data", str(data), "--start", str(tmp_path / "empty"), "--quiet"]
    for how, told in ((("--not-private",), True), ((), False)):
        assert main([*given, *how, "--out", str(tmp_path / "run")]) == 4
        said = capsys.readouterr().err
        assert ("several spellings, which count as one: ODD-SHOP = Odd  shop" in said) == told
        assert ("has 3 of 4 documents" in said) == told
