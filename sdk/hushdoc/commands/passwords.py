"""Passwords of documents and passphrases of keys: from a file or a prompt, never an argument.

Every user of a machine can see the arguments of every program, and shells keep them for years.
"""

from __future__ import annotations

import argparse
import getpass
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.errors import InputError
from hushdoc.system import atomic_files

if TYPE_CHECKING:
    from hushdoc.signing.keys import PrivateKey

MAX_BYTES = 4096
"""Longest password that is accepted."""


def password_option(parser: argparse._ActionsContainer) -> None:
    """Adds --password-file; `password_from` reads it."""
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        help="file with the password of encrypted PDF files on one line; or - for a prompt",
    )


def password_from(options: argparse.Namespace) -> str | None:
    """Returns the password that the options name, or None."""
    return _given(options.password_file, "--password-file", "Password of the PDF files")


def passphrase_option(parser: argparse._ActionsContainer, *, encrypts: bool = False) -> None:
    """Adds --passphrase-file; `passphrase_from` and `private_key` read it."""
    what = "encrypts the private key" if encrypts else "opens an encrypted private key"
    parser.add_argument(
        "--passphrase-file",
        metavar="FILE",
        help=f"file with the passphrase that {what}, on one line; or - for a prompt",
    )


def passphrase_from(options: argparse.Namespace) -> str | None:
    """Returns the passphrase that the options name, or None."""
    return _given(options.passphrase_file, "--passphrase-file", "Passphrase of the private key")


def private_key(options: argparse.Namespace) -> PrivateKey:
    """Returns the private key of --key; asks for the passphrase of an encrypted one."""
    from hushdoc.signing import keys

    try:
        return keys.load_private_key(options.key, passphrase=passphrase_from(options))
    except InputError as error:
        if error.code != "KEY_ENCRYPTED":
            raise
    options.passphrase_file = "-"
    return keys.load_private_key(options.key, passphrase=passphrase_from(options))


def _given(name: str | None, option: str, what: str) -> str | None:
    if name is None:
        return None
    return _prompted(option, what) if name == "-" else _stored(Path(name), what)


def _prompted(option: str, what: str) -> str:
    """Returns what is typed on the terminal, without echo; standard input is left alone."""
    try:
        with warnings.catch_warnings():
            # Without a terminal it would warn, and then take the password from standard input.
            warnings.simplefilter("error", getpass.GetPassWarning)
            return getpass.getpass(f"{what}: ")
    except (EOFError, OSError, getpass.GetPassWarning) as error:
        raise InputError(
            f"There is no terminal on which to ask: {what.lower()}. Name a file that holds it: "
            f"{option} FILE."
        ) from error


def _stored(path: Path, what: str) -> str:
    try:
        content = atomic_files.read_file(path, max_bytes=MAX_BYTES)
        found = content.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(
            f"{what}: the file '{path}' can't be read: {reason}. Name a file that holds it on one "
            "line."
        ) from error
    if not found or len(content) > MAX_BYTES or not found.isprintable():
        raise InputError(
            f"{what}: the file '{path}' is not one line of text of at most {MAX_BYTES} bytes. "
            "Write it into the file, and nothing else."
        )
    return found
