"""Questions: train a pointer, privately by provider, export, verify, ask, refuse, attack.

Runs the commands that you would type; each is printed before it runs. A provider, whoever issued
documents, is what is protected. The same documents are also trained on without privacy, so that
the attack on providers can be seen before and after. Ctrl-C stops, and the same command goes on
from there; after a finished demo it begins anew. Everything stays in one folder.
"""

from __future__ import annotations

import argparse
import io
import json
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import demo
from demo import command, say
from demo_machine import BATCH, measure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demo_machine import Machine

    from hushdoc.labels import LabelledDocument

KEYS = ("date", "email", "iban", "provider_name", "total")
"""What is asked for. No receipt has an account number, and many lack an e-mail address."""

WORDINGS, OTHER_WORDINGS = (0, 4), (4, 15)
"""Of each key: of public documents, so few that a reader learns them within minutes; and of all
others, which private documents teach."""

KNOWN, PROTECTED, OTHERS = (0, 400), (400, 800), (800, 1200)
"""Numbers of the providers that are learned from, protected, and never seen."""

ASKED, NOWHERE = "What is the date of this receipt?", "What is the IBAN?"
"""A question that the shown page answers, and one that no receipt does."""

SHOWN_KEYS = ("date", "iban")
"""What both ask for."""

SHOWN = 8
"""The seed of that page."""

GOAL = 0.65
"""ANLS below which the demo fails, or below the start's; noise is drawn anew each time."""

PROMISED = 360.0
"""Seconds that the full demo takes at most, unless it says otherwise before it begins."""

LEARNED, READ, POINTED, PRIVATE = 10.6, 4.3, 0.4, 0.12
"""What a page costs in windows of the machine's measurement: where MiniLM learns its fields, where
MiniLM reads it with its questions, where the reader alone learns of it without privacy, and where
the reader's last layer does with it."""

LOOKS = 6
"""How often the attack reads a page: by the model and its start, hidden answers and no question."""

REST_STEPS = 200
"""What importing, exporting, verifying and asking cost, in steps of the measurement by a thread."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the model answered to a question, and what its page says."""

    question: str
    answer: str | None
    right: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether the answer stands on the page; where none does, whether none was given."""
        return self.answer in (self.right or (None,))

    def __str__(self) -> str:
        """Returns it in words."""
        found, expected = self.answer or "no answer", " or ".join(self.right) or "no answer"
        return f"{self.question} Found: {found}. Expected: {expected}."


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How many documents and steps; the quick one shows the path, not the quality."""

    encoder: str = "minilm"
    public: int = 320
    private: int = 160
    asked: int = 20  # of each side, by the attack; and of unseen providers, for the score
    fields: float = 1.0  # passes over the public documents that teach their fields
    epochs: float = 12.0  # passes of the reader
    providers: int = 130  # about how many issued the private documents: all are in each step
    quick: bool = False


FULL = Scale()
QUICK = Scale(
    encoder="small",
    public=24,
    private=24,
    asked=6,
    fields=0.5,
    epochs=1,
    providers=24,
    quick=True,
)


def main() -> int:
    """Runs the demo and returns 0 if every command ended as expected and the goal is reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder (default: demo-docvqa-output, or -quick)")
    parser.add_argument("--quick", action="store_true", help="the path alone, without answers")
    options = parser.parse_args()
    name, scale = ("quick", QUICK) if options.quick else ("output", FULL)
    try:
        return journey(options.out or Path(f"demo-docvqa-{name}"), f"docvqa-{name}", scale)
    except KeyboardInterrupt:  # training has finished its step and saved
        demo.stop()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to stop


def journey(out: Path, name: str, scale: Scale) -> int:
    """Takes the whole way, or what is left of it."""
    began = time.monotonic()
    goes_on = demo.prepare(out, name)
    takes = measured(out, scale, goes_on)
    invent(out, scale)
    learn(out, scale, takes)
    demo.export(out, takes["rest"], "demo-docvqa")
    demo.check(out, "provider")
    given = ask(out)
    attack(out, takes["attack"])
    worth = scores(out)
    demo.mark(out, name, finished=True)
    return report(out, given, worth, began, scale)


def report(
    out: Path, given: list[Given], worth: dict[str, float], began: float, scale: Scale
) -> int:
    """Prints the scores and where to look; returns the demo's exit code."""
    from hushdoc.system.progress import duration

    print(f"\nANLS on {scale.asked} pages of unseen providers, all of invented text:")
    for what, found in worth.items():
        print(f"  {what:15} {found:.3f}")
    if scale.quick:
        print(f"Answers and scores mean nothing: {scale.public} documents show the commands and")
        print("train nothing useful. `make demo-docvqa` trains a model.")
    print(f"\nLook at   {out}/answer.png          an answer on a page")
    print(f"          {out}/certificate.html    the certificate, for a privacy officer")
    print(f"Took      {duration(time.monotonic() - began)}")
    failures = [] if scale.quick else [*broken(given, worth)]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def broken(given: list[Given], worth: dict[str, float]) -> Iterator[str]:
    """Yields what the full demo promises and the private model did not keep."""
    for one in given:
        if not one.is_right:
            yield f"The private model's answer is wrong. {one}"
    goal = max(GOAL, worth["public"])
    if worth["private"] < goal:
        yield f"The private model's ANLS is {worth['private']:.3f}; expected {goal:.3f} or more."


