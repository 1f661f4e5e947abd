"""Passwords of documents: from a file or a prompt, never an argument.

Every user of a machine can see the arguments of every program, and shells keep them for years.
"""

from __future__ import annotations

import argparse
import getpass
import warnings
from pathlib import Path

from hushdoc.errors import InputError
from hushdoc.system import atomic_files

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
    if options.password_file is None:
        return None
    return _prompted() if options.password_file == "-" else _stored(Path(options.password_file))


def _prompted() -> str:
    """Returns what is typed on the terminal, without echo; standard input is left alone."""
    try:
        with warnings.catch_warnings():
            # Without a terminal it would warn, and then take the password from standard input.
            warnings.simplefilter("error", getpass.GetPassWarning)
            return getpass.getpass("Password of the PDF files: ")
    except (EOFError, OSError, getpass.GetPassWarning) as error:
        raise InputError(
            "There is no terminal on which to ask for the password. Name a file that holds it: "
            "--password-file FILE."
        ) from error


def _stored(path: Path) -> str:
    try:
        content = atomic_files.read_file(path, max_bytes=MAX_BYTES)
        found = content.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(
            f"The password file '{path}' can't be read: {reason}. Name a file that holds the "
            "password on one line."
        ) from error
    if not found or len(content) > MAX_BYTES or not found.isprintable():
        raise InputError(
            f"The password file '{path}' is not one line of text of at most {MAX_BYTES} bytes. "
            "Write the password into it, and nothing else."
        )
    return found
