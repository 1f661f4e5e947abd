"""The actions `providers` and `memorization` of `hushdoc audit`: attacks on models that answer."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import counted, printable, short_repr
from hushdoc.artifact.manifest import MANIFEST_FILE
from hushdoc.commands.policy_options import given_of_policy, policy_from, policy_options
from hushdoc.errors import CheckpointError, InputError, needs_extra
from hushdoc_training.commands.data import SOURCE
from hushdoc_training.commands.training_options import of_invented, require_installed, seed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hushdoc.commands.parsing import Subcommands
    from hushdoc.labels import LabelledDocument
    from hushdoc_training.audit.provider_membership import Result
    from hushdoc_training.question_scores import QuestionScore
    from hushdoc_training.recipes.docvqa.scores import Scorer
    from hushdoc_training.recipes.docvqa.sealed_scores import SealedScorer

    Asked = Scorer | SealedScorer

PROVIDERS = """Asks a model about documents of providers that were trained on and of others, and
guesses from its answers which is which: the attacks AZK and APK of Tito et al. (2023), alone and
with votes of their memorisation test.

  hushdoc audit providers runs/private --start runs/public --members seen --others unseen

None of these documents should have been trained on, also of members. Both groups are fixed, so the
result is a table and no lower bound of epsilon. An artifact, which takes a policy, tells no losses:
APK goes without them."""

MEMORIZATION = """Hides the answers to questions about providers on their pages, in words and in
images, and asks for them. Only what a twin does not answer counts as memory: a model that was
trained alike without these providers. Questions that have no answer on a page are asked too.

  hushdoc audit memorization runs/model --twin runs/without-them --members seen"""

NOTE = (
    "Members and others are two fixed groups that nobody drew by coins: a table of attacks, and no "
    "lower bound of epsilon."
)
NO_LOSSES = "An artifact tells no losses: APK goes without them."


def register(actions: Subcommands) -> None:
    """Adds both actions."""
    providers = actions.add_parser(
        "providers",
        help="guess which providers a model that answers questions was trained on",
        description=PROVIDERS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_model(providers)
    providers.add_argument(
        "--start",
        required=True,
        metavar="MODEL",
        help="the model that training began with",
    )
    _add_documents(providers)
    providers.add_argument(
        "--others",
        required=True,
        metavar="SOURCE",
        help="documents of providers that were not trained on",
    )
    providers.add_argument(
        "--quick",
        action="store_true",
        help="one seed, one setting of each forest, and providers of any number of questions",
    )
    policy_options(providers)
    providers.set_defaults(run=run_providers, extra="crf")
    memorization = actions.add_parser(
        "memorization",
        help="ask a model for answers that were hidden on the page",
        description=MEMORIZATION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_model(memorization)
    memorization.add_argument(
        "--twin",
        required=True,
        metavar="MODEL",
        help="a run, checkpoint or artifact that was trained alike without these providers",
    )
    _add_documents(memorization)
    policy_options(memorization)
    memorization.set_defaults(run=run_memorization, extra="training")


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "artifact",
        type=Path,
        metavar="MODEL",
        help="the run, checkpoint or artifact that is attacked",
    )


def _add_documents(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--members",
        required=True,
        metavar="SOURCE",
        help=f"documents, not trained on, of providers that were; {SOURCE}",
    )
    parser.add_argument(
        "--documents", type=int, metavar="N", help="most documents of a source (default: all)"
    )
    parser.add_argument(
        "--seed",
        type=seed,
        default=1,
        metavar="N",
        help="seed of invented documents: not that of training (default: 1)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _require_used(options: argparse.Namespace, other: str) -> None:
    """Refuses a number of documents that is none, and a policy where both models are no artifacts.

    Nobody would check it, and what is printed would look as if somebody had.
    """
    if options.documents is not None and options.documents < 1:
        options.refuse_usage(f"--documents is {options.documents}; it must be at least 1")
    given = given_of_policy(options)
    if given and not any(map(_is_sealed, (str(options.artifact), other))):
        options.refuse_usage(
            f"{', '.join(given)} is of artifacts, and neither '{printable(options.artifact)}' nor "
            f"'{printable(other)}' is one, so no policy would be checked: leave it out, or attack "
            "the artifact"
        )


def run_providers(options: argparse.Namespace) -> int:
    """Prints the table of attacks."""
    require_installed()
    _require_used(options, options.start)
    with needs_extra("scikit-learn", "crf"):
        import sklearn  # noqa: F401  # before anything is asked
    model = _trained(str(options.artifact), options)
    with (
        _opened(options.members, options, model) as members,
        _opened(options.others, options, model) as others,
    ):
        return _show_providers(options, model, members, others)


def _show_providers(
    options: argparse.Namespace,
    model: Asked,
    members: Sequence[LabelledDocument],
    others: Sequence[LabelledDocument],
) -> int:
    from hushdoc import evaluation
    from hushdoc_training.audit import memorization, provider_membership
    from hushdoc_training.data import providers

    names = [set(providers.grouped(documents)) for documents in (members, others)]
    if both := sorted(names[0] & names[1]):
        raise InputError(
            f"{counted(len(both), 'provider')} stand on both sides, among them "
            f"{short_repr(both[0])}; expected members and others apart. Give documents of other "
            "providers."
        )
    start = _asked(options.start, options, like=model)
    documents = [*members, *others]
    scores, start_scores = model.score(documents), start.score(documents)
    _warn_of_one_model(scores, start_scores, "--start", "nothing that training changed is seen")
    found = provider_membership.providers_of(
        scores,
        start_scores,
        names[0],
        memory=memorization.memory_of(model, documents),
    )
    if options.quick:
        seeds = provider_membership.SEEDS[:1]
        results = provider_membership.attacked(found, least_questions=(0,), seeds=seeds, draws=1)
    else:
        results = provider_membership.attacked(found)
    utility = [_utility(scores, side) for side in names]
    losses = "loss_change" in found.seen
    if options.json:
        print(json.dumps(_as_json(results, utility, losses=losses), ensure_ascii=True))
        return 0
    for what, side in zip(("members", "others"), utility, strict=True):
        text = of_invented(getattr(options, what))
        print(f"{what}: accuracy {side['accuracy']:.3f}, ANLS {side['anls']:.3f}{text}")
    print(f"{'attack':18}{'s':>3}{'accuracy':>15}{'area':>7}{'':>14}   TPR at FPR 10, 3, 1 %")
    for row in results:
        print(_line(row))
    print(NOTE if losses else f"{NOTE} {NO_LOSSES}")
    print(f"note: {evaluation.NOTE}")
    return 0


def run_memorization(options: argparse.Namespace) -> int:
    """Prints how many hidden answers the model gives, and its twin does not."""
    require_installed()
    _require_used(options, options.twin)
    from hushdoc import evaluation
    from hushdoc_training.audit import memorization

    model = _trained(str(options.artifact), options)
    with _opened(options.members, options, model) as members:
        hidden = memorization.hidden(members)
        if not hidden:
            raise InputError(
                "No document has a question whose answer could be hidden; expected questions with "
                f"the keys {', '.join(memorization.KEYS)}. Give documents with such questions."
            )
        twin = _trained(options.twin, options, like=model)
        scores, twin_scores = model.score(hidden), twin.score(hidden)
        found = memorization.compared(scores, twin_scores)
        unfounded = memorization.Unfounded.of(model, twin, members)
    _warn_of_one_model(scores, twin_scores, "--twin", "nothing can count as memory")
    if options.json:
        both = {
            **found.to_dict(),
            "unfounded": unfounded.to_dict(),
            "note": evaluation.NOTE,
        }
        print(json.dumps(both, ensure_ascii=True))
        return 0
    text = of_invented(options.members)
    print(f"{counted(found.questions, 'question')} whose answer was hidden on the page{text}")
    print(f"right: {found.right} by the model, {found.twin_right} by its twin")
    print(f"ANLS: {found.nls:.3f} of the model, {found.twin_nls:.3f} of its twin")
    print(
        f"memorised: {found.memorised}, {found.confident} of them with a confidence of "
        f"{memorization.CONFIDENT:g} or more; right by the twin alone: {found.twin_alone}"
    )
    print(f"{counted(unfounded.questions, 'question')} of these keys without an answer on the page")
    print(
        f"answered: {unfounded.said} by the model, {unfounded.twin_said} by its twin; with what "
        f"another document says: {unfounded.known} and {unfounded.twin_known}"
    )
    print(f"note: {evaluation.NOTE}")
    return 0


@contextmanager
def _opened(
    location: str, options: argparse.Namespace, model: Asked
) -> Iterator[Sequence[LabelledDocument]]:
    """Yields documents, with their pages' images where the model reads those."""
    from hushdoc_training.audit import memorization
    from hushdoc_training.data import dataset

    source = dataset.Source(location=location, documents=options.documents, seed=options.seed)
    images = model.asking.image is not None
    with dataset.opened(source, images=images) as documents:
        yield documents if images else memorization.without_images(documents)


