"""Specifications: pages are functions of them, what varies varies, and bad ones are refused."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from hushdoc import labelled_files
from hushdoc.errors import AnnotationError
from hushdoc_training.invented import planning, released
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.settings import KNOWN_TYPES, LAYOUTS
from hushdoc_training.invented.specification import (
    FACTORS,
    LOCALES,
    Specification,
    draw,
    plan_of,
    vary,
)

_DIGEST = "681435ee2f4dc75eaba9cedf01047cf3cd1168595db7d0aa092cc40857a9769c"
SOME = [draw(Draws(21, number)) for number in range(12)]


def test_a_document_is_a_function_of_its_specification() -> None:
    digest = hashlib.sha256()
    for one in SOME:
        again = Specification.from_dict(one.to_dict())
        line = labelled_files.dumps(released.document_of(again, "fields"))
        assert line == labelled_files.dumps(released.document_of(one, "fields"))
        digest.update(line.encode())
    assert digest.hexdigest() == _DIGEST


def test_every_value_of_every_factor_makes_a_page() -> None:
    for name, values in FACTORS.items():
        if name.startswith("habit") or name == "locale":
            continue
        place = list(FACTORS).index(name)
        for number, value in enumerate(values):
            rng = Draws(3, place, number)
            odds = {name: [float(other == value) for other in values]}
            if name == "layout":
                kind = next(kind for kind, layouts in LAYOUTS.items() if value in layouts)
                odds["document_type"] = [float(kind == other) for other in KNOWN_TYPES]
            one = draw(rng, odds)
            assert one[name] == value
            assert plan_of(one).sheet.inks


def test_there_are_about_25_locales_and_each_moves_till_receipts_there() -> None:
    assert len(LOCALES) == 25
    till = next(one for one in SOME if one["document_type"] == "till-receipt")
    place = list(FACTORS).index("locale")
    texts = set()
    for level in range(len(LOCALES)):
        levels = (*till.levels[:place], level, *till.levels[place + 1 :])
        plan = plan_of(replace(till, levels=levels))
        texts.add(" ".join(ink.text for ink in plan.sheet.inks))
    assert len(texts) == len(LOCALES)


def test_a_share_of_the_factors_varies_and_the_content_always() -> None:
    parent = SOME[0]
    same = [vary(parent, Draws(5, number), share=0.0) for number in range(5)]
    assert {one.levels for one in same} == {parent.levels}
    assert len({one.content for one in (parent, *same)}) == 6
    changed = [
        sum(a != b for a, b in zip(parent.levels, one.levels, strict=True))
        for one in (vary(parent, Draws(6, number), share=0.3) for number in range(60))
    ]
    # A factor that is drawn anew may get the value that it had.
    assert 0.2 < sum(changed) / 60 / len(FACTORS) < 0.3


@pytest.mark.parametrize(
    "change",
    [
        {"locale": "XX"},
        {"layout": "memo", "document_type": "receipt"},
        {"habits": [0] * 23},
        {"habits": [8] + [0] * 23},
        {"habits": [True] + [0] * 23},
        {"provider": 32_000},
        {"provider": -1},
        {"content": "8" + "0" * 15},
        {"content": 5},
        {"version": 2},
        {"secret": ["word"]},
        {"wear": None},
        {"words": "total"},
        {"words": ["two words"]},
        {"words": ["12/05/2019"]},
        {"words": ["x" * 25]},
        {"words": ["word"] * 25},
        {"words": [7]},
    ],
)
def test_a_specification_out_of_range_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(AnnotationError, match="out of range"):
        Specification.from_dict(SOME[0].to_dict() | change)
    with pytest.raises(AnnotationError, match="out of range"):
        Specification.from_dict([change])


@pytest.mark.parametrize("kind", ["receipt", "till-receipt", "invoice"])
def test_goods_are_called_by_the_words_of_a_specification(kind: str) -> None:
    legible = {"wear": [1.0, 0.0, 0.0], "document_type": [kind == known for known in KNOWN_TYPES]}
    one = draw(Draws(22), legible)
    named = replace(one, words=("zanzibar", "quagga"))
    texts, before = (
        [
            word.text.casefold()
            for page in released.document_of(each, "fields").document.pages
            for word in page.words
        ]
        for each in (named, one)
    )
    assert {"zanzibar", "quagga"} <= set(" ".join(texts).split())
    assert not {"zanzibar", "quagga"} & set(" ".join(before).split())
    assert Specification.from_dict(named.to_dict()) == named
    assert "words" not in one.to_dict()


def test_the_streams_pages_share_their_layout_with_specifications() -> None:
    one = next(one for one in SOME if one["document_type"] == "invoice")
    plan = plan_of(one)
    assert planning.labelled(plan, "docile").document == planning.labelled(plan, "form").document
    assert released.image_of(one)[:8] == b"\x89PNG\r\n\x1a\n"
