"""The verb `export`: a checkpoint becomes a sealed, signed artifact."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def register(verbs: Any) -> None:
    """Adds `hushdoc export`; torch and onnx are imported only when it runs."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "export",
        help="turn a checkpoint into a sealed, signed artifact",
        description="Turns a checkpoint into a sealed artifact: one ONNX file that was compared "
        "with the checkpoint, a signed privacy certificate, and a model card. The folder appears "
        "whole or not at all.",
    )
    parser.add_argument(
        "checkpoint", type=Path, metavar="CHECKPOINT", help="folder that training wrote"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the artifact; must not exist yet"
    )
    parser.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="private key that signs it"
    )
    parser.add_argument("--name", help="model name in the certificate (default: name of DIR)")
    parser.add_argument(
        "--version",
        type=int,
        default=1,
        metavar="N",
        help="number of this release; grows with every one (default: 1)",
    )
    parser.add_argument(
        "--issuer", default="unnamed", metavar="TEXT", help="who signs, in words (default: unnamed)"
    )
    parser.add_argument(
        "--expires-at", metavar="TIME", help="end of validity, such as 2027-11-21T00:00:00Z"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Exports one checkpoint and says what was made."""
    from hushdoc import signing
    from hushdoc_export.convert import export

    folder = export(
        options.checkpoint,
        options.out,
        key=signing.load_private_key(options.key),
        name=options.name or options.out.resolve().name,
        version=options.version,
        issuer=options.issuer,
        expires_at=options.expires_at,
    )
    print(f"{folder}: sealed and signed. Look at it with: hushdoc inspect {folder}")
    return 0
