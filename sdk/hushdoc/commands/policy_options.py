"""The options by which a verb that opens an artifact is told its policy."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hushdoc.policy.policy import Policy

_LIMITS = ("max_epsilon", "max_delta", "unit")
"""Options without which --trust demands no privacy."""

_FURTHER = (
    "adversary",
    "adjacency",
    "model",
    "min_version",
    "max_age_days",
    "revocations",
)
"""Options that have a default; `recompute` is one as well, and may stand beside --policy."""


def policy_options(parser: argparse.ArgumentParser) -> None:
    """Adds --policy, or --trust with its limits; `policy_from` reads them."""
    group = parser.add_argument_group(
        "policy", "what is demanded of the certificate: a file, or a trust store with limits"
    )
    group.add_argument("--policy", type=Path, metavar="FILE", help="policy in TOML")
    group.add_argument("--trust", type=Path, metavar="FILE", help="trust store in JSON")
    group.add_argument("--max-epsilon", type=float, metavar="E", help="largest epsilon accepted")
    group.add_argument("--max-delta", type=float, metavar="D", help="largest delta accepted")
    group.add_argument(
        "--unit",
        action="append",
        metavar="UNIT",
        help="privacy unit accepted, such as document; may be given again",
    )
    group.add_argument(
        "--adversary",
        metavar="WHO",
        help="against whom the guarantee must hold (default: model-recipient)",
    )
    group.add_argument(
        "--adjacency",
        action="append",
        metavar="HOW",
        help="how neighbouring data may differ, such as zero-out; may be given again (default: "
        "add-remove)",
    )
    _identity_options(group)
    group.add_argument(
        "--recompute",
        choices=("fast", "exact", "offline"),
        help="how epsilon is recomputed; beside --policy never less than it demands "
        "(default: fast)",
    )
    group.add_argument(
        "--integrity-only",
        action="store_true",
        help="with --trust alone: check the signature and the files, demand no privacy",
    )
    parser.set_defaults(refuse_usage=parser.error)


def _identity_options(group: Any) -> None:
    """Options about which model this is and how fresh what is said about it."""
    group.add_argument("--model", metavar="NAME", help="name the model must have (default: any)")
    group.add_argument(
        "--min-version", type=int, metavar="N", help="least version of the model (default: any)"
    )
    group.add_argument(
        "--max-age-days",
        type=float,
        metavar="N",
        help="how long ago the certificate may have been issued (default: any time)",
    )
    group.add_argument(
        "--revocations",
        type=Path,
        metavar="FILE",
        help="revocation list, which must then be there and be valid now",
    )


def policy_from(options: argparse.Namespace) -> Policy:
    """Returns the policy that the options state; what they leave unsaid is a usage error.

    Args:
        options: Parsed options of a parser that `policy_options` extended.

    Raises:
        InputError: A file can't be read or its content is refused.
        SystemExit: The options do not state one policy (exit code 2).
    """
    given = [name for name in (*_LIMITS, *_FURTHER) if getattr(options, name) is not None]
    if (options.policy is None) == (options.trust is None):
        options.refuse_usage("give either --policy FILE or --trust FILE with its limits")
    if options.policy is not None:
        return _from_file(options, given)
    if options.integrity_only:
        return _integrity_only(options, given)
    if not set(_LIMITS) <= set(given):
        options.refuse_usage(
            "--trust needs --max-epsilon, --max-delta and --unit, or --integrity-only for no "
            "demand of privacy"
        )
    return _from_limits(options, given)


def _from_file(options: argparse.Namespace, given: list[str]) -> Policy:
    """The policy of a file; only recomputing may be asked for on top, and only more of it."""
    from hushdoc.certificate.recompute import RECOMPUTE_MODES
    from hushdoc.policy.policy import Policy

    if given or options.integrity_only:
        options.refuse_usage(
            f"{_spelled(given) or '--integrity-only'} stands beside --policy, which states all "
            "limits"
        )
    policy = Policy.from_toml(options.policy)
    if options.recompute is None:
        return policy
    if RECOMPUTE_MODES.index(options.recompute) < RECOMPUTE_MODES.index(policy.recompute):
        options.refuse_usage(
            f"--recompute {options.recompute} is less than the policy's {policy.recompute}"
        )
    return dataclasses.replace(policy, recompute=options.recompute)


def _integrity_only(options: argparse.Namespace, given: list[str]) -> Policy:
    from hushdoc.policy.policy import Policy
    from hushdoc.signing.trust_store import TrustStore

    privacy = [name for name in given if name != "model"]
    if options.recompute is not None:
        privacy.append("recompute")
    if privacy:
        options.refuse_usage(f"{_spelled(privacy)} stands beside --integrity-only")
    return Policy.integrity_only(TrustStore.from_file(options.trust), model=options.model)


def _from_limits(options: argparse.Namespace, given: list[str]) -> Policy:
    from hushdoc.policy.policy import Policy
    from hushdoc.signing.trust_store import TrustStore

    trust = TrustStore.from_file(options.trust)
    further = {name: getattr(options, name) for name in _FURTHER if name in given}
    if "adjacency" in further:
        further["adjacency"] = frozenset(further["adjacency"])
    if "revocations" in further:
        # Whoever names a list wants it obeyed, so one that is missing refuses.
        further["revocation"] = "required"
    try:
        return Policy(
            trust=trust,
            max_epsilon=options.max_epsilon,
            max_delta=options.max_delta,
            privacy_units=frozenset(options.unit),
            recompute=options.recompute or "fast",
            **further,
        )
    except ValueError as error:
        options.refuse_usage(str(error))
        raise


def _spelled(names: list[str]) -> str:
    return ", ".join("--" + name.replace("_", "-") for name in names)
