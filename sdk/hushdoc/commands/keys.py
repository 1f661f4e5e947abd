"""The verb `keygen`: a signing key, and the trust store that believes it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def register(verbs: Any) -> None:
    """Adds `hushdoc keygen`; cryptography is imported only when it runs."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "keygen",
        help="make a signing key and the trust store that believes it",
        description="Makes an Ed25519 signing key. OUT.key is secret and stays with whoever signs; "
        "OUT.trust.json is public and goes to whoever checks. Neither is ever overwritten.",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="OUT",
        help="start of both file names, such as keys/release",
    )
    parser.add_argument("--name", help="whose key it is, for people (default: last part of OUT)")
    parser.add_argument(
        "--model",
        action="append",
        metavar="NAME",
        help="model the key may sign for; may be given again (default: all)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Writes both files, or neither."""
    from hushdoc import files, signing
    from hushdoc.explanation import printable
    from hushdoc.trust import ANY_MODEL, TrustedKey, TrustStore

    secret = options.out.with_name(options.out.name + ".key")
    public = options.out.with_name(options.out.name + ".trust.json")
    for path in (secret, public):
        files.require_free(path)
    key = signing.generate_key()
    trusted = TrustedKey(
        name=options.name or options.out.name,
        public_key=signing.public_key_of(key),
        models=tuple(options.model or (ANY_MODEL,)),
    )
    try:
        secret.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise files.not_written(secret.parent, problem) from problem
    signing.write_private_key(key, secret)
    try:
        files.write_file(public, TrustStore(keys=(trusted,)).to_json(), overwrite=False)
    except BaseException:
        secret.unlink(missing_ok=True)
        raise
    print(f"{printable(str(secret))}: secret. Sign with it: hushdoc export ... --key {secret}")
    print(f"{printable(str(public))}: public. Give it to whoever checks your models.")
    print(f"key id {trusted.keyid}")
    return 0
