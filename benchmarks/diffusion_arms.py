"""Pages that a private diffusion model draws: distance to real ones, and use to a classifier.

It is the method `diffusion` of `synthesis.py`; private and test pages are those of `image_arms`.
Arms, each with `--seeds` seeds:

    eps1, eps5         `synthesize diffusion` at this epsilon, delta 1e-5
    dp_adam_eps1, 5    the classifier by DP-Adam on the private pages themselves
    dp_linear_eps1, 5  a linear classifier on 32 x 32 gray pixels by DP-Adam
    real               the classifier on the private pages, without privacy

The start learns once from the public pages: those of the classes or sources that `--public` names,
or invented ones. With `--trained layouts`, the default, the layout of each class is all that learns
of the private pages; `all` trains the denoiser of a start that reads classes, and `denoisers` one
for each class. `--dp-promise` trains all by DP-Promise, whose epsilon is that of its second phase
alone: it protects nothing. `fid_*` is the Frechet distance (Heusel et al. 2017) between drawn and
test pages, in features of a small classifier of the public pages: not those of the literature.
`fid_floor` is that of the private pages. `accuracy_synthetic_*` is the accuracy on test pages of
the classifier, trained on drawn pages as on real ones, and `accuracy_synthetic_linear_*` that of
the linear one. `accuracy_evolution_*` is that of the classifier on public pages that private votes
chose for each class (`synthesize selection`), as many as are drawn. `step_ratio` is the processor
time of a private step, of all weights, over a plain one, with the documents of a step and the
multiplicity that the command has by default; `step_ratio_small` with 16 documents, each once. Both
kinds of steps take turns.

The tables of DP-DocLDM have a line for each of

    --trained all --condition class [--guidance 3]         one model that reads classes
    --trained all --condition layout+class [--guidance 3]  that reads layouts too
    --trained all --condition class --dp-promise           by DP-Promise
    --trained denoisers [--condition layout+class]         a model for each class
    --trained layouts                                      a layout for each class alone

`--work` names a folder that keeps starts, and the figures of each finished arm of each seed: after
a kill, and in another command, nothing that is there is computed again, and `kept` says how much
was not. Use another one after a change of the code.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from itertools import product
from pathlib import Path

import image_arms
import machine
import numpy as np
import numpy.typing as npt
import torch

from hushdoc.certificate.claim import PublicData
from hushdoc.system import atomic_files
from hushdoc_export.synthetic import contact_sheet
from hushdoc_training import drawn_checkpoint
from hushdoc_training.data import image_sets
from hushdoc_training.data.dataset import Source
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.recipes.images import training
from hushdoc_training.recipes.images.settings import PlainSettings
from hushdoc_training.recipes.synthesis import (
    denoising,
    diffusion,
    diffusion_start,
    dp_promise,
    page_squares,
    pretraining,
)
from hushdoc_training.recipes.synthesis.diffusion import Layouts
from hushdoc_training.recipes.synthesis.diffusion_settings import (
    TRAINED,
    DiffusionSettings,
    PretrainingSettings,
    PromiseSettings,
)
from hushdoc_training.runs.run_folder import CHECKPOINT, Run
from hushdoc_training.synthesis import masks

Floats = npt.NDArray[np.float64]

RATES = {"all": 0.1, "denoisers": 0.1, "layouts": 0.5}
CLIPPING_NORM = 0.001
"""Below most gradients, so that each counts as much as any other (De et al. 2022)."""
CONDITIONS = {
    "all": ("class", "layout+class"),
    "denoisers": ("none", "class", "layout", "layout+class"),
    "layouts": ("layout",),
}
"""What a start may read. The first is the default: layouts of public pages are no layouts of the
private classes."""
STEPS_MEASURED = {"step_ratio": (50, 4), "step_ratio_small": (16, 1)}
"""Documents of a step and multiplicity; first the defaults of `hushdoc synthesize diffusion`."""
BLUR = 0.1
SYNTHETIC_ARMS = {"synthetic": image_arms.NETWORK, "synthetic_linear": "linear"}
LAYOUT_SHARE = 4
"""One page in so many gives the layouts to begin with, or to draw."""
SHEET = 24
"""Pages on a contact sheet."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the method."""
    parser.add_argument("--data", required=True, help="pages with classes")
    parser.add_argument("--records", type=int, default=500, help="private pages")
    parser.add_argument("--public", nargs="+", default=[], help="public classes or sources")
    parser.add_argument("--invented", type=int, default=1000, help="invented pages, else")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trained", choices=tuple(TRAINED), default="layouts")
    parser.add_argument("--condition", help="what the start reads (default: as --trained needs it)")
    parser.add_argument("--guidance", type=float, default=1.0, help="how much a class counts")
    parser.add_argument("--multiplicity", type=int, default=1, help="draws for each page in a step")
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(image_arms.EPSILONS))
    parser.add_argument(
        "--dp-promise", action="store_true", help="instead of DPDM; protects nothing"
    )
    parser.add_argument("--size", default="small", help="of the start")
    parser.add_argument("--work", type=Path, help="folder that keeps starts and figures")
    parser.add_argument("--autoencoder-steps", type=int, default=600)
    parser.add_argument("--start-steps", type=int, default=2000, help="of the denoiser, public")
    parser.add_argument("--steps", type=int, default=40, help="private steps")
    parser.add_argument("--pages", type=int, default=500, help="drawn pages")
    parser.add_argument("--sheets", type=Path, help="folder for a contact sheet of each epsilon")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")


