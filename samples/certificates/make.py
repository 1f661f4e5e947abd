"""Writes six example artifacts with signed certificates, and what a policy finds in them.

    python samples/certificates/make.py --out DIR

The same bytes come out on every machine. The signing key is made from a text that stands below, so
everybody has it: these signatures show the format and prove nothing. Never trust this key.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from examples import docldm, docvqa, dp_adam, feam_dp, fedavg, hash_fill, placeholders

from hushdoc.artifact import artifact
from hushdoc.artifact import folder as artifact_folder
from hushdoc.certificate import statement as certificate_statement
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Guarantee
from hushdoc.certificate.subjects import ENVELOPE_FILE
from hushdoc.policy.policy import Policy
from hushdoc.signing import dsse
from hushdoc.signing.trust_store import TrustedKey, TrustStore

PUBLIC_TEXT = "hushdoc example key: everybody has it, so it proves nothing"
"""The private key is the SHA-256 of this text."""

EXAMPLES: dict[str, Callable[[], Certificate]] = {
    "dp-adam": dp_adam.dp_adam,
    "fedavg": fedavg.fedavg,
    "feam-dp": feam_dp.feam_dp,
    "fl-provider-dp": docvqa.fl_provider_dp,
    "dp-docldm": docldm.dp_docldm,
    "hash-fill": hash_fill.hash_fill,
}
CHECKED_AT = datetime(2026, 11, 22, tzinfo=UTC)


def main() -> None:
    """Writes everything into one folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    out: Path = parser.parse_args().out
    key = example_key()
    for name, certificate in EXAMPLES.items():
        write_artifact(out / name, certificate(), key)
    write(out / "trust.json", trust_store(key).to_json())
    policy_text = Path(__file__).with_name("policy.toml").read_bytes()
    write(out / "policy.toml", policy_text)
    write(out / "policy.json", as_json(tomllib.loads(policy_text.decode("utf-8"))))
    policy = Policy.from_toml(out / "policy.toml")
    write(out / "expected.json", as_json({name: found(out / name, policy) for name in EXAMPLES}))


def example_key() -> Ed25519PrivateKey:
    """Returns the key that everybody has."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(PUBLIC_TEXT.encode()).digest())


def trust_store(key: Ed25519PrivateKey) -> TrustStore:
    """Returns a store that trusts the example key about the six models, and nothing else."""
    models = tuple(f"example-{name}" for name in EXAMPLES)
    return TrustStore.of([TrustedKey.of(key, name="example key (public)", models=models)])


def write_artifact(folder: Path, certificate: Certificate, key: Ed25519PrivateKey) -> None:
    """Writes one sealed example."""
    for name, content in placeholders.files(certificate).items():
        write(folder / name, content)
    statement = certificate_statement.statement(certificate, artifact_folder.subjects_of(folder))
    write(folder / ENVELOPE_FILE, dsse.sign(statement, key).encode("ascii") + b"\n")


def found(folder: Path, policy: Policy) -> dict[str, Any]:
    """Returns what the policy finds in an example, and what its certificate says in short."""
    report = artifact.examine(folder, policy, now=CHECKED_AT)
    return {
        "accepted": report.passed,
        "codes": [rule.code for rule in report.policy.failed],
        "guarantees": [in_short(item) for item in report.certificate.claim.guarantees],
    }


def in_short(guarantee: Guarantee) -> str:
    """Returns a guarantee in a few words."""
    whom = f"{guarantee.adversary} ({guarantee.aggregation}), {guarantee.unit}, "
    if guarantee.epsilon is None or guarantee.delta is None:
        return f"{whom}{guarantee.kind}"
    return f"{whom}{guarantee.kind}: epsilon {guarantee.epsilon:g} at delta {guarantee.delta:g}"


def as_json(value: dict[str, Any]) -> bytes:
    """Returns JSON for people and programs."""
    return (json.dumps(value, indent=2) + "\n").encode("ascii")


def write(path: Path, content: bytes) -> None:
    """Writes a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    main()
