"""The whole journey: invent, pretrain, train privately, certify, export, verify, refuse, extract.

Runs the commands that you would type; each is printed before it runs. The machine is measured
first, so that you know how long all of it takes here. Ctrl-C stops, and the same command goes on
from there; after a finished demo it begins anew. Everything stays in one folder.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from demo_machine import FULL, QUICK, Machine, Scale, measure

if TYPE_CHECKING:
    import hushdoc
    from hushdoc.labels import LabelledDocument, Span
    from hushdoc.metrics import Score

TYPES = ("invoice", "receipt")
GOAL = 0.7
"""What every run reaches; most reach .78. The noise is drawn anew each time, so scores differ."""

PROMISED = 300.0
"""Seconds that the full demo takes at most, unless it says otherwise before it begins."""

MARKER = ".hushdoc-demo"
"""What the folder's demo is: its scale, and whether it is finished."""

INTERRUPTED = 130


def main() -> int:
    """Runs the demo and returns 0 if every command ended as expected and the goal is reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder (default: demo-output, or demo-quick)")
    parser.add_argument("--quick", action="store_true", help="the path alone, without the score")
    options = parser.parse_args()
    name, scale = ("quick", QUICK) if options.quick else ("full", FULL)
    out: Path = options.out or Path("demo-quick" if options.quick else "demo-output")
    try:
        return journey(out, name, scale)
    except KeyboardInterrupt:  # training has finished its step and saved
        stop()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to stop


def stop(*_: object) -> None:
    """Ends the process with one line: whatever is half-written never had its name."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(RuntimeError):  # it may have interrupted a print
        sys.stdout.flush()
    renew = "\r\x1b[K" * sys.stderr.isatty()
    line = f"{renew}Interrupted. What is done is kept, and the same command goes on from here.\n"
    os.write(sys.stderr.fileno(), line.encode())
    os._exit(INTERRUPTED)


def journey(out: Path, name: str, scale: Scale) -> int:
    """Takes the whole way, or what is left of it."""
    began = time.monotonic()
    goes_on = prepare(out, name)
    takes = measured(out, scale, goes_on)
    invent(out, scale, takes["invent"])
    train(
        out / "runs" / "public",
        "Pretraining a small model on the public documents",
        takes["pretrain"],
        f"--data {out}/public --public --public-overlap none --start small --box-level segment",
        f"--epochs {scale.epochs} --batch-size 8 --learning-rate 1.5e-3",
    )
    train(
        out / "runs" / "private",
        "Training it on the private documents: epsilon 8, delta 1e-5, one record per document",
        takes["train"],
        f"--data {out}/private --start {out}/runs/public --public-overlap none",
        "--epsilon 8 --delta 1e-5",
        f"--privacy-unit document --sampling-rate 0.05 --steps {scale.steps} "
        f"--expected-records {scale.expected}",
        "--trained encoder --learning-rate 2e-3 --name private-documents",
    )
    export(out, takes["rest"])
    check(out)
    say("Extracting from unseen pages")
    shown = sorted((out / "unseen").glob("*.json"))[0]
    command(f"extract {out}/model {shown} {trust(out)} --max-epsilon 8 --overlay {out}/overlay.png")
    score = score_unseen(out)
    mark(out, name, finished=True)
    return report(out, score, began, scale)


def report(out: Path, score: Score, began: float, scale: Scale) -> int:
    """Prints the score and where to look; returns the demo's exit code."""
    from hushdoc.system.progress import duration

    print(
        f"\nEntity F1 on {scale.unseen} unseen pages of invented text: {score.f1:.3f} (goal {GOAL})"
    )
    if scale is QUICK:
        print(f"This F1 means nothing: {scale.public} documents and {scale.steps} private steps")
        print("show the commands and train nothing useful. `make demo` trains a model that is.")
    print(f"\nLook at   {out}/overlay.png           the fields on an unseen page")
    print(f"          {out}/certificate.html      the certificate, for a privacy officer")
    print(f"          {out}/runs/private/training.png   epsilon while training")
    print(f"Took      {duration(time.monotonic() - began)}")
    if score.f1 < GOAL and scale is not QUICK:
        print(f"The score is below {GOAL}.", file=sys.stderr)
        return 1
    return 0


