r"""Answers about providers that no training saw, and what models tell of those that it saw.

    python benchmarks/docvqa.py --sroie path/to/sroie
    python benchmarks/docvqa.py --work runs/docvqa --arms vt5_nonprivate vt5_provider_eps8 --seeds 1
    python benchmarks/docvqa.py --no-nearest --work runs/pointers --seeds 1 \
        --pointer-start demo-docvqa-output/runs/public --arms pointer_start pointer_nonprivate
    python benchmarks/docvqa.py --no-nearest --model runs/public
    python benchmarks/docvqa.py --no-nearest --pointer-start runs/public --work runs/sets \
        --sroie path/to/sroie --on sroie forms
    python benchmarks/docvqa.py --quick

Without training (`nearest_label`: the label most like the question by MiniLM, and what is beside
it) the sets are invented invoices and receipts, and forms, of providers from 800 on, with the first
15 wordings of each key (`invented`, `forms`) and with the last 5, which training leaves out
(`other_wordings`); and SROIE's receipts of companies on the side of non-members, by
`data.providers.split` (`sroie`). For each: questions, ANLS of all of them, ANLS of those that have
an answer (an arm that never says "none" has 0 for the others), share of exact answers, and ANLS by
key. Runs that --model names are asked the same.

The other arms are trained and attacked (`docvqa_arms`), each in models of both architectures. A
pointer's start, such as that of `make demo-docvqa`, was asked few things in few wordings, and
private providers are asked all:

    start             on public providers alone
    nonprivate        from the start, without privacy; a VT5 until its training loss is near 0
    provider_epsE     from the start, at provider unit and epsilon E, delta 1e-5
    document_epsE     the same at document unit
    local_eps8        at provider unit by the paper's own mechanism, FL-PROVIDER-DP with one client
    federated_eps8    at provider unit by four clients, whose clipped gradients are added up

With --arms-on sroie they learn from SROIE's companies: a seed parts these into both halves, and a
quarter of the receipts of those with several are asked about.

On documents that a start never saw, `--on` trains pointers from --pointer-start as `hushdoc train
docvqa` does (`docvqa_sets`): on SROIE's companies, and asks others; and on invented forms. Arms are
those of --set-arms; `nonprivate` trains all, `nonprivate_reader` the reader alone. With --inner,
and a --work of its own, the documents to train on are parted by provider once more, to choose
settings by, such as --passes and --rate of training without privacy. A JSON line for each set, of
all arms and seeds that are kept, goes before the last.

Unless --no-nearest says otherwise, what needs no training is asked the questions about providers
that no arm's models saw, too: its ANLS is then `anls_nearest_label`.

With --work they are kept, an arm and seed at a time: a later call with other --arms or --seeds goes
on, and prints the tables of all that is there. The tables are those of Tito et al. (2023): utility
(3, 6), members against others (1, 9), hidden answers (2, 7, 8), attacks (4, 10, 11). The groups are
fixed, so that these are tables and no bounds; `epsilon_lower` is a bound, from canary providers
that are in the private training by coins. The last line is JSON; what did not run is null.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import docvqa_sets
import machine
import torch
from docvqa_arms import ARCHITECTURES, ARMS, NOT_RUN, QUICK, RECEIPTS, SCALES, Arms
from docvqa_nearest import NearestLabel
from docvqa_tables import figures, measured, require_unrefuted, tables

from hushdoc.labels import LabelledDocument
from hushdoc_training.audit import provider_membership
from hushdoc_training.data import dataset, providers
from hushdoc_training.recipes.docvqa.scores import Scorer
from hushdoc_training.recipes.docvqa.start import start_from

UNSEEN = "providers=800:1600,questions=keyed"
SETS = {
    "invented": f"invented:invoice+receipt,{UNSEEN},wordings=0:15",
    "other_wordings": f"invented:invoice+receipt,{UNSEEN},wordings=15:20",
    "forms": f"invented:form,{UNSEEN},wordings=0:15",
}


QUICK_ARMS = ("vt5_nonprivate", "vt5_provider_eps8")


def main() -> int:
    """Asks, trains and attacks what is named, and prints tables and the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sroie", type=Path, help="folder of SROIE")
    parser.add_argument("--documents", type=int, default=150, help="of each set without training")
    parser.add_argument("--seed", type=int, default=1, help="of the sets without training")
    parser.add_argument("--work", type=Path, help="where arms are kept, and what ran before is")
    parser.add_argument(
        "--arms", nargs="*", choices=ARMS, default=[], metavar="ARM", help=" ".join(ARMS)
    )
    parser.add_argument(
        "--arms-on", choices=("invented", "sroie"), default="invented", help="documents of the arms"
    )
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3], help="of the arms")
    for architecture in ARCHITECTURES:
        parser.add_argument(f"--{architecture}-start", help="a public run to start from")
    parser.add_argument("--on", nargs="*", choices=("sroie", "forms"), default=[], help="sets")
    parser.add_argument(
        "--set-arms",
        nargs="*",
        choices=docvqa_sets.ARMS,
        default=docvqa_sets.ARMS,
        metavar="ARM",
        help=f"of --on: {' '.join(docvqa_sets.ARMS)}",
    )
    parser.add_argument(
        "--inner", action="store_true", help="of --on: ask providers that are else trained on"
    )
    parser.add_argument(
        "--passes", type=float, help="without privacy: of --on and of pointers' arms"
    )
    parser.add_argument("--rate", type=float, help="of --on: peak of the step size without privacy")
    parser.add_argument("--providers", type=int, help="that a model of the arms is trained on")
    parser.add_argument("--device", default="cpu", help="of the arms, such as cuda")
    parser.add_argument("--attack-seeds", type=int, help="of each attack (default: 5, quick: 1)")
    parser.add_argument(
        "--model", action="append", default=[], metavar="RUN", help="a run that is asked these sets"
    )
    parser.add_argument(
        "--no-nearest", action="store_true", help="leave out what needs no training"
    )
    parser.add_argument("--quick", action="store_true", help="a look that takes a minute")
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    sets = {} if options.no_nearest and not options.model else _sets(options)
    trained: dict[str, dict[str, Any]] = {}
    for run in options.model:
        scorer = Scorer(start=start_from(run), device=torch.device("cpu"))
        trained[run] = {}
        for name, documents in sets.items():
            trained[run][name] = measured(scorer, documents)
            print(f"{name}, {run}: {trained[run][name]}", flush=True)
    nearest: dict[str, dict[str, Any]] = {}
    for name, documents in () if options.no_nearest else sets.items():
        nearest[name] = measured(NearestLabel(), documents)
        print(f"{name}, nearest label: {nearest[name]}", flush=True)
    arms, seeds = (QUICK_ARMS, [1]) if options.quick else (options.arms, options.seeds)
    starts = {
        name: found
        for name in ARCHITECTURES
        if (found := getattr(options, f"{name}_start")) is not None
    }
    with tempfile.TemporaryDirectory() as folder:
        on_receipts = options.arms_on == "sroie"
        scales = dict(QUICK if options.quick else RECEIPTS if on_receipts else SCALES)
        if options.providers is not None:
            scales = {name: scale.of(options.providers) for name, scale in scales.items()}
        if options.passes is not None:
            scales["pointer"] = replace(scales["pointer"], epochs=options.passes)
        if options.attack_seeds is not None:
            chosen = provider_membership.SEEDS[: options.attack_seeds]
            scales = {name: replace(scale, seeds=chosen) for name, scale in scales.items()}
        if on_receipts and options.sroie is None:
            parser.error("--arms-on sroie needs --sroie; name its folder.")
        receipts = (
            dataset.read(dataset.Source(location=str(options.sroie))) if on_receipts else None
        )
        made = Arms(
            options.work or Path(folder),
            scales,
            starts,
            receipts=receipts,
            device=torch.device(options.device),
        )
        for arm in arms:
            for seed in seeds:
                print(f"{arm}, seed {seed}: {made.result(arm, seed)['members']}", flush=True)
        results = made.kept(ARMS)
        for name in options.on:
            print(json.dumps(_on(name, options, nearest, options.work or Path(folder))), flush=True)
        asked = set() if options.no_nearest else {arm.split("_")[0] for arm in results}
        for architecture in sorted(asked):
            label = NearestLabel()
            found = [made.nearest(architecture, seed, label)["anls"] for seed in seeds]
            each = [round(one, 4) for one in found]
            nearest[f"arms_{architecture}"] = {"anls": round(fmean(found), 4), "each": each}
            print(f"what arms of {architecture} are asked, nearest label: {each}", flush=True)
    require_unrefuted(results)
    for line in tables(results):
        print(line)
    stamp = machine.stamp(began, "torch", "transformers")
    found = {**figures(nearest, results), "sets": nearest, "models": trained, "not_run": NOT_RUN}
    print(json.dumps({**found, "quick": options.quick, **stamp}))
    return 0