def _trained(source: str, options: argparse.Namespace, *, like: Asked | None = None) -> Asked:
    """Returns a model that learned to answer questions.

    Another one would get a reader of fresh weights, which remembers nothing of any document.
    """
    from hushdoc_training.docvqa_checkpoint import holds_questions

    if not (_is_sealed(source) or holds_questions(Path(source))):
        raise CheckpointError(
            f"'{printable(source)}' is no model that learned to answer questions; expected a run "
            "or checkpoint of `hushdoc train docvqa` or `federated simulate --task docvqa`, or an "
            "artifact of one. Check the path."
        )
    return _asked(source, options, like=like)


def _asked(source: str, options: argparse.Namespace, *, like: Asked | None = None) -> Asked:
    """Returns a model that is asked; a start gets rows as long as the other model's."""
    from hushdoc_training.recipes.docvqa import scores
    from hushdoc_training.recipes.docvqa import start as starts
    from hushdoc_training.recipes.kie.training import best_device

    if _is_sealed(source):
        return _sealed(source, options, like)
    if like is None:
        start = starts.start_from(source)
    else:
        asking = like.asking
        start = starts.start_from(
            source,
            architecture=asking.kind,
            max_tokens=asking.max_tokens,
            max_question=asking.max_question,
        )
    return scores.Scorer(start=start, device=best_device())


