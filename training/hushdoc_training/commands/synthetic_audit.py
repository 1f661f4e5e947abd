"""The action `synthetic` of `hushdoc audit`: documents that are given away beside private ones."""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import html
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import counted, printable
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc.errors import EmptyDocumentError, InputError
from hushdoc_training.commands.data import SOURCE
from hushdoc_training.commands.synthesize_diffusion import IMAGES, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hushdoc.commands.parsing import Subcommands
    from hushdoc.document.page import Page
    from hushdoc.labels import LabelledDocument
    from hushdoc_training.audit.nearest_pages import Comparison, Floats, Nearest
    from hushdoc_training.data.image_documents import ImageDocument

DESCRIPTION = """Looks for copies: finds the nearest private and the nearest held-out document of
each document of a sealed set, by the embedding that voted, and says how often the private one is
nearer. Pages of a set of images alone are compared by 16 x 16 shades of their images.

  hushdoc audit synthetic given-away --private receipts.jsonl --held-out others.jsonl \\
      --trust release.trust.json --max-epsilon 1 --max-delta 1e-5 --unit document \\
      --adversary synthetic-data-recipient --out nearest.html

Held-out documents are of the same source, and the set was not made from them; those that are
private ones as well are left out. Of a set that copies nothing about a half is nearer to private
ones, where as many of both are looked at: of more private ones than held-out ones the share is
about so many, and the nearest in --out and --json are of all. The result is exact numbers about
private documents, and --out shows some of them: keep both."""

SHOWN = 12
"""How many documents --out shows: those that are nearest to a private one, as held-out ones go."""

SHADES, SHOWN_PIXELS = 16, 600
"""Shades across a page and down by which images are compared, and pixels of a page on --out."""


@dataclass(frozen=True, kw_only=True)
class _Item:
    """A document, or a page of one, that is compared: its name, its point, and what is shown."""

    name: str
    point: Floats
    page: Page


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
        "--private",
        required=True,
        metavar="SOURCE",
        help=f"what it was made from; {SOURCE}; of images: {IMAGES}",
    )
    parser.add_argument(
        "--held-out", required=True, metavar="SOURCE", help="others of the same source"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="page of HTML with the nearest")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object, with the nearest of each",
    )
    policy_options(parser)
    parser.mark_output("--out")
    parser.set_defaults(run=run, extra="training")


def run(options: argparse.Namespace) -> int:
    """Prints how many documents are nearer to a private one than to a held-out one."""
    from hushdoc import evaluation
    from hushdoc.synthetic_documents import SyntheticDocuments
    from hushdoc.system import atomic_files

    if options.out is not None:
        atomic_files.require_free(options.out)
    documents = list(SyntheticDocuments.open(options.artifact, policy=policy_from(options)))
    images = not all(_has_words(one) for one in documents)
    with contextlib.ExitStack() as files:
        items = _drawn_items(documents) if images else _worded_items(documents)
        groups = [
            _read(location, files, images=images)
            for location in (options.private, options.held_out)
        ]
        apart = _apart(groups[1], groups[0])
        size = min(len(groups[0]), len(apart))
        held_out = apart[:size]
        found = _compared(items, groups[0][:size], held_out)
        # A copy is one of any private document, also of those that the share is not about.
        every = replace(found, private=_nearest_of(items, groups[0]))
        if options.out is not None:
            share = found.nearer_to_private
            content = _page(every, items, groups[0], held_out, share=share, images=images)
            atomic_files.write_file(options.out, content.encode())
    figures = {
        "compared": "images" if images else "words",
        "documents": len(documents),
        "groups_of": size,
        "private_documents": len(groups[0]),
        "held_out_among_private": len(groups[1]) - len(apart),
        "nearer_to_private": round(found.nearer_to_private, 4),
        "p_value": float(f"{found.p_value:.3g}"),
        "mean_distance_to_private": round(float(found.private.distances.mean()), 4),
        "mean_distance_to_held_out": round(float(found.held_out.distances.mean()), 4),
    }
    if options.json:
        nearest = _nearest(every, items, groups[0], held_out)
        print(json.dumps({**figures, "note": evaluation.NOTE, "nearest": nearest}))
        return 0
    print(
        f"Nearer to a private document than to a held-out one: {found.nearer_to_private:.1%} of "
        f"{counted(len(documents), 'document')} (by coins as many with probability "
        f"{found.p_value:.2g}); two groups of {size}, compared by their {figures['compared']}"
    )
    print(
        f"Mean distance to the nearest: private {figures['mean_distance_to_private']}, held-out "
        f"{figures['mean_distance_to_held_out']}"
    )
    if len(groups[0]) > size:
        print(
            f"note: these are of {size} of {len(groups[0])} private documents, as many as are held "
            "out; --out and --json show the nearest of all. Hold more out to compare more."
        )
    if shared := figures["held_out_among_private"]:
        print(
            f"note: {shared} of {len(groups[1])} held-out documents are among the private ones, by "
            "what is compared, and were left out: no copy of one would be nearer to either."
        )
    print(f"note: {evaluation.NOTE}")
    return 0


def _read(location: str, files: contextlib.ExitStack, *, images: bool) -> list[_Item]:
    """Returns what is compared of a source, in an order that depends on each alone."""
    from hushdoc_training.data import dataset, image_sets

    source = dataset.Source(location=location)
    if images:
        found = _image_items(files.enter_context(image_sets.opened(source, report=shown)))
    else:
        found = _worded_items(one for one in dataset.read(source) if _has_words(one))
    if not found:
        raise EmptyDocumentError(
            f"No document of '{printable(location)}' has words, by which this set is "
            "compared. Give documents with words."
        )
    return sorted(found, key=lambda item: hashlib.sha256(item.name.encode()).hexdigest())


