"""The verb `train`; torch is imported only when it runs."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.errors import MissingExtraError
from hushdoc_training.commands import classifier, clauses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hushdoc.certificate.claim import PublicData
    from hushdoc.labels import LabelledDocument
    from hushdoc_training.data.dataset import Source
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.privacy.plan import PrivacyPlan
    from hushdoc_training.recipes.kie.start import Start

DESCRIPTION = """Trains a model that finds fields in documents, privately unless told otherwise.

  hushdoc train kie --data invented:form --public --out runs/public
  hushdoc train kie --data path/to/forms --start runs/public --epsilon 8 --out runs/private
  hushdoc export runs/private --out model --key release.key

All windows of a document are one record: it is clipped once, and epsilon holds for the whole
document. Sampling rate, steps and divisor are yours to choose without looking at the data; noise
is calibrated to the target. Ctrl-C finishes the step and saves; go on with --resume.

With --ledger, all runs on the same documents share one budget: see `hushdoc ledger --help`."""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb to the command line."""
    train = verbs.add_parser(
        "train",
        help="train a document model with differential privacy",
        description="Trains a document model, privately unless told otherwise. "
        "`hushdoc train TASK --help` says how.",
    )
    tasks = train.add_subparsers(title="tasks", dest="task", required=True, metavar="TASK")
    clauses.register(tasks)
    classifier.register(tasks)
    parser = tasks.add_parser(
        "kie",
        help="key information extraction: fields of invoices, receipts, forms",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, refuse_usage=parser.error)
    data = parser.add_argument_group("documents")
    data.add_argument(
        "--data", required=True, help="FUNSD folder, XFUND file, or invented:KIND[+KIND]"
    )
    data.add_argument("--documents", type=int, help="how many (default: all, or 1000 invented)")
    data.add_argument(
        "--labels",
        choices=("form", "fields"),
        default="form",
        help="what invented documents carry: header/question/answer, or named fields",
    )
    data.add_argument("--seed", type=int, default=0, help="of invented documents and fresh weights")
    data.add_argument("--name", help="what the certificate calls the documents (default: --data)")
    where = parser.add_argument_group("model and output")
    where.add_argument("--out", type=Path, required=True, help="a new folder for the run")
    where.add_argument(
        "--resume", action="store_true", help="continue the interrupted run in --out"
    )
    where.add_argument(
        "--start",
        default="minilm",
        help="minilm, small, a run folder, a transformers folder or a hub id of LayoutLM, "
        "LayoutLMv3 or LiLT (default: minilm)",
    )
    where.add_argument(
        "--public-overlap",
        choices=("none", "unknown", "partial", "contained"),
        default="unknown",
        help="how far the public data named here (published weights, --public documents) may hold "
        "documents that are to be protected (default: unknown; invented ones: none)",
    )
    where.add_argument(
        "--new-labels", action="store_true", help="fresh output layer if the labels differ"
    )
    where.add_argument("--max-tokens", type=int, default=128, help="window length (default: 128)")
    where.add_argument(
        "--images",
        action="store_true",
        help="it reads the image of each page beside its words: LayoutLMv3 alone, and every "
        "document must have images; a run that --start names keeps its own way",
    )
    where.add_argument(
        "--box-level", choices=("word", "segment"), default="word", help="which boxes it reads"
    )
    where.add_argument(
        "--word-order",
        choices=("given", "reading"),
        default="given",
        help="reading: the words of each page are sorted by their boxes, here and by whatever runs "
        "the model; a run that --start names keeps its own (default: given)",
    )
    privacy = parser.add_argument_group("privacy")
    mode = privacy.add_mutually_exclusive_group()
    mode.add_argument("--public", action="store_true", help="the documents are public: no privacy")
    mode.add_argument(
        "--not-private",
        action="store_true",
        help="train on private documents without privacy; the certificate says so",
    )
    mode.add_argument("--epsilon", type=float, default=8.0, help="budget (default: 8)")
    privacy.add_argument("--delta", type=float, help="(default: the ledger's, else 1e-5)")
    privacy.add_argument(
        "--accountant",
        choices=("pld", "rdp"),
        default="pld",
        help="how noise is calibrated: privacy loss distributions, or Renyi's more noise "
        "(default: pld)",
    )
    privacy.add_argument(
        "--ledger",
        type=Path,
        metavar="FILE",
        help="budget of these documents over all runs, from `hushdoc ledger init`; the certificate "
        "then states what all of them spend together",
    )
    privacy.add_argument(
        "--documents-changed",
        action="store_true",
        help="documents were added, removed or relabelled since the ledger's last run; all runs "
        "count for all of them",
    )
    privacy.add_argument("--privacy-unit", choices=("document", "sequence"), default="document")
    privacy.add_argument(
        "--sampling-rate", type=float, default=0.2, help="per step and record (default: 0.2)"
    )
    privacy.add_argument("--steps", type=int, default=200, help="private steps (default: 200)")
    privacy.add_argument("--clipping-norm", type=float, default=0.1, help="(default: 0.1)")
    privacy.add_argument(
        "--expected-records", type=int, default=32, help="divisor of the noised sum (default: 32)"
    )
    privacy.add_argument(
        "--tuned-on",
        choices=("none", "public-data", "unaccounted"),
        default="none",
        help="on what the settings were chosen; 'none' is one run, fixed beforehand",
    )
    privacy.add_argument(
        "--trained",
        choices=("all", "encoder", "biases", "output"),
        default="encoder",
        help="which parameters learn and get noise: all; all but word embeddings; biases, norms "
        "and output layer; or the output layer alone, for a hundred documents (default: encoder)",
    )
    privacy.add_argument(
        "--backend",
        choices=("book-keeping", "opacus", "one-by-one"),
        default="book-keeping",
        help="how gradients are clipped, all to the same numbers: in one backward pass; by Opacus' "
        "hooks, which know fewer layers; by one pass for each record (default: book-keeping)",
    )
    training = parser.add_argument_group("training")
    training.add_argument("--learning-rate", type=float, help="(default: 5e-4 private, 3e-4 plain)")
    training.add_argument("--epochs", type=float, default=1.0, help="plain passes (default: 1)")
    training.add_argument("--batch-size", type=int, default=16, help="plain batch (default: 16)")
    training.add_argument("--quiet", action="store_true", help="show no progress")