def _on(
    name: str, options: argparse.Namespace, nearest: dict[str, dict[str, Any]], work: Path
) -> dict[str, Any]:
    """Returns the figures of pointers that are trained on a set."""
    if not options.pointer_start or (name == "sroie" and options.sroie is None):
        raise SystemExit("--on needs --pointer-start, and for sroie --sroie; name both.")
    which = docvqa_sets.forms() if name == "forms" else docvqa_sets.sroie(options.sroie)
    which = which.inner() if options.inner else which
    which = which.trained_by(passes=options.passes, rate=options.rate)
    made = docvqa_sets.Pointers(options.pointer_start, which, work / "sets")
    for arm in options.set_arms:
        for seed in options.seeds if arm != "start" else options.seeds[:1]:
            print(f"{name}, {arm}, {seed}: {made.result(arm, seed)['anls']}", flush=True)
    return docvqa_sets.figures(which, made.kept(), nearest.get(name, {}).get("anls"))


def _sets(options: argparse.Namespace) -> dict[str, Sequence[LabelledDocument]]:
    count = 10 if options.quick else options.documents
    sets: dict[str, Sequence[LabelledDocument]] = {
        name: dataset.read(dataset.Source(location=location, documents=count, seed=options.seed))
        for name, location in SETS.items()
    }
    if options.sroie is not None:
        receipts = dataset.read(dataset.Source(location=str(options.sroie)))
        sets["sroie"] = providers.split(receipts, seed=options.seed).non_members
    return sets


if __name__ == "__main__":
    raise SystemExit(main())
