"""What `train kie` says of its data: their name, their labels, and what public data it used."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import printable, short_repr
from hushdoc.errors import AnnotationError
from hushdoc_training.commands.training_options import (
    PRIVATE_DOCUMENTS,
    declared_labels,
    warn_of_labels,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hushdoc.certificate.claim import Claim, PublicData
    from hushdoc.labels import LabelledDocument, LabelSet
    from hushdoc_training.data.dataset import Report, Source
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.recipes.kie.start import Start


INVENTED = "invented by a generator"
"""How a claim calls documents that nobody has."""

FROM_NOTHING = ("tiny", "small")
"""Starts with fresh weights, and a vocabulary that is learned from documents that are public."""


def name_of(source: Source, ledger: Ledger | None, *, public: bool) -> str:
    """Returns what the certificate calls the documents where nobody said so."""
    if ledger is not None:
        return ledger.data
    if source.is_invented:
        return source.location
    return "public documents" if public else PRIVATE_DOCUMENTS


def reporter(source: Source, *, hidden: bool) -> Report:
    """Returns what prints the lines about what is read; where numbers stay hidden, says so alone.

    How many private documents there are, and that one of them is odd, is no less a number about
    them than a loss is. `hushdoc data show` tells it to whoever asks.
    """
    from hushdoc_training.data import dataset

    if not hidden:
        return lambda line: print(line, file=sys.stderr)
    if not source.is_invented:
        title = dataset.corpus_of(Path(source.location)).title
        print(
            f"Reading {title}. Private training prints neither how many documents there are "
            "nor what is odd in them; `hushdoc data show` does.",
            file=sys.stderr,
        )
    return lambda line: None


def labels_of(
    options: argparse.Namespace,
    source: Source,
    documents: Sequence[LabelledDocument],
    *,
    private: bool,
) -> LabelSet | None:
    """Returns the labels to learn; None for those that the start knows."""
    from hushdoc.labels import LabelSet
    from hushdoc_training.recipes.kie import start

    declared = declared_labels(options)
    if declared:
        if not private or options.private_numbers != "hidden":
            _compare(documents, declared, private=private, with_schema=options.schema is not None)
        return LabelSet(fields=tuple(declared))
    if private and start.is_checkpoint(options.start) and not options.new_labels:
        return None
    found = LabelSet.from_documents(documents)
    if not found.fields:
        raise AnnotationError(
            "No document has a label, so there is nothing to learn. Give labelled documents; "
            "`hushdoc data show` counts their labels."
        )
    if source.is_invented:
        return LabelSet(fields=found.fields)  # the generator's own
    if private:
        warn_of_labels()
    return found


def kept(start: Start) -> str:
    """Returns a line that says of which labels the output layer knows the start's weights."""
    labels, known = start.labels.fields, start.known_labels
    fresh = [label for label in labels if label not in known]
    parts = [
        f"{what} {_listed(some, labels)}"
        for what, some in (("weights kept for", known), ("fresh for", fresh))
        if some
    ]
    if start.claim is not None and not known:
        parts.append("the start's encoder alone is kept")
    return f"Labels:     {'; '.join(parts)}"


def settled(start: Start) -> dict[str, object]:
    """Returns the options that a run in --start has settled, as it was trained with them."""
    own = start.preprocessing
    found = {"max-tokens": own.max_tokens, "word-order": own.word_order}
    # A model of words alone has no boxes, and is asked for by no option.
    return found if own.box_level == "none" else {**found, "box-level": own.box_level}


def _listed(some: Sequence[str], labels: Sequence[str]) -> str:
    if len(some) == len(labels) > 1:
        return f"all {len(labels)} labels"
    return ", ".join(map(printable, some))


def schema_of(options: argparse.Namespace) -> LabelSet | None:
    """Returns the only labels that public documents may have: those of --schema and --label.

    Whether private training starts must not tell of one document: there others are counted.
    """
    from hushdoc.labels import LabelSet

    if options.schema is None:
        return None
    return LabelSet(fields=tuple(declared_labels(options)))


