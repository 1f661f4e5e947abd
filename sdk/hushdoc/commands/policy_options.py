"""The options by which a verb that opens an artifact is told its policy."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hushdoc.policy import Policy

_PARTS = ("max_epsilon", "max_delta", "unit", "adversary")


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
        "--integrity-only",
        action="store_true",
        help="with --trust alone: check the signature and the files, demand no privacy",
    )
    parser.set_defaults(refuse_usage=parser.error)


def policy_from(options: argparse.Namespace) -> Policy:
    """Returns the policy that the options state; what they leave unsaid is a usage error.

    Args:
        options: Parsed options of a parser that `policy_options` extended.

    Raises:
        InputError: A file can't be read or its content is refused.
        SystemExit: The options do not state one policy (exit code 2).
    """
    from hushdoc.policy import Policy
    from hushdoc.trust import TrustStore

    given = [name for name in _PARTS if getattr(options, name) is not None]
    spelled = ", ".join("--" + name.replace("_", "-") for name in given)
    if (options.policy is None) == (options.trust is None):
        options.refuse_usage("give either --policy FILE or --trust FILE with its limits")
    if options.policy is not None:
        if given or options.integrity_only:
            options.refuse_usage(
                f"{spelled or '--integrity-only'} stands beside --policy, which states all limits"
            )
        return Policy.from_toml(options.policy)
    if options.integrity_only:
        if given:
            options.refuse_usage(f"{spelled} stands beside --integrity-only")
        return Policy.integrity_only(TrustStore.from_file(options.trust))
    missing = [name for name in _PARTS[:3] if name not in given]
    if missing:
        options.refuse_usage(
            "--trust needs --max-epsilon, --max-delta and --unit, or --integrity-only for no "
            "demand of privacy"
        )
    trust = TrustStore.from_file(options.trust)
    try:
        return Policy(
            trust=trust,
            max_epsilon=options.max_epsilon,
            max_delta=options.max_delta,
            privacy_units=frozenset(options.unit),
            adversary=options.adversary or "model-recipient",
        )
    except ValueError as error:
        options.refuse_usage(str(error))
        raise