def run(options: argparse.Namespace) -> int:
    """Runs all arms and prints the JSON line."""
    if options.dp_promise and options.trained != "all":
        raise SystemExit("--dp-promise trains all of the denoiser: give --trained all.")
    condition = options.condition or CONDITIONS[options.trained][0]
    if condition not in CONDITIONS[options.trained]:
        fitting = " or ".join(CONDITIONS[options.trained])
        raise SystemExit(f"--trained {options.trained} goes with --condition {fitting}.")
    began = time.monotonic()
    learned = PretrainingSettings(
        autoencoder_steps=options.autoencoder_steps,
        steps=options.start_steps,
        size=options.size,
        condition=condition,
        blur=BLUR if options.trained == "layouts" else 0.0,
        crops=8,
        learning_rate=1.5e-3,
    )
    plain = PlainSettings()
    settings = DiffusionSettings(
        trained=options.trained,
        learning_rate=TRAINED[options.trained],
        multiplicity=options.multiplicity,
        pages=options.pages,
        sampler="ddim",
        sampling_steps=20,
        guidance=options.guidance,
    )
    direct_steps = None
    if options.quick:
        options.seeds, options.steps, options.invented, options.records = 1, 2, 8, 40
        learned = replace(learned, size="tiny", autoencoder_steps=2, steps=2)
        plain, direct_steps = PlainSettings(epochs=1.0), 2
        settings = replace(settings, pages=18, sampling_steps=1)
    invented = Source(location=image_arms.INVENTED, documents=options.invented)
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        source = Source(location=options.data)
        documents = stack.enter_context(image_sets.opened(source, report=print))
        offered = documents
        if not options.public:
            offered = stack.enter_context(image_sets.opened(invented))
        public = list(offered)
        if options.public:
            public = image_arms.public_of(offered, options.public)
        private, test = image_arms.divided(documents, options.records, public=options.public)
        if options.quick:
            public, test = public[:: len(public) // 8], test[:40]
        home = options.work or Path(scratch)
        settings = replace(settings, classes=tuple(sorted({one.label for one in private})))
        parts = {"public": public, "private": private, "test": test}
        common = {
            **{name: page_squares.digest(part) for name, part in parts.items()},
            "records": options.records,
            "plain": asdict(plain),
        }
        figures = Figures(home / "arms", common)
        named = public_data(options)
        started = pretrained(public, learned, home / f"start-{name_of(learned)}", named)
        start = diffusion_start.load(started)
        layouts = Layouts(
            name=named.name,
            masks=masks_of(public[::LAYOUT_SHARE], start.codec.preset.image_size),
            public=named,
        )
        features = cache(lambda: Features(public, plain))

        def drawn(seed: int, epsilon: float) -> dict[str, float]:
            out = Path(scratch) / f"eps{epsilon:g}-{seed}"
            train: Callable[..., object] = diffusion.train
            if options.dp_promise:
                train = partial(dp_promise.train, promise=PromiseSettings())
            train(
                diffusion_start.load(started),
                private,
                plan_of(options, epsilon),
                replace(settings, seed=seed),
                out=out,
                name="pages",
                layouts=layouts,
                quiet=True,
            )
            if options.sheets is not None and seed == 0:
                made = drawn_checkpoint.load(out)
                options.sheets.mkdir(parents=True, exist_ok=True)
                sheet = contact_sheet(list(map(made.image, range(len(made.prompts))))[:SHEET])
                (options.sheets / f"diffusion-eps{epsilon:g}.png").write_bytes(sheet)
            pages = image_arms.drawn_documents(out)
            found = {f"fid_eps{epsilon:g}": fid(features()(pages), features()(test))}
            return {**found, **taught(SYNTHETIC_ARMS, pages, seed, epsilon)}

        def chosen(seed: int, epsilon: float) -> dict[str, float]:
            pages = image_arms.chosen(
                private,
                public,
                epsilon=epsilon,
                seed=seed,
                records=options.records,
                pages=settings.pages,
            )
            return taught(image_arms.CHOSEN_ARMS, pages, seed, epsilon)

        def taught(
            arms: Mapping[str, str], pages: Sequence[ImageDocument], seed: int, epsilon: float
        ) -> dict[str, float]:
            once = replace(plain, seed=seed)
            return {
                f"accuracy_{arm}_eps{epsilon:g}": image_arms.real(
                    pages, test, settings=once, architecture=architecture
                )
                for arm, architecture in arms.items()
            }

        def direct(arm: str, architecture: str, seed: int, epsilon: float) -> dict[str, float]:
            value = image_arms.private_accuracy(
                private,
                test,
                architecture=architecture,
                epsilon=epsilon,
                seed=seed,
                records=options.records,
                steps=direct_steps,
            )
            return {f"accuracy_{arm}_eps{epsilon:g}": value}

        def real(seed: int) -> dict[str, float]:
            once = replace(plain, seed=seed)
            return {"accuracy_real": image_arms.real(private, test, settings=once)}

        for seed, epsilon in product(range(options.seeds), options.epsilons):
            key = {
                "arm": "dp-promise" if options.dp_promise else "diffusion",
                "start": asdict(learned),
                "settings": asdict(settings),
                "steps": options.steps,
                "seed": seed,
                "epsilon": epsilon,
            }
            figures.note(key, partial(drawn, seed, epsilon))
        for seed in range(options.seeds):
            figures.note({"arm": "real", "seed": seed}, partial(real, seed))
            for epsilon in options.epsilons:
                key = {"seed": seed, "epsilon": epsilon}
                for arm, architecture in image_arms.PRIVATE_ARMS.items():
                    figures.note(
                        {**key, "arm": arm, "steps": direct_steps},
                        partial(direct, arm, architecture, seed, epsilon),
                    )
                figures.note(
                    {**key, "arm": "evolution", "pages": settings.pages},
                    partial(chosen, seed, epsilon),
                )
        figures.note(
            {"arm": "floor"}, lambda: {"fid_floor": fid(features()(private), features()(test))}
        )
        steps = {
            name: {"records": min(records, len(private)), "multiplicity": multiplicity}
            for name, (records, multiplicity) in STEPS_MEASURED.items()
        }
        figures.add({name: step_ratio(start, private, **size) for name, size in steps.items()})
    line = {
        **{name: round(float(np.mean(values)), 4) for name, values in figures.found.items()},
        "spread": {name: round(float(np.std(values)), 4) for name, values in figures.found.items()},
        "minutes": round((time.monotonic() - began) / 60, 1),
        "cpu_minutes": round(time.process_time() / 60, 1),
        "kept": figures.kept,
        "seeds": options.seeds,
        "trained": options.trained,
        "condition": condition,
        "guidance": options.guidance,
        "multiplicity": options.multiplicity,
        "dp_promise": options.dp_promise,
        "start": learned.size,
        "start_steps": [learned.autoencoder_steps, learned.steps],
        "steps": options.steps,
        "steps_measured": steps,
        "public": len(public),
        "private": len(private),
        "test": len(test),
        "pages": settings.pages,
        "data": Path(options.data).name,
        "quick": options.quick,
        **machine.stamp(began, "torch", "diffusers"),
    }
    print(json.dumps(line))
    return 0


class Figures:
    """Figures of arms, and the folder that keeps them.

    Attributes:
        found: The values of each, seed by seed.
        kept: How many arms were found in the folder.
    """

    def __init__(self, folder: Path, common: Mapping[str, object]) -> None:
        """Keeps figures that depend on the common values, and on those of each arm."""
        self.found: dict[str, list[float]] = {}
        self.kept = 0
        self._folder, self._common = folder, common

    def note(self, key: Mapping[str, object], make: Callable[[], Mapping[str, float]]) -> None:
        """Adds the figures of an arm, computed unless they are kept."""
        content = json.dumps({**self._common, **key}, sort_keys=True)
        file = self._folder / f"{hashlib.sha256(content.encode()).hexdigest()[:16]}.json"
        if file.is_file():
            self.kept += 1
            self.add(json.loads(file.read_text())["found"])
            return
        made = make()
        self._folder.mkdir(parents=True, exist_ok=True)
        atomic_files.write_file(file, json.dumps({**json.loads(content), "found": made}).encode())
        self.add(made)

    def add(self, made: Mapping[str, float]) -> None:
        """Adds and prints figures."""
        for name, value in made.items():
            self.found.setdefault(name, []).append(value)
            print(json.dumps({name: round(value, 4)}), flush=True)


def plan_of(options: argparse.Namespace, epsilon: float) -> PrivacyPlan:
    """Returns the plan of private training."""
    rate = RATES[options.trained]
    return PrivacyPlan.calibrated(
        epsilon=epsilon,
        delta=image_arms.DELTA,
        sampling_rate=rate,
        steps=options.steps,
        clipping_norm=CLIPPING_NORM,
        expected_records=max(1, round(rate * options.records)),
    )


def name_of(settings: PretrainingSettings) -> str:
    """Returns a folder's name for a start, so that one --work has starts for all arms."""
    steps = f"{settings.autoencoder_steps}-{settings.steps}"
    return f"{settings.size}-{settings.condition}-{steps}{'-blurred' if settings.blur else ''}"


def public_data(options: argparse.Namespace) -> PublicData:
    """Returns what certificates say of the public pages."""
    return PublicData(
        name="+".join(options.public) or image_arms.INVENTED,
        uses=("pretraining", "layouts"),
        privacy_status="published documents" if options.public else "invented by a generator",
        overlap_with_protected="none",
    )


def pretrained(
    public: Sequence[ImageDocument], settings: PretrainingSettings, out: Path, named: PublicData
) -> Path:
    """Returns the folder of a start that learned from these public pages by these settings."""
    classes = tuple(sorted({one.label for one in public}))
    if (out / CHECKPOINT).is_dir():
        known = Run.read(out).settings
        asked = {**asdict(settings), "documents": page_squares.digest(public)}
        other = sorted(name for name in asked if known.get(name) != asked[name])
        if other:  # private pages may be among those that it learned from
            raise SystemExit(f"The start in '{out}' has other {', '.join(other)}: other --work.")
    else:
        pretraining.pretrain(
            public,
            settings,
            out=out,
            public=named,
            classes=classes,
            resume=out.is_dir(),
            quiet=True,
        )
    return out


def masks_of(public: Sequence[ImageDocument], size: int) -> list[page_squares.Floats]:
    """Returns the layouts of public pages that have text."""
    squares = page_squares.squares_of(public, size, classes={}, layout=True)
    every = [square.mask for own in squares for square in own if square.mask is not None]
    return [mask for mask in every if masks.has_text(mask)]


class Features:
    """What a classifier of public pages computes of a page before its last layer."""

    def __init__(self, public: Sequence[ImageDocument], settings: PlainSettings) -> None:
        """Trains it."""
        self._start = image_arms.started(public, image_arms.NETWORK, 0)
        with tempfile.TemporaryDirectory() as scratch:
            training.train_plain(
                self._start,
                public,
                settings,
                out=Path(scratch) / "run",
                claim=claims.public((), training={}),
                quiet=True,
            ).require_finished()

    def __call__(self, documents: Sequence[ImageDocument]) -> Floats:
        """Returns the features of all pages, shape [N, features]."""
        kept: list[torch.Tensor] = []
        last: torch.nn.Module = self._start.model.get_submodule("classifier")
        handle = last.register_forward_pre_hook(
            lambda module, inputs: kept.append(inputs[0].detach().flatten(1))
        )
        try:
            training.scored(self._start, [replace(one, label=self._any) for one in documents])
        finally:
            handle.remove()
        return torch.cat(kept).double().numpy()

    @property
    def _any(self) -> str:
        return str(self._start.labels.fields[0])


def fid(left: Floats, right: Floats) -> float:
    """Returns the Frechet distance of two sets of features, taken as normal distributions."""
    means = left.mean(0) - right.mean(0)
    one, other = (np.cov(part, rowvar=False) for part in (left, right))
    values, vectors = np.linalg.eigh(one)
    root = vectors * np.sqrt(np.clip(values, 0, None)) @ vectors.T
    shared = np.sqrt(np.clip(np.linalg.eigvalsh(root @ other @ root), 0, None)).sum()
    return float(means @ means + np.trace(one) + np.trace(other) - 2 * shared)


def step_ratio(
    start: diffusion_start.DiffusionStart,
    documents: Sequence[ImageDocument],
    *,
    records: int,
    multiplicity: int,
    times: int = 5,
) -> float:
    """Returns the processor time of a private step over that of a plain one, of medians."""
    chosen = documents[:records]
    squares = page_squares.squares_of(
        chosen, start.codec.preset.image_size, classes={}, layout=start.denoiser.preset.layout
    )
    examples = page_squares.examples_of(squares, start.codec)
    plan = PrivacyPlan.calibrated(
        epsilon=8.0, sampling_rate=1.0, steps=times + 1, expected_records=len(chosen)
    )
    denoiser = diffusion_start.with_classes(start, ("a", "b"), seed=0).eval()
    denoiser.freeze_time()
    unwatched = copy.deepcopy(denoiser)  # hooks of private training would slow plain steps down
    optimizers = [
        torch.optim.Adam([value for value in one.parameters() if value.requires_grad], lr=0.0)
        for one in (denoiser, unwatched)
    ]
    repeated = [one for own in examples for one in own for _ in range(multiplicity)]

    def plain_step() -> None:
        optimizers[1].zero_grad(set_to_none=True)
        for first in range(0, len(repeated), denoising.MAX_EXAMPLES):
            part = repeated[first : first + denoising.MAX_EXAMPLES]
            torch.autograd.backward(denoising.losses_of(unwatched, part).sum() / len(repeated))
        optimizers[1].step()

    with denoising.private_training(
        denoiser,
        Records(examples, unit="document"),
        plan,
        optimizers[0],
        multiplicity=multiplicity,
    ) as private:
        seconds = [[_seconds(private.step), _seconds(plain_step)] for _ in range(times + 1)]
    private_median, plain_median = np.median(seconds[1:], axis=0)  # after a first of each
    return float(private_median / plain_median)


def _seconds(step: Callable[[], object]) -> float:
    """Returns the processor time of a step."""
    began = time.process_time()
    step()
    return time.process_time() - began
