"""The action `synthetic` of `hushdoc audit`: documents that are given away beside private ones."""

from __future__ import annotations

import argparse
import hashlib
import html
import json
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import counted
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc_training.commands.data import SOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hushdoc.commands.parsing import Subcommands
    from hushdoc.labels import LabelledDocument
    from hushdoc_training.audit.nearest_pages import Comparison

DESCRIPTION = """Looks for copies: finds the nearest private and the nearest held-out document of
each document of a sealed set, by the embedding that voted, and says how often the private one is
nearer.

  hushdoc audit synthetic given-away --private receipts.jsonl --held-out others.jsonl \\
      --trust release.trust.json --max-epsilon 1 --max-delta 1e-5 --unit document \\
      --adversary synthetic-data-recipient --out nearest.html

Held-out documents are of the same source, and the set was not made from them. Of a set that copies
nothing about a half is nearer to private ones. The result is exact numbers about private documents,
and --out shows some of them: keep both."""

SHOWN = 12
"""How many documents --out shows: those that are nearest to a private one, as held-out ones go."""


def register(actions: Subcommands) -> None:
    """Adds the action."""
    parser = actions.add_parser(
        "synthetic",
        help="compare documents that are given away with private ones and others",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("artifact", type=Path, metavar="ARTIFACT", help="the sealed set's folder")
    parser.add_argument(
        "--private", required=True, metavar="SOURCE", help=f"what it was made from; {SOURCE}"
    )
    parser.add_argument(
        "--held-out", required=True, metavar="SOURCE", help="others of the same source"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="page of HTML with the nearest")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    policy_options(parser)
    parser.set_defaults(run=run, extra="training")


def run(options: argparse.Namespace) -> int:
    """Prints how many documents are nearer to a private one than to a held-out one."""
    import numpy as np

    from hushdoc.synthetic_documents import SyntheticDocuments
    from hushdoc.system import atomic_files
    from hushdoc_training.audit import nearest_pages
    from hushdoc_training.data import dataset
    from hushdoc_training.synthesis import embedding

    if options.out is not None:
        atomic_files.require_free(options.out)
    documents = list(SyntheticDocuments.open(options.artifact, policy=policy_from(options)))
    groups = [
        _chosen(dataset.read(dataset.Source(location=location)))
        for location in (options.private, options.held_out)
    ]
    size = min(map(len, groups))
    private, held_out = (group[:size] for group in groups)
    points = [
        np.array([embedding.embed(item.document) for item in group])
        for group in (documents, private, held_out)
    ]
    found = nearest_pages.compared(*points)
    if options.out is not None:
        content = _page(found, documents, private, held_out)
        atomic_files.write_file(options.out, content.encode())
    figures = {
        "documents": len(documents),
        "groups_of": size,
        "nearer_to_private": round(found.nearer_to_private, 4),
        "p_value": float(f"{found.p_value:.3g}"),
        "mean_distance_to_private": round(float(found.private.distances.mean()), 4),
        "mean_distance_to_held_out": round(float(found.held_out.distances.mean()), 4),
    }
    if options.json:
        print(json.dumps(figures))
        return 0
    print(
        f"Nearer to a private document than to a held-out one: {found.nearer_to_private:.1%} of "
        f"{counted(len(documents), 'document')} (by coins as many with probability "
        f"{found.p_value:.2g}); two groups of {size}"
    )
    print(
        f"Mean distance to the nearest: private {figures['mean_distance_to_private']}, held-out "
        f"{figures['mean_distance_to_held_out']}"
    )
    print("note: both are exact numbers about private documents, which no noise protects.")
    return 0


def _chosen(documents: Sequence[LabelledDocument]) -> list[LabelledDocument]:
    """Returns documents in an order that depends on each alone, to take the first of them."""
    return sorted(documents, key=lambda item: hashlib.sha256(item.document.id.encode()).hexdigest())


def _page(
    found: Comparison,
    documents: Sequence[LabelledDocument],
    private: Sequence[LabelledDocument],
    held_out: Sequence[LabelledDocument],
) -> str:
    """Returns a page that shows documents of a set, each beside its nearest two."""
    rows = []
    for place in found.closest(SHOWN):
        cells = [("of the set", documents[place])]
        for title, group, near in (
            ("private", private, found.private),
            ("held out", held_out, found.held_out),
        ):
            title = f"{title}, at {near.distances[place]:.3f}"
            cells.append((title, group[int(near.places[place])]))
        rows.append("".join(f"<td>{_drawn(title, item)}</td>" for title, item in cells))
    table = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Nearest documents</title>'
        "<style>body{font:14px sans-serif}td{vertical-align:top;padding:8px}svg{border:1px solid "
        "#888;width:300px;height:auto}</style><h1>Nearest documents</h1><p>This page shows private "
        f"documents. {found.nearer_to_private:.1%} of the set are nearer to a private document "
        f"than to a held-out one; shown are those whose gap is largest.</p><table>{table}</table>"
        "</html>\n"
    )


def _drawn(title: str, item: LabelledDocument) -> str:
    """Returns a drawing of a document's first page by its words and boxes."""
    page = item.document.pages[0]
    words = "".join(
        f'<text x="{word.box.x0:.0f}" y="{word.box.y1:.0f}" '
        f'font-size="{max(word.box.y1 - word.box.y0, 1):.0f}" '
        f'textLength="{max(word.box.x1 - word.box.x0, 1):.0f}" '
        f'lengthAdjust="spacingAndGlyphs">{html.escape(word.text)}</text>'
        for word in page.words
    )
    return (
        f'<p>{html.escape(title)}</p><svg viewBox="0 0 {page.width} {page.height}" role="img" '
        f'aria-label="{html.escape(title)}">{words}</svg>'
    )
