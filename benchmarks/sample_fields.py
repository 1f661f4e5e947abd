"""How well the model of `hushdoc sample` finds the fields of invented invoices of unseen providers.

    f1         of all fields; one counts with its exact words and its label
    f1_by_label
    documents  how many invoices were read, in all layouts of the generator

The invoices are invented, as those are that the model learned from: none of this is known of real
ones. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import machine

import hushdoc
from hushdoc.commands.sample import MODEL, POLICY, SHIPPED
from hushdoc.labels import LabelledDocument, Span, spans_from_words
from hushdoc.metrics import entity_score
from hushdoc_training import invented

PROVIDERS = (30_500, 31_000)
"""None of them issued what the model was trained or calibrated on."""


def spans(model: hushdoc.KIEModel, invoice: LabelledDocument) -> list[Span]:
    """Returns what the model finds in an invoice."""
    return [
        span
        for field in model.extract(invoice.document).fields
        for span in spans_from_words(field.word_ids, label=field.label, page=field.page)
    ]


def f1(pairs: Sequence[tuple[Sequence[Span], Sequence[Span]]], label: str | None = None) -> float:
    """Returns the F1 of expected and found spans, or of those of one label."""
    kept = [
        tuple([span for span in side if label in (None, span.label)] for side in pair)
        for pair in pairs
    ]
    return round(entity_score((expected, found) for expected, found in kept).f1, 3)


def main() -> int:
    """Measures and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="20 invoices instead of 300")
    options = parser.parse_args()
    policy = hushdoc.Policy.from_toml(POLICY)
    model = hushdoc.KIEModel.load(SHIPPED / MODEL, policy=policy)
    config = invented.InventedConfig(document_types=("invoice",), providers=PROVIDERS)
    count = 20 if options.quick else 300
    invoices = list(invented.documents(seed=4, count=count, config=config))
    pairs = [(invoice.spans, spans(model, invoice)) for invoice in invoices]
    result = {
        "f1": f1(pairs),
        "f1_by_label": {label: f1(pairs, label) for label in model.labels.fields},
        "documents": count,
        "text": "invented",
        **machine.dated(python=True),
        "quick": options.quick,
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
