"""The actions `trust revoke` and `trust update`: issuing a revocation list, and recording it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import printable, short_repr
from hushdoc.commands import notices, passwords, stores
from hushdoc.commands.passwords import passphrase_option
from hushdoc.signing.trust_store import REVOCATION, TrustedKey, TrustStore
from hushdoc.system import locks

if TYPE_CHECKING:
    from hushdoc.commands.parsing import CommandParser, Subcommands
    from hushdoc.signing.keys import PrivateKey
    from hushdoc.signing.revocation import RevocationList

MAX_DAYS = 3650
"""Longest time until the next revocation list."""


def register(actions: Subcommands) -> None:
    """Adds both actions to `hushdoc trust`; cryptography is imported only when they run."""
    revoke = actions.add_parser(
        "revoke",
        help="issue a revocation list, or the next one",
        description="Writes a signed revocation list with the next number. It contains everything "
        "that the previous list revoked, and what is named here; name nothing to renew it.",
    )
    _list_option(revoke)
    revoke.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="private key in PEM that signs"
    )
    passphrase_option(revoke)
    revoke.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help="trust store with the key of the previous list, if another key signed that",
    )
    revoke.add_argument(
        "--revoke-key",
        action="append",
        default=[],
        type=_hexadecimal(64),
        metavar="KEYID",
        help="key to revoke; may be given again",
    )
    revoke.add_argument(
        "--revoke-certificate",
        action="append",
        default=[],
        type=_hexadecimal(32),
        metavar="ID",
        help="certificate to revoke; may be given again",
    )
    revoke.add_argument("--reason", metavar="TEXT", help="why, for people")
    revoke.add_argument(
        "--next-update-days",
        type=_days,
        required=True,
        metavar="N",
        help="days after which this list expires; issue the next one before",
    )
    revoke.set_defaults(run=run_revoke)

    update = actions.add_parser(
        "update",
        help="record a revocation list, so that no older one is accepted",
        description="Checks a revocation list against a trust store and records its number there, "
        "and which keys of the store may sign no list any more, since this one revokes them.",
    )
    stores.store_option(update)
    _list_option(update)
    update.set_defaults(run=run_update)


def run_revoke(options: argparse.Namespace) -> int:
    """Issues the next revocation list."""
    from hushdoc.certificate import certificate as certificates
    from hushdoc.signing import revocation

    now = datetime.now(UTC)
    certificates.plausible(now)  # a list that another clock dates would be obeyed by nobody
    path = options.list.resolve()
    private_key = passwords.private_key(options)
    with notices.locked(path.parent):
        following = revocation.successor(
            _previous(path, private_key, options.store),
            keys=options.revoke_key,
            certificates=options.revoke_certificate,
            reason=options.reason or None,
            valid_for=timedelta(days=options.next_update_days),
            now=now,
        )
        line = revocation.sign_list(following, private_key)
        locks.rewrite(path, line.encode("ascii") + b"\n")
    _print_revoked(following)
    print("Publish it; applications record it with `hushdoc trust update`.")
    return 0


def run_update(options: argparse.Namespace) -> int:
    """Records the number of a revocation list in a store, and whose lists it no longer obeys."""
    from hushdoc.certificate import certificate as certificates
    from hushdoc.signing import revocation

    now = datetime.now(UTC)
    certificates.plausible(now)
    seen = []

    def change_store(store: TrustStore) -> TrustStore:
        seen.append(revocation.read_list_file(options.list, store, now=now))
        return revocation.remembering(store, seen[0].sequence, seen[0].keyids)

    _, store = stores.change(options.store, change_store)
    _print_revoked(seen[0])
    print("The store has its number alone. The list itself is obeyed where it is named: by")
    print("--revocations FILE, or as revocations in a policy file.")
    left = revocation.unrevoked(store.keys, seen[0])
    for key in store.keys:
        if key not in left:
            print("Revoked, and in the store:")
            stores.print_key(key)
    return 0


def _previous(path: Path, private_key: PrivateKey, store: Path | None) -> RevocationList | None:
    """The list to continue: signed by the same key, or by one that the store trusts."""
    from hushdoc.signing import revocation

    content = revocation.list_content(path)
    if content is None:
        return None
    own = TrustedKey.of(private_key, roles=(REVOCATION,))
    known = TrustStore(keys=()) if store is None else TrustStore.from_file(store)
    others = tuple(key for key in known.keys if key.keyid != own.keyid)
    trust = TrustStore(keys=(own, *others), revoked_revokers=known.revoked_revokers)
    return revocation.verify_list(content, trust)


def _list_option(parser: CommandParser) -> None:
    parser.add_argument(
        "--list", type=Path, required=True, metavar="FILE", help="revocation list, one signed line"
    )


def _hexadecimal(digits: int) -> Callable[[str], str]:
    def read(value: str) -> str:
        if len(value) != digits or set(value.lower()) - set("0123456789abcdef"):
            raise argparse.ArgumentTypeError(
                f"{short_repr(value)}: expected {digits} hexadecimal digits"
            )
        return value.lower()

    return read


def _days(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 6 and 1 <= int(value) <= MAX_DAYS):
        raise argparse.ArgumentTypeError(f"{short_repr(value)}: expected 1 to {MAX_DAYS} days")
    return int(value)


def _print_revoked(revoked: RevocationList) -> None:
    print(f"Revocation list number {revoked.sequence}, issued {revoked.issued_at}; it is trusted")
    print(f"until {revoked.next_update}. Revoked in it:")
    for key in revoked.revoked_keys:
        print(f"  key         {key.keyid}  {printable(key.reason or '', 200)}".rstrip())
    for item in revoked.revoked_certificates:
        print(f"  certificate {item.certificate_id}  {printable(item.reason or '', 200)}".rstrip())
    if not (revoked.revoked_keys or revoked.revoked_certificates):
        print("  nothing")
