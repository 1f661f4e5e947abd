"""Makes a public start for `hushdoc train kie --start`: one model for many kinds of pages.

    python samples/public_start.py --data path/to/corpora --out runs/public
    python samples/public_start.py --data path/to/corpora --out runs/public --without sroie

It writes lists of data sets, then runs the commands that learn from them; each is printed. The
first learns words and boxes of real pages by masking some: the folders docmix (boxes of lines by
page class) and fcc_adbuy (words of invoices) give pages without labels. The second learns the
labels of invented pages. The start is OUT/invented; OUT/invented-alone with --parts invented.

With --parts all a third and short one learns the labels of all corpora in the folder, with some
invented pages among them: cord, docile, funsd, sroie, wildreceipt and xfund, in folders of these
names as they are published. Its start is OUT/start, or OUT/start-without-sroie and so on. It is not
the default, as what it adds for a corpus of another kind was nothing or less (docs/results.md).

What is to be trained on privately later is left out with --without, and with it the pages in other
folders that come from the same source. Ctrl-C stops, and the same command goes on from there.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc import labelled_files
from hushdoc.commands import command_line
from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc.labels import LabelledDocument
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.data import dataset, set_list

CORPORA = ("cord", "docile", "funsd", "sroie", "wildreceipt", "xfund")
KIN = {
    "docmix funsd": "funsd",
    "docmix sroie": "sroie",
    "docmix wildreceipt": "wildreceipt",
    "docmix vrdu_adbuy": "docile",
    "fcc_adbuy": "docile",
}
"""Pages that come from where a corpus comes from; they are left out with it."""

STATED = {
    "cord": "CC BY 4.0",
    "docile": "research use, as its terms say",
    "docmix": "as its sources: see its README",
    "fcc_adbuy": "public files of the FCC; labels MIT",
    "funsd": "non-commercial, research and educational use",
    "sroie": "CC BY 4.0",
    "wildreceipt": "none stated",
    "xfund": "CC BY-NC-SA 4.0",
}
"""Licences as the publishers state them."""

BLANK = "\u25a1"
"""Stands for words of which only the boxes are known: no vocabulary has it."""

INVENTED = (
    ("till-receipt", "sroie", 1200),
    ("till-receipt", "wildreceipt", 1200),
    ("till-receipt", "cord", 1200),
    ("till-receipt", "fields", 600),
    ("invoice", "docile", 900),
    ("invoice", "fields", 600),
    ("form", "form", 1500),
)
"""Types, labels and numbers of invented documents."""

REHEARSED = 0.05
"""Share of the invented documents among the real ones, so that their labels are not forgotten."""

PASSES = 2
"""Over the real pages with labels; all other pages are read once."""


@dataclass(frozen=True, kw_only=True)
class Set:
    """An entry of the list."""

    name: str
    data: str
    licence: str
    documents: int | None = None
    labels: str | None = None
    seed: int | None = None
    unlabelled: bool = False
    passes: int | None = None

    def to_toml(self) -> str:
        """Returns the entry as the list holds it."""
        values = {key: value for key, value in vars(self).items() if value not in (None, False)}
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        return "\n".join(("[[set]]", *lines)) + "\n"


def main() -> int:
    """Makes the start, or goes on with it; returns the exit code of the last command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora's folders")
    parser.add_argument("--out", type=Path, required=True, help="folder to make it in")
    parser.add_argument("--without", action="append", choices=CORPORA, default=[],
                        help="a corpus that is private later; may be given again")  # fmt: skip
    parser.add_argument("--share", type=float, default=1.0, help="share of all documents")
    parser.add_argument("--start", default="minilm", help="where it starts from (default: minilm)")
    parser.add_argument("--public-overlap", default="unknown",
                        choices=("none", "unknown", "partial", "contained"),
                        help="how far what is read may hold later protected documents; default "
                        "policies refuse all but none (default: unknown)")  # fmt: skip
    parser.add_argument("--box-level", choices=("segment", "word"), default="segment",
                        help="boxes that the model reads (default: segment)")  # fmt: skip
    parser.add_argument("--parts", choices=("invented", "masked", "all"), default="masked",
                        help="invented labels alone; masked pages before them; or labels of other "
                        "corpora after them too (default: masked)")  # fmt: skip
    options = parser.parse_args()
    data, out = options.data, options.out
    out.mkdir(parents=True, exist_ok=True)
    told = f"--box-level {options.box_level} --public-overlap {options.public_overlap}"
    start = f"{options.start} {told}"
    first, last = out / "sets.toml", out / "last.toml"
    if not last.is_file():
        pages = page_sets(data, out / "pages", options.share)
        write(first, [*invented_sets(options.share), *pages])
        again = invented_sets(options.share * REHEARSED, seed=200, title="more invented")
        write(last, [*again, *corpora(data, options.share)])
    sets = set_list.read(first)
    invented = [item.name for item in sets if item.source.is_invented]
    pages = [item.name for item in sets if not item.source.is_invented]
    # A corpus that is in the folder is read with its labels, at last.
    known = [name for name in pages if (data / KIN.get(name, "")).is_dir() and name in KIN]
    private = [name for name in pages if KIN.get(name) in options.without]
    learned = out / ("invented-alone" if options.parts == "invented" else "invented")
    if options.parts != "invented" and {*pages} - {*known, *private}:
        masked = out / "masked"
        left_out = [*invented, *{*known, *private}]
        if code := train(masked, first, left_out, f"--unlabelled --start {start}", {*private}):
            return code
        start = f"{masked} --new-labels {told}"
    code = train(learned, first, pages, f"--start {start}", {*private})
    if code:
        return code
    made = learned.name
    named = [item.name for item in set_list.read(last) if not item.source.is_invented]
    if options.parts == "all" and {*named} - {*options.without}:
        made = "-".join(("start", *(f"without-{name}" for name in sorted({*options.without}))))
        left_out = [name for name in named if name in options.without]
        start = f"{learned} --new-labels {told}"
        code = train(out / made, last, left_out, f"--start {start}", {*private, *left_out})
    if not code:
        print(f"\nThe start is {out / made}.")
    return code


