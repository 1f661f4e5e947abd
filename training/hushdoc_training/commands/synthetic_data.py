"""Training on a sealed set of synthetic documents: the option, and what the claim says of it.

All tasks that take such a set for --data do it here.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc_training.commands import kie_data
from hushdoc_training.commands.training_options import add_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hushdoc.certificate.claim import Claim, PublicData
    from hushdoc.synthetic_documents import SyntheticDocuments


def add_modes(privacy: argparse._ArgumentGroup) -> None:
    """Adds the options that say how private the documents are, of which one is given at most."""
    mode = privacy.add_mutually_exclusive_group()
    mode.add_argument(
        "--public", action="store_true", help="train without privacy: the documents are public"
    )
    mode.add_argument(
        "--not-private",
        action="store_true",
        help="train on private documents without privacy; the certificate says so",
    )
    add_option(mode)
    add_number(mode, "--epsilon", "E", 8.0, "privacy budget")


def add_option(group: argparse._ActionsContainer) -> None:
    """Adds --synthetic to the options that say how private the documents are."""
    group.add_argument(
        "--synthetic",
        type=Path,
        metavar="POLICY",
        help="train without noise on the sealed set of synthetic documents in --data, which has to "
        "satisfy this policy in TOML; the certificate inherits the guarantees of the set",
    )


def opened(options: argparse.Namespace) -> SyntheticDocuments | None:
    """Returns the set in --data, once it is verified; None where --synthetic is not given."""
    if options.synthetic is None:
        return None
    from hushdoc.policy.policy import Policy
    from hushdoc.synthetic_documents import SyntheticDocuments

    if options.name is not None or options.documents is not None:
        options.refuse_usage(
            "--name and --documents are not of a set of synthetic documents: its certificate names "
            "the protected ones, and all of it is read"
        )
    return SyntheticDocuments.open(options.data, policy=Policy.from_toml(options.synthetic))


def claim_without_noise(
    options: argparse.Namespace,
    documents: SyntheticDocuments | None,
    history: tuple[PublicData, ...],
    *,
    name: str,
    invented: bool,
    training: Mapping[str, Any],
    before: Claim | None,
) -> Claim:
    """Returns the claim of training without noise, going on from that of its start if it has one.

    What the start learned from is `history`, and its claim `before`.

    Raises:
        PrivacyError: The start has a guarantee that would be lost.
    """
    from hushdoc_training import inherited_claims
    from hushdoc_training.privacy import claims
    from hushdoc_training.runs import continued

    if documents is not None:
        claim = inherited_claims.claim_of(documents, history, training=training)
    elif options.public:
        learned = kie_data.public_data(name, invented, options)
        claim = claims.public((*history, learned), training=training)
    else:
        claim = claims.not_private(name, history, training=training)
    return continued.without_privacy(claim, before)
