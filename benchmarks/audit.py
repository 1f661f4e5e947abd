"""Whether deliberate privacy bugs are caught, and the witness finds nothing wrong without them.

    python benchmarks/audit.py            all of them: `make audit`
    python benchmarks/audit.py --quick    two of them
    python benchmarks/audit.py --only noise-4-percent-short

First every check passes on the code as it is: the witness of each recipe, and the tests that the
patches name. Then each patch of tests/mutants is applied to a copy of the packages, and its check
has to fail there. Two processes work side by side. The last line is JSON:

    mutants      how many bugs were tried
    caught       how many of them their check found
    survivors    the names of the others: the exit code is 1 where there is one
    minutes      what it took
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import py_compile
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutants import ROOT, Mutant, PatchError, mutants

PARTS = ("sdk", "training", "export", "tests", "benchmarks", "docs", "samples", "pyproject.toml")
PATHS = ("sdk", "training", "export", "tests/shared")
WORKERS = 2
SECONDS = 200.0
"""No check may take longer."""
QUICK = ("clipping-is-off", "the-cap-is-not-held")

TABLE = ("--steps", "3", "--expected-records", "30")
SGD = ("--momentum", "0.9", "--learning-rate", "1")
SMALL = ("--learning-rate", "0.001")
COMMANDS = {
    "forms": ("kie",),
    "forms by windows": ("kie", "--privacy-unit", "sequence"),
    "forms by layers": ("kie", "--clipping", "layerwise", "--averaging", "half"),
    "forms by public words": ("kie", "--scaling", "public"),
    "forms, automatic and averaged": ("kie", "--clipping", "automatic", "--averaging", "ema"),
    "forms by low ranks": ("kie", "--trained", "lora:2"),
    "forms by low ranks and public words": ("kie", "--trained", "lora:2", "--scaling", "public"),
    "forms by corrected moments": ("kie", "--optimizer", "adam-corrected", *SMALL),
    "forms by public moments": ("kie", "--optimizer", "adam-public", *SMALL),
    "forms by the top layer": ("kie", "--trained", "top:1"),
    "forms, all weights": ("kie", "--trained", "all"),
    "forms by biases": ("kie", "--trained", "biases"),
    "forms by biases, all in each step": ("kie", "--trained", "biases", "--sampling-rate", "1"),
    "forms by the output layer": ("kie", "--trained", "output"),
    "forms by two layers and public words": (
        *("kie", "--trained", "output", "--scaling", "public", "--read-layers", "2"),
    ),
    "forms by momentum": ("kie", "--optimizer", "sgd", *SGD),
    "forms of words alone": ("kie words",),
    "forms of words alone by the output layer": ("kie words", "--trained", "output"),
    "forms by LayoutLMv3": ("kie layoutlmv3",),
    "forms with images": ("kie images", "--trained", "all"),
    "questions": ("docvqa",),
    "questions by document, the reader alone": (
        *("docvqa", "--privacy-unit", "document", "--trained", "output"),
    ),
    "questions by providers' changes": (
        *("docvqa", "--algorithm", "fl-provider-dp", "--learning-rate", "0.01"),
    ),
    "questions of two clients' providers": (
        *("federated_docvqa", "--algorithm", "fl-provider-dp", "--learning-rate", "0.01"),
    ),
    "questions of two clients": ("federated_docvqa", "--privacy-unit", "provider"),
    "images": ("images",),
    "drawn pages": ("diffusion", "--trained", "all"),
    "drawn pages by a denoiser for each class": ("diffusion", "--trained", "denoisers"),
    "drawn pages by layouts of classes": ("diffusion", "--trained", "layouts"),
    "forms of two clients": ("federated",),
    "forms of two clients by public words": (
        *("federated", "--trained", "output", "--scaling", "public"),
    ),
    "forms of clients that may be silent": (
        *("federated", "--clients", "4", "--mode", "threshold", "--silent", "1"),
        *("--sampling-rate", "0.6"),
    ),
    "forms of clients that train alone": (
        *("federated", "--algorithm", "fedavg-dp", "--local-steps", "2"),
    ),
    "forms of two clients' providers": (
        *("federated", "--algorithm", "fl-provider-dp", "--learning-rate", "0.01"),
    ),
    "clauses": ("clauses", "--mode", "dp-sgd", *TABLE),
    "classes": ("classifier", "--mode", "dp-sgd", *TABLE),
    "terms of clauses": ("clauses", "--mode", "term-dp", "--rows", "65536"),
    "terms of classes": ("classifier", "--mode", "term-dp", "--rows", "65536"),
    "votes of images": (
        *("selection", "--label", "a", "--label", "b", "--rounds", "2", "--quiet"),
        *("--public", "invented:receipt", "--public-documents", "10", "--pages", "4"),
    ),
    "votes": ("evolution", "--vote", "moments", "--pool", "20", "--rounds", "2", "--quiet"),
}
"""What the witness looks at, in settings that take seconds; a second word names its start."""

CAUGHT, SURVIVED, BROKEN = 1, 0, 3


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of one bug, or of the code as it is."""

    name: str
    code: int
    said: str