def _compare(
    documents: Sequence[LabelledDocument],
    declared: Sequence[str],
    *,
    private: bool,
    with_schema: bool,
) -> None:
    """Says how documents' labels differ from those declared; `hushdoc data show` says it too.

    Without privacy it refuses where none occurs. With it a refusal would tell of documents.
    """
    found = Counter(span.label for item in documents for span in item.spans)
    missing = [name for name in declared if name not in found]
    others = Counter({name: count for name, count in found.items() if name not in declared})
    if len(missing) == len(declared) and not private:
        raise AnnotationError(
            f"No document has any of the declared labels: {short_repr(missing, 200)}. They have "
            f"{short_repr(sorted(found), 200) if found else 'none at all'}. Declare labels of the "
            "documents; `hushdoc data show` counts them."
        )
    if missing:
        print(f"Labels that no document has: {short_repr(missing, 200)}", file=sys.stderr)
    if others and with_schema:
        print(
            "Spans with labels that the schema lacks, outside of all fields: "
            f"{others.total()} ({short_repr(sorted(others), 200)})",
            file=sys.stderr,
        )


def weights_of(start: Start, options: argparse.Namespace) -> tuple[PublicData, ...]:
    """Returns what published starting weights had learned from; a checkpoint says so itself."""
    return published_weights(start.name, start.claim, options)


def published_weights(
    start: str,
    claim: Claim | None,
    options: argparse.Namespace,
    *,
    uses: tuple[str, ...] = ("pretraining", "vocabulary"),
) -> tuple[PublicData, ...]:
    """Returns what a start of a name, with a claim if it is a checkpoint, had learned from."""
    from hushdoc.certificate.claim import PublicData

    if claim is not None or start in FROM_NOTHING:
        return ()
    return (
        PublicData(
            name=f"{start} weights",
            uses=uses,
            privacy_status="published weights; what they were trained on is their publisher's word",
            overlap_with_protected=options.public_overlap,
        ),
    )


def own_vocabulary(start: str, claim: Claim | None) -> tuple[str, ...]:
    """Returns a caveat of a private start from nothing: its words are those of the documents."""
    if claim is not None or start not in FROM_NOTHING:
        return ()
    return (
        "The start's vocabulary was learned from the words of the protected documents, without "
        "noise and outside of epsilon. They are invented, and nobody's.",
    )


def corpus(source: Source) -> str | None:
    """Returns the name of the corpus that documents are of, None if they are invented."""
    from hushdoc_training.data import dataset

    return None if source.is_invented else dataset.corpus_of(Path(source.location)).name


def kinship(source: Source, name: str, claim: Claim | None) -> tuple[str, ...]:
    """Returns caveats of a start's public data that are said to share no document with kin."""
    from hushdoc_training.data.corpus import kin

    if source.is_invented or claim is None:
        return ()
    protected = str(corpus(source)), *name.casefold().split()
    caveats = tuple(
        f"The start learned from '{data.name}' as public data without overlap. The protected "
        f"documents and these come from {common}, so that no document is in both is the word of "
        "whoever trained."
        for data in claim.public_data
        if data.overlap_with_protected == "none"
        and data.privacy_status != INVENTED
        and (common := kin(data.name, protected)) is not None
    )
    for caveat in caveats:
        print(f"warning: {caveat}", file=sys.stderr)
    return caveats


def public_data(name: str, invented: bool, options: argparse.Namespace) -> PublicData:
    """Returns what a claim says of documents that are public."""
    from hushdoc.certificate.claim import PublicData

    return PublicData(
        name=name,
        uses=("pretraining", "vocabulary"),
        privacy_status=INVENTED if invented else "declared public by the trainer",
        overlap_with_protected="none" if invented else options.public_overlap,
    )
