"""The model card: README.md of an artifact, written from its certificate for people.

It is unsigned and never parsed; whoever decides anything reads the certificate.
"""

from __future__ import annotations

import html
import json
from collections.abc import Collection, Sequence

from hushdoc.arguments import printable
from hushdoc.certificate.audit_reports import AuditReport
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Guarantee
from hushdoc.certificate.subjects import ENVELOPE_FILE
from hushdoc.explanation import explain
from hushdoc.explanation.measurements import WHAT_AUDITS_MEAN, audit_words
from hushdoc.labels import LabelSet
from hushdoc.reports.rendering import is_whole

_PIPELINES = {
    "kie": "token-classification",
    "docvqa": "document-question-answering",
    "classification": "image-classification",
    "embedding": "feature-extraction",
    "synthetic-documents": "token-classification",
}
"""What model hubs call our tasks."""

_COMMANDS = {
    "kie": "extract . document.pdf",
    "docvqa": "ask . document.pdf -q 'What is the total?'",
    "classification": "classify . document.pdf",
    "embedding": "embed . document.pdf",
}
"""The command that runs a model of each task."""


_OPENED = {"synthetic-documents": 'documents = hushdoc.SyntheticDocuments.open(".", policy=policy)'}
_WHAT = {"synthetic-documents": "Documents to give away,"}


def model_card(
    certificate: Certificate,
    labels: LabelSet | None = None,
    *,
    payload_sha256: str,
    audits: Sequence[AuditReport] = (),
) -> str:
    """Returns the card's Markdown; the same certificate and audits always give the same text.

    `audits` are what auditors whom the reader trusts signed about the artifact.
    """
    model = certificate.model
    failed = [item for item in certificate.recompute() if item.code is not None]
    parts = [
        _front_matter(certificate, {item.index for item in failed}),
        f"# {_escaped(printable(model.name))}, version {model.version}",
        f"{_WHAT.get(model.task, 'A model')} for the task **{model.task}**, sealed by hushdoc with "
        "a signed privacy certificate of its training. Certificate "
        f"`{certificate.certificate_id}`, issued {certificate.issued_at} by "
        f"{_escaped(printable(certificate.issuer))}.",
        f"This page is an unsigned rendering. What counts is the signed statement in "
        f"`{ENVELOPE_FILE}` (SHA-256 of its payload `{payload_sha256}`), which hushdoc checks "
        "before it uses a weight.",
        *_labels(labels, model.task),
        "## Privacy",
        *(
            f"**Guarantee {item.index} does NOT follow from its own transcript ({item.code}): "
            f"{_escaped(printable(item.message))}. Do not rely on it.**"
            for item in failed
        ),
        _guarantees(certificate),
        "```text\n" + explain(certificate).replace("```", "'''") + "```",
        *_audits(audits),
        "## Use",
        _usage(certificate),
        *_utility(certificate),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(certificate: Certificate, failed: Collection[int]) -> str:
    """Returns the few keys that model hubs read; none holds free text."""
    tags = ["document-understanding", certificate.model.task]
    guarantees = certificate.claim.guarantees
    if any(
        item.kind == "dp" and index not in failed and is_whole(certificate, item)
        for index, item in enumerate(guarantees)
    ):
        tags.append("differential-privacy")
    return "\n".join(
        [
            "---",
            "library_name: hushdoc",
            f"pipeline_tag: {_PIPELINES[certificate.model.task]}",
            "tags:",
            *(f"  - {tag}" for tag in tags),
            "---",
        ]
    )


def _labels(labels: LabelSet | None, task: str) -> list[str]:
    if labels is None:
        return []
    names = ", ".join(f"`{_code(label)}`" for label in labels.fields)
    heading = "Classes" if task == "classification" else "Fields"
    return [f"## {heading}", names or "None."]


def _guarantees(certificate: Certificate) -> str:
    rows = [_row(guarantee) for guarantee in certificate.claim.guarantees]
    head = "| against | unit | kind | epsilon | delta | neighbours | sees of training |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *rows])


def _row(guarantee: Guarantee) -> str:
    measured = "measured " if guarantee.kind == "empirical" else ""
    epsilon, delta = (
        "-" if number is None else f"{measured}{number:g}"
        for number in (guarantee.epsilon, guarantee.delta)
    )
    cells = (
        guarantee.adversary,
        guarantee.unit,
        guarantee.kind,
        epsilon,
        delta,
        guarantee.adjacency,
        guarantee.aggregation,
    )
    return f"| {' | '.join(cells)} |"


def _audits(reports: Sequence[AuditReport]) -> list[str]:
    if not reports:
        return []
    parts = ["### What trusted auditors signed about it"]
    for report in reports:
        parts.append(f"{_escaped(printable(report.auditor))}, {report.conducted_at}:")
        parts.append(
            "\n".join(f"- {_escaped(' '.join(audit_words(audit)))}" for audit in report.audits)
        )
    return [*parts, WHAT_AUDITS_MEAN]


def _usage(certificate: Certificate) -> str:
    commands = ["hushdoc verify . --policy policy.toml"]
    command = _COMMANDS.get(certificate.model.task)
    if command is not None:
        commands.append(f"hushdoc {command} --policy policy.toml")
    opened = _OPENED.get(certificate.model.task, 'model = hushdoc.load(".", policy=policy)')
    return (
        "```bash\n" + "\n".join(commands) + "\n```\n\n"
        "```python\n"
        "import hushdoc\n\n"
        f'policy = hushdoc.Policy.from_toml("policy.toml")\n{opened}\n'
        "```"
    )


def _utility(certificate: Certificate) -> list[str]:
    utility = certificate.claim.utility
    if not utility:
        return []
    rows = [
        f"| {_cell(key)} | {_cell(json.dumps(value, ensure_ascii=False))} |"
        for key, value in sorted(utility.items())
    ]
    return [
        "## Utility, as declared by the issuer",
        "\n".join(["| what | value |", "|---|---|", *rows]),
    ]


def _escaped(text: str) -> str:
    """Returns text in which nothing is Markdown or HTML."""
    escaped = html.escape(text, quote=False)
    return "".join(f"\\{sign}" if sign in r"\`*_{}[]()#+!|~" else sign for sign in escaped)


def _cell(text: str) -> str:
    return _escaped(printable(text, limit=200))


def _code(text: str) -> str:
    return printable(text).replace("`", "'")
