"""The policy of a subcommand that opens an artifact: its options, or a file found without them.

Contract: a policy is taken from --policy, else from the file that HUSHDOC_POLICY names, else from
the user's configuration folder; never from the working directory or from beside an artifact, where
whoever hands in the artifact could put one. Where there is none, the one artifact that is shipped
with the installation has the policy that is shipped with it. A policy that no option named is
reported.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import printable
from hushdoc.commands import sample
from hushdoc.commands.parsing import CommandParser, usage_errors
from hushdoc.errors import CertificateError, InputError

if TYPE_CHECKING:
    from hushdoc.policy.policy import Policy

VARIABLE = "HUSHDOC_POLICY"
"""Names the policy of whoever runs the program, by an absolute path."""

_LIMITS = ("max_epsilon", "max_delta", "unit")
"""Options without which --trust requires no privacy."""

_FURTHER = (
    "adversary",
    "adjacency",
    "accept_treatment",
    "model",
    "min_version",
    "max_age_days",
    "revocations",
)
"""Options that have a default; `recompute` is one as well, and may be combined with --policy."""


def policy_options(parser: CommandParser) -> None:
    """Adds --policy, or --trust with its limits; `policy_from` reads them."""
    group = parser.add_argument_group(
        "policy",
        "what is required of the certificate: a policy file, or a trust store with limits; without "
        f"either, the file that {VARIABLE} names, else policy.toml in the user's configuration "
        "folder",
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
        "--integrity-only",
        action="store_true",
        help="with --trust alone: check the signature and the files, require no privacy",
    )
    group.add_argument(
        "--recompute",
        choices=("fast", "exact", "offline"),
        help="how epsilon is recomputed; with a policy file never less than it requires "
        "(default: fast)",
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
    group.add_argument(
        "--accept-treatment",
        action="append",
        metavar="HOW",
        help="treatment of an access to protected data that counts besides accounted and "
        "not-released: declared-public or post-processing; may be given again",
    )
    group.add_argument("--model", metavar="NAME", help="name the model must have (default: any)")
    group.add_argument(
        "--min-version", type=int, metavar="N", help="lowest version accepted (default: any)"
    )
    group.add_argument(
        "--max-age-days",
        type=float,
        metavar="N",
        help="how many days ago the certificate may have been issued (default: any time)",
    )
    group.add_argument(
        "--revocations",
        type=Path,
        metavar="FILE",
        help="revocation list, which must exist and be valid now",
    )
    parser.mark_expert("--recompute", *map(_flag, _FURTHER))


def given_of_policy(options: argparse.Namespace) -> list[str]:
    """Returns the options of a policy that were given, for commands that may not need one."""
    names = ("policy", "trust", *_LIMITS, "integrity_only", "recompute", *_FURTHER)
    return [_flag(name) for name in names if getattr(options, name) not in (None, False)]


def policy_from(options: argparse.Namespace, *, again: bool = False) -> Policy:
    """Returns the one policy that the options name, else one found without them, else NO_POLICY.

    Read `again`, it says nothing on standard error.
    """
    given = [name for name in (*_LIMITS, *_FURTHER) if getattr(options, name) is not None]
    if options.integrity_only:
        given.append("integrity_only")
    if options.policy is not None and options.trust is not None:
        options.refuse_usage("--policy and --trust exclude each other; give one of them")
    if options.trust is None:
        if given and options.policy is None:
            options.refuse_usage(f"{_flags(given)} needs --trust FILE")
        if given:
            options.refuse_usage(f"{_flags(given)} can't be combined with --policy")
        path = options.policy or _found(options.artifact, again)
        return _noted(_from_file(options, path), again)
    if options.integrity_only:
        return _integrity_only(options, given)
    if not set(_LIMITS) <= set(given):
        options.refuse_usage(
            "--trust needs --max-epsilon, --max-delta and --unit, or --integrity-only to require "
            "no privacy"
        )
    return _noted(_from_limits(options, given), again)


def _noted(policy: Policy, again: bool) -> Policy:
    """Returns a policy, and says where nothing that was revoked is refused by it."""
    found = None if again else _unlooked_for(policy)
    if found is not None:
        print(f"hushdoc: note: {found}", file=sys.stderr)
    return policy


def _unlooked_for(policy: Policy) -> str | None:
    """Why what is revoked is accepted, though there is a list or the policy names one; or None."""
    sequence, path = policy.trust.min_revocation_sequence, policy.revocations
    if path is None and sequence:
        return (
            f"the trust store has seen revocation list {sequence}, and the policy "
            "names none, so what is revoked is accepted; name the list with --revocations, or as "
            "revocations in the policy file"
        )
    demanded = sequence or policy.revocation == "required"
    if path is not None and not demanded and not os.path.exists(path):
        return (
            f"the policy names the revocation list {printable(path)}, which is not there, so what "
            'is revoked is accepted; fetch it, correct the path, or write revocation = "required" '
            "to refuse without it"
        )
    return None


def user_policy_file() -> Path:
    """Returns where this system keeps a user's own policy, whether or not there is one."""
    home, system = Path(os.path.expanduser("~")), sys.platform
    if system == "win32":
        folder = Path(os.environ.get("APPDATA") or home / "AppData/Roaming")
    elif system == "darwin":
        folder = home / "Library/Application Support"
    else:
        folder = Path(os.environ.get("XDG_CONFIG_HOME", ""))
        if not folder.is_absolute():  # as the XDG Base Directory Specification has it
            folder = home / ".config"
    return folder / "hushdoc" / "policy.toml"


