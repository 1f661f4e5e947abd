"""What verification costs: against plain SHA-256 of the same files, and against model-signing.

    python benchmarks/verify.py
    python benchmarks/verify.py --quick

Two artifacts are sealed, about 20 MB and 500 MB: an ONNX file with as many nodes and weights as a
layout encoder of six layers has, and a certificate whose epsilon is recomputed under a policy that
demands it. First all three must agree: each accepts both artifacts and refuses either with one byte
flipped. Then they take turns in one process, and medians are compared:

    ratio_20mb, ratio_500mb    hushdoc.verify / hashlib.sha256 of the same files (below: slower)
    ratio_to_model_signing     hushdoc.verify / the OpenSSF verifier of model-signing, on the larger
                               artifact (below 1: hushdoc is faster)
    peak_memory_mb             a fresh interpreter that does nothing but verify the larger artifact;
                               baseline_memory_mb is one that does nothing

--quick takes a smaller large artifact, and says so in `large_mb`. The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import machine

if TYPE_CHECKING:
    from hushdoc.policy.policy import Policy

GOALS = {"ratio_20mb": 3.0, "ratio_500mb": 1.3, "peak_memory_mb": 64.0}
ENTRY = "onnx/model.onnx"
NUM_WEIGHTS = 76
EPSILON, DELTA = 8.0, 1e-5
HOW_TO_INSTALL = "pip install --group peers"

Check = Callable[[Path], bool]
"""Whether a verifier accepts a folder."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is hashed how often."""

    small_mb: int
    large_mb: int
    small_rounds: int
    large_rounds: int


FULL = Scale(small_mb=20, large_mb=500, small_rounds=31, large_rounds=9)
QUICK = Scale(small_mb=20, large_mb=100, small_rounds=11, large_rounds=5)


def main() -> int:
    """Runs the comparison and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less than a minute, smaller files")
    parser.add_argument("--peak", nargs=2, metavar=("FOLDER", "KEY"), help=argparse.SUPPRESS)
    parser.add_argument("--baseline", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.baseline:
        print(machine.peak_bytes() / 1e6)
        return 0
    if options.peak:
        return verify_alone(Path(options.peak[0]), bytes.fromhex(options.peak[1]))
    result = compare(QUICK if options.quick else FULL)
    print(json.dumps({**result, "quick": options.quick}))
    return 0


def compare(scale: Scale) -> dict[str, Any]:
    """Returns every figure; raises where the verifiers do not agree."""
    from hushdoc.signing import keys

    with tempfile.TemporaryDirectory(prefix="hushdoc-verify-") as scratch:
        key = keys.generate_key()
        public = keys.public_key_of(key)
        folders = {
            size: seal(Path(scratch) / f"{size}mb", size, key)
            for size in (scale.small_mb, scale.large_mb)
        }
        checks = {"sha256": check_sha256(folders.values()), "hushdoc": check_hushdoc(public)}
        checks |= check_model_signing(folders.values(), Path(scratch))
        for folder in folders.values():
            require_agreement(checks, folder)
        small = measure(checks, folders[scale.small_mb], scale.small_rounds)
        large = measure(checks, folders[scale.large_mb], scale.large_rounds)
        peak = in_fresh_python(__file__, "--peak", str(folders[scale.large_mb]), public.hex())
        return report(scale, small, large, peak_mb=peak)


def report(
    scale: Scale, small: Mapping[str, float], large: Mapping[str, float], *, peak_mb: float
) -> dict[str, Any]:
    """Returns the figures of the JSON line."""
    signing_seconds = large.get("model_signing")
    if signing_seconds is None:
        print(f"model-signing is not installed, so it is not compared: {HOW_TO_INSTALL}")
    found = {
        "ratio_20mb": round(small["hushdoc"] / small["sha256"], 3),
        "ratio_500mb": round(large["hushdoc"] / large["sha256"], 3),
        "peak_memory_mb": round(peak_mb, 1),
    }
    for name, goal in GOALS.items():
        print(f"{name}: {found[name]} (goal: at most {goal:g})")
    return {
        **found,
        "ratio_to_model_signing": (
            round(large["hushdoc"] / signing_seconds, 3) if signing_seconds else None
        ),
        "goals_met": all(found[name] <= goal for name, goal in GOALS.items()),
        "baseline_memory_mb": round(in_fresh_python(__file__, "--baseline"), 1),
        "small_mb": scale.small_mb,
        "large_mb": scale.large_mb,
        "seconds_small": {name: round(value, 5) for name, value in small.items()},
        "seconds_large": {name: round(value, 5) for name, value in large.items()},
        **machine.dated(python=True),
    }


def check_sha256(folders: Any) -> Check:
    """Returns the floor: SHA-256 of every file, held against what it was, and nothing else."""
    expected = {folder: digests(folder) for folder in folders}
    return lambda folder: digests(folder) == expected[folder]


def digests(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of every file of a folder, as fast as the standard library can."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb", buffering=0) as stream:
                found[path.name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


def check_hushdoc(public_key: bytes) -> Check:
    """Returns `hushdoc.verify` under a policy that demands a recomputed epsilon."""
    from hushdoc.artifact.artifact import verify
    from hushdoc.errors import ArtifactError

    policy = demanding_policy(public_key)

    def check(folder: Path) -> bool:
        try:
            return verify(folder, policy).passed
        except ArtifactError as refused:
            if refused.code == "DIGEST_MISMATCH":
                return False
            raise

    return check


def demanding_policy(public_key: bytes) -> Policy:
    """Returns a policy that accepts the benchmark's artifacts and recomputes their epsilon."""
    from hushdoc.policy.policy import Policy
    from hushdoc.signing.trust_store import TrustedKey, TrustStore

    return Policy(
        trust=TrustStore.of([TrustedKey(name="benchmark", public_key=public_key)]),
        max_epsilon=EPSILON,
        max_delta=DELTA,
        privacy_units={"document"},
    )


