"""Writes a few invented documents with their labels drawn over them.

Usage: python samples/invented_documents.py [FOLDER]
"""

import sys
from pathlib import Path

from PIL import Image

from hushdoc import labelled_files
from hushdoc_training import invented

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output/invented")
config = invented.InventedConfig(labels="form")
for path in invented.write(folder, seed=1, count=6, config=config):
    document = labelled_files.read_one(path)
    with Image.open(path.with_suffix(".png")) as image:
        invented.overlay(image, document).save(path.with_suffix(".overlay.png"))
    words = document.document.num_words
    print(f"{path}: {document.document_type} of {document.provider}, {words} words")
    for question in document.questions[:2]:
        print(f"    {question.text} {question.answers[0]}")
