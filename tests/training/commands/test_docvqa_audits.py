"""`hushdoc audit providers` and `memorization`, by the commands and the words of docs/docvqa.md."""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import replace
from pathlib import Path

import hushdoc_tiny as tiny
import hushdoc_tiny_models as tiny_models
import hushdoc_tiny_vt5 as vt5
import pytest
import torch

import hushdoc
from hushdoc import evaluation, labelled_files
from hushdoc.__main__ import main
from hushdoc.document.document import Document
from hushdoc.labels import LabelledDocument, Question
from hushdoc.runtime.scoring import Scoring
from hushdoc_export import question_agreement
from hushdoc_training.audit import memorization, one_run, provider_membership, twins
from hushdoc_training.privacy import claims
from hushdoc_training.recipes.docvqa import rows
from hushdoc_training.recipes.docvqa import start as starts
from hushdoc_training.recipes.docvqa.scores import Scorer
from hushdoc_training.recipes.docvqa.sealed_scores import SealedScorer
from hushdoc_training.recipes.docvqa.training import save

TEXT = (Path(__file__).parents[3] / "docs/docvqa.md").read_text("utf-8")
ATTACKS = " ".join(TEXT.split("\n## Attacks\n")[1].split("\n## ")[0].split())
PROVIDERS, MEMORIZATION = (
    shlex.split(command)[1:]
    for command in re.findall(r"^hushdoc audit .*$", TEXT, flags=re.MULTILINE)
)
WORDS = [first + second for first in "bdfgklmn" for second in ("ara", "olo", "umi")]


def receipt(number: int) -> LabelledDocument:
    """A page of few words, with a question about its provider and one about its total."""
    name = f"{WORDS[number]} {WORDS[-number]}"
    words = [*name.split(), "ltd", "Total", f"{number}.50", "paid"]
    boxes = [(10, 20 * place, 90, 20 * place + 15) for place in range(len(words))]
    questions = (
        Question(text="Who sent it?", answers=(name,), key="provider_name", word_ids=(0, 1)),
        Question(text="What is the total?", answers=(words[4],), key="total", word_ids=(4,)),
        *((Question(text="What is the tax number?", answers=(), key="tax_id"),) * (number % 2)),
    )
    document = Document.from_words(words, boxes, width=100, height=200, id=f"{number}")
    return LabelledDocument(document=document, spans=(), questions=questions, provider=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page's commands name: runs of pointers that know no answer, seen and unseen."""
    made = tmp_path_factory.mktemp("attacks")
    for seed, names in enumerate((("private", "model"), ("public", "without-them"))):
        start = starts.start_from(
            "small", max_tokens=64, max_question=32, vocabulary=lambda: WORDS, seed=seed
        )
        save(made / "runs" / names[0], start, claims.public((), training={}))
        (made / "runs" / names[1]).symlink_to(made / "runs" / names[0])
    for name, numbers in (("seen", range(1, 5)), ("unseen", range(5, 9))):
        labelled_files.write(made / name, map(receipt, numbers))
    return made


@pytest.fixture(autouse=True)
def _inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_providers_are_guessed_and_the_output_says_that_it_is_no_bound(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*PROVIDERS, "--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["epsilon_lower"]) == ("table", None)
    assert "no lower bound" in found["note"]
    assert [row["method"]["name"] for row in found["attacks"]] == [
        "AZK", "AZK with G4", "AZK, supervised", "APK", "APK with G4",
        "AZK+CLS1+CLS2", "APK+CLS1+CLS2",
    ]  # fmt: skip
    assert [side["questions"] for side in found["utility"].values()] == [10, 10]
    assert main([*PROVIDERS, "--others", "seen"]) == 3
    assert "providers stand on both sides" in capsys.readouterr().err


def test_hidden_answers_are_counted_against_a_twin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*MEMORIZATION, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["questions"] == 4
    assert found["unfounded"]["questions"] == 2  # every second receipt lacks a tax number
    assert main([*MEMORIZATION, "--twin", "runs/model"]) == 0
    printed = capsys.readouterr()
    assert "memorised: 0, 0 of them" in printed.out
    assert "that of --twin give the same answers" in printed.err  # or nothing could be found
    plain = ["--members", "invented:receipt", "--documents", "2"]
    assert main([*MEMORIZATION, *plain]) == 3
    assert "expected questions with the keys" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[*PROVIDERS, "--quick"], MEMORIZATION])