def check_model_signing(folders: Any, scratch: Path) -> dict[str, Check]:
    """Returns model-signing's own verifier over the same folders, nothing if it is not there."""
    try:
        from model_signing import signing, verifying
    except ImportError:
        return {}
    private, public = scratch / "ec.key", scratch / "ec.pub"
    write_elliptic_key(private, public)
    for folder in folders:
        signer = signing.Config().use_elliptic_key_signer(private_key=private)
        signer.sign(folder, folder.with_suffix(".sig"))

    def check(folder: Path) -> bool:
        # A used config remembers the files it saw, so each check gets its own.
        verifier = verifying.Config().use_elliptic_key_verifier(public_key=public)
        try:
            verifier.verify(folder, folder.with_suffix(".sig"))
        except ValueError:
            return False
        return True

    return {"model_signing": check}


def write_elliptic_key(private: Path, public: Path) -> None:
    """Writes a key pair as model-signing reads it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def require_agreement(checks: Mapping[str, Check], folder: Path) -> None:
    """Raises unless every verifier accepts a folder, and refuses it with one byte flipped."""
    for expected in (True, False, True):
        with flipped_byte(folder / ENTRY, really=not expected):
            found = {name: check(folder) for name, check in checks.items()}
        if set(found.values()) != {expected}:
            raise SystemExit(f"The verifiers disagree on {folder.name}: {found}, not {expected}.")
    print(f"{folder.name}: {', '.join(checks)} accept it, and refuse it with one byte flipped")


@contextmanager
def flipped_byte(path: Path, *, really: bool) -> Iterator[None]:
    """Holds a file with its middle byte changed, or leaves it as it is."""
    with path.open("r+b") as stream:
        stream.seek(path.stat().st_size // 2)
        sound = stream.read(1)
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([sound[0] ^ 1]) if really else sound)
    try:
        yield
    finally:
        with path.open("r+b") as stream:
            stream.seek(path.stat().st_size // 2)
            stream.write(sound)


def measure(checks: Mapping[str, Check], folder: Path, rounds: int) -> dict[str, float]:
    """Returns the median time of each verifier, which take turns, in seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in checks}
    names = list(checks)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            began = time.perf_counter()
            accepted = checks[name](folder)
            seconds[name].append(time.perf_counter() - began)
            if not accepted:
                raise SystemExit(f"{name} refuses {folder.name} in round {turn}.")
    return {name: statistics.median(values) for name, values in seconds.items()}