def run(options: argparse.Namespace) -> int:
    """Trains; returns 0, or 130 after Ctrl-C."""
    for package in ("torch", "transformers", "opacus"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "training")
    if options.images and options.start in ("minilm", "small"):
        options.refuse_usage(f"--images needs a LayoutLMv3; --start {options.start} is none")
    ledger = _ledger(options)
    plan = None if options.public or options.not_private else _plan(options, ledger)

    from hushdoc_training.data import dataset
    from hushdoc_training.recipes.kie import start

    source = dataset.Source(
        location=options.data,
        documents=options.documents,
        seed=options.seed,
        labels=options.labels,
    )
    images = options.images or start.reads_images(options.start)
    with dataset.opened(source, images=images) as documents:
        return _train(options, source, documents, ledger=ledger, plan=plan)


def _train(
    options: argparse.Namespace,
    source: Source,
    documents: Sequence[LabelledDocument],
    *,
    ledger: Ledger | None,
    plan: PrivacyPlan | None,
) -> int:
    from hushdoc.labels import LabelSet
    from hushdoc_training.privacy import claims
    from hushdoc_training.recipes.kie import settings
    from hushdoc_training.recipes.kie import start as kie_start
    from hushdoc_training.recipes.kie import training as kie

    public_texts = source.is_invented or options.public
    start = kie_start.start_from(
        options.start,
        LabelSet.from_documents(documents),
        max_tokens=options.max_tokens,
        box_level=options.box_level,
        images=options.images,
        word_order=options.word_order,
        new_labels=options.new_labels,
        vocabulary=lambda: (
            [
                word.text
                for labelled in documents
                for page in labelled.document.pages
                for word in page.words
            ]
            if public_texts
            else []
        ),
        resumed=options.out if options.resume else None,
        seed=options.seed,
    )
    name = options.name or _name(source, ledger)
    weights = _weights(start, options)
    if plan is not None:
        private = settings.PrivateSettings(
            learning_rate=options.learning_rate or 5e-4,
            trained=options.trained,
            backend=options.backend,
        )
        outcome = kie.train_private(
            start,
            documents,
            plan,
            private,
            out=options.out,
            name=name,
            public_data=weights,
            hyperparameter_tuning=options.tuned_on,
            ledger=ledger,
            documents_changed=options.documents_changed,
            resume=options.resume,
            quiet=options.quiet,
        )
    else:
        plain = settings.PlainSettings(
            epochs=options.epochs,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate or 3e-4,
            segment_shuffling=0.3 if source.is_invented else 0.0,
            token_noise=0.2 if options.public else 0.0,
            label_smoothing=0.1 if options.public else 0.0,
            seed=options.seed,
        )
        history = (*kie.history(start), *weights)
        training = kie.described(start)
        claim = (
            claims.public((*history, _public(name, source.is_invented, options)), training=training)
            if options.public
            else claims.not_private(name, history, training=training)
        )
        outcome = kie.train_plain(
            start,
            documents,
            plain,
            out=options.out,
            claim=claim,
            resume=options.resume,
            quiet=options.quiet,
        )
    if outcome.interrupted:
        print(
            f"Interrupted after {outcome.charged} steps; saved. Continue with the same command and "
            "--resume."
        )
        return 130
    print(f"Checkpoint: {options.out / 'checkpoint'}")
    print(f"Plot:       {options.out / 'training.png'}")
    return 0


