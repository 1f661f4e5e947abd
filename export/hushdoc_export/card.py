"""The model card: README.md of an artifact, written from its certificate for people.

It is unsigned and never parsed; whoever decides anything reads the certificate.
"""

from __future__ import annotations

import json

from hushdoc.certificate import Certificate, Guarantee
from hushdoc.explanation import printable
from hushdoc.labels import LabelSet


def model_card(certificate: Certificate, labels: LabelSet) -> str:
    """Returns the card's Markdown; the same certificate always gives the same text."""
    model = certificate.model
    name = printable(model.name)
    parts = [
        _front_matter(certificate),
        f"# {_escaped(name)}, version {model.version}",
        f"A model for the task **{model.task}**, sealed by hushdoc with a signed statement of what "
        f"its training promises about privacy. Certificate `{certificate.certificate_id}`, issued "
        f"{certificate.issued_at} by {_escaped(printable(certificate.issuer))}.",
        "This page is written from the certificate and is not signed. What counts is "
        "`privacy.intoto.jsonl`, which hushdoc checks before a weight is used.",
        "## Fields it finds",
        ", ".join(f"`{_code(label)}`" for label in labels.fields) or "None.",
        "## Privacy",
        _guarantees(certificate),
        f"```text\n{_fenced(certificate.explain())}```",
        "## Use",
        _usage(),
    ]
    if certificate.claim.utility:
        shown = (
            f"| {_cell(key)} | {_cell(json.dumps(value, ensure_ascii=False))} |"
            for key, value in sorted(certificate.claim.utility.items())
        )
        parts += ["## Utility", "\n".join(["| what | value |", "|---|---|", *shown])]
    return "\n\n".join(parts) + "\n"


def _front_matter(certificate: Certificate) -> str:
    """Returns the few keys that model hubs read; no free text of anybody stands here."""
    tags = ["document-understanding", certificate.model.task]
    if any(guarantee.kind == "dp" for guarantee in certificate.claim.guarantees):
        tags.append("differential-privacy")
    return "\n".join(
        [
            "---",
            "library_name: hushdoc",
            "pipeline_tag: token-classification",
            "tags:",
            *(f"  - {tag}" for tag in tags),
            "---",
        ]
    )


def _guarantees(certificate: Certificate) -> str:
    rows = [_row(guarantee) for guarantee in certificate.claim.guarantees]
    head = "| against | unit | kind | epsilon | delta | neighbours |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows])


def _row(guarantee: Guarantee) -> str:
    numbers = (guarantee.epsilon, guarantee.delta)
    epsilon, delta = ("-" if number is None else f"{number:g}" for number in numbers)
    return (
        f"| {guarantee.adversary} | {guarantee.unit} | {guarantee.kind} | {epsilon} | {delta} | "
        f"{guarantee.adjacency} |"
    )


def _usage() -> str:
    return (
        "```bash\n"
        "hushdoc verify . --policy policy.toml\n"
        "hushdoc extract . document.json --policy policy.toml\n"
        "```\n\n"
        "```python\n"
        "import hushdoc\n\n"
        'policy = hushdoc.Policy.from_toml("policy.toml")\n'
        'model = hushdoc.KIEModel.load(".", policy=policy)\n'
        "```"
    )


def _escaped(text: str) -> str:
    r"""Returns text in which nothing is Markdown or HTML.

    Example:
        >>> _escaped("a*b <script>")
        'a\\*b &lt;script&gt;'
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{letter}" if letter in r"\`*_{}[]()#+!|~" else letter for letter in text)


def _cell(text: str) -> str:
    return _escaped(printable(text, limit=200))


def _code(text: str) -> str:
    return printable(text).replace("`", "'")


def _fenced(text: str) -> str:
    return text.replace("```", "'''")