def test_what_is_counted_is_said_to_be_exact_as_scores_are(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 0
    assert capsys.readouterr().out.endswith(f"\nnote: {evaluation.NOTE}\n")
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["note"].endswith(evaluation.NOTE)


def test_what_nobody_would_use_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A policy was neither read nor checked, and no documents were a thousand."""
    limits = ("--trust", "trust.json", "--max-epsilon", "1", "--integrity-only")
    invented = ("--members", "invented:receipt,questions=keyed", "--documents", "0")
    for command in (PROVIDERS, MEMORIZATION):
        with pytest.raises(SystemExit):
            main([*command, *limits])
        told = capsys.readouterr().err
        assert "--trust, --max-epsilon, --integrity-only is of artifacts" in told
        with pytest.raises(SystemExit):
            main([*command, *invented])
        assert "--documents is 0; it must be at least 1" in capsys.readouterr().err
    assert main([*PROVIDERS, "--quick", "--start", "runs/private"]) == 0
    assert "that of --start give the same answers" in capsys.readouterr().err
    assert main([*PROVIDERS, "--quick"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_scores_of_invented_documents_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    invented = "invented:receipt,questions=keyed,providers="
    sources = ["--members", f"{invented}0:4", "--documents", "8"]
    assert main([*PROVIDERS, *sources, "--others", f"{invented}4:8", "--quick"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith(", all of invented text")
    assert second.endswith(", all of invented text")
    assert main([*MEMORIZATION, *sources]) == 0
    assert "was hidden on the page, all of invented text\n" in capsys.readouterr().out
    assert main([*MEMORIZATION]) == 0
    assert "invented" not in capsys.readouterr().out


@pytest.mark.parametrize("source", ["runs", "runs/mistyped", "fields", "small", "minilm"])
def test_what_never_learned_to_answer_is_not_attacked(
    source: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a model got a reader of fresh weights, of which every attack finds nothing."""
    if source == "fields":
        tiny_models.save_checkpoint(folder / source / "checkpoint")
    attacked = [
        [source if word == "runs/private" else word for word in PROVIDERS],
        [source if word == "runs/model" else word for word in MEMORIZATION],
        [*MEMORIZATION, "--twin", source],
    ]
    for command in attacked:
        assert main(command) == 4
        assert f"'{source}' is no model that learned" in capsys.readouterr().err


def test_a_twin_of_another_kind_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = starts.start_from("tiny", architecture="vt5", vocabulary=lambda: [*WORDS, "total due"])
    save(folder / "vt5", start, claims.public((), training={}))
    assert main([*MEMORIZATION, "--twin", "vt5"]) == 4
    assert "is a vt5; expected a pointer" in capsys.readouterr().err


@pytest.mark.slow  # a graph is traced
def test_an_artifact_is_attacked_without_losses_and_answers_as_its_checkpoint_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(question_agreement, "NUM_QUESTIONS", 6)
    named = ("--out", "asked", "--name", "tiny-kie")
    assert tiny.export_command(folder, "runs/private", *named) == 0
    (folder / "trust.json").write_bytes(tiny.TRUST.to_json())
    trusted = ("--trust", "trust.json", "--integrity-only")
    model = hushdoc.DocVQAModel.load("asked", policy=hushdoc.Policy.integrity_only(tiny.TRUST))
    mute = Scoring(threshold=1.0, fitted_on="nothing", num_answers=0)
    model.asking = replace(model.asking, scores=mute)  # what an attacker does not heed
    documents = [receipt(number) for number in range(1, 5)]
    sealed = SealedScorer.of(model).score(documents)
    start = starts.start_from("runs/private")
    own = Scorer(start=start, device=torch.device("cpu")).score(documents)
    for one, other in zip(sealed, own, strict=True):
        assert math.isnan(one.loss)
        assert one.confidence == pytest.approx(other.confidence, abs=1e-3)
        assert replace(one, loss=0.0, confidence=0.0) == replace(other, loss=0.0, confidence=0.0)
    capsys.readouterr()
    attacked = ["asked" if word == "runs/private" else word for word in PROVIDERS]
    assert main([*attacked, "--quick", "--json", *trusted]) == 0
    found = json.loads(capsys.readouterr().out)
    assert not found["losses"]
    assert "no losses" in found["note"]
    features = {row["method"]["name"]: row["method"]["features"] for row in found["attacks"]}
    assert features["APK"] == ["accuracy", "nls", "confidence", "confidence_change"]
    asked = ["asked" if word == "runs/model" else word for word in MEMORIZATION]
    assert main([*asked, "--twin", "asked", *trusted]) == 0
    assert "memorised: 0, 0 of them" in capsys.readouterr().out
    assert main(attacked) == 4  # no policy
    assert "NO_POLICY" in capsys.readouterr().err
    own = starts.start_from("tiny", architecture="vt5", vocabulary=lambda: [*WORDS, "total due"])
    save(folder / "writes", own, claims.public((), training={}))
    writes = ["writes" if word == "runs/model" else word for word in MEMORIZATION]
    assert main([*writes, "--twin", "asked", *trusted]) == 4
    assert "is a pointer; expected a vt5" in capsys.readouterr().err


@pytest.mark.slow  # two graphs are traced
def test_a_sealed_vt5_says_what_it_remembers_of_a_page_that_no_longer_tells() -> None:
    policy = hushdoc.Policy.integrity_only(tiny.TRUST)
    scorer = SealedScorer.of(hushdoc.DocVQAModel.load(tiny.sealed_vt5(), policy=policy))
    asked = Question(text="Who sent it?", answers=("Acme Ltd",), key="provider_name")
    pages = [
        LabelledDocument(document=vt5.document(name), spans=(), questions=(asked,), provider="Acme")
        for name in vt5.PAGES
    ]
    hidden = memorization.hidden(pages)
    words = {word.text for item in hidden for word in item.document.pages[0].words}
    assert not {"Acme", "Ltd"} & words
    assert [score.prediction for score in scorer.score(hidden)] == ["acme ltd"] * 2


def test_the_page_says_what_the_attacks_do() -> None:
    attacks = provider_membership
    methods = {method.name: method for method in attacks.METHODS}
    assert not methods["AZK"].supervised
    assert methods["AZK"].features == ("accuracy", "nls")
    assert methods["APK"].supervised
    assert set(methods["APK"].features) == {*attacks.G1, *attacks.G2, *attacks.G3}
    assert f"APK knows {attacks.KNOWN_SHARE:.0%}".replace("%", " %") in ATTACKS
    assert len(attacks.SEEDS) == 5
    assert "the mean accuracy over five seeds" in ATTACKS
    few, more, most = attacks.LEAST_QUESTIONS
    assert f"s = {few}, {more} and {most} questions" in ATTACKS
    rates = [f"{100 * rate:g}" for rate in attacks.FALSE_POSITIVE_RATES]
    assert f"{rates[0]}, {rates[1]} and {rates[2]} %" in ATTACKS
    assert memorization.KEYS == ("provider_name", "email", "tax_id")
    assert "(its name, e-mail address or tax number)" in ATTACKS
    assert rows.MAX_QUESTIONS == 64
    # A thousand canaries, all guessed right, at the default delta.
    guesses = 2 * (int(one_run.SHARE * 1000) // 2)
    best = one_run.Guesses(canaries=1000, guesses=guesses, right=guesses)
    assert best.ceiling(1e-5, twins.CONFIDENCE) < 8
    assert "1,000 canaries refute no epsilon of 8" in ATTACKS
    for word in ("AUDIT_CONTRADICTION", "canaries.json", "**no lower bound of epsilon**"):
        assert word in ATTACKS