def _ledger(options: argparse.Namespace) -> Ledger | None:
    """Returns the ledger that the options name; one without privacy is a usage error."""
    if options.ledger is None:
        if options.documents_changed:
            options.refuse_usage("--documents-changed says something to a --ledger; none is given")
        return None
    if options.public or options.not_private:
        options.refuse_usage("--ledger counts private training; leave --public or --not-private")
    from hushdoc_training.ledger.ledger import Ledger

    return Ledger.open(options.ledger)


def _name(source: Source, ledger: Ledger | None) -> str:
    """Returns what the certificate calls the documents where nobody said so."""
    if ledger is not None:
        return ledger.data
    return source.location if source.is_invented else Path(source.location).name


def _plan(options: argparse.Namespace, ledger: Ledger | None) -> PrivacyPlan:
    """Returns the plan the options ask for; a wrong number is a usage error."""
    from hushdoc_training.privacy.plan import PrivacyPlan

    delta = options.delta
    if delta is None:
        delta = 1e-5 if ledger is None else ledger.delta
    try:
        return PrivacyPlan.calibrated(
            epsilon=options.epsilon,
            delta=delta,
            privacy_unit=options.privacy_unit,
            sampling_rate=options.sampling_rate,
            steps=options.steps,
            clipping_norm=options.clipping_norm,
            expected_records=options.expected_records,
            accountant=options.accountant,
        )
    except ValueError as error:
        options.refuse_usage(str(error))
        raise


def _weights(start: Start, options: argparse.Namespace) -> tuple[PublicData, ...]:
    """Returns what published starting weights had learned from; a checkpoint says so itself."""
    from hushdoc.certificate.claim import PublicData

    if start.claim is not None or start.name == "small":
        return ()
    return (
        PublicData(
            name=f"{start.name} weights",
            uses=("pretraining", "vocabulary"),
            uri=None,
            digest=None,
            privacy_status="published weights; what they were trained on is their publisher's word",
            overlap_with_protected=options.public_overlap,
        ),
    )


def _public(name: str, invented: bool, options: argparse.Namespace) -> PublicData:
    from hushdoc.certificate.claim import PublicData

    return PublicData(
        name=name,
        uses=("pretraining", "vocabulary"),
        uri=None,
        digest=None,
        privacy_status="invented by a generator" if invented else "declared public by the trainer",
        overlap_with_protected="none" if invented else options.public_overlap,
    )
