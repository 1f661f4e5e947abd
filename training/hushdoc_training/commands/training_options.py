"""The options that the tasks of `hushdoc train` share: one declaration for each."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import counted, printable, short_repr
from hushdoc.commands.parsing import CommandParser, usage_errors
from hushdoc.errors import MissingExtraError, PrivacyError
from hushdoc_training.private_view import MODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hushdoc.certificate.claim import PublicData
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.privacy.plan import PrivacyPlan


def add_number(
    group: argparse._ActionsContainer, option: str, metavar: str, default: float, about: str
) -> None:
    """Adds an option that takes a number of the type of its default."""
    about = f"{about} (default: {default:g})"
    kind = seed if option == "--seed" else type(default)
    group.add_argument(option, type=kind, default=default, metavar=metavar, help=about)


def seed(text: str) -> int:
    """Returns a seed, as large as every library takes one."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < 1 << 32):
        raise argparse.ArgumentTypeError(
            f"{short_repr(text, 30)} is no seed; expected a whole number from 0 to {(1 << 32) - 1}"
        )
    return int(text)


def add_recipe_number(
    group: argparse._ActionsContainer,
    option: str,
    metavar: str,
    kind: Callable[[str], float],
    about: str,
    *,
    default: str = "the recipe's",
) -> None:
    """Adds an option that takes a number, and is None where nobody gives one."""
    group.add_argument(option, type=kind, metavar=metavar, help=f"{about} (default: {default})")


def add_choice(
    group: argparse._ActionsContainer,
    option: str,
    choices: tuple[str, ...],
    default: str,
    about: str,
) -> None:
    """Adds an option that takes one of some words."""
    about = f"{about} (default: {default})"
    group.add_argument(option, choices=choices, default=default, help=about)


MOST_DELTA = 1e-5
"""The largest delta by default, and the largest at all of documents that are given away."""

LOOKED_AT = frozenset({"docmix", "funsd", "sroie", "wildreceipt"})
"""Corpora with a look at which defaults were chosen (docs/results.md): of docmix those of
`synthesize selection` and `diffusion`, of the others those of training."""

OF_PRESETS = frozenset({"cord", "docile", "pfldocvqa", "xfund"})
"""Corpora besides, on which papers chose the settings that --preset and --suggest take."""

PRIVATE_DOCUMENTS = "private documents"
"""What a certificate calls documents that nobody has named: a folder's name may tell of them."""


FIRST_DOCUMENTS = (
    "--documents takes the first N, and which those are depends on the others: one document more "
    "would push another one out; give data that hold all that is to be protected, and nothing else"
)
"""Why a run that protects documents reads all of them."""


def add_name(group: argparse._ArgumentGroup) -> None:
    """Adds --name."""
    group.add_argument(
        "--name",
        help="name of the documents in the certificate (default: that of the ledger, else "
        f"'{PRIVATE_DOCUMENTS}'; --data for invented ones)",
    )


def add_labels(group: argparse._ArgumentGroup, label: str) -> None:
    """Adds --label and --schema."""
    group.add_argument("--label", action="append", metavar="NAME", help=label)
    group.add_argument(
        "--schema",
        metavar="FILE",
        help='file of TOML or JSON with such names, as ["date", "total"] or as "fields" of '
        '{"name", "description"}; or the name of a corpus, such as sroie, for those it publishes',
    )


def declared_labels(options: argparse.Namespace) -> list[str]:
    """Returns the labels that --label and --schema name; an InputError where it has none."""
    from hushdoc_training.data import schema

    named = list(options.label or [])
    if options.schema is not None:
        named += schema.named(options.schema).fields
    return list(dict.fromkeys(named))


def of_invented(location: str, *, synthetic: bool = False) -> str:
    """Returns what stands beside a score of documents that are invented, or a synthetic set's."""
    if synthetic:
        return ", all of a synthetic set"
    return ", all of invented text" if location.startswith("invented:") else ""


def warn_of_labels() -> None:
    """Says on the standard error that names of labels are released as the documents have them."""
    print(
        "The names of the labels are taken from the documents and will stand in the model, which "
        "no budget covers: default policies refuse it. Name them with --label or --schema.",
        file=sys.stderr,
    )


