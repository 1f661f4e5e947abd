"""What `train kie` scores once training has ended: held-out documents, and those of --test.

Scores are exact numbers about documents. Where those are private, whoever trains says beforehand
what becomes of the numbers (--private-numbers), the claim says that they were read, and they are
printed and written nowhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import counted
from hushdoc.errors import AnnotationError
from hushdoc_training.commands.training_options import of_invented, takes_noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hushdoc.certificate.claim import Claim
    from hushdoc.commands.parsing import CommandParser
    from hushdoc.labels import LabelledDocument
    from hushdoc_training.data.splits import Copy

NAMED = 5
"""How many documents that are on both sides a message names."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Documents to score on: whose name, what to say of their text, whether private, which."""

    title: str
    remark: str
    private: bool
    documents: Sequence[LabelledDocument]


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Documents to train on, and those to score on."""

    train: Sequence[LabelledDocument]
    scored: tuple[Scored, ...] = ()


def add_options(parser: CommandParser, group: argparse._ArgumentGroup) -> None:
    """Adds --held-out and --test with what goes with it."""
    group.add_argument(
        "--held-out",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of --data that is scored once training has ended, and never trained on: of its "
        "providers, or of its documents where those are not known, by their digests, or by their "
        "ids with --privacy-unit sequence (default: 0)",
    )
    group.add_argument(
        "--test",
        metavar="DATA",
        help="documents to score once training has ended, in any form that --data takes; nothing "
        "is learned from them",
    )
    group.add_argument(
        "--test-copies",
        choices=("refuse", "drop"),
        default="refuse",
        help="documents of --test that are in training too, or nearly: refuse to train, or leave "
        "them out of the score (default: refuse; private training leaves them out of a score on "
        "private documents, and does not look for them among public ones)",
    )
    group.add_argument(
        "--test-providers",
        choices=("refuse", "keep", "drop"),
        help="documents of --test whose provider has others in training: refuse to train, score "
        "them too, or leave them out of the score (default: refuse; private training keeps them, "
        "counts them in a score on private documents, and does not look for them among public "
        "ones)",
    )
    group.add_argument(
        "--public-test",
        action="store_true",
        help="the documents of --test are public: their score needs no --private-numbers",
    )
    parser.mark_expert("--test-copies", "--test-providers", "--public-test")


def check(options: argparse.Namespace) -> None:
    """Refuses options that contradict one another (exit code 2)."""
    if not 0 <= options.held_out < 1:
        options.refuse_usage(f"--held-out is {options.held_out}; it must be from 0 to below 1")
    of_test = options.public_test or options.test_copies != "refuse" or options.test_providers
    if options.test is None and of_test:
        options.refuse_usage(
            "--public-test, --test-copies and --test-providers are of --test; give --test too"
        )
    private = takes_noise(options)
    same = options.public_test and Path(options.test).resolve() == Path(options.data).resolve()
    if private and same and not _is_invented(options.data):
        options.refuse_usage(
            "--test and --data are the same documents, which --public-test says are public, and "
            "of which no exact score may be shown. Name public ones, or leave out --public-test"
        )
    if options.synthetic:
        _refuse_uncovered(options)
    asked = " and ".join(_private_options(options))
    if private and asked and options.private_numbers == "hidden":
        options.refuse_usage(
            f"{asked} shows a score on private documents, which "
            "no noise protects: say with --private-numbers shown-unused that nothing is decided "
            "by it, or shown if it is; --public-test says that documents of --test are public"
        )


def check_start(options: argparse.Namespace, before: Claim | None) -> None:
    """Refuses the same beside a start that was trained on synthetic documents (exit code 2)."""
    from hushdoc_training import inherited_claims

    if not takes_noise(options) and inherited_claims.is_inherited(before):
        _refuse_uncovered(options)


def _refuse_uncovered(options: argparse.Namespace) -> None:
    if "--test" in _private_options(options):
        options.refuse_usage(
            "--test shows a score on documents that may be the protected ones, which the guarantee "
            "of a set of synthetic documents does not cover: say with --public-test that they are "
            "public, or leave it"
        )


@contextmanager
def sides(
    options: argparse.Namespace, documents: Sequence[LabelledDocument], *, images: bool
) -> Iterator[Sides]:
    """Yields what to train on and what to score; prints how documents were split.

    Images of invented documents of --test are files until the context closes.

    Raises:
        AnnotationError: Documents of --test are in training too.
        HushdocError: Those of --test can't be read.
    """
    from hushdoc_training.data import dataset, splits

    private = _private_options(options)
    train: Sequence[LabelledDocument] = documents
    scored: list[Scored] = []
    if options.held_out:
        windows = takes_noise(options) and options.privacy_unit == "sequence"
        made = splits.split(
            documents, held_out=options.held_out, traits=splits.traits_of, whole=not windows
        )
        train = made.train
        for line in made.lines():
            print(f"Held out:   {line}", flush=True)
        scored.append(
            Scored(
                title="Held out",
                remark=of_invented(options.data, synthetic=options.synthetic is not None),
                private="--held-out" in private,
                documents=made.held_out,
            )
        )
    with ExitStack() as stack:
        if options.test is not None:
            source = dataset.Source(location=options.test, labels=options.labels)
            opened = dataset.opened(source, images=images, report=_report)
            found = stack.enter_context(opened)
            scored.append(
                Scored(
                    title="Test",
                    remark=of_invented(options.test),
                    private="--test" in private,
                    documents=_apart(options, found, train),
                )
            )
        yield Sides(train=train, scored=tuple(scored))


def private_scores(options: argparse.Namespace) -> tuple[str, ...]:
    """Returns the scores on private documents that will be shown, as a claim calls them."""
    from hushdoc_training import private_view

    names = {"--held-out": private_view.HELD_OUT, "--test": private_view.TESTED}
    return tuple(names[option] for option in _private_options(options))


def show(options: argparse.Namespace, scored: Sides) -> None:
    """Prints the scores of the finished checkpoint, once."""
    if not scored.scored:
        return
    from hushdoc.commands.evaluation import score_lines
    from hushdoc.evaluation import NOTE
    from hushdoc_training.recipes.kie import start as kie_start
    from hushdoc_training.recipes.kie import training

    start = kie_start.start_from(str(options.out), None)
    for each in scored.scored:
        if not each.documents:
            print(f"{each.title}: no document to score.")
            continue
        size = counted(len(each.documents), "document")
        print(f"{each.title}: {size}{each.remark}, by the weights of the checkpoint")
        for line in score_lines(training.evaluation_of(start, each.documents)):
            print(f"  {line}".rstrip())
        if each.private:
            print(f"note: {NOTE}")


def _apart(
    options: argparse.Namespace,
    documents: Sequence[LabelledDocument],
    train: Sequence[LabelledDocument],
) -> Sequence[LabelledDocument]:
    """Returns the documents of --test that are not in training, as far as that may be told."""
    from hushdoc_training.data import splits

    private = takes_noise(options) and not _is_invented(options.data)
    if private and "--test" not in _private_options(options):
        # Whether training starts, and what is scored, would tell that a document is in training.
        print("Test:       copies of private documents in it are not looked for, nor providers")
        return documents
    copies = splits.shared(documents, train, traits=splits.traits_of)
    found = [copy for copy in copies if copy is not None]
    if found and options.test_copies == "refuse" and not private:
        raise AnnotationError(
            f"{len(found)} of {counted(len(documents), 'document')} of --test are in training "
            f"too: {_named(found)}. A score on them says nothing about others. Take them out of "
            "one of the two, or leave them out of the score with --test-copies drop.",
            code="TEST_IN_TRAINING",
        )
    if found:
        print(f"Test:       {len(found)} of {len(documents)} left out, which are in training too")
    apart = [item for item, copy in zip(documents, copies, strict=True) if copy is None]
    return _of_providers(options, apart, train, private=private)


def _of_providers(
    options: argparse.Namespace,
    documents: Sequence[LabelledDocument],
    train: Sequence[LabelledDocument],
    *,
    private: bool,
) -> Sequence[LabelledDocument]:
    """Returns the documents to score, as regards those whose provider is in training too."""
    from hushdoc_training.data import splits

    providers = splits.providers_shared(documents, train, traits=splits.traits_of)
    names = sorted({name for name in providers if name is not None})
    if not names:
        return documents
    told = (
        f"{sum(name is not None for name in providers)} of {counted(len(documents), 'document')} "
        f"of --test are of providers with others in training, {len(names)} in all"
    )
    if options.test_providers in (None, "refuse") and not private:
        shown = ", ".join(repr(name) for name in names[:NAMED])
        more = ", ..." if len(names) > NAMED else ""
        raise AnnotationError(
            f"{told}: {shown}{more}. A score on them says little about providers that are new. "
            "Take them out of one of the two, leave them out of the score with --test-providers "
            "drop, or score them too with --test-providers keep.",
            code="TEST_PROVIDER_IN_TRAINING",
        )
    if options.test_providers != "drop":
        print(f"Test:       {told}; they are scored too")
        return documents
    print(f"Test:       {told}; they are left out")
    return [item for item, name in zip(documents, providers, strict=True) if name is None]


def _named(copies: Sequence[Copy]) -> str:
    named = [f"'{copy.id}' has {copy.how} as '{copy.of}'" for copy in copies[:NAMED]]
    return ", ".join([*named, *(["..."] if len(copies) > NAMED else [])])


def _private_options(options: argparse.Namespace) -> list[str]:
    """Returns the options that ask for a score on documents that are not public."""
    shown = options.public or options.synthetic or _is_invented(options.data)
    held_out = options.held_out and not shown
    tested = options.test is not None and not (options.public_test or _is_invented(options.test))
    return [*(["--held-out"] if held_out else []), *(["--test"] if tested else [])]


def _report(line: str) -> None:
    print(f"--test: {line}", file=sys.stderr)


def _is_invented(location: str) -> bool:
    return location.startswith("invented:")
