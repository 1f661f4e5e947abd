"""Classifiers of page images: without privacy, by DP-Adam, and on public pages by private votes.

    python benchmarks/image_arms.py --data path/to/docmix --records 500
    python benchmarks/image_arms.py --data path/to/docmix --records 2000 --arms dp_linear
    python benchmarks/image_arms.py --data path/to/docmix --public form scientific_page

Without `--public` pages of all classes are private or for tests, and docmix has more than 2,000 for
the former; with the four classes of docs/results.md as public ones it has fewer.

A fifth of the pages, by the digests of their images, is for tests; of the others the first ones by
that digest are private. Arms, each with `--seeds` seeds, from random weights, whose order, mixing
and fresh weights the seed decides:

    real               the network without privacy, with mixup, CutMix and dropout
    dp_adam_eps1, 5    the same network by DP-Adam, delta 1e-5, without mixing
    dp_linear_eps1, 5  a linear classifier on 32 x 32 gray pixels by DP-Adam, full batches
    evolution_eps1, 5  the network as in `real`, on the pages of `synthesize selection`: --pages of
                       those of the classes or sources that --public names, which are then on no
                       other side, or of --invented invented pages
    evolution_linear_eps1, 5  the linear classifier on the same pages

Settings of the arms on private pages were fixed before any of these pages was looked at, and how
pages become points for votes on public classes that stood in for private ones; then the arms on
chosen pages had been seen on private pages already (docs/results.md). The last line is JSON: mean
accuracies on the test pages, with the standard deviation between seeds under `spread`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import machine
import numpy as np

from hushdoc.labels import LabelSet
from hushdoc.reading import drawing
from hushdoc_export.synthetic import contact_sheet
from hushdoc_training import drawn_checkpoint
from hushdoc_training.data import image_sets
from hushdoc_training.data.dataset import Source
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.images import training
from hushdoc_training.recipes.images.settings import PlainSettings
from hushdoc_training.recipes.images.training import Start
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.synthesis import selection

TEST_SHARE, DELTA = 0.2, 1e-5
STEPS, RATE, CLIPPING_NORM = 100, 0.25, 1.0
LINEAR_STEPS, LINEAR_RATE = 60, 0.01
"""Steps and step size of the linear classifier, whose every step reads all pages."""
EPSILONS = (1.0, 5.0)
NETWORK = "small"
PRIVATE_ARMS = {"dp_linear": "linear", "dp_adam": NETWORK}
ALL_ARMS = ("real", "dp_adam", "dp_linear", "evolution")
CHOSEN_ARMS = {"evolution": NETWORK, "evolution_linear": "linear"}
SHEET = 6
"""Pages of a class on a sheet."""
INVENTED = "invented:form+invoice+receipt+till-receipt"


def divided(
    documents: Sequence[ImageDocument], records: int, *, public: Collection[str] = ()
) -> tuple[list[ImageDocument], list[ImageDocument]]:
    """Returns private and test pages of all but public classes; those between are neither."""
    parts = image_sets.parts(documents, public=public, held_out=TEST_SHARE)
    ordered = sorted(parts.private, key=image_sets.content_digest)
    return ordered[:records], list(parts.test)


def started(documents: Sequence[ImageDocument], architecture: str, seed: int) -> Start:
    """Returns random weights for the classes of these pages, which are public."""
    labels = LabelSet(fields=tuple({one.label for one in documents}))
    return training.start_from(None, architecture=architecture, labels=labels, seed=seed)


def real(
    private: Sequence[ImageDocument],
    test: Sequence[ImageDocument],
    *,
    settings: PlainSettings,
    architecture: str = NETWORK,
) -> float:
    """Returns the accuracy of a network that was trained on pages without privacy."""
    start = started(private, architecture, settings.seed)
    with tempfile.TemporaryDirectory() as scratch:
        training.train_plain(
            start,
            private,
            settings,
            out=Path(scratch) / "run",
            claim=claims.not_private("pages", (), training={}),
            quiet=True,
        ).require_finished()
    return training.scored(start, test)


def private_accuracy(
    private: Sequence[ImageDocument],
    test: Sequence[ImageDocument],
    *,
    architecture: str,
    epsilon: float,
    seed: int,
    records: int,
    steps: int | None = None,
) -> float:
    """Returns the accuracy of a network that was trained on pages by DP-Adam."""
    linear = architecture == "linear"
    rate = 1.0 if linear else RATE
    plan = PrivacyPlan.calibrated(
        epsilon=epsilon,
        delta=DELTA,
        sampling_rate=rate,
        steps=steps or (LINEAR_STEPS if linear else STEPS),
        clipping_norm=CLIPPING_NORM,
        expected_records=round(records * rate),
    )
    settings = PrivateSettings(trained="all", learning_rate=LINEAR_RATE if linear else 2e-3)
    start = started(private, architecture, seed)
    with tempfile.TemporaryDirectory() as scratch:
        training.train_private(
            start,
            private,
            plan,
            settings,
            out=Path(scratch) / "run",
            name="pages",
            hyperparameter_tuning="none",
            quiet=True,
        ).require_finished()
    return training.scored(start, test)


def chosen(
    private: Sequence[ImageDocument],
    public: Sequence[ImageDocument],
    *,
    epsilon: float,
    seed: int,
    records: int,
    pages: int,
    sheet: Path | None = None,
) -> list[ImageDocument]:
    """Returns public pages that votes of private ones chose for their classes.

    A sheet shows SHEET of each class, a class a row.
    """
    plan = PrivacyPlan.calibrated(
        epsilon=epsilon,
        delta=DELTA,
        sampling_rate=1.0,
        steps=1,
        clipping_norm=1.0,
        expected_records=records,
    )
    classes = tuple(sorted({one.label for one in private}))
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "run"
        selection.select(
            private,
            selection.PublicImages(documents=public, name="public pages", overlap="none"),
            plan,
            selection.SelectionSettings(classes=classes, pages=pages, seed=seed),
            out=out,
            name="pages",
            quiet=True,
        )
        if sheet is not None:
            made = drawn_checkpoint.load(out)
            rows = [range(row, SHEET * len(classes), len(classes)) for row in range(len(classes))]
            sheet.parent.mkdir(parents=True, exist_ok=True)
            shown = [made.image(at) for row in rows for at in row if at < pages]
            sheet.write_bytes(contact_sheet(shown, rows=len(classes)))
        return drawn_documents(out)


def drawn_documents(run: Path) -> list[ImageDocument]:
    """Returns the pages of a run of `hushdoc synthesize`, with their classes."""
    made = drawn_checkpoint.load(run)
    return [
        ImageDocument(
            id=drawn_checkpoint.id_of(number),
            label=prompt["label"],
            pages=drawing.open_pages(made.image(number)).pages,
        )
        for number, prompt in enumerate(made.prompts)
    ]


def public_of(documents: Sequence[ImageDocument], public: Collection[str]) -> list[ImageDocument]:
    """Returns the documents of public classes or sources."""
    return [one for one in documents if {one.label, one.source} & {*public}]


def main() -> int:
    """Runs the arms and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--records", type=int, default=500, help="private pages")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--arms", nargs="+", choices=ALL_ARMS, default=list(ALL_ARMS), help="these alone"
    )
    parser.add_argument("--public", nargs="+", default=[], help="public classes or sources")
    parser.add_argument("--invented", type=int, default=1000, help="invented pages, else")
    parser.add_argument("--pages", type=int, default=1000, help="that votes choose")
    parser.add_argument("--sheets", type=Path, help="folder for sheets of chosen pages")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    options = parser.parse_args()
    began = time.monotonic()
    steps = None
    plain = PlainSettings()
    if options.quick:
        options.seeds, steps, plain = 1, 2, PlainSettings(epochs=1.0)
        options.invented, options.pages = 8, 8
    found: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        found.setdefault(f"accuracy_{name}", []).append(value)
        print(json.dumps({name: round(value, 4)}), flush=True)

    with contextlib.ExitStack() as stack:
        source = Source(location=options.data)
        documents = stack.enter_context(image_sets.opened(source, report=print))
        private, test = divided(documents, options.records, public=options.public)
        public: Sequence[ImageDocument] = public_of(documents, options.public)
        if "evolution" in options.arms and not options.public:
            invented = Source(location=INVENTED, documents=options.invented)
            public = stack.enter_context(image_sets.opened(invented))
        for seed in range(options.seeds):
            for arm, architecture in PRIVATE_ARMS.items():
                for epsilon in EPSILONS if arm in options.arms else ():
                    value = private_accuracy(
                        private,
                        test,
                        architecture=architecture,
                        epsilon=epsilon,
                        seed=seed,
                        records=options.records,
                        steps=steps,
                    )
                    note(f"{arm}_eps{epsilon:g}", value)
            for epsilon in EPSILONS if "evolution" in options.arms else ():
                pages = chosen(
                    private,
                    public,
                    epsilon=epsilon,
                    seed=seed,
                    records=options.records,
                    pages=options.pages,
                    sheet=None
                    if seed or not options.sheets
                    else options.sheets / f"selection-eps{epsilon:g}.png",
                )
                for arm, architecture in CHOSEN_ARMS.items():
                    once = replace(plain, seed=seed)
                    value = real(pages, test, settings=once, architecture=architecture)
                    note(f"{arm}_eps{epsilon:g}", value)
            if "real" in options.arms:
                note("real", real(private, test, settings=replace(plain, seed=seed)))
    line = {
        **{name: round(float(np.mean(values)), 4) for name, values in found.items()},
        "spread": {name: round(float(np.std(values)), 4) for name, values in found.items()},
        "minutes": round((time.monotonic() - began) / 60, 1),
        "seeds": options.seeds,
        "public": len(public),
        "private": len(private),
        "pages": options.pages,
        "test": len(test),
        "data": Path(options.data).name,
        **machine.stamp(began, "torch"),
    }
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
