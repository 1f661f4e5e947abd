"""Random damage: refused with an error of ours, or still saying what was said, and never more.

What is accepted although it differs goes to oracles that share no code with the readers: json,
hashlib, onnx, safetensors, tomllib, and the exact accountant where the fast one decided.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import struct
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hushdoc_damage import damaged, edited
from hushdoc_mutation import COLUMNS, ROWS, run, targets
from hushdoc_oracles import onnx_facts, same, table_facts, without_duplicates

from hushdoc.accounting import mechanism, pld
from hushdoc.certificate import statement as certificate_statement
from hushdoc.policy.policy import Policy
from hushdoc.signing.revocation import RevocationList
from hushdoc.signing.trust_store import TrustStore

WORKER = Path(__file__).parents[1] / "shared" / "hushdoc_mutation_worker.py"
DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}


class Judge:
    """Says of each kind of input whether it may be accepted."""

    def __init__(self, build: ModuleType, folder: Path) -> None:
        self.build, self.folder = build, folder
        self.sound = {target.name: target.sound for target in targets(build, folder)}

    def require_right(self, name: str, content: bytes) -> None:
        """Raises unless the input still says what may be trusted."""
        rulings: dict[str, Callable[[bytes], None]] = {
            "envelope": self._envelope,
            "statement": self._statement,
            "promise": self._statement,
            "manifest": self._manifest,
            "onnx": self._onnx,
            "safetensors": self._safetensors,
            "trust-store": self._trust_store,
            "revocation-list": self._revocation_list,
            "policy": self._policy,
        }
        assert name in rulings, f"{name} was accepted with other bytes than were signed"
        rulings[name](content)

    def _envelope(self, content: bytes) -> None:
        """Not signed again, so the signed bytes must be the very same."""
        found, sound = (
            base64.b64decode(json.loads(line.split(b"\n")[0])["payload"], validate=True)
            for line in (content, self.sound["envelope"])
        )
        assert found == sound

    def _statement(self, content: bytes) -> None:
        """Signed again, so it may say something else, but nothing that the policy refuses."""
        written = without_duplicates(content)
        certificate, _ = certificate_statement.parse_statement(content)
        assert same(certificate.to_dict(), written["predicate"])
        assert {
            item["name"]: (item["digest"]["sha256"], item["annotations"]["size"])
            for item in written["subject"]
        } == {
            name: (hashlib.sha256(data).hexdigest(), len(data))
            for name, data in self.build.files().items()
        }
        self._promise(written["predicate"])

    def _promise(self, predicate: dict[str, Any]) -> None:
        promises = [
            item
            for item in predicate["guarantees"]
            if (item["adversary"], item["unit"]) == ("model-recipient", "document")
        ]
        assert promises
        for item in promises:
            assert item["kind"] == "dp"
            assert item["adjacency"] == "add-remove"
            assert item["epsilon"] <= 8
            assert item["delta"] <= 1e-5
            assert item["coversAllPrivateAccesses"] is True
            assert item["samplingAsImplemented"] in ("poisson", "full-batch")
            assert item["hyperparameterTuning"] != "unaccounted"
            assert item["rng"] == "csprng"
            assert item["accountant"]["name"] not in ("gdp-clt", "none")
            transcript = mechanism.from_dict(predicate["transcripts"][item["transcript"]])
            for epsilon, delta in ((item["epsilon"], item["delta"]), *item["profile"]):
                # A hair below is what rounding may do; a lie is larger.
                least = pld.epsilon(transcript, delta, adjacency="add-remove")
                assert epsilon >= least * (1 - 1e-3)

    def _manifest(self, content: bytes) -> None:
        data = without_duplicates(content)
        assert data.keys() == self.build.MANIFEST.keys()
        assert type(data["formatVersion"]) is int
        assert (data["formatVersion"], data["task"], data["entry"]) == (2, "kie", self.build.ENTRY)

    def _onnx(self, content: bytes) -> None:
        found = onnx_facts(content)
        if found is None:
            # What we skip as nobody's business can be no message to protobuf. Then nothing can
            # be loaded, which `test_differential` holds against onnxruntime itself.
            return
        assert found.num_graphs == 1
        assert found.external == 0
        assert found.domains | {domain for domain, _ in found.operators} <= DOMAINS
        assert "EPContext" not in {operator for _, operator in found.operators}
        assert len(dict(found.properties)) == len(found.properties)
        assert dict(found.properties)["hushdoc.certificate_id"] == self.build.CERTIFICATE_ID

    def _safetensors(self, content: bytes) -> None:
        found = table_facts(content)
        assert found is not None
        (length,) = struct.unpack("<Q", content[:8])
        without_duplicates(content[8 : 8 + length])
        assert found.finite
        assert found.metadata["hushdoc.certificate_id"] == self.build.CERTIFICATE_ID
        assert found.shapes["table"][1] == (ROWS, COLUMNS)
        assert found.unfilled["table"] == 0

    def _trust_store(self, content: bytes) -> None:
        written = without_duplicates(content)
        for key, read in zip(written["keys"], TrustStore.from_json(content).keys, strict=True):
            public = base64.b64decode(key["publicKey"], validate=True)
            assert read.public_key == public
            assert key["keyid"] == hashlib.sha256(public).hexdigest()
            roles = key.get("roles", ["certificate"])
            assert (read.name, list(read.models), list(read.roles)) == (
                key["name"],
                key["models"],
                roles,
            )

    def _revocation_list(self, content: bytes) -> None:
        written = without_duplicates(content)
        assert written.pop("schemaVersion") == 1
        assert same(RevocationList.from_json(content).to_dict(), written)

    def _policy(self, content: bytes) -> None:
        path = self.folder / "policy.toml"
        path.write_bytes(content)
        read = Policy.from_toml(path)
        for name, value in tomllib.loads(content.decode()).items():
            if name not in ("trust", "revocations"):
                found = getattr(read, name)
                assert found == (frozenset(value) if isinstance(value, list) else value)


def test_damage_is_refused_or_says_the_same(build: ModuleType, tmp_path: Path) -> None:
    found = targets(build, tmp_path)
    tally = run(found, seed=1, number=1000)
    assert tally.wrong == []
    assert tally.tried.total() == 1000
    assert set(tally.tried) == {target.name for target in found}
    assert len(tally.codes) >= 20
    judge = Judge(build, tmp_path / "judge")
    for name, content in tally.accepted:
        judge.require_right(name, content)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 4, 5])
def test_much_damage_in_little_memory(build: ModuleType, tmp_path: Path, seed: int) -> None:
    """In a process of its own, without the oracles, so that memory is that of reading alone."""
    (tmp_path / "worker").mkdir()
    done = subprocess.run(
        [sys.executable, WORKER, tmp_path / "worker", str(seed), "6000"],
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
    )
    told = json.loads(done.stdout)
    assert told["wrong"] == []
    assert sum(told["tried"].values()) == 6_000
    assert told["memory"]["after"] <= 200e6
    assert len(told["codes"]) >= 25
    refused, accepted = sum(told["refused"].values()), Counter(name for name, _ in told["accepted"])
    assert refused + accepted.total() == 6_000
    print(f"\ntried {told['tried']}\naccepted {accepted}\ncodes {told['codes']}\n{told['memory']}")
    judge = Judge(build, tmp_path / "judge")
    for name, content in told["accepted"]:
        judge.require_right(name, base64.b64decode(content))


def test_every_sound_input_is_read(build: ModuleType, tmp_path: Path) -> None:
    """Without this, refusing everything would pass."""
    for target in targets(build, tmp_path):
        assert target.read(target.sound) is not None, target.name


def test_the_judge_refuses_what_is_wrong(build: ModuleType, tmp_path: Path) -> None:
    """The oracle can say no: of a lie in each kind of input."""
    judge = Judge(build, tmp_path)
    statement = json.loads(judge.sound["statement"])
    statement["predicate"]["guarantees"][0]["epsilon"] = 1.0
    lies = {
        "statement": json.dumps(statement).encode(),
        "manifest": judge.sound["manifest"].replace(b'"kie"', b'"docvqa"'),
        "onnx": build.onnx(metadata={}),
        "safetensors": judge.sound["safetensors"][:-4] + b"\0\0\xc0\x7f",
        "unsigned-onnx": judge.sound["onnx"],
    }
    for name, content in lies.items():
        with pytest.raises((AssertionError, KeyError)):
            judge.require_right(name, content)


def test_damage_differs_and_can_be_repeated() -> None:
    content = json.dumps({"a": [1, {"b": "c"}], "d": "e"}).encode()
    made = {damaged(content, random.Random(seed), content) for seed in range(200)}
    knowing = {edited(content, random.Random(seed)) for seed in range(200)}
    assert len(made) > 150
    assert len(knowing) > 60
    assert damaged(content, random.Random(7), content) == damaged(
        content, random.Random(7), content
    )
    assert sum(_is_json(item) for item in knowing) == len(knowing)


def _is_json(content: bytes) -> bool:
    json.loads(content)
    return True
