"""Recipes follow from what is declared alone, and every option goes before them."""

from __future__ import annotations

import re
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from hushdoc.__main__ import main
from hushdoc.accounting import calibration
from hushdoc_training import invented
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.models.trained import Trained
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.kie import recipe
from hushdoc_training.recipes.kie.recipe import RECIPES, complete
from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings

PAGE = Path(__file__).parents[4] / "docs/training.md"
OPEN = dict.fromkeys(
    ("declared_documents", "recipe", "sampling_rate", "expected_records", "steps", "clipping_norm")
)


def completed(known: int | None = None, **given: Any) -> tuple[recipe.Chosen, Namespace]:
    options = Namespace(**{**OPEN, **given})
    return complete(options, known=known), options


def test_recipes_are_for_more_and_more_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "RELATIVE_TOLERANCE", 0.05)
    sizes = [each.documents for each in RECIPES]
    assert sizes[-1] is None
    known = [size for size in sizes if size is not None]
    assert known == sorted(set(known))
    assert len(known) == len(sizes) - 1
    for each in RECIPES:
        assert Trained.of(each.private.trained).kind
        plan = PrivacyPlan.calibrated(
            epsilon=8,
            sampling_rate=each.sampling_rate,
            steps=each.steps,
            clipping_norm=each.clipping_norm,
        )
        assert plan.noise_multiplier > 0.5


@pytest.mark.parametrize(
    ("given", "name", "documents"),
    [
        ({"declared_documents": 1}, "tens", 1),
        ({"declared_documents": 199}, "tens", 199),
        ({"declared_documents": 200}, "hundreds", 200),
        ({"declared_documents": 10**9}, "many", 10**9),
        ({}, recipe.of_size(recipe.ASSUMED).name, recipe.ASSUMED),
        ({"known": 5000}, "thousands", 5000),
        ({"known": 5000, "declared_documents": 50}, "tens", 50),
        ({"declared_documents": 50, "recipe": "many"}, "many", 50),
        # A divisor and a rate declare a number, as they did before there were recipes.
        ({"expected_records": 600, "sampling_rate": 0.2}, "thousands", 3000),
        ({"expected_records": 2, "sampling_rate": 1.0}, "tens", 2),
        ({"expected_records": 10**6}, "many", None),
    ],
)
def test_the_recipe_follows_from_what_is_declared(
    given: dict[str, Any], name: str, documents: int | None
) -> None:
    chosen, options = completed(**given)
    assert chosen.recipe.name == name
    if documents is not None:
        assert chosen.documents == documents
    assert chosen.is_assumed == (not given)
    assert options.steps == chosen.recipe.steps
    planned = options.expected_records / options.sampling_rate
    assert planned == pytest.approx(chosen.documents, abs=1 / options.sampling_rate)


def test_options_go_before_the_recipe() -> None:
    given = {"sampling_rate": 0.9, "expected_records": 7, "steps": 3, "clipping_norm": 2.0}
    _, options = completed(declared_documents=500, **given)
    assert {name: getattr(options, name) for name in given} == given
    settings = recipe.with_options(
        recipe.named("hundreds").private, Namespace(dropout=0.3, decay=False, trained=None)
    )
    assert (settings.dropout, settings.decay, settings.trained) == (0.3, False, "output")


@pytest.mark.parametrize("number", [0, -1, 1.5])
def test_a_number_of_documents_that_is_none_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="--declared-documents"):
        completed(declared_documents=number)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (PlainSettings, "epochs", float("nan")),
        (PlainSettings, "learning_rate", float("inf")),
        (PlainSettings, "batch_size", 0),
        (PlainSettings, "token_noise", 1.1),
        (PrivateSettings, "learning_rate", 0.0),
        (PrivateSettings, "dropout", 1.0),
    ],
)
def test_settings_that_nothing_trains_with_are_refused(
    kind: type[PlainSettings | PrivateSettings], field: str, value: float
) -> None:
    with pytest.raises(ValueError, match=field):
        kind(**{field: value})


def test_the_number_of_private_documents_changes_nothing_that_is_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one document more another recipe would be the right one, and nobody may see it."""
    config = invented.InventedConfig(document_types=("receipt",), labels="fields")
    public = ["train", "kie", "--quiet", "--start", "small", "--max-tokens", "64", "--public"]
    command = ["train", "kie", "--quiet", "--start", str(tmp_path / "public"), "--steps", "1"]
    command += ["--sampling-rate", "0.02"]
    written = invented.write(tmp_path / "200", seed=1, count=200, config=config, images=False)
    shutil.copytree(tmp_path / "200", tmp_path / "199")
    (tmp_path / "199" / sorted(written)[-1].name).unlink()
    few = ["--data", "invented:receipt", "--documents", "4", "--out", str(tmp_path / "public")]
    assert main([*public, *few]) == 0
    said, claims = [], []
    for name in ("199", "200"):
        told = ["--data", str(tmp_path / name), "--out", str(tmp_path / f"run{name}")]
        assert main([*command, *told, "--declared-documents", "90"]) == 0
        said.append(capsys.readouterr().out.replace(f"run{name}", ""))
        claims.append(Checkpoint.load(tmp_path / f"run{name}").claim)
    assert said[0][said[0].index("Recipe") :] == said[1]
    assert claims[0] == claims[1]
    assert claims[0].training["recipe"] == "tens"
    assert claims[0].training["trained"] == "output"


def test_a_plan_is_printed_without_reading_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--data", "nowhere", "--out", str(tmp_path / "run"), "--declared-documents", "500"]
    assert main(["train", "kie", *told, "--plan"]) == 0
    said = capsys.readouterr().out
    assert "hundreds, for 500 documents (declared)" in said
    steps, rate = recipe.named("hundreds").steps, recipe.named("hundreds").sampling_rate
    assert f"{steps} steps of about {500 * rate:.0f} records (sampling rate {rate:g})" in said
    assert not (tmp_path / "run").exists()


def test_the_page_shows_the_recipes_as_they_are() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    known = [(name, cells) for name, cells in rows if cells.startswith(("up to", "more"))]
    assert known == [(each.name, row(each)) for each in RECIPES]


def row(each: recipe.Recipe) -> str:
    cells = (
        "more" if each.documents is None else f"up to {each.documents:,}",
        each.private.trained + (", whitened" if each.private.scaling == "public" else ""),
        str(each.private.read_layers),
        f"{each.sampling_rate:g}",
        str(each.steps),
        f"{each.private.learning_rate:g}",
        f"{each.clipping_norm:g}",
        f"{each.plain.epochs:g} of {each.plain.batch_size} at {each.plain.learning_rate:g}",
    )
    return " | ".join(cells)


@pytest.mark.parametrize(
    ("told", "rate", "scaling"),
    [
        ({}, 0.2, "public"),
        ({"trained": "output"}, 0.2, "public"),
        ({"scaling": "none"}, 0.03, "none"),
        ({"trained": "biases"}, 0.01, "none"),
        ({"trained": "lora:4"}, 0.0005, "none"),
    ],
)
def test_a_rate_suits_what_is_trained(told: dict[str, str], rate: float, scaling: str) -> None:
    options = Namespace(**{"trained": None, "scaling": None, **told})
    found = recipe.suited(recipe.named("hundreds").private, options)
    assert (found.learning_rate, found.scaling) == (rate, scaling)
    assert found.trained == (told.get("trained") or "output")
    assert found.read_layers == (3 if (found.trained, scaling) == ("output", "public") else 1)