def main() -> int:
    """Runs everything and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="in a minute, two bugs")
    parser.add_argument("--only", action="append", metavar="NAME", help="try this bug alone")
    options = parser.parse_args()
    began = time.monotonic()
    chosen = options.only or (QUICK if options.quick else None)
    tried = [mutant for mutant in mutants() if chosen is None or mutant.name in chosen]
    if chosen is not None and len(tried) != len(chosen):
        parser.error(f"tests/mutants holds no such bug: {', '.join(chosen)}")
    _load_what_is_heavy()
    with tempfile.TemporaryDirectory(prefix="hushdoc-audit-") as scratch:
        copies = [_copy(Path(scratch) / str(number)) for number in range(WORKERS)]
        if not _sound(tried, copies, whole=chosen is None):
            return 2
        results = _in_turn(copies, [_try(mutant) for mutant in tried])
    survivors = sorted(found.name for found in results if found.code != CAUGHT)
    summary = {
        "mutants": len(results),
        "caught": len(results) - len(survivors),
        "survivors": survivors,
        "minutes": round((time.monotonic() - began) / 60, 2),
        "quick": options.quick,
    }
    print(json.dumps(summary))
    return 1 if survivors else 0


def _sound(tried: list[Mutant], copies: list[Path], *, whole: bool) -> bool:
    """Whether every check passes on the code as it is."""
    checks = sorted({mutant.check for mutant in tried} | (set(COMMANDS) if whole else set()))
    tests = [check for check in checks if "::" in check]
    tasks = [_plain(name, [name]) for name in checks if name in COMMANDS]
    half = (len(tests) + 1) // 2
    tasks += [_plain("tests", part) for part in (tests[:half], tests[half:]) if part]
    bad = [found for found in _in_turn(copies, tasks) if found.code != SURVIVED]
    for found in bad:
        print(f"{found.name} fails on the code as it is:\n{found.said}")
    return not bad


Task = Callable[[Path], Result]


def _plain(name: str, checks: list[str]) -> Task:
    return lambda copy: Result(name=name, **_alone(copy, checks))


def _try(mutant: Mutant) -> Task:
    def run(copy: Path) -> Result:
        began = time.monotonic()
        try:
            with mutant.applied(copy):
                found = Result(name=mutant.name, **_alone(copy, [mutant.check]))
        except PatchError as error:
            found = Result(name=mutant.name, code=BROKEN, said=str(error))
        words = {CAUGHT: "caught", SURVIVED: "SURVIVED", BROKEN: "BROKEN"}[found.code]
        seconds = time.monotonic() - began
        print(f"{words:9} {mutant.name:40} {seconds:5.1f} s  by {mutant.check}", flush=True)
        if found.code != CAUGHT:
            print(found.said, flush=True)
        return found

    return run


def _in_turn(copies: list[Path], tasks: list[Task]) -> list[Result]:
    """Runs tasks on whichever copy is free."""
    free = list(copies)

    def run(task: Task) -> Result:
        copy = free.pop()
        try:
            return task(copy)
        finally:
            free.append(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(run, tasks))


def _copy(folder: Path) -> Path:
    """Returns a copy of the repository, compiled: a changed file is told by its content."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / part, ignore=ignored)
        else:
            shutil.copy(source, folder / part)
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    for part in PATHS:
        compileall.compile_dir(folder / part, quiet=2, invalidation_mode=mode)
    return folder


