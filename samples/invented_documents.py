"""Writes a few invented documents with their labels drawn over them.

Usage: python samples/invented_documents.py [FOLDER]
"""

import sys
from pathlib import Path

from hushdoc import labelled_files, overlay
from hushdoc_training import invented
from hushdoc_training.data.summary import fields_of

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output/invented")
config = invented.InventedConfig(labels="form")
for path in invented.write(folder, seed=1, count=6, config=config):
    document = labelled_files.read_one(path)
    shown = overlay(document.document.pages[0], fields_of(document))
    shown.save(path.with_suffix(".overlay.png"))
    words = document.document.num_words
    print(f"{path}: {document.document_type} of {document.provider}, {words} words")
    for question in document.questions[:2]:
        print(f"    {question.text} {question.answers[0]}")
