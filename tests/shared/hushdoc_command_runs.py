"""Runs of the command line inside this process, and the files that they need."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from hushdoc.commands import command_line
from hushdoc.errors import HushdocError
from hushdoc.signing.keys import PrivateKey
from hushdoc.signing.trust_store import TrustStore

LIMITS = ("--max-epsilon", "8", "--max-delta", "1e-5", "--unit", "document")
"""What the policy of `write_policy` demands, as options beside --trust."""


parser = functools.cache(command_line.build_parser)
"""Returns the parser, which takes longer to build than most subcommands take to run here."""


def run(*arguments: object) -> int:
    """Returns the exit code of a subcommand; its errors are raised."""
    options = parser().parse_args([str(argument) for argument in arguments])
    return int(options.run(options))


def refusal(*arguments: object) -> str:
    """Returns the code of the error with which a subcommand must end."""
    with pytest.raises(HushdocError) as caught:
        run(*arguments)
    return caught.value.code


def public_pem(private: PrivateKey, path: Path) -> Path:
    """Writes the public half of a key as key services hand it out."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = private.public_key()
    path.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path


def write_policy(folder: Path, trust: TrustStore) -> Path:
    """Writes a trust store, and a policy that demands LIMITS of those it trusts."""
    (folder / "trust.json").write_bytes(trust.to_json())
    path = folder / "policy.toml"
    path.write_text(
        'trust = "trust.json"\nmax_epsilon = 8\nmax_delta = 1e-5\nprivacy_units = ["document"]\n'
    )
    return path
