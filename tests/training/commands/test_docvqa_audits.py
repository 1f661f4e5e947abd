from __future__ import annotations

import json

import pytest

from hushdoc.__main__ import main
from hushdoc_training.data import dataset
from hushdoc_training.privacy import claims
from hushdoc_training.recipes.docvqa import start as starts
from hushdoc_training.recipes.docvqa.training import save

MEMBERS = "invented:receipt,questions=keyed,providers=0:5"
OTHERS = "invented:receipt,questions=keyed,providers=20:25"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two checkpoints of pointers that know no answer."""
    documents = dataset.read(dataset.Source(location=MEMBERS, documents=2))
    words = [word.text for item in documents for page in item.document.pages for word in page.words]
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        start = starts.start_from(
            "small", max_tokens=128, max_question=64, vocabulary=lambda: words, seed=seed
        )
        save(folder / f"{seed}", start, claims.public((), training={}))
    return str(folder / "0"), str(folder / "1")


def test_providers_are_guessed_and_the_output_says_that_it_is_no_bound(
    runs: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    model, start = runs
    command = ["audit", "providers", model, "--start", start, "--documents", "14", "--quick"]
    assert main([*command, "--members", MEMBERS, "--others", OTHERS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["epsilon_lower"]) == ("table", None)
    assert "no lower bound" in found["note"]
    assert [row["method"]["name"] for row in found["attacks"]] == [
        "AZK", "AZK with G4", "AZK, supervised", "APK", "APK with G4",
        "AZK+CLS1+CLS2", "APK+CLS1+CLS2",
    ]  # fmt: skip
    assert found["utility"]["members"]["questions"] > 0
    assert main([*command, "--members", MEMBERS, "--others", MEMBERS]) == 3
    assert "providers stand on both sides" in capsys.readouterr().err


def test_hidden_answers_are_counted_against_a_twin(
    runs: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    model, twin = runs
    command = ["audit", "memorization", model, "--members", MEMBERS, "--documents", "4"]
    assert main([*command, "--twin", twin, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["questions"] > 0
    assert main([*command, "--twin", model]) == 0
    assert "memorised: 0, 0 of them" in capsys.readouterr().out
    plain = ["--members", "invented:receipt", "--documents", "2"]
    assert main(["audit", "memorization", model, "--twin", twin, *plain]) == 3
    assert "expected questions with the keys" in capsys.readouterr().err
