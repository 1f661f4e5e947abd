"""What `train clauses` and `train classifier` do alike: private tables, and what they print."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from hushdoc.commands.parsing import usage_errors
from hushdoc_training.commands import training_options

if TYPE_CHECKING:
    from hushdoc.certificate.claim import DataAccess
    from hushdoc_training.audit.roc import Attack
    from hushdoc_training.crf.corpus import Corpus
    from hushdoc_training.crf.private_fitting import Settings
    from hushdoc_training.private_view import PrivateView
    from hushdoc_training.recipes.hashed.public_texts import PublicText
    from hushdoc_training.recipes.hashed.table_tasks import TableTask
    from hushdoc_training.table_checkpoint import TableCheckpoint

Text = TypeVar("Text", bound="HasText")

INVENTED = "invented:contract"


class HasText(Protocol):
    """A contract or a message."""

    @property
    def text(self) -> str:
        """Its text."""


def by_dp_sgd(
    options: argparse.Namespace,
    task: TableTask,
    *,
    public: PublicText,
    settings: Settings,
    unit_definition: str | None = None,
) -> TableCheckpoint:
    """Returns the table that --mode dp-sgd trains; a wrong number is a usage error."""
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.recipes.hashed import private_runs

    ledger = None if options.ledger is None else Ledger.open(options.ledger)
    name = options.name or (ledger.data if ledger is not None else name_of(options))
    plan = training_options.calibrated(options, ledger, sampling_rate=1.0)
    print("Training ...", flush=True)
    with usage_errors(options):
        table = private_runs.protect_documents(
            task,
            plan,
            public=public,
            out=options.out,
            name=name,
            settings=settings,
            hyperparameter_tuning=training_options.tuned_on(options),
            unit_definition=unit_definition,
            ledger=ledger,
            documents_changed=options.documents_changed,
            accesses=scoring(options, name),
            audited=options.audit,
            view=_view(options),
            grouped=options.duplicates == "group",
        )
    training_options.print_head(ledger)
    return table


def by_term_counts(options: argparse.Namespace, task: TableTask) -> TableCheckpoint:
    """Returns the table that --mode term-dp learns; a wrong number is a usage error."""
    from hushdoc_training.recipes.hashed import private_runs

    name = name_of(options)
    with usage_errors(options):
        return private_runs.protect_terms(
            task,
            epsilon=options.epsilon,
            delta=private_runs.DELTA if options.delta is None else options.delta,
            out=options.out,
            name=name,
            hyperparameter_tuning=training_options.tuned_on(options),
            accesses=scoring(options, name),
            audited=options.audit,
            view=_view(options),
        )


def _view(options: argparse.Namespace) -> PrivateView:
    """Returns who will have looked at un-noised numbers: a score is shown after the claim."""
    from hushdoc_training import private_view

    view = private_view.PrivateView.of(options.private_numbers)
    if options.held_out:
        view.note(private_view.HELD_OUT)
    return view


def scoring(options: argparse.Namespace, name: str) -> tuple[DataAccess, ...]:
    """Returns the accesses to held-out documents, from which nothing is learned."""
    from hushdoc.certificate.claim import DataAccess

    why = "score on held-out documents, shown to whoever trained; nothing was learned from them"
    read = (DataAccess(data=name, purpose=why, accounted_in=(), treatment="not-released"),)
    return read if options.held_out else ()


def print_read(options: argparse.Namespace, counts: str) -> None:
    """Prints how many documents there are, but of private ones whose numbers stay hidden."""
    if not is_told(options):
        counts = "documents; how many is told with --private-numbers shown-unused"
    print(f"Read:       {counts}", flush=True)


def is_told(options: argparse.Namespace) -> bool:
    """Returns whether numbers about the documents may be printed."""
    private = options.mode in ("dp-sgd", "term-dp") and not options.data.startswith("invented:")
    return not private or options.private_numbers != "hidden"


def name_of(options: argparse.Namespace) -> str:
    """Returns the name of the documents in the certificate."""
    invented = options.data.startswith("invented:")
    return str(options.name or (options.data if invented else training_options.PRIVATE_DOCUMENTS))


def distinct(
    options: argparse.Namespace, texts: Sequence[Text], content: Callable[[Text], object]
) -> Sequence[Text]:
    """Returns one of all copies of a text where whole documents are protected."""
    from hushdoc_training import duplicates

    if options.mode != "dp-sgd" or options.duplicates == "keep":
        return texts
    return duplicates.distinct(
        texts,
        texts=lambda labelled: [labelled.text],
        content=lambda labelled: json.dumps([labelled.text, content(labelled)]).encode(),
        told=is_told(options),
    )


def with_names(options: argparse.Namespace, corpus: Corpus, known: tuple[str, ...] = ()) -> Corpus:
    """Returns a corpus that says whether its documents name the labels that will be released."""
    declared = known or training_options.declared_labels(options)
    if declared or options.data.startswith("invented:"):
        return corpus
    if options.mode in ("dp-sgd", "term-dp"):
        training_options.warn_of_labels()
    return replace(corpus, names_from_documents=True)


def print_step(what: str) -> None:
    """Prints what is done next."""
    print(f"{what} ...", flush=True)


def attack_printer(options: argparse.Namespace) -> Callable[[Attack], None]:
    """Returns what prints how well an attack on a finished table did."""

    def show(attack: Attack) -> None:
        print(
            f"Attack:     {attack.method}: AUC {attack.auc:.3f}, true positives {attack.tpr:.3f} "
            f"at {attack.fpr:.4f} false ones{training_options.of_invented(options.data)}",
            flush=True,
        )

    return show


def print_result(options: argparse.Namespace, table: TableCheckpoint) -> None:
    """Prints the guarantee of a table, and where it is."""
    (guarantee,) = table.claim.guarantees
    line = f"Certificate: kind {guarantee.kind}, unit {guarantee.unit}"
    if guarantee.epsilon is not None:
        line += f", epsilon {guarantee.epsilon:.4g}, delta {guarantee.delta:g}"
    why = guarantee.reason or guarantee.condition
    print(line + (f": {why}" if why else ""))
    print(f"Checkpoint: {options.out / 'checkpoint'}")
    if options.audit and options.mode in ("dp-sgd", "term-dp") and not table.claim.audits:
        print("Audit:      none, for the table has too few rows for canaries; see --rows")
    training_options.print_audits(options.out)