def _apart(held_out: Sequence[_Item], private: Sequence[_Item]) -> Sequence[_Item]:
    """Returns what is held out indeed; an InputError where all of it is private."""
    points = {item.point.tobytes() for item in private}
    apart = [item for item in held_out if item.point.tobytes() not in points]
    if not apart:
        raise InputError(
            "Every held-out document is among the private ones, and exactly as near to all of the "
            "set, so the comparison says nothing. Give two groups of different documents."
        )
    return apart


def _has_words(labelled: LabelledDocument) -> bool:
    return any(page.words for page in labelled.document.pages)


def _worded_items(documents: Iterable[LabelledDocument]) -> list[_Item]:
    from hushdoc_training.synthesis import embedding

    return [
        _Item(
            name=labelled.document.id,
            point=embedding.embed(labelled.document),
            page=labelled.document.pages[0],
        )
        for labelled in documents
    ]


def _drawn_items(documents: Iterable[LabelledDocument]) -> list[_Item]:
    """Returns the pages of a set of images alone."""
    from hushdoc_training.data.image_documents import ImageDocument

    return _image_items(
        [ImageDocument(id=one.document.id, label="", pages=one.document.pages) for one in documents]
    )


def _image_items(documents: Sequence[ImageDocument]) -> list[_Item]:
    """Returns every page, at the point of its fixed shades: what is apart is their deviation."""
    from hushdoc_training.recipes.synthesis import page_squares

    squares = page_squares.squares_of(documents, SHADES, classes={}, layout=False)
    return [
        _Item(name=f"{one.id} {number}", point=square.shades.ravel() / SHADES, page=page)
        for one, own in zip(documents, squares, strict=True)
        for number, (square, page) in enumerate(zip(own, one.pages, strict=True))
    ]


def _compared(
    items: Sequence[_Item], private: Sequence[_Item], held_out: Sequence[_Item]
) -> Comparison:
    """Returns which are nearest; an InputError where both groups are equally near to all."""
    import numpy as np

    from hushdoc_training.audit import nearest_pages

    found = nearest_pages.compared(
        *(np.array([item.point for item in group]) for group in (items, private, held_out))
    )
    if (found.private.distances == found.held_out.distances).all():
        raise InputError(
            "Every document of the set is exactly as near to a private document as to a held-out "
            "one, so the comparison says nothing. Give two groups of different documents."
        )
    return found


def _nearest_of(items: Sequence[_Item], group: Sequence[_Item]) -> Nearest:
    """Returns which of a group is nearest to each."""
    import numpy as np

    from hushdoc_training.audit import nearest_pages

    return nearest_pages.nearest(*(np.array([item.point for item in of]) for of in (items, group)))


def _nearest(
    found: Comparison,
    items: Sequence[_Item],
    private: Sequence[_Item],
    held_out: Sequence[_Item],
) -> list[dict[str, str | float]]:
    """Returns of every document of the set its nearest two, and how far they are."""
    return [
        {
            "document": item.name,
            "private": private[int(found.private.places[place])].name,
            "distance_to_private": round(float(found.private.distances[place]), 4),
            "held_out": held_out[int(found.held_out.places[place])].name,
            "distance_to_held_out": round(float(found.held_out.distances[place]), 4),
        }
        for place, item in enumerate(items)
    ]


def _page(
    found: Comparison,
    documents: Sequence[_Item],
    private: Sequence[_Item],
    held_out: Sequence[_Item],
    *,
    share: float,
    images: bool,
) -> str:
    """Returns a page that shows documents of a set, each beside its nearest two."""
    from hushdoc import evaluation

    draw = _image if images else _drawn
    rows = []
    for place in found.closest(SHOWN):
        cells = [("of the set", documents[place])]
        for title, group, near in (
            ("private", private, found.private),
            ("held out", held_out, found.held_out),
        ):
            title = f"{title}, at {near.distances[place]:.3f}"
            cells.append((title, group[int(near.places[place])]))
        rows.append("".join(f"<td>{draw(title, item.page)}</td>" for title, item in cells))
    table = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Nearest documents</title>'
        "<style>body{font:14px sans-serif}td{vertical-align:top;padding:8px}svg,img{border:1px "
        "solid #888;width:300px;height:auto}</style><h1>Nearest documents</h1><p>This page shows "
        f"private documents. {share:.1%} of the set are nearer to a private "
        "document than to a held-out one; shown are those whose gap is largest.</p>"
        f"<p>{html.escape(evaluation.NOTE)}</p>"
        f"<table>{table}</table></html>\n"
    )


def _image(title: str, page: Page) -> str:
    """Returns the image of a page, as a PNG file within the HTML."""
    from hushdoc.reading import drawing
    from hushdoc.viewing.rendition import as_png

    image = drawing.page_image(page)
    assert image is not None  # page_squares read it
    image.thumbnail((SHOWN_PIXELS, SHOWN_PIXELS))
    content = base64.b64encode(as_png(image.convert("L"))).decode()
    title = html.escape(title)
    return f'<p>{title}</p><img src="data:image/png;base64,{content}" alt="{title}">'


def _drawn(title: str, page: Page) -> str:
    """Returns a drawing of a page by its words and boxes."""
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