def prepare(out: Path, name: str) -> bool:
    """Clears the folder of a finished demo, and no other; returns whether to go on with one."""
    there = sorted(out.iterdir()) if out.is_dir() else []
    found = marked(out)
    if there and found is None:
        sys.exit(f"'{out}' holds something that is not an earlier demo. Choose another --out.")
    goes_on = found is not None and not found.get("finished", True)
    if goes_on and found.get("scale") != name:
        sys.exit(
            f"'{out}' holds an interrupted demo of the other scale, with or without --quick. Go on "
            "with that one, remove the folder, or choose another --out."
        )
    for path in there:  # the marker goes on saying that the demo is finished until all is gone
        if path.name.endswith(".partial") or (not goes_on and path.name != MARKER):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    out.mkdir(parents=True, exist_ok=True)
    mark(out, name, finished=False)
    return goes_on


def marked(out: Path) -> dict[str, Any] | None:
    """Returns what the marker of an earlier demo says; None where there is none."""
    try:
        return {**json.loads((out / MARKER).read_text() or "{}")}
    except FileNotFoundError:
        return None
    except ValueError:
        return {}


def mark(out: Path, name: str, *, finished: bool) -> None:
    """Writes the marker."""
    beside = out / f"{MARKER}.partial"
    beside.write_text(json.dumps({"scale": name, "finished": finished}) + "\n")
    beside.replace(out / MARKER)


def measured(out: Path, scale: Scale, goes_on: bool) -> dict[str, float]:
    """Measures the machine, chooses threads, and says how long what is left will take."""
    print("Measuring this machine by a few training steps ...", flush=True)
    import torch

    machine = measure(config((0, 400)))
    torch.set_num_threads(machine.threads)
    return announce(machine, out, scale, goes_on=goes_on)


def announce(machine: Machine, out: Path, scale: Scale, *, goes_on: bool) -> dict[str, float]:
    """Says how long what is left will take, and whether that is more than was promised."""
    from hushdoc.system.progress import duration

    takes = left(out, machine.seconds(scale))
    tried = ", ".join(
        f"{seconds:.2f} s by {threads} thread{'s' * (threads > 1)}"
        for threads, seconds in machine.steps.items()
    )
    slower = "; more are slower now" * machine.more_are_slower
    print(f"A training step takes {tried}{slower}. Training uses {machine.threads}.")
    what = "What is left of the interrupted demo" if goes_on else "All of it"
    print(f"{what} takes about {duration(sum(takes.values()))} here.")
    print("Ctrl-C stops, and the same command goes on from there.", flush=True)
    if sum(takes.values()) > PROMISED and scale is not QUICK:
        short = duration(sum(machine.seconds(QUICK).values()))
        print("Five minutes won't hold on this machine as it is now. The short way shows every")
        print(f"command in about {short} and trains nothing useful:  make demo QUICK=1", flush=True)
    return takes


def left(out: Path, seconds: dict[str, float]) -> dict[str, float]:
    """Returns how long each stage takes that is not done."""
    done = {
        "invent": all((out / name).is_dir() for name in ("public", "private", "unseen")),
        "pretrain": (out / "runs" / "public" / "checkpoint").is_dir(),
        "train": (out / "runs" / "private" / "checkpoint").is_dir(),
        "rest": False,
    }
    return {stage: 0.0 if done[stage] else seconds[stage] for stage in seconds}


def config(providers: tuple[int, int]) -> Any:
    """Returns what to invent: documents of some of our providers."""
    from hushdoc_training import invented

    return invented.InventedConfig(document_types=TYPES, providers=providers, labels="fields")


def invent(out: Path, scale: Scale, seconds: float) -> None:
    """Writes three folders of documents; only the first knows the first providers and layouts."""
    from hushdoc.system.progress import TaskProgress
    from hushdoc_training import invented

    say(
        "Inventing public documents, private ones from other providers and layouts, and unseen "
        "ones",
        seconds,
    )
    public, private = config((0, 400)), config((400, 800))
    for name, seed, count, made_by in (
        ("public", 1, scale.public, public),
        ("private", 2, scale.private, private),
        ("unseen", 3, scale.unseen, private),
    ):
        if (out / name).is_dir():
            print(f"{out}/{name}: done before", flush=True)
            continue
        with TaskProgress(f"{name} document") as progress:
            invented.write(
                out / name,
                seed=seed,
                count=count,
                config=made_by,
                images=name == "unseen",
                seen=progress.show,
            )


