"""The verb `trust`: the keys an application trusts, and which of them no longer."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from hushdoc.arguments import short_repr
from hushdoc.commands import revocation, stores
from hushdoc.commands.keys import key_options
from hushdoc.errors import InputError
from hushdoc.signing.trust_store import CERTIFICATE, TrustStore

MIN_PREFIX = 8
"""Hexadecimal digits that name a key of one store."""


def register(verbs: Any) -> None:
    """Adds `hushdoc trust`; cryptography is imported only when it runs."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "trust",
        help="manage the keys that are trusted, and revoke keys and certificates",
        description="Changes trust stores, which say whose signatures an application trusts, and "
        "issues revocation lists, which say whose it no longer trusts.",
    )
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    _register_store(actions)
    revocation.register(actions)


def _register_store(actions: Any) -> None:
    add: argparse.ArgumentParser = actions.add_parser(
        "add",
        help="trust a key",
        description="Adds a key to a trust store, and makes the store if it is not there. What "
        "the file says about a key is only a proposal: --name, --model and --role take its place.",
    )
    stores.store_option(add)
    add.add_argument(
        "--key",
        type=Path,
        required=True,
        metavar="FILE",
        help="public key: a trust store as `hushdoc keygen` writes it, or PEM",
    )
    key_options(
        add,
        name="what the store says, or the PEM file's name",
        model="what the store says; all for PEM",
        role=f"what the store says; {CERTIFICATE} for PEM",
    )
    add.set_defaults(run=run_add, refuse_usage=add.error)

    shown: argparse.ArgumentParser = actions.add_parser("list", help="show what a store trusts")
    stores.store_option(shown)
    shown.set_defaults(run=run_list)

    remove: argparse.ArgumentParser = actions.add_parser("remove", help="stop trusting a key")
    stores.store_option(remove)
    remove.add_argument(
        "--keyid",
        required=True,
        metavar="KEYID",
        help=f"the key's id, or its first {MIN_PREFIX} digits or more",
    )
    remove.set_defaults(run=run_remove)


def run_add(options: argparse.Namespace) -> int:
    """Adds the keys of a file to a store and shows them."""
    found = stores.public_keys(options.key)
    if options.name is not None and len(found) != 1:
        options.refuse_usage(f"--name names one key, and '{options.key}' holds {len(found)}")
    change: dict[str, Any] = {
        "name": options.name,
        "models": tuple(dict.fromkeys(options.model or ())),
        "roles": tuple(dict.fromkeys(options.role or ())),
    }
    stated = {name: value for name, value in change.items() if value}
    added = [dataclasses.replace(key, **stated) for key in found]

    def change_store(store: TrustStore) -> TrustStore:
        known = {key.keyid for key in store.keys}
        for key in added:
            if key.keyid in known:
                raise InputError(
                    f"The key {key.keyid} is in the store already. To change what it may sign, "
                    "take it out with `hushdoc trust remove` first.",
                    code="KEY_EXISTS",
                )
        return dataclasses.replace(store, keys=(*store.keys, *added))

    stores.change(options.store, change_store, create=True)
    for key in added:
        stores.print_key(key)
    return 0


def run_list(options: argparse.Namespace) -> int:
    """Shows every key of a store."""
    store = TrustStore.from_file(options.store)
    for key in store.keys:
        stores.print_key(key)
    if not store.keys:
        print("No key is trusted.")
    if store.min_revocation_sequence:
        print(f"Revocation lists before number {store.min_revocation_sequence} are refused.")
    else:
        print("No revocation list has been seen yet.")
    return 0


def run_remove(options: argparse.Namespace) -> int:
    """Takes one key out of a store."""
    wanted = options.keyid.lower()

    def change_store(store: TrustStore) -> TrustStore:
        found = [key for key in store.keys if key.keyid.startswith(wanted)]
        if len(found) != 1 or len(wanted) < MIN_PREFIX:
            raise InputError(
                f"{short_repr(options.keyid)} names {len(found)} keys of the store, expected one "
                f"by at least {MIN_PREFIX} digits. `hushdoc trust list` shows them.",
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