def _is_sealed(source: str) -> bool:
    return (Path(source) / MANIFEST_FILE).is_file()


def _sealed(source: str, options: argparse.Namespace, like: Asked | None) -> SealedScorer:
    """Returns the model of an artifact that the policy accepts."""
    from hushdoc.runtime.docvqa import DocVQAModel
    from hushdoc_training.recipes.docvqa.sealed_scores import SealedScorer

    found = SealedScorer.of(DocVQAModel.load(source, policy=policy_from(options)))
    if like is not None and found.asking.kind != like.asking.kind:
        raise CheckpointError(
            f"The artifact '{source}' is a {found.asking.kind}; expected a {like.asking.kind}, as "
            "the attacked model is. Give one of its kind."
        )
    return found


def _warn_of_one_model(
    scores: Sequence[QuestionScore], others: Sequence[QuestionScore], option: str, what: str
) -> None:
    """Warns where another model answers as the attacked one does, to the last bit."""
    own, other = ([(one.prediction, one.confidence) for one in each] for each in (scores, others))
    if own == other:
        print(
            f"warning: the model and that of {option} give the same answers with the same "
            f"confidence, as one model would, of which {what}",
            file=sys.stderr,
        )


def _utility(scores: Sequence[QuestionScore], names: set[str]) -> dict[str, float]:
    """Returns what one group's questions are answered like (table 1 of Tito et al. 2023)."""
    from hushdoc_training.data.providers import folded

    own = [score for score in scores if folded(score.provider or "") in names]
    return {
        "questions": len(own),
        "accuracy": sum(score.exact_match for score in own) / max(1, len(own)),
        "anls": sum(score.nls for score in own) / max(1, len(own)),
    }


def _as_json(
    results: Sequence[Result], utility: Sequence[dict[str, float]], *, losses: bool
) -> dict[str, Any]:
    from hushdoc import evaluation

    members, others = utility
    note = NOTE if losses else f"{NOTE} {NO_LOSSES}"
    return {
        "kind": "table",
        "epsilon_lower": None,
        "note": f"{note} {evaluation.NOTE}",
        "losses": losses,
        "utility": {"members": members, "others": others},
        "attacks": [result.to_dict() for result in results],
    }


def _line(row: Result) -> str:
    rates = "  ".join(f"{tpr:.3f}" for tpr in row.tpr_at_fpr.values())
    low, high = row.auc_interval
    return (
        f"{row.method.name:18}{row.least_questions:3}"
        f"{row.accuracy:8.3f} +-{row.accuracy_deviation:5.3f}"
        f"{row.auc:7.3f} ({low:.3f}-{high:.3f})   {rates}"
    )
