"""The subcommand `trust`: the keys that an application trusts, and their revocation."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from hushdoc.arguments import counted, short_repr
from hushdoc.commands import revocation, stores
from hushdoc.commands.keys import key_options
from hushdoc.commands.parsing import Subcommands
from hushdoc.errors import InputError
from hushdoc.signing.trust_store import CERTIFICATE, TrustStore

MIN_PREFIX = 8
"""Fewest hexadecimal digits that identify a key of a store."""


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc trust`; cryptography is imported only when it runs."""
    parser = subcommands.add_parser(
        "trust",
        help="manage trusted keys, and revoke keys and certificates",
        description="Changes trust stores, which list the keys that an application trusts, and "
        "issues revocation lists, which list the keys and certificates that it no longer does.",
    )
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    _register_store(actions)
    revocation.register(actions)


def _register_store(actions: Subcommands) -> None:
    add = actions.add_parser(
        "add",
        help="trust a key",
        description="Adds a key to a trust store, and creates the store if it does not exist. What "
        "the file says about a key is only a proposal: --name and --model override it, and a key "
        "may sign certificates and nothing else unless --role says so.",
    )
    stores.store_option(add)
    add.add_argument(
        "--public-key",
        type=Path,
        required=True,
        metavar="FILE",
        help="public key to trust: a trust store as `hushdoc keygen` writes it, or PEM",
    )
    key_options(
        add,
        name="that of the file's trust store, or the PEM file's name",
        model="those of the file's trust store; all models for PEM",
        role=f"{CERTIFICATE} alone, whatever the file proposes",
    )
    add.set_defaults(run=run_add)

    listing = actions.add_parser(
        "list",
        help="list the keys of a trust store",
        description="Lists the keys of a trust store: their ids, names, roles and models.",
    )
    stores.store_option(listing)
    listing.set_defaults(run=run_list)

    remove = actions.add_parser(
        "remove",
        help="stop trusting a key",
        description="Removes a key from a trust store. What it signed is not revoked for others: "
        "`hushdoc trust revoke` does that.",
    )
    stores.store_option(remove)
    remove.add_argument(
        "--keyid",
        required=True,
        metavar="KEYID",
        help=f"id of the key, or at least its first {MIN_PREFIX} digits",
    )
    remove.set_defaults(run=run_remove)


def run_add(options: argparse.Namespace) -> int:
    """Adds the keys of a file to a store and prints them."""
    found = stores.public_keys(options.public_key)
    if options.name is not None and len(found) != 1:
        options.refuse_usage(f"--name names one key, and '{options.public_key}' holds {len(found)}")
    given: dict[str, Any] = {
        "name": options.name,
        "models": tuple(dict.fromkeys(options.model or ())),
        "roles": tuple(dict.fromkeys(options.role or ())),
    }
    for key in found:
        if not options.role and CERTIFICATE not in key.roles:
            options.refuse_usage(
                f"the key of {short_repr(key.name)} is meant for {' and '.join(key.roles)}; to "
                f"trust it with that, name --role {key.roles[0]}"
            )
    changes = {"roles": (CERTIFICATE,)} | {name: value for name, value in given.items() if value}
    added = [dataclasses.replace(key, **changes) for key in found]

    def change_store(store: TrustStore) -> TrustStore:
        known = {key.keyid for key in store.keys}
        for key in added:
            if key.keyid in known:
                raise InputError(
                    f"The key {key.keyid} is in the store already. To change what it may sign, "
                    "remove it with `hushdoc trust remove` first.",
                    code="KEY_EXISTS",
                )
        return dataclasses.replace(store, keys=(*store.keys, *added))

    stores.change(options.store, change_store, create=True)
    for key in added:
        stores.print_key(key)
    return 0


def run_list(options: argparse.Namespace) -> int:
    """Prints every key of a store."""
    store = TrustStore.from_file(options.store)
    for key in store.keys:
        stores.print_key(key)
    if not store.keys:
        print("No key is trusted.")
    if store.min_revocation_sequence:
        print(f"Revocation lists before number {store.min_revocation_sequence} are refused.")
    else:
        print("No revocation list has been seen yet.")
    for keyid in sorted(store.revoked_revokers):
        print(f"Revocation lists by the revoked key {keyid} are refused.")
    return 0


def run_remove(options: argparse.Namespace) -> int:
    """Removes one key from a store."""
    wanted = options.keyid.lower()

    def change_store(store: TrustStore) -> TrustStore:
        if len(wanted) < MIN_PREFIX:
            raise InputError(
                f"{short_repr(options.keyid)} has {counted(len(wanted), 'digit')}, expected "
                f"{MIN_PREFIX} or more of a key's id. List the keys with `hushdoc trust list`.",
                code="UNKNOWN_KEY",
            )
        found = [key for key in store.keys if key.keyid.startswith(wanted)]
        if len(found) != 1:
            raise InputError(
                f"{short_repr(options.keyid)} names {len(found) or 'no'} key"
                f"{'s' * (len(found) > 1)} of the store, expected one. List them with "
                "`hushdoc trust list`, and give more digits.",
                code="UNKNOWN_KEY",
            )
        return dataclasses.replace(
            store, keys=tuple(key for key in store.keys if key is not found[0])
        )

    before, after = stores.change(options.store, change_store)
    for key in before.keys:
        if key not in after.keys:
            print("No longer trusted:")
            stores.print_key(key)
    return 0
