"""A window that searches a folder of documents as one types; nothing leaves this machine.

    python samples/desktop_search/window.py FOLDER --embedding ARTIFACT --published --policy POLICY

Beside the pages that were found it shows what the certificates of the models promise.
"""

from __future__ import annotations

import argparse
import threading
import tkinter as tk
from pathlib import Path
from tkinter import ttk
from typing import Any

import index
from PIL import ImageTk

import hushdoc
from hushdoc.errors import HushdocError
from hushdoc.runtime.extraction import Field

IDLE_MS = 150
"""How long nobody types before a search begins."""

SIZE = (620, 760)


class Window:
    """Query, results, page and certificate."""

    def __init__(self, root: tk.Tk, found: index.Index, models: list[Any]) -> None:
        """Builds the window; `search` fills it."""
        self.root, self.index, self.matches = root, found, []
        root.title("Search documents on this machine")
        root.geometry("1440x860")
        self.query = tk.StringVar()
        self.query.trace_add("write", lambda *_: self._soon())
        ttk.Entry(root, textvariable=self.query, font=("", 14)).pack(fill="x", padx=8, pady=8)
        parts = ttk.Frame(root)
        parts.pack(fill="both", expand=True, padx=8)
        self.list = tk.Listbox(parts, width=42)
        self.list.bind("<<ListboxSelect>>", lambda _: self._show_chosen())
        self.list.pack(side="left", fill="y")
        self.page = ttk.Label(parts, anchor="center", wraplength=SIZE[0])
        promised = tk.Text(parts, width=52, wrap="word")
        promised.insert("1.0", "\n\n".join(hushdoc.explain(model.certificate) for model in models))
        promised.configure(state="disabled")
        promised.pack(side="right", fill="y")
        self.page.pack(fill="both", expand=True, padx=8)
        self.status = ttk.Label(root, anchor="w")
        self.status.pack(fill="x", padx=8, pady=4)
        self._timer = ""

    def search(self) -> None:
        """Shows the pages that are most alike to the query."""
        self.matches = self.index.search(self.query.get())
        self.list.delete(0, "end")
        for match in self.matches:
            name = match.path.name.encode(errors="replace").decode()  # Tk has no other characters
            self.list.insert("end", f"{match.score:.2f}  {name}, page {match.page + 1}")
        if self.matches:
            self.list.selection_set(0)
        self._show_chosen()
        unread = len(self.index.notes())
        self.status.configure(text=f"{len(self.matches)} pages; {unread} files could not be read")

    def _soon(self) -> None:
        if self._timer:
            self.root.after_cancel(self._timer)
        self._timer = self.root.after(IDLE_MS, self.search)

    def _show_chosen(self) -> None:
        """Shows the chosen page, with what it has of the query marked."""
        chosen = self.list.curselection()
        if not chosen:
            self.page.configure(image="", text="Type to search.")
            return
        match = self.matches[chosen[0]]
        try:
            document = hushdoc.open_document(match.path, reader="process")
            if document.text is not None:
                self.page.configure(image="", text=match.text[:2000])
                return
            page = document.pages[match.page]
            image = hushdoc.overlay(page, self._marks(page, match))
        except (HushdocError, IndexError) as error:  # the file changed since it was taken up
            self.page.configure(image="", text=str(error))
            return
        image.thumbnail(SIZE)
        self._shown = ImageTk.PhotoImage(image)
        self.page.configure(image=self._shown, text="")

    def _marks(self, page: Any, match: index.Match) -> list[Field]:
        wanted = {word.casefold() for word in self.query.get().split()}
        values = {word: label for label, text in match.fields for word in text.split()}
        marks = []
        for number, word in enumerate(page.words):
            label = "match" if word.text.casefold() in wanted else values.get(word.text)
            if label is not None:
                place = word.box.normalized(width=page.width, height=page.height)
                marks.append(
                    Field(label=label, text=word.text, score=1.0, box=word.box, page=match.page,
                          word_ids=(number,), normalized=place)
                )  # fmt: skip
        return marks


def main() -> None:
    """Opens the window, and takes up the folder beside it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="documents of any kind")
    parser.add_argument("--embedding", required=True, help="artifact that makes vectors")
    parser.add_argument(
        "--published",
        action="store_true",
        help="its weights are published ones, for which nothing is guaranteed: check its signature "
        "and files alone",
    )
    parser.add_argument("--fields", help="artifact that finds fields")
    parser.add_argument("--policy", type=Path, required=True, help="policy in TOML")
    parser.add_argument(
        "--index", type=Path, default=Path("search.sqlite"), help="the index's file"
    )
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"'{options.folder}' is no folder of documents")
    policy = hushdoc.Policy.from_toml(options.policy)
    intact = hushdoc.Policy.integrity_only(trust=policy.trust)
    model = hushdoc.EmbeddingModel.load(
        options.embedding, policy=intact if options.published else policy
    )
    fields = None if options.fields is None else hushdoc.load(options.fields, policy=policy)

    def opened() -> index.Index:
        return index.Index(options.index, options.folder, model, fields)

    root = tk.Tk()
    window = Window(root, opened(), [found for found in (model, fields) if found is not None])
    # SQLite's connections are of one thread each.
    threading.Thread(target=lambda: opened().update(), daemon=True).start()
    window.search()
    root.mainloop()


if __name__ == "__main__":
    main()
