"""Receipts: written by a meter alone, whole after interruptions, and refused where they differ."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metered import GIVEN, SYSTEM, meter_of

from hushdoc.accounting.mechanism import Composed, Gaussian, PoissonSampled
from hushdoc.errors import PrivacyError
from hushdoc_training import receipt as receipts
from hushdoc_training.federated import testimony
from hushdoc_training.metering import Meter
from hushdoc_training.privacy.claims import ClaimDetails
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.randomness.secret_stream import SecretStream, SystemKey, origin_of
from hushdoc_training.receipt import Origin, Receipt

PLAN = PrivacyPlan(
    privacy_unit="document",
    epsilon=50.0,
    delta=1e-5,
    sampling_rate=0.25,
    steps=10,
    clipping_norm=0.1,
    noise_multiplier=1.1,
    expected_records=8,
)


def metered(taken: int = 3, **changed: Any) -> Meter:
    """Returns a meter that noted a training of some steps."""
    return meter_of(PLAN, taken=taken, **changed)


def test_a_receipt_holds_what_was_noted() -> None:
    meter = metered()
    meter.read("the loss")
    receipt = meter.receipt()
    assert (receipt.noise_multiplier, receipt.clipping_norm, receipt.divisor) == (1.1, 0.1, 8)
    assert (receipt.sampling_rate, receipt.steps, receipt.planned_steps) == (0.25, 3, 10)
    assert (receipt.privacy_unit, receipt.private_reads) == ("document", ("the loss",))
    assert receipt.is_secret
    step = PoissonSampled(sampling_rate=0.25, event=Gaussian(noise_multiplier=1.1))
    assert receipt.mechanism() == Composed(event=step, count=10)


def test_nobody_makes_a_receipt_but_what_trains() -> None:
    made = metered().receipt()
    with pytest.raises(TypeError, match="by nobody else"):
        replace(made, noise_multiplier=100.0)
    with pytest.raises(TypeError, match="by nobody else"):
        Receipt(**{name: getattr(made, name) for name in made.__dataclass_fields__})
    with pytest.raises(AttributeError):
        made.noise_multiplier = 100.0  # type: ignore[misc]


def test_no_step_has_no_receipt() -> None:
    with pytest.raises(PrivacyError, match="No step was drawn") as refused:
        metered(0).receipt()
    assert refused.value.code == "NO_RECEIPT"


def test_more_steps_than_planned_have_no_receipt() -> None:
    assert metered(10).receipt().steps == 10
    with pytest.raises(PrivacyError, match="11 steps were drawn; expected at most 10"):
        metered(11).receipt()


@pytest.mark.parametrize("name", ["rate", "norm", "multiplier", "divisor", "coins", "noise"])
def test_a_value_that_changes_between_steps_is_refused(name: str) -> None:
    other = GIVEN if name in ("coins", "noise") else 0.5
    meter, changed = metered(1), metered(1, **{name: other})
    noted = {"multiplier": "std", "rate": "sampling_rate", "norm": "clipping_norm"}.get(name, name)
    with pytest.raises(PrivacyError, match=f"{noted} is .* in this step and was"):
        meter._note(noted, changed._noted[noted])


def test_noise_without_a_note_of_it_has_no_receipt() -> None:
    meter = Meter(planned_steps=1, privacy_unit="document")
    meter.drawn(0.5, SYSTEM)
    with pytest.raises(PrivacyError, match="Nothing is certified"):
        meter.receipt()


def test_a_receipt_survives_its_text() -> None:
    for changed in ({}, {"unit": None}, {"noise": GIVEN}):
        receipt = metered(**changed).receipt()
        assert Receipt.from_json(receipt.to_json()) == receipt


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.inf},
        {"noise_multiplier": "1.1"},
        {"sampling_rate": 1.5},
        {"steps": 0},
        {"steps": 11},
        {"steps": True},
        {"privacy_unit": "book"},
        {"coins": {"source": "given", "secret": True}},
        {"coins": None},
        {"noise": None},
        {"noise_distribution": "laplace"},
        {"private_reads": [1]},
        {"private_reads": None},
        {"begun_with": None},
        {"begun_with": [["weight", []]]},
        {"begun_with": [["weight", "ab:3"]]},
        {"begun_with": [["weight", [3]]]},
        {"begun_with": [[1, ["ab:3"]]]},
        {"begun_with": ["weight"]},
        {"declared": None},
        {"declared": [["a condition"]]},
        {"declared": [["a condition", None]]},
        {"declared": [["", ""]]},
        {"another": 1},
    ],
    ids=str,
)
def test_a_receipt_that_says_what_nothing_executed_is_refused(change: dict[str, Any]) -> None:
    told = json.loads(metered().receipt().to_json())
    with pytest.raises(PrivacyError) as refused:
        Receipt.from_json(json.dumps({**told, **change}).encode())
    assert refused.value.code == "NO_RECEIPT"


def test_what_a_start_held_is_written_only_where_there_is_something() -> None:
    """So that receipts of earlier versions are read, and are the same bytes today."""
    meter = metered()
    older = meter.receipt().to_json()
    assert not {*json.loads(older)} & {*receipts.LATER}
    assert Receipt.from_json(older) == meter.receipt()
    meter.begin_with((("weight", ("ab:3", "")),))
    held = meter.receipt()
    assert held.begun_with == (("weight", ("", "ab:3")),)
    assert Receipt.from_json(held.to_json()) == held != Receipt.from_json(older)
    assert held.told() == Receipt.from_json(older).told()


def test_a_whole_run_began_with_what_any_part_did() -> None:
    first, second = metered(3), metered(4)
    first.begin_with((("weight", ("ab:3",)), ("bias", ("",))))
    second.begin_with((("weight", ("cd:1",)),))
    second.go_on(first.receipt())
    both = (("bias", ("",)), ("weight", ("ab:3", "cd:1")))
    assert second.begun_with == second.receipt().begun_with == both


def test_what_any_part_declared_the_whole_run_declares() -> None:
    first, second = metered(3), metered(4)
    first.declare("checks", [("a self-test", "not-released"), ("a condition", "")])
    first.declare("view", [("as it was", "")])
    first.declare("view", [("losses are unused", "")])
    second.declare("checks", [("a self-test", "not-released")])
    second.go_on(Receipt.from_json(first.receipt().to_json()))
    assert second.receipt().declared == (
        ("a self-test", "not-released"),
        ("a condition", ""),
        ("losses are unused", ""),
    )


def test_what_a_clients_receipt_declares_its_testimony_says() -> None:
    """The coordinator's claim is made of testimonies, which tell the other fields of receipts."""
    meter = metered()
    meter.declare("checks", [("a self-test", "not-released"), ("a condition", "")])
    meter.declare("view", [("losses are unused", "")])
    known = ClaimDetails(settings={"a": 1}, assumes=("a condition",))
    said = testimony.Testimony.of(3, meter.receipt(), known)
    assert said.checks is not None
    assert said.checks.assumes == ("a condition", "losses are unused")
    assert [access.purpose for access in said.checks.accesses] == ["a self-test"]
    assert said.executed == json.loads(json.dumps(meter.receipt().told()))