def warn_of_overlap(public_data: Iterable[PublicData]) -> None:
    """Says on the standard error which public data may hold documents that are protected here."""
    found = [
        f"{short_repr(data.name, 80)}: {data.overlap_with_protected}"
        for data in public_data
        if data.overlap_with_protected != "none"
    ]
    if found:
        print(
            "The start learned from data that may hold documents which are protected here "
            f"({'; '.join(found)}): default policies refuse such a model. Where they hold none, "
            "declare it by --public-overlap none before anything is spent.",
            file=sys.stderr,
        )


def add_out(group: argparse._ArgumentGroup) -> None:
    """Adds --out."""
    group.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="new folder for the run"
    )


def add_run(group: argparse._ArgumentGroup) -> None:
    """Adds --out, and --resume of runs that can be continued."""
    add_out(group)
    group.add_argument(
        "--resume", action="store_true", help="continue the interrupted run in --out"
    )


def add_audit(
    parser: CommandParser, group: argparse._ArgumentGroup, *, default: bool, costs: str
) -> None:
    """Adds --audit and --no-audit."""
    group.add_argument(
        "--audit",
        action=argparse.BooleanOptionalAction,
        default=default,
        help="first train a twin of epsilon 1 on invented documents with 1,000 canaries, and "
        f"refuse to train where it reveals more than it claims; {costs} (default: "
        f"{'on' if default else 'off'})",
    )
    parser.mark_expert("--audit")


def add_max_tokens(group: argparse._ArgumentGroup) -> None:
    """Adds --max-tokens."""
    said = "length of a window in tokens; a run in --start keeps its own"
    add_number(group, "--max-tokens", "N", 128, said)


def add_overlap(group: argparse._ArgumentGroup) -> None:
    """Adds --public-overlap."""
    add_choice(
        group,
        "--public-overlap",
        ("none", "unknown", "partial", "contained"),
        "unknown",
        "how far public data may contain documents that are protected here: published weights, "
        "what a run in --start had learned from, public documents and their words, unless they are "
        "invented; default policies refuse all but none",
    )


def _told(name: str) -> str:
    return "the recipe's"


def add_budget(
    parser: CommandParser,
    group: argparse._ArgumentGroup,
    *,
    steps: int | None,
    clipping_norm: float | None,
    expected_records: int | None,
    told: Callable[[str], str] = _told,
) -> None:
    """Adds all of a private run but --epsilon: what is spent, and what is shown and grouped.

    A default of None is a recipe's, or what `told` says of a setting's name.
    """
    add_spending(
        parser,
        group,
        steps=steps,
        clipping_norm=clipping_norm,
        expected_records=expected_records,
        told=told,
    )
    add_choice(
        group,
        "--private-numbers",
        MODES,
        "hidden",
        "un-noised numbers of private documents: losses while training, scores on held-out "
        "documents. shown: the certificate says that settings were chosen by what is not part of "
        "epsilon, which default policies refuse; shown-unused: it says that you decide nothing by "
        "them, neither a setting nor an end nor a release",
    )
    add_duplicates(parser, group)


def add_spending(
    parser: CommandParser,
    group: argparse._ArgumentGroup,
    *,
    steps: int | None,
    clipping_norm: float | None,
    expected_records: int | None,
    told: Callable[[str], str] = _told,
) -> None:
    """Adds what a private run spends besides --epsilon: delta, steps, clipping, divisor, ledger."""
    _add_delta(group)
    _add_budgeted(group, "--steps", "N", int, steps, "number of private steps", told("steps"))
    _add_budgeted(
        group,
        "--expected-records",
        "N",
        int,
        expected_records,
        "divisor of the noised sum: about how many records a step has, chosen without looking "
        "at the data",
        told("expected_records"),
    )
    _add_budgeted(
        group,
        "--clipping-norm",
        "C",
        float,
        clipping_norm,
        "norm to which the gradient of a record is clipped",
        told("clipping_norm"),
    )
    _add_ledger(parser, group)
    parser.mark_expert("--clipping-norm")


def add_votes(
    parser: CommandParser, group: argparse._ArgumentGroup, *, rounds: int, expected_records: int
) -> None:
    """Adds the budget of private votes, which are of norm 1, and show no un-noised number."""
    _add_delta(group)
    group.add_argument(
        "--rounds",
        dest="steps",
        type=int,
        default=rounds,
        metavar="N",
        help=f"number of rounds of votes, which share epsilon (default: {rounds})",
    )
    _add_budgeted(
        group,
        "--expected-records",
        "N",
        int,
        expected_records,
        "divisor of the noised sum: about how many documents there are, chosen without looking at "
        "them",
    )
    parser.set_defaults(clipping_norm=1.0)
    _add_ledger(parser, group)