def _found(artifact: Path, again: bool) -> Path:
    """The policy of the environment, the user's configuration or the sample, which is reported."""
    named = os.environ.get(VARIABLE)
    path = Path(named) if named else user_policy_file()
    if named and not path.is_absolute():
        raise InputError(
            f"{VARIABLE} is '{named}', expected an absolute path: a policy never depends on the "
            "working directory. Write the whole path.",
            code="BAD_POLICY",
        )
    if named:
        reason = VARIABLE
    elif path.is_absolute() and os.path.isfile(path):
        reason = "the user's configuration"
    elif sample.is_shipped(artifact):
        path, reason = sample.POLICY, "shipped for the model of `hushdoc sample` alone"
    else:
        from hushdoc.artifact import folder

        with folder.opened(artifact):  # a mistyped path is no question of policy
            pass
        raise CertificateError(
            "No policy was given. Give --policy FILE, or --trust FILE with its limits; or set "
            f"{VARIABLE}, or write '{path}'.",
            code="NO_POLICY",
        )
    if not again:
        print(f"hushdoc: policy {printable(path)} ({reason})", file=sys.stderr)
    return path


def _from_file(options: argparse.Namespace, path: Path) -> Policy:
    """The policy of a file; --recompute may require more than it does, never less."""
    from hushdoc.certificate.recompute import RECOMPUTE_MODES
    from hushdoc.policy.policy import Policy

    policy = Policy.from_toml(path)
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

    privacy = [name for name in given if name not in ("model", "integrity_only")]
    if options.recompute is not None:
        privacy.append("recompute")
    if privacy:
        options.refuse_usage(f"{_flags(privacy)} can't be combined with --integrity-only")
    return Policy.integrity_only(TrustStore.from_file(options.trust), model=options.model)


def _from_limits(options: argparse.Namespace, given: list[str]) -> Policy:
    from hushdoc.policy.policy import Policy
    from hushdoc.signing.trust_store import TrustStore

    trust = TrustStore.from_file(options.trust)
    further = {name: getattr(options, name) for name in _FURTHER if name in given}
    if "adjacency" in further:
        further["adjacency"] = frozenset(further["adjacency"])
    if "accept_treatment" in further:
        further["treatments"] = {*Policy.treatments, *further.pop("accept_treatment")}
    if "revocations" in further:
        # Whoever names a list wants it enforced, so a missing one refuses.
        further["revocation"] = "required"
    with usage_errors(options):
        return Policy(
            trust=trust,
            max_epsilon=options.max_epsilon,
            max_delta=options.max_delta,
            privacy_units=frozenset(options.unit),
            recompute=options.recompute or "fast",
            **further,
        )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _flags(names: list[str]) -> str:
    return ", ".join(map(_flag, names))
