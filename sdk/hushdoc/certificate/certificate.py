"""Certificate: a claim with its issuer, its date and the model that it is about.

It is the predicate of a signed statement. Its schema version is part of it; a reader knows all
fields of a version and refuses any other, so nothing that would weaken a guarantee can be
overlooked.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hushdoc.arguments import short_repr
from hushdoc.certificate.audit_reports import certificate_id
from hushdoc.certificate.claim import Claim
from hushdoc.certificate.recompute import Reproduction, reproduce
from hushdoc.certificate.vocabulary import ASSURANCES
from hushdoc.errors import CertificateError
from hushdoc.serialization.records import (
    TIME_FORMAT,
    Codec,
    Record,
    bad_field,
    camel,
    flag,
    integer,
    listed,
    optional,
    record,
    require_keys,
    require_version,
    stored,
    text,
    time,
    word,
)

SCHEMA_VERSION = 1
TASKS = ("kie", "docvqa", "classification", "embedding", "synthetic-documents")
FORMATS = ("onnx", "safetensors")
CLOCK_TOLERANCE = timedelta(minutes=5)
"""How far the issuer's clock may be ahead of ours."""

EARLIEST_CLOCK, LATEST_CLOCK = "2026-11-01T00:00:00Z", "2126-11-01T00:00:00Z"
"""A clock before this code was written, or a hundred years after, is wrong."""


@dataclass(frozen=True, kw_only=True)
class ModelIdentity(Record):
    """Which model this is; checked against replay and rollback.

    Attributes:
        name: The name that keys are authorised for, such as "invoice-kie".
        version: Grows with every release.
        task: One of TASKS.
        format: One of FORMATS.
        entry: The file that the runtime loads, such as "onnx/model.onnx".
    """

    name: str = stored(text)
    version: int = stored(integer())
    task: str = stored(word(TASKS))
    format: str = stored(word(FORMATS))
    entry: str = stored(text)


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A claim with a name, a date and a model.

    Attributes:
        certificate_id: 128 random bits as 32 hexadecimal digits (`new_certificate_id`).
        issued_at: UTC as "2026-11-21T08:00:00Z" (`utc_now`).
        expires_at: In the same form, or None.
        issuer: Who declares it.
        assurance: One of ASSURANCES.
        model: Which model.
        claim: What training declares.
        derivation: What was done to the weights since training. Each step has "step" (a word) and
            "dataDependent" (whether it read protected data); "certificate" and "from" may name
            another certificate, see `made_from`; other keys are for people.
        critical: Names of extensions that a reader must understand; none is known yet.
    """

    certificate_id: str
    issued_at: str
    expires_at: str | None
    issuer: str
    assurance: str
    model: ModelIdentity
    claim: Claim
    derivation: tuple[Mapping[str, Any], ...] = ()
    critical: tuple[str, ...] = ()

    @property
    def made_from(self) -> tuple[str, ...]:
        """The certificates that its derivation names, of what the model was made from, by id."""
        named = (step.get(key) for step in self.derivation for key in ("certificate", "from"))
        return tuple(name.removeprefix("certificate:") for name in named if isinstance(name, str))

    def to_dict(self) -> dict[str, Any]:
        """Returns the predicate as plain data; the claim's fields are on the same level."""
        head = {key: codec.write(getattr(self, name)) for name, key, codec in _HEAD}
        return {"schemaVersion": SCHEMA_VERSION, **head, **self.claim.to_dict()}

    @classmethod
    def from_dict(cls, data: Any) -> Certificate:
        """Returns what `to_dict` wrote; else BAD_FIELD, UNKNOWN_VALUE or UNKNOWN_CRITICAL."""
        _require_supported(data)
        claim_keys = {camel(field.name) for field in dataclasses.fields(Claim)}
        head_keys = {key for _, key, _ in _HEAD}
        require_keys(data, {"schemaVersion"} | head_keys | claim_keys, "predicate")
        head = {name: codec.read(data[key], f"predicate.{key}") for name, key, codec in _HEAD}
        claim = Claim.from_dict({key: data[key] for key in claim_keys}, "predicate")
        certificate = cls(claim=claim, **head)
        if certificate.expires_at is not None and certificate.expires_at <= certificate.issued_at:
            raise bad_field("predicate.expiresAt", "found a time that is not after issuedAt")
        return certificate

    def recompute(self, mode: str = "fast") -> tuple[Reproduction, ...]:
        """Returns for each dp guarantee whether its numbers follow from its transcript.

        Args:
            mode: One of `recompute.RECOMPUTE_MODES`.

        Raises:
            MissingExtraError: `offline` needs dp-accounting.
        """
        return reproduce(self.claim, mode=mode)


