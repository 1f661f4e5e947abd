"""Toy certificates and sealed artifacts, and the ways in which hostile hands change them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hushdoc.accounting import rdp
from hushdoc.accounting.mechanism import Composed, Gaussian, PoissonSampled
from hushdoc.artifact import folder as artifact_folder
from hushdoc.certificate import audit_reports, dp_guarantee
from hushdoc.certificate import statement as certificate_statement
from hushdoc.certificate.audit_reports import (
    Audit,
    AuditReport,
    PreRegisteredAudit,
    audit_statement,
)
from hushdoc.certificate.certificate import Certificate, ModelIdentity
from hushdoc.certificate.claim import (
    Accountant,
    Claim,
    DataAccess,
    Guarantee,
    ProtectedData,
    ProtectedUnit,
    PublicData,
)
from hushdoc.certificate.subjects import Subject
from hushdoc.policy.policy import Policy
from hushdoc.serialization import strict_json
from hushdoc.signing import dsse
from hushdoc.signing import keys as signing_keys
from hushdoc.signing.keys import ECDSA_P256, ED25519, PrivateKey
from hushdoc.signing.trust_store import TrustedKey, TrustStore

CERTIFICATE_ID = "0123456789abcdef0123456789abcdef"
ENTRY = "onnx/model.onnx"
ENVELOPE = "privacy.intoto.jsonl"
DELTA = 1e-5
STEP = PoissonSampled(sampling_rate=1 / 7, event=Gaussian(noise_multiplier=2.0))
TRANSCRIPT = Composed(event=STEP, count=350)


def sampled(rate: float, noise: float) -> PoissonSampled:
    return PoissonSampled(sampling_rate=rate, event=Gaussian(noise_multiplier=noise))


def run_of(rate: float, noise: float, steps: int) -> Composed:
    return Composed(event=sampled(rate, noise), count=steps)


def known_key(number: int, algorithm: str = ED25519) -> PrivateKey:
    """Returns one of the keys of these tests: damage by known dice then hits known bytes."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    if algorithm == ECDSA_P256:
        return ec.derive_private_key(number + 1, ec.SECP256R1())
    return ed25519.Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big"))


def guarantee(**change: Any) -> Guarantee:
    found = dp_guarantee.differential_privacy(
        TRANSCRIPT,
        lambda delta: rdp.epsilon(TRANSCRIPT, delta),
        DELTA,
        accountant="rdp",
        transcript="training",
        profile=(1e-4, 1e-6),
        observes="the final weights",
        knows="all other documents",
        assumes=("the code ran as published",),
        unit="document",
        unit_definition="all pages of one invoice",
        composition="one run",
        covers_all_private_accesses=True,
        sampling_as_implemented="poisson",
        hyperparameter_tuning="none",
        rng="csprng",
        floating_point="noise is drawn in double precision",
    )
    return dataclasses.replace(found, **{"gdp_mu": None, **change})


def no_guarantee(**change: Any) -> Guarantee:
    return guarantee(
        kind="none",
        epsilon=None,
        delta=None,
        profile=(),
        transcript=None,
        reason="training was not private.",
        accountant=Accountant(name="none", library="hushdoc", version="0.1.0", error_bound=None),
        **change,
    )


def claim(*guarantees: Guarantee, **change: Any) -> Claim:
    found = Claim(
        protected_data=(
            ProtectedData(
                name="invoices",
                units=(ProtectedUnit(unit="document", count=None, count_is_public=False),),
                contribution_bound="clipped to 1 in the Euclidean norm",
            ),
        ),
        public_data=(
            PublicData(
                name="MiniLM",
                uses=("starting weights",),
                digest="sha256:" + "ab" * 32,
                privacy_status="public",
                overlap_with_protected="none",
            ),
        ),
        data_accesses=(
            DataAccess(
                data="invoices",
                purpose="training",
                accounted_in=("training",),
                treatment="accounted",
            ),
        ),
        releases=("final-weights",),
        guarantees=guarantees or (guarantee(),),
        transcripts={"training": TRANSCRIPT},
        audits=(),
        training={"steps": 350},
        utility={"f1": 0.7},
        caveats=("One run.",),
    )
    return dataclasses.replace(found, **change)


