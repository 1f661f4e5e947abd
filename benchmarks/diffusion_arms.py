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
for each class, all of a start that reads none. `--dp-promise` trains all by DP-Promise, whose
epsilon is that of its second phase alone: it protects nothing. `fid_*` is the
Frechet distance (Heusel et al. 2017) between drawn and test pages, in features of a small
classifier of the public pages: not those of the literature. `fid_floor` is that of the private
pages. `accuracy_synthetic_*` is the accuracy on test pages of the classifier, trained on drawn
pages as on real ones, and `accuracy_synthetic_linear_*` that of the linear one. `step_ratio` is the
processor time of a private step, of all weights, over a plain one.
`accuracy_evolution_*` is that of the classifier on public pages that private votes chose for each
class (`synthesize selection`), as many as are drawn.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path

import image_arms
import machine
import numpy as np
import numpy.typing as npt
import torch

from hushdoc.certificate.claim import PublicData
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
CONDITIONS = {"all": "class", "denoisers": "none", "layouts": "layout"}
"""What a start reads: layouts of public pages would be no layouts of the private classes."""
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
    parser.add_argument(
        "--dp-promise", action="store_true", help="instead of DPDM; protects nothing"
    )
    parser.add_argument("--size", default="small", help="of the start")
    parser.add_argument("--work", type=Path, help="folder that keeps the start, or has it")
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
    began = time.monotonic()
    learned = PretrainingSettings(
        autoencoder_steps=options.autoencoder_steps,
        steps=options.start_steps,
        size=options.size,
        condition=CONDITIONS[options.trained],
        blur=BLUR if options.trained == "layouts" else 0.0,
        crops=8,
        learning_rate=1.5e-3,
    )
    plain = PlainSettings()
    settings = DiffusionSettings(
        trained=options.trained,
        learning_rate=TRAINED[options.trained],
        multiplicity=1,
        pages=options.pages,
        sampler="ddim",
        sampling_steps=20,
    )
    direct_steps = None
    if options.quick:
        options.seeds, options.steps, options.invented, options.records = 1, 2, 8, 40
        learned = replace(learned, size="tiny", autoencoder_steps=2, steps=2)
        plain, direct_steps = PlainSettings(epochs=1.0), 2
        settings = replace(settings, pages=18, sampling_steps=1, multiplicity=1)
    found: dict[str, list[float]] = {}
    rate = RATES[options.trained]

    def note(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)
        print(json.dumps({name: round(value, 4)}), flush=True)

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
        named = public_data(options)
        home = options.work or Path(scratch)
        settings = replace(settings, classes=tuple(sorted({one.label for one in private})))
        started = pretrained(public, learned, home / "start", named)
        start = diffusion_start.load(started)
        layouts = Layouts(
            name=named.name,
            masks=masks_of(public[::LAYOUT_SHARE], start.codec.preset.image_size),
            public=named,
        )
        drawn: list[tuple[float, list[ImageDocument]]] = []
        for seed, epsilon in product(range(options.seeds), image_arms.EPSILONS):
            plan = PrivacyPlan.calibrated(
                epsilon=epsilon,
                delta=image_arms.DELTA,
                sampling_rate=rate,
                steps=options.steps,
                clipping_norm=CLIPPING_NORM,
                expected_records=max(1, round(rate * options.records)),
            )
            out = Path(scratch) / f"eps{epsilon:g}-{seed}"
            train: Callable[..., object] = diffusion.train
            if options.dp_promise:
                train = partial(dp_promise.train, promise=PromiseSettings())
            train(
                diffusion_start.load(started),
                private,
                plan,
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
            drawn.append((epsilon, pages))
            once = replace(plain, seed=seed)
            for arm, architecture in SYNTHETIC_ARMS.items():
                accuracy = image_arms.real(pages, test, settings=once, architecture=architecture)
                note(f"accuracy_{arm}_eps{epsilon:g}", accuracy)
        for seed in range(options.seeds):
            once = replace(plain, seed=seed)
            note("accuracy_real", image_arms.real(private, test, settings=once))
            arms = image_arms.PRIVATE_ARMS.items()
            for (arm, architecture), epsilon in product(arms, image_arms.EPSILONS):
                value = image_arms.private_accuracy(
                    private,
                    test,
                    architecture=architecture,
                    epsilon=epsilon,
                    seed=seed,
                    records=options.records,
                    steps=direct_steps,
                )
                note(f"accuracy_{arm}_eps{epsilon:g}", value)
            for epsilon in image_arms.EPSILONS:
                pages = image_arms.chosen(
                    private,
                    public,
                    epsilon=epsilon,
                    seed=seed,
                    records=options.records,
                    pages=settings.pages,
                )
                for arm, architecture in image_arms.CHOSEN_ARMS.items():
                    value = image_arms.real(pages, test, settings=once, architecture=architecture)
                    note(f"accuracy_{arm}_eps{epsilon:g}", value)
        features = Features(public, plain)
        expected = features(test)
        note("fid_floor", fid(features(private), expected))
        for epsilon, pages in drawn:
            note(f"fid_eps{epsilon:g}", fid(features(pages), expected))
        note("step_ratio", step_ratio(start, private, settings.multiplicity))
    line = {
        **{name: round(float(np.mean(values)), 4) for name, values in found.items()},
        "spread": {name: round(float(np.std(values)), 4) for name, values in found.items()},
        "minutes": round((time.monotonic() - began) / 60, 1),
        "cpu_minutes": round(time.process_time() / 60, 1),
        "seeds": options.seeds,
        "trained": options.trained,
        "dp_promise": options.dp_promise,
        "start": learned.size,
        "start_steps": [learned.autoencoder_steps, learned.steps],
        "steps": options.steps,
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
            )

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
    multiplicity: int,
    *,
    times: int = 5,
) -> float:
    """Returns the processor time of a private step over that of a plain one, of medians."""
    chosen = documents[:16]
    squares = page_squares.squares_of(
        chosen, start.codec.preset.image_size, classes={}, layout=start.denoiser.preset.layout
    )
    examples = page_squares.examples_of(squares, start.codec)
    plan = PrivacyPlan.calibrated(
        epsilon=8.0, sampling_rate=1.0, steps=times + 1, expected_records=len(chosen)
    )
    denoiser = diffusion_start.with_classes(start, ("a", "b"), seed=0).eval()
    denoiser.freeze_time()
    trained = [value for value in denoiser.parameters() if value.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=0.0)
    repeated = [one for own in examples for one in own for _ in range(multiplicity)]
    seconds: dict[str, list[float]] = {"plain": [], "private": []}
    records = Records(examples, unit="document")
    with denoising.private_training(
        denoiser, records, plan, optimizer, multiplicity=multiplicity
    ) as private:
        private.step()
        for _ in range(times):
            began = time.process_time()
            private.step()
            seconds["private"].append(time.process_time() - began)
    plain = torch.optim.Adam(trained, lr=0.0)
    for turn in range(times + 1):
        began = time.process_time()
        plain.zero_grad(set_to_none=True)
        for first in range(0, len(repeated), denoising.MAX_EXAMPLES):
            part = repeated[first : first + denoising.MAX_EXAMPLES]
            torch.autograd.backward(denoising.losses_of(denoiser, part).sum() / len(repeated))
        plain.step()
        if turn:
            seconds["plain"].append(time.process_time() - began)
    return float(np.median(seconds["private"]) / np.median(seconds["plain"]))
