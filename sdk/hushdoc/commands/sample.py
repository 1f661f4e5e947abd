"""The subcommand `sample`: a small model that is ready to run, and an invoice to try it on.

Contract: what is written is what this installation ships, byte for byte. Where a user has no policy
of his own, commands take the one that is shipped for the certificate that is shipped, and for no
other; both come from this installation, never from beside an artifact.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import printable
from hushdoc.system import atomic_files

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands

SHIPPED = Path(__file__).parents[1] / "sample"
"""What `samples/invoice_fields/make.py` made."""

MODEL, POLICY = "model", SHIPPED / "policy.toml"

RESULT = """{out}: a model of invoice fields, its trust store and policy, an invoice as PDF and PNG.
The model learned from invented invoices alone, and its key signs samples, no releases. Try it:
  hushdoc extract {quoted}/model {quoted}/invoice.pdf --html page.html
  hushdoc verify {quoted}/model --policy {quoted}/policy.toml"""


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc sample`."""
    parser = subcommands.add_parser(
        "sample",
        help="write a small model that is ready to run, and an invoice to try it on",
        description="Writes a folder with a sealed model of invoice fields, its trust store and "
        "policy, and an invented invoice as PDF and as image. The model learned from invented "
        "invoices alone: it shows how hushdoc is used, not how well a model can read.",
    )
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="folder to write; it must hold nothing else"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Writes the folder, unless it holds the sample already, and prints what to run next."""
    out: Path = options.folder
    if not _holds_sample(out):
        with atomic_files.new_folder(out) as beside:
            for name, content in _shipped():
                path = beside / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
    print(RESULT.format(out=printable(out), quoted=shlex.quote(printable(out))))
    return 0


def is_shipped(artifact: Path) -> bool:
    """Returns whether an artifact has the certificate of the one that this installation ships."""
    from hushdoc.certificate.subjects import ENVELOPE_FILE

    try:
        own = (SHIPPED / MODEL / ENVELOPE_FILE).read_bytes()
        return atomic_files.read_file(artifact / ENVELOPE_FILE, max_bytes=len(own)) == own
    except OSError:
        return False


def _shipped() -> Iterator[tuple[Path, bytes]]:
    for path in sorted(SHIPPED.rglob("*")):
        if path.is_file():
            yield path.relative_to(SHIPPED), path.read_bytes()


def _holds_sample(folder: Path) -> bool:
    """Returns whether a folder holds the shipped files and nothing else."""
    if not folder.is_dir() or {path.name for path in folder.iterdir()} != set(os.listdir(SHIPPED)):
        return False
    found = {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()}
    shipped = dict(_shipped())
    return found == shipped.keys() and all(
        (folder / name).read_bytes() == content for name, content in shipped.items()
    )