def train(run: Path, headline: str, seconds: float, *options: str, task: str = "kie") -> None:
    """Trains, goes on with a training that was interrupted, or keeps one that is finished."""
    say(headline, seconds)
    if (run / "checkpoint").is_dir():
        print(f"{run}: done before", flush=True)
        return
    if (run / "tokenizer.json").is_file():
        options = (*options, "--resume")
    else:  # it took no step
        shutil.rmtree(run, ignore_errors=True)
    command(f"train {task}", *options, f"--out {run}")


def export(out: Path, seconds: float, name: str = "demo-kie") -> None:
    """Seals the model with its certificate, under a key of its own."""
    say("Certifying and exporting: one ONNX file, one signed certificate", seconds)
    if not (out / "model").is_dir():
        shutil.rmtree(out / "keys", ignore_errors=True)
        command(f"keygen --out {out}/keys/demo --name demo")
        command(
            f"export {out}/runs/private --out {out}/model --key {out}/keys/demo.key",
            f"--name {name} --version 1 --issuer demo",
        )
    command(f"inspect {out}/model --trust {out}/keys/demo.trust.json --html {out}/certificate.html")


def check(out: Path, unit: str = "document") -> None:
    """Verifies the model; a stricter policy and a changed byte must be refused."""
    say("Verifying under a policy of epsilon <= 8")
    command(f"verify {out}/model {trust(out, unit)} --max-epsilon 8")
    say("A policy of epsilon <= 1 must refuse it")
    command(f"verify {out}/model {trust(out, unit)} --max-epsilon 1", expected=5)
    say("A model with one byte changed must be refused")
    tamper(out)
    command(f"verify {out}/tampered {trust(out, unit)} --max-epsilon 8", expected=4)


def trust(out: Path, unit: str = "document") -> str:
    """Returns the options that say whom to trust and what is protected."""
    return f"--trust {out}/keys/demo.trust.json --max-delta 1e-5 --unit {unit}"


def command(*parts: str, expected: int = 0, into: TextIO | None = None) -> None:
    """Prints and runs one hushdoc command; ends the demo if its exit code is another.

    What the command prints goes to the terminal, or into another stream.
    """
    from hushdoc.commands import command_line

    line = " ".join(parts)
    print(f"\n$ hushdoc {line}", flush=True)
    try:
        with contextlib.redirect_stdout(into or sys.stdout):
            code = command_line.main(shlex.split(line))
    except SystemExit as ended:
        code = int(ended.code or 0)
    if code != expected:
        sys.exit(f"That ended with exit code {code}; expected {expected}.")
    if expected:
        print(f"(exit code {code}, as expected)", flush=True)


def tamper(out: Path) -> None:
    """Copies the artifact and changes one byte in the middle of the model."""
    shutil.rmtree(out / "tampered", ignore_errors=True)
    shutil.copytree(out / "model", out / "tampered")
    victim = out / "tampered" / "onnx" / "model.onnx"
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)


def score_unseen(out: Path) -> Score:
    """Returns the sealed artifact's score on pages it has never seen."""
    import hushdoc
    from hushdoc import labelled_files
    from hushdoc.metrics import entity_score

    policy = hushdoc.Policy(
        trust=hushdoc.TrustStore.from_file(out / "keys" / "demo.trust.json"),
        max_epsilon=8,
        max_delta=1e-5,
        privacy_units=frozenset({"document"}),
    )
    model = hushdoc.KIEModel.load(out / "model", policy=policy)
    unseen = [labelled_files.read_one(name) for name in sorted((out / "unseen").glob("*.json"))]
    pairs = [(labelled.spans, found_spans(model, labelled)) for labelled in unseen]
    score = entity_score(pairs)
    (out / "score.json").write_text(json.dumps(score.to_dict(), indent=2) + "\n")
    return score


def found_spans(model: hushdoc.KIEModel, labelled: LabelledDocument) -> list[Span]:
    """Returns the fields that the model extracts, as spans."""
    from hushdoc.labels import Span

    return [
        Span(
            page=field.page, start=field.word_ids[0], stop=field.word_ids[-1] + 1, label=field.label
        )
        for field in model.extract(labelled.document).fields
    ]


def say(text: str, seconds: float = 0.0) -> None:
    """Prints a headline, with about how long it takes where that is long."""
    from hushdoc.system.progress import duration

    print(f"\n== {text}" + (f" (about {duration(seconds)})" if seconds else ""), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, stop)
    sys.exit(main())