def verify_alone(folder: Path, public_key: bytes) -> int:
    """Verifies one artifact and prints how much memory the process has ever held."""
    from hushdoc.artifact.artifact import verify

    verify(folder, demanding_policy(public_key))
    print(machine.peak_bytes() / 1e6)
    return 0


def in_fresh_python(*program: str) -> float:
    """Returns the number that a file prints as a program of its own."""
    done = subprocess.run([sys.executable, *program], capture_output=True, text=True, check=True)
    return float(done.stdout)


def seal(folder: Path, size_mb: int, key: Any) -> Path:
    """Writes an artifact of about so many bytes under a certificate of differential privacy."""
    import invented_claims

    from hushdoc.artifact import folder as artifact_folder
    from hushdoc.certificate import certificate as certificates
    from hushdoc.certificate import statement as certificate_statement
    from hushdoc.certificate.certificate import Certificate, ModelIdentity
    from hushdoc.certificate.subjects import ENVELOPE_FILE
    from hushdoc.signing import dsse

    certificate = Certificate(
        certificate_id=certificates.new_certificate_id(),
        issued_at=certificates.utc_now(),
        expires_at=None,
        issuer="benchmark",
        assurance="self-attested",
        model=ModelIdentity(name="benchmark", version=1, task="kie", format="onnx", entry=ENTRY),
        claim=invented_claims.claim(epsilon=EPSILON, delta=DELTA),
        derivation=(),
    )
    manifest = {
        "formatVersion": 2,
        "task": "kie",
        "entry": ENTRY,
        "inputs": [],
        "outputs": [],
        "preprocessing": {},
    }
    (folder / ENTRY).parent.mkdir(parents=True)
    (folder / ENTRY).write_bytes(graph(size_mb * 1_000_000, certificate.certificate_id))
    (folder / "hushdoc.json").write_text(json.dumps(manifest))
    (folder / "tokenizer.json").write_bytes(os.urandom(50_000))
    statement = certificate_statement.statement(certificate, artifact_folder.subjects_of(folder))
    (folder / ENVELOPE_FILE).write_text(dsse.sign(statement, key) + "\n")
    return folder


def graph(num_bytes: int, certificate_id: str) -> bytes:
    """Returns an ONNX file of about so many bytes: a chain with one weight at every second node."""
    import numpy as np
    import onnx

    helper = onnx.helper
    weights = [
        onnx.numpy_helper.from_array(
            np.frombuffer(os.urandom(num_bytes // NUM_WEIGHTS // 4 * 4), np.uint32).view(np.int32),
            f"encoder.layer.{index}.weight",
        )
        for index in range(NUM_WEIGHTS)
    ]
    nodes = []
    for index, weight in enumerate(weights):
        nodes.append(
            helper.make_node("Add", [f"x{index}", weight.name], [f"a{index}"], name=f"add_{index}")
        )
        nodes.append(
            helper.make_node("Identity", [f"a{index}"], [f"x{index + 1}"], name=f"pass_{index}")
        )
    inner = [
        helper.make_tensor_value_info(f"{kind}{index}", onnx.TensorProto.INT32, ["n"])
        for index in range(NUM_WEIGHTS)
        for kind in ("x", "a")
    ]
    last = helper.make_tensor_value_info(f"x{NUM_WEIGHTS}", onnx.TensorProto.INT32, ["n"])
    made = helper.make_graph(nodes, "benchmark", inner[:1], [last], weights, value_info=inner[1:])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    helper.set_model_props(model, {"hushdoc.certificate_id": certificate_id})
    content: bytes = model.SerializeToString()
    return content


if __name__ == "__main__":
    sys.exit(main())
