"""Extracts the fields of a folder of any size on a Ray cluster, or on this machine's cores.

    pip install 'hushdoc[cpu,pdf]' -r samples/ray_folder/requirements.txt
    python samples/ray_folder/extract.py documents --model model --policy policy.toml --out results

The driver checks the certificate against the policy, and so does every worker before it uses one
weight; both hold the same certificate. Documents, model, policy and results are on storage that all
machines share. Each part of the folder has one file of results, named by what is in it and written
whole or not at all: a worker that dies is replaced and its part done again, into the same file, and
a job that is started again does what is missing. `parts.json` names the files of results of the
folder as it is. Exit code 0: all were read in this run; 7: some could not be.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import hushdoc
from hushdoc.errors import HushdocError, InputError
from hushdoc.runtime.extraction import Failure
from hushdoc.system import atomic_files


class Worker:
    """One process of the cluster: loads the verified model once, then answers part after part."""

    def __init__(self, model: str, policy: str, certificate: str, out: str) -> None:
        """Loads the model; InputError where it is not the one that the driver checked."""
        self.model = hushdoc.load(model, policy=hushdoc.Policy.from_toml(policy))
        self.certificate, self.out = certificate, Path(out)
        if self.model.certificate.certificate_id != certificate:
            raise InputError(f"'{model}' is another model than the driver checked. Start again.")

    def __call__(self, part: dict[str, Any]) -> dict[str, Any]:
        """Writes the results of one part, a line of JSON each, and returns how many failed."""
        lines, failed, paths = [], 0, json.loads(part["paths"])
        answers = self.model.extract_many(paths, on_error="collect", reader="process")
        for path, answer in zip(paths, answers, strict=True):
            failed += isinstance(answer, Failure)
            lines.append(json.dumps({"path": path, **answer.to_dict()}) + "\n")
        about = json.dumps({"certificate": self.certificate, "documents": len(paths)}) + "\n"
        atomic_files.write_file(self.out / part["file"], "".join([about, *lines]).encode())
        return {"documents": len(paths), "failed": failed}


def files(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Yields path, size and time of each file, in an order that never changes."""

    def refuse(error: OSError) -> None:
        raise InputError(
            f"'{error.filename}' can't be listed: {error.strerror}. Name a folder of documents."
        ) from error

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = os.path.join(place, name)
            if not name.startswith(".") and os.path.isfile(path) and not os.path.islink(path):
                found = os.stat(path)
                yield path, found.st_size, found.st_mtime_ns


def parts(folder: Path, certificate: str, size: int) -> Iterator[dict[str, str]]:
    """Yields parts of a folder, each with the name of its file of results."""
    taken: list[tuple[str, int, int]] = []

    def part() -> dict[str, str]:
        digest = hashlib.sha256(json.dumps([certificate, taken]).encode()).hexdigest()
        return {"file": f"{digest[:32]}.jsonl", "paths": json.dumps([path for path, *_ in taken])}

    for found in files(folder):
        taken.append(found)
        if len(taken) == size:
            yield part()
            taken = []
    if taken:
        yield part()


def run(options: argparse.Namespace) -> int:
    """Answers every part that has no results yet; returns the exit code."""
    model = hushdoc.load(options.model, policy=hushdoc.Policy.from_toml(options.policy))
    certificate = model.certificate.certificate_id
    print(hushdoc.explain(model.certificate))
    options.out.mkdir(parents=True, exist_ok=True)
    if options.documents.resolve() in [options.out.resolve(), *options.out.resolve().parents]:
        raise InputError("The results would be documents of the next run. Name another folder.")
    named = list(parts(options.documents, certificate, options.part))
    missing = [part for part in named if not (options.out / part["file"]).exists()]
    print(f"{len(named)} parts, {len(missing)} of them to do.")
    failed = 0
    if missing:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report that it ran
        import ray

        ray.init(address=options.address, include_dashboard=False, log_to_driver=False)
        told = [options.model, options.policy, certificate, options.out.resolve()]
        answered = ray.data.from_items(missing, override_num_blocks=len(missing)).map(
            Worker,
            fn_constructor_args=[str(argument) for argument in told],
            compute=ray.data.ActorPoolStrategy(size=options.workers),
            num_cpus=1,
        )
        failed = sum(row["failed"] for row in answered.iter_rows())
        ray.shutdown()
    names = [part["file"] for part in named]
    atomic_files.write_file(options.out / "parts.json", json.dumps(names, indent=0).encode())
    print(f"Done: {options.out} ({failed} could not be read in this run)")
    return 7 if failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("documents", type=Path, help="folder of documents")
    parser.add_argument("--model", required=True, type=Path, help="the artifact")
    parser.add_argument("--policy", required=True, type=Path, help="what it must keep to")
    parser.add_argument("--out", required=True, type=Path, help="folder of results")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--part", type=int, default=64, help="documents a part (default: 64)")
    parser.add_argument("--address", help="of a Ray cluster (default: this machine's cores)")
    options = parser.parse_args(arguments)
    for name in ("documents", "model", "policy", "out"):
        setattr(options, name, getattr(options, name).resolve())
    try:
        return run(options)
    except HushdocError as error:
        print(f"ray_folder: {error.code}: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