def _add_delta(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--delta",
        type=float,
        metavar="D",
        help="delta of the guarantee (default: that of the ledger, else 1e-5)",
    )


def _add_ledger(parser: CommandParser, group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--ledger",
        type=Path,
        metavar="FILE",
        help="budget of these documents over all runs, from `hushdoc ledger init`; the certificate "
        "then states what all of them spend together",
    )
    group.add_argument(
        "--documents-changed",
        action="store_true",
        help="with --ledger: documents were added, removed or relabelled since its last run; all "
        "runs count for all of them",
    )
    add_tuned_on(parser, group)
    parser.mark_expert("--documents-changed")


def add_tuned_on(parser: CommandParser, group: argparse._ActionsContainer) -> None:
    """Adds the option that says on what settings were chosen; `tuned_on` reads it."""
    group.add_argument(
        "--tuned-on",
        choices=("none", "public-data", "unaccounted"),
        help="data on which settings were chosen; none: one run, fixed beforehand (default: none, "
        "but unaccounted where `train kie`, `train docvqa`, `synthesize evolution` or `federated "
        "simulate` read FUNSD, SROIE or WildReceipt, or `synthesize selection` or `diffusion` "
        "docmix, at which their defaults were chosen, or with --preset or --by-guidelines "
        "another corpus of its paper). Say it of files converted from these; and where a table is "
        "trained on CUAD or 20newsgroups, which no file tells",
    )
    parser.mark_expert("--tuned-on")


def tuned_on(options: argparse.Namespace, corpus: str | None = None) -> str:
    """Returns on what settings were chosen for documents of a corpus."""
    of_paper = any(getattr(options, name, None) for name in ("preset", "by_guidelines"))
    looked_at = LOOKED_AT | (OF_PRESETS if of_paper else frozenset())
    return getattr(options, "tuned_on", None) or ("unaccounted" if corpus in looked_at else "none")


def add_duplicates(parser: CommandParser, group: argparse._ArgumentGroup) -> None:
    """Adds what becomes of documents with the same words."""
    add_choice(
        group,
        "--duplicates",
        ("group", "keep"),  # duplicates.CHOICES, whose module loads numpy
        "group",
        "documents with the same words under several ids, where a document is the unit: one record "
        "for all of them, of which one is read; or each a record of its own",
    )
    parser.mark_expert("--duplicates")


def _add_budgeted(
    group: argparse._ActionsContainer,
    option: str,
    metavar: str,
    kind: Callable[[str], float],
    default: float | None,
    about: str,
    told: str = "",
) -> None:
    if default is None:
        add_recipe_number(group, option, metavar, kind, about, default=told)
    else:
        add_number(group, option, metavar, default, about)


def calibrated(options: argparse.Namespace, ledger: Ledger | None, **further: Any) -> PrivacyPlan:
    """Returns the plan that the options of `add_budget` ask for; a wrong one is a usage error."""
    from hushdoc_training.privacy.plan import PrivacyPlan

    delta = options.delta
    if delta is None:
        delta = 1e-5 if ledger is None else ledger.delta
    with usage_errors(options):
        return PrivacyPlan.calibrated(
            epsilon=options.epsilon,
            delta=delta,
            steps=options.steps,
            clipping_norm=options.clipping_norm,
            expected_records=options.expected_records,
            **further,
        )


def planned(
    options: argparse.Namespace, ledger: Ledger | None, *, sampling_rate: float, **further: Any
) -> tuple[PrivacyPlan, float]:
    """Returns the plan, and the records that it declares: those of a step over the sampling rate.

    Without a --delta or a ledger, delta follows from these.
    """
    records = max(1.0, options.expected_records / max(sampling_rate, 1e-9))
    if options.delta is None and ledger is None:
        options.delta = small_delta(records)
    return calibrated(options, ledger, sampling_rate=sampling_rate, **further), records


def small_delta(records: float) -> float:
    """Returns the largest delta by default: a tenth of what lets one record be published."""
    return min(MOST_DELTA, 1 / (10 * records))


