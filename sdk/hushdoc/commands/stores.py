"""Trust stores on the command line: reading, printing, and changing them without loss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hushdoc.arguments import printable
from hushdoc.commands import notices
from hushdoc.commands.parsing import CommandParser
from hushdoc.errors import InputError
from hushdoc.signing.trust_store import TrustedKey, TrustStore
from hushdoc.system import locks


def store_option(parser: CommandParser) -> None:
    """Adds --store, the trust store that a subcommand changes or lists."""
    parser.add_argument(
        "--store", type=Path, required=True, metavar="FILE", help="trust store in JSON"
    )


def public_keys(path: Path) -> tuple[TrustedKey, ...]:
    """Returns the public keys of a file: a trust store, or one key in PEM."""
    from hushdoc.signing import keys
    from hushdoc.system import atomic_files

    try:
        is_store = atomic_files.read_file(path, max_bytes=64).lstrip().startswith(b"{")
    except OSError as problem:
        raise InputError(
            f"The key '{path}' can't be read: {problem.strerror or problem}. Check the path.",
            code="BAD_KEY",
        ) from problem
    if is_store:
        return TrustStore.from_file(path).keys
    algorithm, public_key = keys.load_public_key(path)
    return (TrustedKey(name=path.stem, algorithm=algorithm, public_key=public_key),)


def change(
    path: Path, change_store: Callable[[TrustStore], TrustStore], *, create: bool = False
) -> tuple[TrustStore, TrustStore]:
    """Rewrites a store and returns it before and after; on any error it stays unchanged."""
    path = path.resolve()
    with notices.locked(path.parent):
        empty = create and not path.exists()
        before = TrustStore(keys=()) if empty else TrustStore.from_file(path)
        after = change_store(before)
        content = after.to_json()
        TrustStore.from_json(content)  # what can't be read back is never written
        locks.rewrite(path, content)
    return before, after


def print_key(key: TrustedKey) -> None:
    """Prints a key and what it may sign."""
    print(f"{printable(key.name, 200)} ({key.algorithm})")
    print(f"  key id  {key.keyid}")
    print(f"  signs   {', '.join(key.roles)}")
    print(f"  models  {', '.join(printable(name, 200) for name in key.models) or 'none'}")
