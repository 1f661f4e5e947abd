"""The model card says what the certificate says, and nobody's text can do more than be read."""

from __future__ import annotations

from types import ModuleType

from hushdoc.certificate.certificate import TASKS
from hushdoc.labels import LabelSet
from hushdoc.reports.model_card import model_card

HOSTILE = "x](javascript:1) <script>|a\n```\n# y\x1b[2J\u202e"
DIGEST = "ab" * 32


def test_hostile_texts_stay_texts(build: ModuleType) -> None:
    report = build.audit_report(build.audit(method=HOSTILE), auditor=HOSTILE)
    card = model_card(
        build.hostile(HOSTILE),
        LabelSet(fields=("a`b",)),
        payload_sha256=DIGEST,
        audits=(report,),
    )
    outside_fences = "".join(card.split("```")[::2])
    assert "<script>" not in outside_fences
    assert "](javascript" not in outside_fences
    assert "\x1b" not in card
    assert "\u202e" not in card
    assert card.count("\n```") == 6
    assert card.count("\n# ") == 1
    assert "`a'b`" in card


def test_it_says_that_it_is_a_rendering_and_of_what(build: ModuleType) -> None:
    card = model_card(build.certify(), payload_sha256=DIGEST)
    assert "is an unsigned rendering" in card
    assert DIGEST in card
    assert card == model_card(build.certify(), payload_sha256=DIGEST)


def test_a_guarantee_is_tagged_and_nothing_else_is(build: ModuleType) -> None:
    tag = "- differential-privacy"
    assert tag in model_card(build.certify(), payload_sha256=DIGEST)
    nothing = model_card(build.certify(build.no_guarantee()), payload_sha256=DIGEST)
    assert tag not in nothing
    assert "| model-recipient | document | none | - | - | add-remove | central |" in nothing
    assert "NO GUARANTEE" in nothing
    conditional = build.guarantee(kind="dp-conditional", condition="clients do not collude.")
    assert tag not in model_card(build.certify(conditional), payload_sha256=DIGEST)


def test_numbers_that_were_only_measured_say_so(build: ModuleType) -> None:
    card = model_card(
        build.certify(build.guarantee(kind="empirical", epsilon=2.0)), payload_sha256=DIGEST
    )
    assert "- differential-privacy" not in card
    assert "| empirical | measured 2 | measured 1e-05 |" in card


def test_a_false_claim_is_neither_tagged_nor_passed_on(build: ModuleType) -> None:
    false = build.certify(build.guarantee(epsilon=1.0, profile=()))
    card = model_card(false, payload_sha256=DIGEST)
    assert "- differential-privacy" not in card
    assert "does NOT follow from its own transcript (EPSILON_NOT_REPRODUCED)" in card


def test_what_adversaries_see_of_training_and_what_is_released(build: ModuleType) -> None:
    server = build.guarantee(adversary="server", aggregation="secure-sum")
    card = model_card(
        build.certify(server, releases=("final-weights", "round-updates")), payload_sha256=DIGEST
    )
    epsilon = f"{server.epsilon:g}"
    assert f"| server | document | dp | {epsilon} | 1e-05 | add-remove | secure-sum |" in card
    assert "the update of each training round" in card


def test_every_task_has_its_pipeline_and_only_extraction_its_command(build: ModuleType) -> None:
    for task in TASKS:
        model = build.ModelIdentity(
            name="m", version=1, task=task, format="onnx", entry=build.ENTRY
        )
        card = model_card(build.certify(model=model), payload_sha256=DIGEST)
        assert "\npipeline_tag: " in card
        assert ("hushdoc extract" in card) == (task == "kie")
        assert "## Fields" not in card
