"""The model card says what the certificate says, and nobody's text can do more than be read."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from hushdoc.artifact import read_unverified
from hushdoc.labels import LabelSet
from hushdoc_export.card import model_card

HOSTILE = "x](javascript:1) <script>|a\n```\n# y\x1b[2J\u202e"


def test_hostile_texts_stay_texts(tiny: ModuleType) -> None:
    certificate = read_unverified(tiny.sealed()).certificate
    claim = replace(certificate.claim, utility={HOSTILE: HOSTILE}, caveats=(HOSTILE,))
    model = replace(certificate.model, name=HOSTILE)
    card = model_card(
        replace(certificate, claim=claim, model=model, issuer=HOSTILE), LabelSet(fields=("a`b",))
    )
    outside_fences = "".join(card.split("```")[::2])
    assert "<script>" not in outside_fences
    assert "](javascript" not in outside_fences
    assert "\x1b" not in card
    assert "\u202e" not in card
    assert card.count("\n```") == 6
    assert card.count("\n# ") == 1
    assert "`a'b`" in card


def test_a_model_without_a_promise_is_not_tagged_private(tiny: ModuleType) -> None:
    certificate = read_unverified(tiny.sealed()).certificate
    (promised,) = certificate.claim.guarantees
    nothing = replace(
        promised, kind="none", epsilon=None, delta=None, transcript=None, reason="No noise."
    )
    card = model_card(
        replace(certificate, claim=replace(certificate.claim, guarantees=(nothing,))),
        LabelSet(fields=()),
    )
    assert "- differential-privacy" not in card
    assert "| model-recipient | document | none | - | - | add-remove |" in card
    assert "NO PROMISE" in card
    assert "- differential-privacy" in (tiny.sealed() / "README.md").read_text()
