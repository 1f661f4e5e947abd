"""The generator's word lists: each is used, each that is used exists, and wheels hold them."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from hushdoc_training import invented
from hushdoc_training.invented.word_lists import word_list, word_lists

PACKAGE = Path(invented.__file__).parent
FILES = {path.stem: path for path in PACKAGE.glob("words/*.toml")}


def test_every_list_is_used_and_every_used_list_exists() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.glob("*.py"))
    source += "".join(f"'providers.name_{part}'" for part in ("heads", "middles", "tails"))
    used = set(re.findall(rf"""["']((?:{"|".join(FILES)})\.[a-z_]+)["']""", source))
    tables = {
        f"{name}.{key}": values
        for name, path in FILES.items()
        for key, values in tomllib.loads(path.read_text(encoding="utf-8")).items()
    }
    assert used == {name for name in tables if not name.startswith("trades.")}
    for name, values in tables.items():
        read = word_lists(name) if isinstance(values, dict) else word_list(name)
        assert len(read) == len(values) > 0
    assert len(word_lists("trades")) == 16


def test_a_wheel_holds_the_lists() -> None:
    root = Path(__file__).parents[3]
    packed = {file.distribution_path for file in WheelBuilder(str(root)).recurse_included_files()}
    folder = "hushdoc_training/invented/words"
    assert {f"{folder}/{path.name}" for path in FILES.values()} <= packed


def test_documents_draw_the_words_that_they_drew_before() -> None:
    digest = hashlib.sha256()
    for item in invented.documents(seed=11, count=60):
        words = " ".join(word.text for word in item.document.pages[0].words)
        digest.update(f"{item.document.id} {item.provider} {words}\n".encode())
        digest.update("\n".join(question.text for question in item.questions).encode())
    assert digest.hexdigest() == "a71a3cd4c4de3fb7c092357dd10019503dcbec286a92f56becaab1b13d7d0c49"