def certify(*guarantees: Guarantee, **change: Any) -> Certificate:
    """Returns a certificate; `change` names its fields or those of its claim."""
    claim_fields = {field.name for field in dataclasses.fields(Claim)}
    of_claim = {name: value for name, value in change.items() if name in claim_fields}
    rest = {name: value for name, value in change.items() if name not in claim_fields}
    found = Certificate(
        certificate_id=CERTIFICATE_ID,
        issued_at="2026-11-21T08:00:00Z",
        expires_at=None,
        issuer="the tests",
        assurance="self-attested",
        model=ModelIdentity(name="invoice-kie", version=3, task="kie", format="onnx", entry=ENTRY),
        claim=claim(*guarantees, **of_claim),
        derivation=({"step": "export to ONNX", "dataDependent": False},),
    )
    return dataclasses.replace(found, **rest)


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, *parts: bytes | str) -> bytes:
    content = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return varint(field << 3 | 2) + varint(len(content)) + content


def onnx(
    *extra: bytes,
    graph: bytes = b"",
    metadata: dict[str, str] | None = None,
) -> bytes:
    """Returns a minimal ONNX file: one Identity node, one weight, our metadata."""
    if metadata is None:
        metadata = {"hushdoc.certificate_id": CERTIFICATE_ID}
    node = message(1, message(1, "x"), message(2, "y"), message(4, "Identity"))
    weight = message(5, number(1, 2), number(2, 1), message(8, "w"), message(9, b"\0" * 8))
    properties = [
        message(14, message(1, key), message(2, value)) for key, value in metadata.items()
    ]
    return b"".join(
        (
            number(1, 8),
            message(8, message(1, ""), number(2, 17)),
            message(7, node, message(2, "toy"), weight, graph),
            *properties,
            *extra,
        )
    )


MANIFEST = {
    "formatVersion": 2,
    "task": "kie",
    "entry": ENTRY,
    "inputs": [{"name": "x"}],
    "outputs": [{"name": "y"}],
    "preprocessing": {"maxTokens": 64},
}


def files(**change: bytes | None) -> dict[str, bytes]:
    """Returns the files of the toy artifact; `change` uses __ for a slash and _DOT_ for a dot."""
    found: dict[str, bytes | None] = {
        "hushdoc.json": json.dumps(MANIFEST).encode(),
        ENTRY: onnx(),
        "labels.json": b'{"fields": ["date", "total"]}',
        "tokenizer.json": b'{"words": []}',
        **{name.replace("__", "/").replace("_DOT_", "."): value for name, value in change.items()},
    }
    return {name: value for name, value in found.items() if value is not None}


def write_files(folder: Path, contents: dict[str, bytes]) -> None:
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def seal(
    folder: Path,
    key: Any,
    certified: Certificate | None = None,
    contents: dict[str, bytes] | None = None,
) -> Path:
    """Writes an honest, sealed toy artifact."""
    write_files(folder, files() if contents is None else contents)
    subjects = artifact_folder.subjects_of(folder)
    statement = certificate_statement.statement(certified or certify(), subjects)
    return sign_into(folder, key, statement)


def seal_anything(
    folder: Path,
    key: Any,
    edit: Callable[[dict[str, Any]], None] = lambda _: None,
    certified: Certificate | None = None,
    contents: dict[str, bytes] | None = None,
) -> Path:
    """Seals as a dishonest signer would: the statement is edited and nothing is checked."""
    write_files(folder, files() if contents is None else contents)
    statement = raw_statement(certified or certify(), artifact_folder.subjects_of(folder))
    edit(statement)
    return sign_into(folder, key, json.dumps(statement).encode())