def _load_what_is_heavy() -> None:
    """Imports what no bug is in, so that each process has it from its parent."""
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    import hypothesis  # noqa: F401
    import opacus  # noqa: F401
    import pytest  # noqa: F401
    import torch
    import transformers

    torch.set_num_threads(1)
    assert transformers.LayoutLMForTokenClassification


def _alone(copy: Path, checks: list[str]) -> dict[str, Any]:
    """Runs checks in a process of their own that has loaded nothing of the repository."""
    log = copy / "said.txt"
    process = os.fork()
    if not process:
        os._exit(_child(copy, checks, log))
    until = time.monotonic() + SECONDS * len(checks)
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            break
        if time.monotonic() > until:
            os.kill(process, 9)
            os.waitpid(process, 0)
            code = BROKEN
            break
        time.sleep(0.02)
    said = log.read_text(encoding="utf-8", errors="replace")[-3000:]
    return {"code": code if code in (CAUGHT, SURVIVED) else BROKEN, "said": said}


def _child(copy: Path, checks: list[str], log: Path) -> int:
    with log.open("w") as stream:
        for number in (1, 2):
            os.dup2(stream.fileno(), number)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    try:
        os.chdir(copy)
        sys.dont_write_bytecode = True
        paths = [str(copy / part) for part in PATHS]
        sys.path[:0] = paths
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # for what a test starts
        code = _witnessed(checks[0], copy) if checks[0] in COMMANDS else _tested(checks)
    except BaseException:
        traceback.print_exc()
        code = BROKEN
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _witnessed(name: str, copy: Path) -> int:
    import hushdoc_witnessed

    import hushdoc_training
    from hushdoc.errors import HushdocError
    from hushdoc_training.witness.witness import witness

    assert Path(hushdoc_training.__file__).is_relative_to(copy)
    task, *further = COMMANDS[name]
    with tempfile.TemporaryDirectory(prefix="hushdoc-start-") as folder:
        task, _, of = task.partition(" ")
        if task in ("kie", "docvqa", "federated", "federated_docvqa"):
            make = "pointer" if task.endswith("docvqa") else of or "public"
            start = getattr(hushdoc_witnessed, f"{make}_start")(Path(folder))
            command = getattr(hushdoc_witnessed, task)(start, *further)
        elif task == "images":
            command = hushdoc_witnessed.images(*further)
        elif task == "diffusion":
            start = hushdoc_witnessed.diffusion_start(Path(folder), trained=further[1])
            command = hushdoc_witnessed.diffusion(start, *further)
        else:
            command = (
                "synthesize" if task in ("evolution", "selection") else "train",
                task,
                *further,
            )
        try:
            found = witness(command)
        except (HushdocError, ValueError) as error:  # the command refuses to go on
            print(f"{type(error).__name__}: {error}")
            return CAUGHT
    print("\n".join(found.lines()))
    return SURVIVED if found.agrees else CAUGHT


def _tested(tests: list[str]) -> int:
    import pytest

    options = ["-x", "-q", "-p", "no:cacheprovider", "--timeout", "150", "-m", "not gpu"]
    code = int(pytest.main([*options, *tests]))
    return code if code in (CAUGHT, SURVIVED) else BROKEN


if __name__ == "__main__":
    sys.exit(main())
