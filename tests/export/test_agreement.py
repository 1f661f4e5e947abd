"""Agreement of fields: what is counted, against what, and when it refuses."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from hushdoc.errors import ParityError
from hushdoc.labels import LabelledDocument, LabelSet, Span
from hushdoc_export import agreement, field_agreement
from hushdoc_export.field_agreement import FieldAgreement, invented_documents


def documents(labels: LabelSet, count: int) -> list[LabelledDocument]:
    with invented_documents(labels, count=count) as invented:
        return invented


FORM = LabelSet(fields=("answer", "question"))


def measured(**change: object) -> FieldAgreement:
    values = {
        "documents": 60,
        "fields": 500,
        "field_agreement": 97.0,
        "f1_graph": 80.0,
        "f1_variant": 79.8,
        "max_f1_loss": 0.5,
        **change,
    }
    return FieldAgreement(**values)  # type: ignore[arg-type]


class Shifted:
    """A classifier of two rows, or a variant of it, whose logits have much in common."""

    probes: tuple[dict[str, Any], ...] = ({},)
    per_token, logits = False, True

    def __init__(self, apart: float) -> None:
        self.logits_of_rows = np.array([[30 + apart, 30.0], [30.0, 30 + apart]], np.float32)

    def answer(self, probe: object) -> Any:
        return self.logits_of_rows

    def run(self, probe: object) -> Any:
        return (self.logits_of_rows,)


def test_what_is_added_to_all_logits_makes_no_classifier_like_another() -> None:
    measure: Any = agreement.of_answers(cast(Any, Shifted(4)), min_mean=0.98)
    same, other = measure(None, None, [Shifted(4.5), Shifted(-4)])
    same.require("int8")
    with pytest.raises(ParityError, match="mean cosine of 0.03"):
        other.require("int8")


def test_documents_carry_the_models_labels_where_the_generator_knows_them() -> None:
    forms = documents(FORM, 4)
    assert {span.label for item in forms for span in item.spans} <= {"answer", "question", "header"}
    fields = documents(LabelSet(fields=("total", "date")), 4)
    assert "total" in {span.label for item in fields for span in item.spans}
    assert documents(FORM, 4) == forms
    assert len(documents(LabelSet(fields=("strange",)), 2)) == 2


def test_fields_are_held_against_the_graphs_and_against_the_labels() -> None:
    labelled = documents(FORM, 3)
    gold = [[span for span in item.spans if span.label in FORM.fields] for item in labelled]
    same = field_agreement.compare(gold, gold, labelled, FORM)
    assert (same.field_agreement, same.f1_graph, same.f1_variant) == (100.0, 100.0, 100.0)
    assert same.fields == sum(map(len, gold))
    lost = [spans[1:] for spans in gold]
    less = field_agreement.compare(gold, lost, labelled, FORM)
    expected = 100 * 2 * sum(map(len, lost)) / (sum(map(len, gold)) + sum(map(len, lost)))
    assert less.field_agreement == less.f1_variant == pytest.approx(expected)
    assert less.f1_loss == pytest.approx(100 - expected)
    gained = field_agreement.compare(lost, gold, labelled, FORM)
    assert gained.f1_loss == 0


def test_labels_of_its_own_leave_only_the_graph_to_compare_with() -> None:
    labelled = documents(LabelSet(fields=("strange",)), 2)
    found = [[Span(page=0, start=0, stop=1, label="strange")] for _ in labelled]
    other = [[Span(page=0, start=0, stop=2, label="strange")] for _ in labelled]
    result = field_agreement.compare(found, other, labelled, LabelSet(fields=("strange",)))
    assert (result.f1_graph, result.f1_variant, result.by_labels) == (None, None, False)
    assert result.f1_loss == 100
    assert result.to_dict()["f1LossAgainst"] == "the fields of the float32 graph"


def test_a_graph_that_reads_nothing_is_no_yardstick() -> None:
    """Nothing right before and nothing right after is no agreement."""
    assert measured(f1_graph=0.0, f1_variant=0.0, field_agreement=60.0).f1_loss == 40.0
    assert measured(f1_graph=0.0, f1_variant=0.0, field_agreement=0.0, fields=0).f1_loss == 100.0
    assert measured(f1_graph=50.0, f1_variant=49.9).f1_loss == pytest.approx(0.1)


def test_a_graph_that_finds_nothing_is_said_to_tell_nothing() -> None:
    nothing = measured(f1_graph=None, f1_variant=None, field_agreement=0.0, fields=0)
    with pytest.raises(ParityError, match="finds no field in 60 invented documents") as no:
        nothing.require("int8")
    assert no.value.code == "VARIANT_LOSES_TOO_MUCH"
    assert "not known" in nothing.caveat("int8")
    assert "100.00 points" not in nothing.caveat("int8")
    measured(fields=0, field_agreement=0.0, f1_graph=None, max_f1_loss=100.0).require("int8")


def test_a_loss_above_the_limit_is_refused_unless_it_is_named() -> None:
    measured(f1_variant=79.5).require("int8")
    with pytest.raises(ParityError, match=r"int8 variant loses 0\.60 points .* at most 0\.5") as no:
        measured(f1_variant=79.4).require("int8")
    assert no.value.code == "VARIANT_LOSES_TOO_MUCH"
    measured(f1_variant=79.4, max_f1_loss=0.7).require("int8")