def raw_statement(certified: Certificate, subjects: tuple[Subject, ...]) -> dict[str, Any]:
    return {
        "_type": audit_reports.STATEMENT_TYPE,
        "subject": [
            {
                "name": subject.name,
                "digest": {"sha256": subject.sha256},
                "annotations": {"size": subject.size},
            }
            for subject in subjects
        ],
        "predicateType": certificate_statement.PREDICATE_TYPE,
        "predicate": strict_json.loads(strict_json.dumps(certified.to_dict()), what="toy"),
    }


def sign_into(folder: Path, key: Any, payload: bytes) -> Path:
    (folder / ENVELOPE).write_text(dsse.sign(payload, key) + "\n")
    return folder


def trust(*keys: Any, **options: Any) -> TrustStore:
    """Returns the store of these keys; `options` are those of TrustedKey."""
    return TrustStore.of(
        TrustedKey(name=f"key {index}", public_key=signing_keys.public_key_of(key), **options)
        for index, key in enumerate(keys)
    )


def audit(**change: Any) -> Audit:
    found = Audit(
        method="one-run audit",
        adversary="model-recipient",
        unit="document",
        canaries=1000,
        runs=1,
        confidence=0.95,
        epsilon_lower=0.5,
        delta=DELTA,
        tpr_at_fpr=((0.02, 0.01),),
        auc=0.55,
    )
    return dataclasses.replace(found, **change)


def pre_registered(**change: Any) -> PreRegisteredAudit:
    found = PreRegisteredAudit(
        protocol="Guess.",
        population="others",
        query_budget=1000,
        seed_commitment="sha256:" + "ab" * 32,
    )
    return dataclasses.replace(found, **change)


def hostile(text: str) -> Certificate:
    """Returns a certificate that holds `text` wherever an issuer may write."""
    words = {
        name: text
        for name in ("observes", "knows", "unit_definition", "composition", "floating_point")
    }
    accountant = Accountant(name="rdp", library=text, version=text, error_bound=1.0)
    return certify(
        guarantee(**words, assumes=(text,), kind="dp-conditional", condition=text),
        guarantee(accountant=accountant),
        no_guarantee(unit="user"),
        issuer=text,
        caveats=(text,),
        audits=(audit(method=text),),
        pre_registered_audits=(pre_registered(protocol=text, population=text),),
        releases=("final-weights", "logs"),
        training={text: text, "x": [text]},
        utility={text: {text: 1}},
        derivation=({"step": text, "dataDependent": True},),
        model=ModelIdentity(name=text, version=1, task="kie", format="onnx", entry=ENTRY),
    )


def audit_report(*audits: Audit, **change: Any) -> AuditReport:
    found = AuditReport(
        certificate_id=CERTIFICATE_ID,
        auditor="the tests",
        conducted_at="2026-11-21T09:00:00Z",
        audits=audits or (audit(),),
    )
    return dataclasses.replace(found, **change)


def payload_digest(folder: Path) -> str:
    line = (folder / ENVELOPE).read_bytes().split(b"\n")[0]
    return hashlib.sha256(dsse.read_envelope(line).payload).hexdigest()


def append_audit(folder: Path, key: Any, report: AuditReport | None = None) -> None:
    """Appends an honest auditor's line to an artifact's envelope file."""
    payload = audit_statement(report or audit_report(), payload_digest(folder))
    append_line(folder, dsse.sign(payload, key))


def append_line(folder: Path, line: str) -> None:
    with (folder / ENVELOPE).open("a") as stream:
        stream.write(line + "\n")


def policy(*keys: Any, **change: Any) -> Policy:
    settings: dict[str, Any] = {
        "trust": trust(*keys),
        "max_epsilon": 8,
        "max_delta": 1e-5,
        "privacy_units": {"document"},
        **change,
    }
    return Policy(**settings)