def learned_from(run: Path) -> set[str]:
    """Returns the sets that a finished run has read."""
    return {data.name for data in Checkpoint.load(run).claim.public_data}


def write(path: Path, sets: list[Set]) -> None:
    """Writes a list of data sets."""
    path.write_text("\n".join(item.to_toml() for item in sets), "utf-8")


def invented_sets(share: float, seed: int = 100, title: str = "invented") -> list[Set]:
    """Returns sets of invented documents, a share of the usual number of each."""
    return [
        Set(
            name=f"{title} {kind} with labels of {labels}",
            data=f"invented:{kind}",
            licence="invented",
            documents=max(1, round(count * share)),
            labels=labels,
            seed=seed + number,
        )
        for number, (kind, labels, count) in enumerate(INVENTED)
    ]


def corpora(data: Path, share: float) -> list[Set]:
    """Returns the corpora with labels that are there, a share of the documents of each."""
    sets = []
    for name in CORPORA:
        if (path := (data / name).resolve()).is_dir():
            source = dataset.Source(location=str(path))
            most = max(1, round(len(dataset.read(source)) * share)) if share < 1 else None
            sets.append(
                Set(
                    name=name,
                    data=str(path),
                    licence=STATED[name],
                    documents=most,
                    passes=PASSES,
                )
            )
    return sets


def page_sets(data: Path, out: Path, share: float) -> list[Set]:
    """Writes a share of the pages without labels in the labelled format; returns their sets."""
    made: dict[str, list[LabelledDocument]] = {}
    if (data / "docmix" / "train.jsonl.gz").is_file():
        for source, page in boxes_of_lines(data / "docmix" / "train.jsonl.gz"):
            made.setdefault(f"docmix {source}", []).append(page)
    if (data / "fcc_adbuy" / "train.jsonl.gz").is_file():
        made["fcc_adbuy"] = list(words_of_invoices(data / "fcc_adbuy" / "train.jsonl.gz"))
    out.mkdir(exist_ok=True)
    sets = []
    for name, documents in made.items():
        path = out / f"{name.replace(' ', '-')}.jsonl.gz"
        kept = documents[: max(1, round(len(documents) * share))]
        labelled_files.write(path, kept, overwrite=True)
        licence = STATED[name.split()[0]]
        sets.append(Set(name=name, data=f"pages/{path.name}", licence=licence, unlabelled=True))
    return sets


def boxes_of_lines(path: Path) -> Iterator[tuple[str, LabelledDocument]]:
    """Yields the pages of docmix with their sources: boxes of lines, from 0 to 1000, no text."""
    for entry in lines_of(path):
        found = [
            Word(text=BLANK, box=Box(x0=x0, y0=y0, x1=x1, y1=y1), segment=number)
            for number, (x0, y0, x1, y1) in enumerate(entry["boxes_1000"])
            if 0 <= x0 < x1 <= 1000 and 0 <= y0 < y1 <= 1000
        ]
        if found:
            page = Page(width=1000, height=1000, words=tuple(found))
            yield entry["source"], unlabelled(entry["file"], page)


def words_of_invoices(path: Path) -> Iterator[LabelledDocument]:
    """Yields the pages of fcc_adbuy, one document each: words with boxes in points."""
    for entry in lines_of(path):
        for page in entry["pages"]:
            width, height = round(page["width"]) + 1, round(page["height"]) + 1
            words = tuple(
                Word(text=text, box=Box(x0=x0, y0=y0, x1=x1, y1=y1))
                for text, x0, y0, x1, y1 in page["words"]
                if text.strip() and text.isprintable()  # a few are damaged
                if 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height
            )
            if words:
                made = Page(width=width, height=height, words=words)
                yield unlabelled(f"{entry['id']}-{page['page']}", made)


def unlabelled(name: str, page: Page) -> LabelledDocument:
    """Returns a document of one page, without labels."""
    return LabelledDocument(document=Document(id=name, pages=(page,)), spans=())


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the objects of a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)


def train(run: Path, listed: Path, left_out: list[str], more: str, private: set[str]) -> int:
    """Trains, goes on with a training that was interrupted, or keeps one that is finished."""
    if (run / "checkpoint").is_dir():
        if read := sorted(learned_from(run) & private):
            sys.exit(
                f"{run} was made before, from {', '.join(read)}, which --without leaves out; "
                "choose another --out."
            )
        print(f"{run}: done before", flush=True)
        return 0
    if (run / "run.json").is_file():
        more += " --resume"
    else:  # it took no step
        shutil.rmtree(run, ignore_errors=True)
    names = " ".join(f"--without {shlex.quote(name)}" for name in left_out)
    line = f"train kie --public --data {listed} {names} {more} --out {run}"
    print(f"\n$ hushdoc {line}", flush=True)
    return command_line.main(shlex.split(line))


if __name__ == "__main__":
    sys.exit(main())