def measured(out: Path, scale: Scale, goes_on: bool) -> dict[str, float]:
    """Measures the machine, chooses threads, and says how long what is left will take."""
    print("Measuring this machine by a few training steps ...", flush=True)
    import torch

    from hushdoc.system.progress import duration

    machine = measure(config(KNOWN))
    torch.set_num_threads(machine.threads)
    takes = left(out, seconds_of(machine, scale))
    what = "What is left of the interrupted demo" if goes_on else "All of it"
    print(f"{what} takes about {duration(sum(takes.values()))} here.")
    print("Ctrl-C stops, and the same command goes on from there.", flush=True)
    if sum(takes.values()) > PROMISED and not scale.quick:
        print("Six minutes won't hold on this machine as it is now. The short way shows every")
        print("command and trains nothing useful:  make demo-docvqa QUICK=1", flush=True)
    return takes


def seconds_of(machine: Machine, scale: Scale) -> dict[str, float]:
    """Returns about how long each stage takes."""
    from hushdoc_training.recipes.docvqa import public_inputs
    from hushdoc_training.recipes.docvqa.settings import SCALED

    window = machine.steps[machine.threads] / BATCH
    read = READ * (scale.private + public_inputs.NUM_DOCUMENTS)
    private = read + PRIVATE * scale.private * SCALED.steps
    return {
        "fields": window * LEARNED * scale.public * scale.fields,
        "public": window * scale.public * (READ + POINTED * scale.epochs),
        "private": window * private,
        "not-private": window * scale.private * (READ + POINTED * scale.epochs),
        "rest": machine.steps[1] * REST_STEPS,
        "attack": window * READ * LOOKS * 4 * scale.asked,
    }


def left(out: Path, seconds: dict[str, float]) -> dict[str, float]:
    """Returns how long each stage takes that is not done."""
    done = {name for name in seconds if (out / "runs" / name / "checkpoint").is_dir()}
    return {name: 0.0 if name in done else seconds[name] for name in seconds}


def config(providers: tuple[int, int], wordings: tuple[int, int] = WORDINGS) -> Any:
    """Returns what to invent: receipts of some of our providers."""
    from hushdoc_training import invented

    return invented.InventedConfig(
        document_types=("receipt",), providers=providers, questions="keyed", wordings=wordings
    )


def invent(out: Path, scale: Scale) -> None:
    """Writes the documents: public, private, others of the private ones' providers, and unseen."""
    from hushdoc import labelled_files
    from hushdoc_training import invented

    say("Inventing public documents, private ones of other providers, and ones to ask about")
    for name, seed, count, numbers, wordings in (
        ("public", 1, scale.public, KNOWN, WORDINGS),
        ("private", 2, scale.private, PROTECTED, OTHER_WORDINGS),
        ("members", 3, scale.asked, PROTECTED, OTHER_WORDINGS),
        ("unseen", 4, scale.asked, OTHERS, OTHER_WORDINGS),
    ):
        if not (out / f"{name}.jsonl").is_file():
            made = invented.documents(seed=seed, count=count, config=config(numbers, wordings))
            labelled_files.write(out / f"{name}.jsonl", asked(made))
        print(f"{out}/{name}.jsonl: {count} documents", flush=True)
    if not (out / "page").is_dir():
        invented.write(out / "page", seed=SHOWN, count=1, config=config(OTHERS))