def new_certificate_id() -> str:
    """Returns 128 random bits as 32 hexadecimal digits."""
    return secrets.token_hex(16)


def utc_now() -> str:
    """Returns the time in the form that certificates use, as `plausible` does."""
    return plausible(datetime.now(UTC))


def plausible(now: datetime) -> str:
    """Returns a time in that form; CertificateError CLOCK_IMPLAUSIBLE for one that is none."""
    clock = now.astimezone(UTC).strftime(TIME_FORMAT)
    if not EARLIEST_CLOCK <= clock <= LATEST_CLOCK:
        raise CertificateError(
            f"This clock shows {clock}, expected {EARLIEST_CLOCK} to {LATEST_CLOCK}. Nothing can "
            "be dated by it, and no validity checked; correct the clock.",
            code="CLOCK_IMPLAUSIBLE",
        )
    return clock


def require_valid(
    certificate: Certificate,
    *,
    model: str | None,
    min_version: int,
    now: datetime,
    max_age: timedelta | None = None,
) -> None:
    """Raises unless the certificate is valid now and for the model that the application expects.

    Its signature has been checked before; None accepts any name of a model, or any age.
    """
    found = certificate.model
    if model is not None and found.name != model:
        raise CertificateError(
            f"The certificate is for the model {short_repr(found.name)}, the policy allows "
            f"{short_repr(model)}. Take the artifact of the right model.",
            code="WRONG_MODEL",
        )
    if found.version < min_version:
        raise CertificateError(
            f"The model has version {found.version}, the policy allows from {min_version}. "
            "Take a newer release.",
            code="ROLLBACK",
        )
    clock = plausible(now)
    if certificate.issued_at > (now.astimezone(UTC) + CLOCK_TOLERANCE).strftime(TIME_FORMAT):
        raise CertificateError(
            f"The certificate is valid from {certificate.issued_at}, and this clock shows {clock}. "
            "Correct the clock, or wait.",
            code="NOT_YET_VALID",
        )
    if certificate.expires_at is not None and certificate.expires_at <= clock:
        raise CertificateError(
            f"The certificate expired {certificate.expires_at}, and this clock shows {clock}. "
            "Ask its issuer for a new one.",
            code="EXPIRED",
        )
    if max_age is not None:
        oldest = (now.astimezone(UTC) - max_age).strftime(TIME_FORMAT)
        if certificate.issued_at < oldest:
            raise CertificateError(
                f"The certificate was issued {certificate.issued_at}, the policy allows from "
                f"{oldest}. Ask its issuer for a new one.",
                code="STALE",
            )


def _require_supported(data: Any) -> None:
    require_version(data, SCHEMA_VERSION, "predicate")
    critical = listed(text).read(data.get("critical"), "predicate.critical")
    if critical:
        raise CertificateError(
            f"The certificate requires the extensions {short_repr(critical)}; this hushdoc "
            "supports none. Update hushdoc.",
            code="UNKNOWN_CRITICAL",
        )


def _read_step(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not {"step", "dataDependent"} <= value.keys():
        raise bad_field(where, "found no step with the keys step and dataDependent")
    text.read(value["step"], f"{where}.step")
    flag.read(value["dataDependent"], f"{where}.dataDependent")
    return value


_step: Codec[Mapping[str, Any]] = Codec(read=_read_step, write=dict)

_HEAD: list[tuple[str, str, Codec[Any]]] = [
    ("certificate_id", "certificateId", certificate_id),
    ("issued_at", "issuedAt", time),
    ("expires_at", "expiresAt", optional(time)),
    ("issuer", "issuer", text),
    ("assurance", "assurance", word(ASSURANCES)),
    ("model", "model", record(ModelIdentity)),
    ("derivation", "derivation", listed(_step)),
    ("critical", "critical", listed(text)),
]
"""The certificate's own fields beside its claim: attribute, JSON key, codec."""
