"""The in-toto Statement v1 that carries a certificate as its predicate."""

from __future__ import annotations

from collections.abc import Sequence

from hushdoc.arguments import short_repr
from hushdoc.certificate.audit_reports import STATEMENT_TYPE, read_statement
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.subjects import Subject, read_subjects
from hushdoc.errors import CertificateError
from hushdoc.serialization import strict_json

PREDICATE_TYPE = "https://hushdoc.dev/privacy-certificate/v1"


def statement(certificate: Certificate, subjects: Sequence[Subject]) -> bytes:
    """Returns the in-toto Statement v1 to sign; the model's entry is one of its subjects.

    What can't be read back is never written, and neither is a claim of differential privacy that
    its own transcript does not reproduce.
    """
    for finding in certificate.recompute():
        if finding.code is not None:
            raise CertificateError(
                f"Guarantee {finding.index} is not signed: {finding.message}. Expected one that "
                "its own transcript reproduces; recompute epsilon, or declare kind none.",
                code=finding.code,
            )
    content = strict_json.dumps(
        {
            "_type": STATEMENT_TYPE,
            "subject": [
                {
                    "name": subject.name,
                    "digest": {"sha256": subject.sha256},
                    "annotations": {"size": subject.size},
                }
                for subject in sorted(subjects, key=lambda subject: subject.name)
            ],
            "predicateType": PREDICATE_TYPE,
            "predicate": certificate.to_dict(),
        }
    )
    parse_statement(content)
    return content


def parse_statement(content: bytes) -> tuple[Certificate, tuple[Subject, ...]]:
    """Returns the certificate and the files of a verified envelope's payload, each checked."""
    subject, predicate = read_statement(
        content, PREDICATE_TYPE, what="certificate", advice="It is not a privacy certificate."
    )
    subjects = read_subjects(subject)
    certificate = Certificate.from_dict(predicate)
    if certificate.model.entry not in {subject.name for subject in subjects}:
        raise CertificateError(
            f"The model's entry {short_repr(certificate.model.entry)} is not among the signed "
            "files. Sign every file that the runtime opens.",
            code="BAD_SUBJECT",
        )
    return certificate, subjects
