"""The judge of what readers accept: second opinions of libraries that never saw this project.

They are json, hashlib, onnx, safetensors, tomllib, and the exact accountant where the fast one
decided.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import tomllib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from hushdoc_mutation import COLUMNS, ROWS, targets
from hushdoc_oracles import onnx_facts, same, table_facts, without_duplicates

from hushdoc.accounting import mechanism, pld
from hushdoc.certificate import statement as certificate_statement
from hushdoc.policy.policy import Policy
from hushdoc.signing.revocation import RevocationList
from hushdoc.signing.trust_store import TrustStore

DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}


@lru_cache(maxsize=4096)
def _least_epsilon(transcript: str, delta: float) -> float:
    """Returns the exact accountant's lower bound."""
    return pld.epsilon(mechanism.from_dict(json.loads(transcript)), delta, adjacency="add-remove")


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
            transcript = json.dumps(predicate["transcripts"][item["transcript"]])
            for epsilon, delta in ((item["epsilon"], item["delta"]), *item["profile"]):
                # A hair below is what rounding may do; a lie is larger.
                least = _least_epsilon(transcript, delta)
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
