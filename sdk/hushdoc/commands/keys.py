"""The subcommand `keygen`: a signing key, and a trust store that contains it."""

from __future__ import annotations

import argparse
from pathlib import Path

from hushdoc.arguments import printable
from hushdoc.commands.parsing import CommandParser, Subcommands
from hushdoc.commands.passwords import passphrase_from, passphrase_option
from hushdoc.signing.keys import ALGORITHMS, ED25519
from hushdoc.signing.trust_store import ANY_MODEL, CERTIFICATE, REVOCATION, ROLES

NEXT_STEPS = {
    CERTIFICATE: "hushdoc export ... --key {key}, or hushdoc sign ARTIFACT --key {key}",
    REVOCATION: "hushdoc trust revoke --list LIST --key {key}",
}
"""The subcommands that take a key of each role."""


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc keygen`; cryptography is imported only when it runs."""
    parser = subcommands.add_parser(
        "keygen",
        help="generate a signing key and a trust store that contains it",
        description="Generates a signing key. OUT.key is secret and stays with the signer; "
        "OUT.trust.json is public and goes to whoever verifies, as it is or merged into another "
        "trust store by `hushdoc trust add`. Neither file is ever overwritten.",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="OUT",
        help="both file names without their ends, such as keys/release",
    )
    parser.add_argument(
        "--algorithm",
        choices=ALGORITHMS,
        default=ED25519,
        help=f"signature algorithm (default: {ED25519}; key services offer ecdsa-p256)",
    )
    passphrase_option(parser, encrypts=True)
    key_options(parser, name="last part of OUT", model="all models", role=CERTIFICATE)
    parser.set_defaults(run=run)


def key_options(parser: CommandParser, *, name: str, model: str, role: str) -> None:
    """Adds --name, --model and --role, what a trust store says about a key, with their defaults."""
    parser.add_argument("--name", help=f"name of the key's owner, for people (default: {name})")
    parser.add_argument(
        "--model",
        action="append",
        metavar="NAME",
        help=f"model the key may sign for; may be given again (default: {model})",
    )
    parser.add_argument(
        "--role",
        action="append",
        choices=ROLES,
        help=f"what the key may sign; may be given again (default: {role})",
    )


def run(options: argparse.Namespace) -> int:
    """Writes both files, or neither."""
    from hushdoc.signing import keys
    from hushdoc.signing.trust_store import TrustedKey, TrustStore
    from hushdoc.system import atomic_files

    name = atomic_files.name_of(options.out)
    secret, public = (options.out.with_name(name + end) for end in (".key", ".trust.json"))
    for path in (secret, public):
        atomic_files.require_free(path)
    passphrase = passphrase_from(options)
    key = keys.generate_key(options.algorithm)
    trusted = TrustedKey.of(
        key,
        name=options.name or name,
        models=tuple(dict.fromkeys(options.model or (ANY_MODEL,))),
        roles=tuple(dict.fromkeys(options.role or (CERTIFICATE,))),
    )
    content = TrustStore(keys=(trusted,)).to_json()
    TrustStore.from_json(content)  # what can't be read back is never written
    try:
        secret.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise atomic_files.not_written(secret.parent, problem) from problem
    keys.write_private_key(key, secret, passphrase=passphrase)
    try:
        atomic_files.write_file(public, content, overwrite=False)
    except BaseException:
        secret.unlink(missing_ok=True)
        raise
    _print_result(secret, public, trusted.keyid, trusted.roles)
    return 0


def _print_result(secret: Path, public: Path, keyid: str, roles: tuple[str, ...]) -> None:
    shown = printable(secret)
    print(f"{shown}: secret. It stays with the signer.")
    for role in roles:
        if role in NEXT_STEPS:
            print(f"  {role}: {NEXT_STEPS[role].format(key=shown)}")
    print(f"{printable(public)}: public. Give it to whoever verifies its signatures.")
    print(f"key id {keyid}")
