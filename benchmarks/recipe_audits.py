"""What one-run audits of the private recipes find: as they are, with less noise, and with none.

    python benchmarks/recipe_audits.py            tables and the small model of forms
    python benchmarks/recipe_audits.py --minilm   MiniLM too, ten minutes more
    python benchmarks/recipe_audits.py --scaled   MiniLM's output layer alone, as few documents have
    python benchmarks/recipe_audits.py --tables   tables alone
    python benchmarks/recipe_audits.py --quick    clauses alone, in smaller tables

Each recipe is run as its user runs it, with its audit, and stopped where the audit has its result.
Noise is multiplied by a factor behind the recipe's back, which still claims all of it. The last
line is JSON: for each recipe and factor the guesses, how many were right, the lower bound on
epsilon, what the twin claimed, and CPU seconds; `goals_met` is whether every recipe passes as it is
and is refuted with a tenth of its noise and with none.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np
import torch

from hushdoc.hashing import FeatureScheme
from hushdoc.labels import LabelSet
from hushdoc_training.audited_claims import AuditedRun
from hushdoc_training.crf import corpus
from hushdoc_training.crf.private_fitting import Settings
from hushdoc_training.data import dataset
from hushdoc_training.data.dataset import Source
from hushdoc_training.invented import clause_contracts
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.randomness.lattice import Lattice
from hushdoc_training.recipes.hashed import canary_corpora, private_runs, public_texts
from hushdoc_training.recipes.hashed.public_texts import PublicText
from hushdoc_training.recipes.hashed.table_tasks import Clauses, WholeTexts
from hushdoc_training.recipes.kie import recipe as kie_recipe
from hushdoc_training.recipes.kie import training
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import start_from

FACTORS = {"as it is": 1.0, "a tenth of the noise": 0.1, "no noise": 0.0}
EPSILON = 8.0

Recipe = Callable[[Path], object]


class FoundError(Exception):
    """An audit has its result, and nothing more is to be trained."""


def main() -> int:
    """Runs the audits and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minilm", action="store_true", help="audit MiniLM as a layout model too")
    parser.add_argument("--quick", action="store_true", help="clauses alone, in a minute")
    parser.add_argument("--tables", action="store_true", help="tables alone, in a minute")
    parser.add_argument("--scaled", action="store_true", help="MiniLM's output layer alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    recipes = {} if options.scaled else tables(1 << 16 if options.quick else 1 << 21)
    if options.scaled:
        recipes = output_layers()
    elif options.quick:
        recipes = {"clauses": recipes["clauses"]}
    elif not options.tables:
        recipes["forms, small model"] = forms("small")
    if options.minilm:
        recipes["forms, MiniLM"] = forms("minilm")
        recipes |= output_layers()
    results = {
        recipe: {name: audited(run, factor) for name, factor in FACTORS.items()}
        for recipe, run in recipes.items()
    }
    for recipe, found in results.items():
        for name, result in found.items():
            print(f"{recipe}, {name}: {result}")
    print(json.dumps({"recipes": results, **circumstances(results), "quick": options.quick}))
    return 0


def circumstances(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns whether the goals are met, and where and when that was found."""
    return {
        "goals_met": all(
            (result["epsilon_lower"] > result["claimed_epsilon"]) == (name != "as it is")
            for found in results.values()
            for name, result in found.items()
        ),
        **machine.dated(python=True),
        "torch": torch.__version__,
    }


def audited(recipe: Recipe, factor: float) -> dict[str, Any]:
    """Returns what the audit of a recipe finds when its noise is multiplied."""
    honest, gate = Lattice.noise, AuditedRun.require_unrefuted
    found: list[AuditedRun] = []

    def less(self: Lattice, *arguments: Any) -> Any:
        drawn = honest(self, *arguments)
        return np.rint(factor * drawn).astype(drawn.dtype)

    def stop(self: AuditedRun) -> None:
        found.append(self)
        raise FoundError

    Lattice.noise = less  # type: ignore[method-assign, assignment]
    AuditedRun.require_unrefuted = stop  # type: ignore[method-assign]
    began = time.process_time()
    try:
        with tempfile.TemporaryDirectory() as folder:
            recipe(Path(folder) / "run")
    except FoundError:
        pass
    finally:
        Lattice.noise, AuditedRun.require_unrefuted = honest, gate  # type: ignore[method-assign]
    [run] = found
    return {
        "guesses": run.details["guesses"],
        "right": run.details["right"],
        "epsilon_lower": round(run.audit.epsilon_lower or 0.0, 3),
        "claimed_epsilon": round(run.claimed, 3),
        "ceiling": round(run.ceiling, 3),
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def tables(rows: int) -> dict[str, Recipe]:
    """Returns the recipes of tables; their own documents are invented, and none is read."""
    words = FeatureScheme(rows=rows, bigrams=False, skip_grams=False)
    contracts = clause_contracts.contracts(20, seed=7)
    clauses = Clauses(corpus=corpus.sentence_corpus(contracts, ["Audit Rights"]), scheme=words)
    classes = WholeTexts(corpus=canary_corpora.classes(), scheme=words)
    plan = PrivacyPlan.calibrated(
        epsilon=EPSILON, sampling_rate=1.0, steps=4, clipping_norm=1.0, expected_records=300
    )
    texts = clause_contracts.contracts(20, seed=1)
    features = corpus.sentence_corpus(texts, []).features(words)

    def documents(task: Any, settings: Settings, public: PublicText) -> Recipe:
        return lambda out: private_runs.protect_documents(
            task, plan, public=public, out=out, name="contracts", settings=settings
        )

    return {
        "clauses": documents(clauses, private_runs.CLAUSES, PublicText(features=features, data=())),
        "classifier": documents(classes, private_runs.CLASSIFIER, public_texts.counted()),
        "terms": lambda out: private_runs.protect_terms(
            clauses, epsilon=EPSILON, out=out, name="contracts"
        ),
    }


def output_layers() -> dict[str, Recipe]:
    """Returns recipes of MiniLM's output layer, which are those of up to 1,999 documents."""
    found = {}
    for size in (100, 500):
        chosen = kie_recipe.of_size(size)
        plan = PrivacyPlan.calibrated(
            epsilon=EPSILON,
            sampling_rate=chosen.sampling_rate,
            steps=chosen.steps,
            clipping_norm=chosen.clipping_norm,
            expected_records=round(size * chosen.sampling_rate),
        )
        found[f"forms, MiniLM, {chosen.name}"] = forms("minilm", chosen.private, plan)
    plan = PrivacyPlan.calibrated(
        epsilon=EPSILON, sampling_rate=1.0, steps=20, expected_records=250
    )
    settings = PrivateSettings(
        trained="output", scaling="public", optimizer="sgd", learning_rate=0.05
    )
    return {**found, "forms, MiniLM, scaled, DP-SGD": forms("minilm", settings, plan)}


def forms(
    model: str,
    settings: PrivateSettings | None = None,
    plan: PrivacyPlan | None = None,
) -> Recipe:
    """Returns the recipe of fields, from one of the models that training starts from."""
    documents = dataset.read(Source(location="invented:form", documents=20, seed=1))
    start = start_from(
        model,
        LabelSet.from_documents(documents),
        vocabulary=lambda: [
            word.text for item in documents for page in item.document.pages for word in page.words
        ],
    )
    planned = plan or PrivacyPlan.calibrated(
        epsilon=EPSILON, sampling_rate=0.2, steps=20, expected_records=4
    )
    return lambda out: training.train_private(
        start,
        documents,
        planned,
        settings or PrivateSettings(trained="encoder"),
        out=out,
        name="forms",
        quiet=True,
        audited=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