def require_small_delta(delta: float, records: float, *, otherwise: str = "") -> None:
    """Raises PrivacyError where delta is above a tenth of one over the declared records."""
    if delta * 10 * records > 1 + 1e-9:
        raise PrivacyError(
            f"delta is {delta:g}, and with about {records:.0f} records at most "
            f"{1 / (10 * records):.3g} is allowed, a tenth of one over their number: it is the "
            "chance that a record may be published. Give a smaller --delta"
            f"{otherwise}.",
            code="DELTA_TOO_LARGE",
        )


def require_delta_of_release(plan: PrivacyPlan, records: float) -> None:
    """Raises PrivacyError where delta is above the largest default: of documents given away."""
    require_small_delta(plan.delta, records)
    if plan.delta > MOST_DELTA * (1 + 1e-9):
        raise PrivacyError(
            f"delta is {plan.delta:g}; of documents that are given away at most {MOST_DELTA:g} is "
            "allowed, however few they are made from. Give a smaller --delta, or a ledger of one.",
            code="DELTA_TOO_LARGE",
        )


def print_plan(plan: PrivacyPlan, *, compared: bool = False) -> None:
    """Prints what a private training will do; compared: also beside other accountants."""
    print(
        f"Plan:       {counted(plan.steps, 'step')} of about "
        f"{counted(plan.expected_records, 'record')} (sampling rate "
        f"{plan.sampling_rate:g}), noise multiplier {plan.noise_multiplier:.4g}; epsilon "
        f"{plan.epsilon:g} at delta {plan.delta:g} for each {plan.privacy_unit}",
        flush=True,
    )
    if compared:
        from hushdoc_training.privacy import comparison

        print("\n".join(comparison.lines(plan)))


def require_installed() -> None:
    """Raises MissingExtraError unless all is there that a neural training needs."""
    for package in ("torch", "transformers", "opacus"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "training")


def takes_noise(options: argparse.Namespace) -> bool:
    """Returns whether training has a budget: no option says that the documents are without."""
    return not (options.public or options.not_private or options.synthetic)


def refuse_private_vocabulary(options: argparse.Namespace, start: str) -> None:
    """Refuses a start from nothing, such as small, whose vocabulary would be of documents."""
    public = options.public or options.synthetic or options.data.startswith("invented:")
    if start in ("small", "tiny") and not public and not options.resume:
        options.refuse_usage(
            f"--start {start} learns its vocabulary from public documents: give --public or "
            "invented --data, then --start the run folder of that"
        )


def ledger_of(options: argparse.Namespace) -> Ledger | None:
    """Returns the ledger that the options name; None where they name none."""
    if options.ledger is None:
        if options.documents_changed:
            options.refuse_usage("--documents-changed needs --ledger")
        return None
    from hushdoc_training.ledger.ledger import Ledger

    return Ledger.open(options.ledger)


def print_end(out: Path, ledger: Ledger | None) -> None:
    """Prints where a run has left its model."""
    print(f"Checkpoint: {out / 'checkpoint'}")
    print(f"Plot:       {out / 'training.png'}")
    print_head(ledger)
    print_audits(out)


def print_audits(out: Path) -> None:
    """Prints what a run's own audits found; a PrivacyError where they refute what it claims."""
    from hushdoc.certificate.claim import Claim
    from hushdoc.explanation.measurements import audit_ceiling
    from hushdoc_training import audited_claims

    claim = Claim.from_json((out / "checkpoint" / "claim.json").read_bytes())
    for audit in claim.audits:
        ceiling = audit_ceiling(audit, claim.training)
        if audit.epsilon_lower is None or audit.confidence is None or ceiling is None:
            continue
        print(
            f"Audit:      epsilon is at least {audit.epsilon_lower:.3g} at delta {audit.delta:g}, "
            f"with {100 * audit.confidence:g} % confidence; at best {ceiling:.3g} could have been "
            f"shown ({printable(audit.method)})"
        )
    audited_claims.require_unrefuted(claim)


def print_head(ledger: Ledger | None) -> None:
    """Prints the head of a run's ledger, which shows later whether a copy has forgotten it."""
    if ledger is not None:
        print(f"Ledger:     head {ledger.head()}  (note it elsewhere, for `ledger audit --head`)")
