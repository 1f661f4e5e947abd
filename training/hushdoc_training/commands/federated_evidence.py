"""`hushdoc federated check` and `countersign`: whether a certificate says what clients said."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import counted
from hushdoc.commands import notices
from hushdoc.commands.parsing import Subcommands
from hushdoc_training.commands import federated_network

if TYPE_CHECKING:
    from hushdoc.artifact.artifact import Unverified
    from hushdoc_training.federated.roster import Roster


def register(actions: Subcommands) -> None:
    """Adds `check` and `countersign` to `hushdoc federated`."""
    check = actions.add_parser(
        "check",
        help="hold a certificate against what clients of the run have signed",
        description="Makes the claim of a federated run anew, of the receipts that clients signed, "
        "and compares it with an artifact's certificate. It needs no trust in the coordinator, if "
        "the roster is the one that clients approved: ask them for the digest that it prints, as "
        "anybody can write a roster of parties that are nobody's.",
    )
    check.add_argument("artifact", type=Path, metavar="ARTIFACT", help="artifact of the run")
    check.add_argument(
        "--roster", type=Path, required=True, metavar="FILE", help="the run's roster"
    )
    check.set_defaults(run=run_check)
    sign = actions.add_parser(
        "countersign",
        help="sign an artifact's certificate as a client of its run",
        description="Does what `check` does, finds this client's own words among the receipts, and "
        "those of all who took part with it, prints what is signed, and adds a signature.",
    )
    sign.add_argument("folder", type=Path, metavar="FOLDER", help="this client's own folder")
    sign.add_argument("artifact", type=Path, metavar="ARTIFACT", help="artifact of the run")
    sign.add_argument(
        "--approve",
        required=True,
        metavar="DIGEST",
        help="the roster's digest, as compared with all other parties",
    )
    sign.set_defaults(run=run_countersign)
    for action in (check, sign):
        action.add_argument(
            "--receipts",
            type=Path,
            required=True,
            metavar="FOLDER",
            help="the folder `receipts` of the run's coordinator",
        )
        action.set_defaults(parser=action, extra="training")


def run_check(options: argparse.Namespace) -> int:
    """Compares, and returns 0 where the certificate says what clients said."""
    from hushdoc.commands import signing
    from hushdoc_training.federated import roster as rosters
    from hushdoc_training.recipes import federated_parties

    found = signing.intact(options.artifact)
    roster = rosters.load(options.roster)
    federated_parties.require_readable(roster)
    number = _require(found, roster, options.receipts, None)
    print(f"The certificate says what {counted(number, 'client')} signed, and no more.")
    print(f"Roster:   {roster.digest}  (ask the clients whether they approved this digest)")
    return 0


def run_countersign(options: argparse.Namespace) -> int:
    """Compares, prints, and signs."""
    from hushdoc.commands import signing

    roster, key = federated_network.approved(options)
    with notices.locked(options.artifact):
        found = signing.intact(options.artifact)
        _require(found, roster, options.receipts, options.folder)
        signing.show(found)
        signing.sign(options.artifact, found, key)
    return 0


def _require(found: Unverified, roster: Roster, receipts: Path, own: Path | None) -> int:
    """Raises unless a certificate says what clients said; returns how many clients said it.

    Of a client's `own` folder its own words are looked for as well.
    """
    from hushdoc.errors import CheckpointError
    from hushdoc.signing import keys
    from hushdoc_training.federated import account, evidence, testimony
    from hushdoc_training.recipes import federated_parties

    testified = testimony.kept(receipts, roster)
    if own is not None:
        known = account.journal_of(own / federated_network.STATE)
        if known is None:
            raise CheckpointError(
                f"'{own}' knows of no run that has ended. Countersign when the coordinator has "
                "ended it, from the folder that this client ran in."
            )
        name = roster.party_of(keys.load_private_key(own / federated_parties.KEY)).name
        evidence.require_own(*known, name, roster, testified)
    federated_parties.require_testified(found.certificate.claim, roster, testified)
    return len(testified)
