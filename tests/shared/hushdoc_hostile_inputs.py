"""Classes of hostile inputs: everything that hushdoc reads, how it is damaged, and who judges it.

Every input follows from the class, a seed and a number alone. What is accepted all the same is
handed to a judge, which raises where it says something else than what was signed or written.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import hushdoc_hostile_others as others
import hushdoc_hostile_transcripts as transcripts
from hushdoc_damage import Random, damaged, edited, restated
from hushdoc_hostile_class import HostileClass, repeated, spoiled
from hushdoc_judge import Judge
from hushdoc_mutation import Target, Toy, targets
from hushdoc_oracles import same, without_duplicates

import hushdoc
from hushdoc.artifact import artifact
from hushdoc.certificate.audit_reports import audit_statement
from hushdoc.hashing import FeatureScheme
from hushdoc.signing import dsse
from hushdoc.signing.trust_store import TrustedKey, TrustStore


def classes(folder: Path) -> tuple[HostileClass, ...]:
    """Returns every class, over toys in a folder."""
    for name in ("targets", "judge", "more"):
        (folder / name).mkdir(parents=True)
    judge = Judge(build, folder / "judge")
    known = {target.name: target for target in targets(build, folder / "targets")}
    return (
        *_of_targets(known, judge),
        _signatures(folder / "more" / "signatures", judge),
        _names(folder / "more" / "names"),
        *_audits(folder / "more" / "audits"),
        *_sealed_models(folder / "more" / "sealed"),
        others.public_keys(folder / "more"),
        others.ledgers(folder / "more"),
        *others.documents(),
        others.tokenizers(),
        others.corpora(folder / "more" / "corpora"),
    )


def _of_targets(known: dict[str, Target], judge: Judge) -> Iterator[HostileClass]:
    """Yields the classes of the mutation tests, header and body of tables apart."""

    def of(
        target: str, name: str, share: int, make: Callable[[bytes, Random], bytes]
    ) -> HostileClass:
        found = known[target]
        return HostileClass(
            name=name,
            share=share,
            sound=found.sound,
            make=lambda dice: make(found.sound, dice),
            read=found.read,
            judge=lambda content, _: judge.require_right(target, content),
        )

    sound = [target.sound for target in known.values()]

    def blind(content: bytes, dice: Random) -> bytes:
        if dice.random() < 0.04:
            return repeated(content, dice)
        return damaged(content, dice, dice.choice(sound))

    yield of("envelope", "envelope-bytes", 30, blind)
    for target, share in (("envelope", 30), ("statement", 80), ("manifest", 25)):
        yield of(target, f"{target}-json", share, edited)
    yield of("statement", "statement-bytes", 40, blind)
    yield of("promise", "certificate-semantics", 40, restated)
    yield of("statement", "certificate-work", 30, transcripts.statement)
    yield of("onnx", "onnx-bytes", 40, blind)
    yield of("onnx", "onnx-structure", 30, transcripts.model)
    yield of("safetensors", "safetensors-header", 35, _header)
    yield of("safetensors", "safetensors-body", 15, _body)
    yield of("unsigned-onnx", "unsigned-onnx", 15, blind)
    yield of("unsigned-safetensors", "unsigned-safetensors", 15, blind)
    for target, share in (("trust-store", 25), ("revocation-list", 25)):
        yield of(target, target, share, lambda one, dice: spoiled([one], dice, is_json=True))
    yield of("policy", "policy", 20, blind)


def _header(content: bytes, dice: Random) -> bytes:
    """Returns a table of which the header is another; its length fits, mostly."""
    (length,) = struct.unpack("<Q", content[:8])
    header = spoiled([content[8 : 8 + length]], dice, is_json=True)
    told = len(header) if dice.random() < 0.9 else dice.choice((0, 1, 2**32, 2**63, length))
    return struct.pack("<Q", told) + header + content[8 + length :]


def _body(content: bytes, dice: Random) -> bytes:
    (length,) = struct.unpack("<Q", content[:8])
    return content[: 8 + length] + damaged(content[8 + length :], dice)


def _signatures(folder: Path, judge: Judge) -> HostileClass:
    toy = Toy(build, folder.parent, folder.name)
    sound = (toy.folder / build.ENVELOPE).read_bytes()
    other = build.known_key(2)

    def make(dice: Random) -> bytes:
        data = json.loads(sound)
        _forge(data, dice, other)
        return json.dumps(data).encode() + b"\n"

    def require_right(content: bytes, _: object) -> None:
        judge.require_right("envelope", content)
        data = json.loads(content)
        payload = base64.b64decode(data["payload"])
        public = toy.key.public_key()
        encoded = b"DSSEv1 %d %s %d %s" % (
            len(data["payloadType"]),
            data["payloadType"].encode(),
            len(payload),
            payload,
        )
        assert any(_verifies(public, item["sig"], encoded) for item in data["signatures"])

    return HostileClass(
        name="signatures", share=30, sound=sound, make=make, read=toy.read_envelope,
        judge=require_right,
    )  # fmt: skip


def _verifies(public: Any, signature: str, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        public.verify(base64.b64decode(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _forge(data: dict[str, Any], dice: Random, other: Any) -> None:
    """Changes one thing about the signatures of an envelope."""
    signature = dice.choice(data["signatures"])
    raw = bytearray(base64.b64decode(signature["sig"] + "=="))
    match dice.randrange(9):
        case 0:
            raw[dice.randrange(len(raw) or 1) % max(1, len(raw))] ^= 1 << dice.randrange(8)
            signature["sig"] = base64.b64encode(raw).decode()
        case 1:
            raw[32:64] = (
                int.from_bytes(raw[32:64], "little")
                + 2**252
                + 27742317777372353535851937790883648493
            ).to_bytes(33, "little")[:32]
            signature["sig"] = base64.b64encode(raw).decode()
        case 2:
            signature["sig"] = base64.b64encode(raw[: dice.randrange(len(raw) + 1)]).decode()
        case 3:
            signature["keyid"] = dice.choice(("", "0" * 64, signature["keyid"][::-1], "\u202e"))
        case 4:
            data["signatures"].insert(0, dict(signature))
        case 5:
            line = dsse.sign(base64.b64decode(data["payload"]), other)
            data["signatures"] = json.loads(line)["signatures"]
        case 6:
            data["signatures"] = [{**signature, "sig": dice.choice(("", "AAAA", " ", "=" * 88))}]
        case 7:
            data["payloadType"] += dice.choice((" ", "x", "\n"))
        case _:
            place = dice.randrange(len(data["payload"]))
            spelled = dice.choice(("A", "-", "_", " ", "=", "\n", ""))
            data["payload"] = data["payload"][:place] + spelled + data["payload"][place + 1 :]


ED25519_ORDER = 2**252 + 27742317777372353535851937790883648493
_PARTS = (
    "..", ".", "", "/", "//", "\\", "C:", "~", "CON", "aux.onnx", ".hidden", "labels.json", "x",
    "onnx", " ", "\0", "\n", "\u202e", "\uff0e\uff0e", "e\u0301", "\udcff", "labels.json.",
    "LABELS.JSON", "privacy.intoto.jsonl", "a" * 300,
)  # fmt: skip
_SOUND_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*){0,3}")
_ACTS = ("add", "link", "link-outside", "folder", "pipe", "remove", "case", "grow", "sign")


def _names(folder: Path) -> HostileClass:
    """Files, folders, links and pipes under any name, on disk and in what is signed."""
    toy = Toy(build, folder.parent, folder.name)
    files = toy.files()

    def make(dice: Random) -> bytes:
        act = {
            "act": dice.choice(_ACTS),
            "file": dice.choice(sorted(files)),
            "name": dice.choice(("", "/")).join(dice.choices(_PARTS, k=dice.randrange(1, 4))),
        }
        return json.dumps(act).encode()

    def read(content: bytes) -> object:
        shutil.rmtree(toy.folder)
        build.write_files(toy.folder, files)
        toy.write_statement(json.dumps(toy.statement).encode())
        if content:
            _act(toy, **json.loads(content))
        return toy.verify()

    def require_right(content: bytes, _: object) -> None:
        read(content)
        signed = without_duplicates(base64.b64decode(
            json.loads((toy.folder / build.ENVELOPE).read_bytes())["payload"]
        ))["subject"]  # fmt: skip
        assert all(_SOUND_NAME.fullmatch(item["name"]) for item in signed)
        assert {item["name"]: (toy.folder / item["name"]).read_bytes() for item in signed} == files
        found = {path.relative_to(toy.folder).as_posix() for path in toy.folder.rglob("*")}
        assert found - {"onnx", build.ENVELOPE} == files.keys()

    return HostileClass(
        name="names-and-links", share=30, sound=b"", make=make, read=read, judge=require_right
    )


def _act(toy: Toy, *, act: str, file: str, name: str) -> None:
    """Does something to the folder, where the system allows such a name at all."""
    path, other = toy.folder / file, toy.folder / name.strip("/\\")
    statement = json.loads(json.dumps(toy.statement))
    try:
        inside = other.parent.resolve().is_relative_to(toy.folder.resolve()) and ".." not in name
        match act:
            case "add" if inside:
                other.write_bytes(b"x")
            case "link":
                path.unlink()
                path.symlink_to(name or ".")
            case "link-outside":
                (toy.folder.parent / "outside").write_bytes(path.read_bytes())
                path.unlink()
                path.symlink_to("../" * len(Path(file).parts) + "outside")
            case "folder":
                path.unlink()
                path.mkdir()
            case "pipe":
                path.unlink()
                os.mkfifo(path)
            case "remove":
                path.unlink()
            case "case":
                path.rename(path.with_name(path.name.upper()))
            case "grow":
                path.write_bytes(path.read_bytes() + name.encode("utf-8", "surrogatepass"))
            case "sign":
                statement["subject"][0]["name"] = name
                toy.write_statement(json.dumps(statement).encode())
    except (OSError, ValueError):
        path.unlink(missing_ok=True)


def _audits(folder: Path) -> Iterator[HostileClass]:
    """Yields lines of auditors: damaged as they are, and signed again."""
    toy = Toy(build, folder.parent, folder.name)
    auditor = build.known_key(3)
    store = TrustStore(
        keys=(
            TrustedKey.of(toy.key, name="signer"),
            TrustedKey.of(auditor, name="auditor", roles=("audit",)),
        )
    )
    toy.policy = dataclasses.replace(toy.policy, trust=store)
    first = (toy.folder / build.ENVELOPE).read_bytes().split(b"\n")[0] + b"\n"
    payload = audit_statement(build.audit_report(), build.payload_digest(toy.folder))
    line = dsse.sign(payload, auditor).encode()

    def read(content: bytes) -> object:
        (toy.folder / build.ENVELOPE).write_bytes(first + content + b"\n")
        return toy.verify()

    def signed(content: bytes) -> object:
        return read(dsse.sign(content, auditor).encode())

    def require_sound(_: bytes, found: object) -> None:
        assert isinstance(found, artifact.VerificationReport)
        assert set(found.audits) <= {build.audit_report()}

    def require_written(content: bytes, found: object) -> None:
        assert isinstance(found, artifact.VerificationReport)
        written = without_duplicates(content)["predicate"]
        written.pop("schemaVersion", None)
        assert all(same(report.to_dict(), written) for report in found.audits)

    yield HostileClass(
        name="audit-lines", share=20, sound=line, read=read, judge=require_sound,
        make=lambda dice: spoiled([line], dice, is_json=True),
    )  # fmt: skip
    yield HostileClass(
        name="audit-statements", share=20, sound=payload, read=signed, judge=require_written,
        make=lambda dice: spoiled([payload], dice, is_json=True),
    )  # fmt: skip


def _sealed_models(folder: Path) -> Iterator[HostileClass]:
    """Yields what a model reads after all checks: its labels, its scores' calibration."""
    import numpy as np

    from hushdoc_export.release import Release
    from hushdoc_export.table import seal_table
    from hushdoc_training.table_checkpoint import TableCheckpoint

    scheme = FeatureScheme(rows=64, level="sentence", seed=9, bigrams=False, skip_grams=False)
    weights = np.linspace(0.1, 1, 128, dtype=np.float32).reshape(64, 2)
    table = TableCheckpoint(
        weights=weights, transitions=np.zeros((2, 2)), tags=("O", "law"), scheme=scheme,
        claim=build.claim(),
    )  # fmt: skip
    key = build.known_key(1)
    seal_table(folder, table, Release(key=key, name="contracts", issuer="the tests"))
    policy = build.policy(key)
    sound = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != build.ENVELOPE
    }
    line = json.loads((folder / build.ENVELOPE).read_bytes().split(b"\n")[0])
    statement = json.loads(base64.b64decode(line["payload"]))
    manifest = json.loads(sound["hushdoc.json"])
    scores = {
        "temperature": 1.5, "raw": [0.0, 0.5, 1.0], "calibrated": [0.1, 0.4, 0.9], "threshold": 0.3,
        "fitted_on": "invented", "num_answers": 100,
    }  # fmt: skip

    def loaded(name: str, content: bytes) -> object:
        build.write_files(folder, {**sound, name: content})
        import hashlib

        for subject in statement["subject"]:
            written = content if subject["name"] == name else sound[subject["name"]]
            subject["digest"]["sha256"] = hashlib.sha256(written).hexdigest()
            subject["annotations"]["size"] = len(written)
        build.sign_into(folder, key, json.dumps(statement).encode())
        return hushdoc.load(folder, policy=policy)

    def with_scores(content: bytes) -> object:
        preprocessing = {**manifest["preprocessing"], "scores": "HERE"}
        text = json.dumps({**manifest, "preprocessing": preprocessing}).encode()
        return loaded("hushdoc.json", text.replace(b'"HERE"', content))

    def require_labels(content: bytes, model: Any) -> None:
        written = json.loads(content)["tags"]
        assert list(model.tags) == written
        assert len(set(written)) == len(written) == 2

    def require_scores(content: bytes, model: Any) -> None:
        found, written = model.scoring, without_duplicates(content)
        assert same(found.to_dict(), written)
        assert 0 <= found.threshold <= 1
        assert all(0 <= value <= 1 for value in (*found.raw, *found.calibrated))
        assert list(found.calibrated) == sorted(found.calibrated)
        assert list(found.raw) == sorted(set(found.raw))

    labels, told = sound["labels.json"], json.dumps(scores).encode()
    yield HostileClass(
        name="labels", share=20, sound=labels, judge=require_labels,
        make=lambda dice: spoiled([labels], dice, is_json=True),
        read=lambda content: loaded("labels.json", content),
    )  # fmt: skip
    yield HostileClass(
        name="calibration", share=20, sound=told, read=with_scores, judge=require_scores,
        make=lambda dice: spoiled([told], dice, is_json=True),
    )  # fmt: skip