def test_damaged_text_is_no_receipt() -> None:
    content = metered().receipt().to_json()
    for damaged in (b"", b"null", content[:-1], content.replace(b"steps", b"stops", 1)):
        with pytest.raises(PrivacyError):
            Receipt.from_json(damaged)


def test_parts_of_a_run_add_up() -> None:
    first, second = metered(3), metered(4)
    first.read("the loss")
    second.read("the loss")
    second.read("a score")
    second.go_on(first.receipt())
    whole = second.receipt()
    assert (whole.steps, whole.invocations) == (7, 2)
    assert whole.private_reads == ("the loss", "a score")
    assert replaced(whole, steps=3, invocations=1, private_reads=["the loss"]) == first.receipt()


def replaced(receipt: Receipt, **change: Any) -> Receipt:
    told = json.loads(receipt.to_json())
    return Receipt.from_json(json.dumps({**told, **change}).encode())


def test_parts_with_more_steps_than_planned_do_not_fit() -> None:
    with pytest.raises(PrivacyError, match="11 steps were drawn; expected at most 10"):
        receipts.merged([metered(5).receipt(), metered(6).receipt()])


@pytest.mark.parametrize(
    ("change", "both"),
    [
        ({"multiplier": 0.5}, "noise_multiplier is 0.5 after 1.1"),
        ({"rate": 0.5}, "sampling_rate is 0.5 after 0.25"),
        ({"norm": 0.2}, "clipping_norm is 0.2 after 0.1"),
        ({"divisor": 4}, "divisor is 4.0 after 8.0"),
        ({"steps": 20}, "planned_steps is 20 after 10"),
        ({"unit": "sequence"}, "privacy_unit is 'sequence' after 'document'"),
        ({"noise": GIVEN}, "'given'"),
        ({"coins": GIVEN}, "'given'"),
    ],
)
def test_parts_that_ran_otherwise_are_refused_by_both_values(
    change: dict[str, Any], both: str
) -> None:
    with pytest.raises(PrivacyError) as refused:
        receipts.merged([metered().receipt(), metered(**change).receipt()])
    assert both in str(refused.value)


@given(
    multiplier=st.floats(1e-3, 1e4),
    norm=st.floats(1e-6, 1e6),
)
def test_no_receipt_says_more_noise_than_was_added(multiplier: float, norm: float) -> None:
    std = multiplier * norm
    found = metered(multiplier=multiplier, norm=norm).receipt().noise_multiplier
    assert std / norm * (1 - 2e-11) <= found <= std / norm * (1 + 1e-15)


def test_only_a_key_of_the_operating_system_is_secret() -> None:
    class Other(SecretStream):
        pass

    assert origin_of(SecretStream()) == SYSTEM
    shared = pickle.loads(pickle.dumps(SystemKey()))
    assert origin_of(SecretStream(key=shared)) == SYSTEM
    assert origin_of(SecretStream(key=bytes(32))) == GIVEN
    for unknown in (Other(), object()):
        assert origin_of(unknown) == Origin(source="unknown", secret=False)
    with pytest.raises(ValueError, match="only for a key that the operating system drew"):
        Origin(source="given", secret=True)