def asked(documents: Iterator[LabelledDocument]) -> Iterator[LabelledDocument]:
    """Yields documents with their questions about KEYS."""
    for item in documents:
        kept = tuple(question for question in item.questions if question.key in KEYS)
        yield replace(item, questions=kept)


def learn(out: Path, scale: Scale, takes: dict[str, float]) -> None:
    """Trains publicly, privately by provider, and on the private documents without privacy.

    An encoder that has learned to find fields is what a reader of questions learns soonest on.
    """
    runs = out / "runs"
    private = (
        f"--data {out}/private.jsonl --start {runs}/public --public-overlap none "
        "--name private-documents"
    )
    openly = f"--data {out}/public.jsonl --public --public-overlap none"
    demo.train(
        runs / "fields",
        "Teaching an encoder the fields of public documents",
        takes["fields"],
        f"{openly} --start {scale.encoder} --box-level segment",
        f"--epochs {scale.fields:g} --batch-size 8 --learning-rate 5e-4",
    )
    demo.train(
        runs / "public",
        "Teaching a reader to find what is asked for on public documents",
        takes["public"],
        f"{openly} --start {runs}/fields --trained output",
        f"--epochs {scale.epochs:g} --batch-size 4 --learning-rate 1e-3",
        task="docvqa",
    )
    demo.train(
        runs / "private",
        "Training it privately: epsilon 8, delta 1e-5, one record per provider",
        takes["private"],
        f"{private} --epsilon 8 --delta 1e-5 --expected-records {scale.providers}",
        task="docvqa",
    )
    demo.train(
        runs / "not-private",
        "Training it on the same documents without privacy, to be attacked beside it",
        takes["not-private"],
        f"{private} --not-private --trained output --batch-size 8",
        f"--epochs {scale.epochs:g} --learning-rate 1e-3",
        task="docvqa",
    )


def ask(out: Path) -> list[Given]:
    """Returns answers about a page of an unseen provider: to what stands there, and what does not.

    Each is shown as a user sees it, then read as a program does.
    """
    from hushdoc import labelled_files

    [path] = sorted((out / "page").glob("*.json"))
    trusted = f"{demo.trust(out, 'provider')} --max-epsilon 8"
    say("Asking about a page of a provider that no training saw")
    command(f'ask {out}/model {path} -q "{ASKED}" {trusted} --overlay {out}/answer.png')
    say("The page does not answer this")
    command(f'ask {out}/model {path} -q "{NOWHERE}" {trusted}')
    say("Comparing both answers with what stands on the page")
    printed = io.StringIO()
    both = f'-q "{ASKED}" -q "{NOWHERE}"'
    command(f"ask {out}/model {path} {both} {trusted} --json", into=printed)
    told = [item["answer"]["text"] for item in json.loads(printed.getvalue())["answers"]]
    questions = labelled_files.read_one(path).questions
    given = []
    for question, key, answer in zip((ASKED, NOWHERE), SHOWN_KEYS, told, strict=True):
        right = {text for one in questions if one.key == key for text in one.answers}
        given.append(Given(question=question, answer=answer, right=tuple(sorted(right))))
        print(given[-1], flush=True)
    return given


def attack(out: Path, seconds: float) -> None:
    """Guesses which providers were trained on, without privacy and with it."""
    say("Guessing which providers were trained on: without privacy, then with it", seconds)
    for run in ("not-private", "private"):
        command(
            f"audit providers {out}/runs/{run} --start {out}/runs/public --quick",
            f"--members {out}/members.jsonl --others {out}/unseen.jsonl",
        )


def scores(out: Path) -> dict[str, float]:
    """Returns what each model's answers about pages of unseen providers are worth, as ANLS."""
    import torch

    from hushdoc import labelled_files
    from hushdoc_training.recipes.docvqa.scores import Scorer
    from hushdoc_training.recipes.docvqa.start import start_from

    unseen = list(labelled_files.read(out / "unseen.jsonl"))
    worth = {}
    for run in ("public", "private", "not-private"):
        scorer = Scorer(start=start_from(str(out / "runs" / run)), device=torch.device("cpu"))
        worth[run] = fmean(score.nls for score in scorer.score(unseen))
    (out / "score.json").write_text(json.dumps(worth, indent=2) + "\n")
    return worth


if __name__ == "__main__":
    signal.signal(signal.SIGINT, demo.stop)
    sys.exit(main())
