"""Public words: a list that private documents may vote for words out of, and none beside it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from hushdoc.arguments import printable
from hushdoc.certificate.claim import OVERLAPS, PublicData
from hushdoc.errors import InputError
from hushdoc_training.invented.specification import is_word
from hushdoc_training.synthesis import embedding

MOST = 20_000


@dataclass(frozen=True, kw_only=True)
class PublicWords:
    """A list of words that has been chosen without looking at the documents.

    Attributes:
        words: Each once, in lower case.
        data: What a claim says of the list.
    """

    words: tuple[str, ...] = ()
    data: tuple[PublicData, ...] = ()

    @classmethod
    def read(cls, path: Path, *, overlap: str) -> PublicWords:
        """Returns the words of a file in UTF-8, one a line; `overlap` is with protected documents.

        Raises:
            InputError: BAD_WORDS, where it can't be read, is empty or long, or a line is no word.
        """
        try:
            content = path.read_bytes()
            lines = content.decode("utf-8-sig").split()
        except (OSError, UnicodeDecodeError) as error:
            raise _refused(path, f"can't be read: {error}") from error
        compared = {line: embedding.normalised(line) for line in lines}
        for line, word in compared.items():
            if not is_word(line):
                raise _refused(path, f"has the line {line[:40]!r}")
            if not is_word(word):  # of which no released document could be made
                found = f"has the line {line!r}, which documents are compared with as {word!a}"
                raise _refused(path, f"{found}: longer, or not of letters alone. Leave it out")
        words = tuple(dict.fromkeys(compared.values()))
        if not 0 < len(words) <= MOST:
            raise _refused(path, f"has {len(words)} words")
        if overlap not in OVERLAPS:
            raise ValueError(f"overlap is {overlap!r}; expected one of {', '.join(OVERLAPS)}.")
        data = PublicData(
            name=f"list of {len(words)} words",
            uses=("words that documents vote for",),
            digest=f"sha256:{hashlib.sha256(content).hexdigest()}",
            privacy_status="declared public by the trainer",
            overlap_with_protected=overlap,
        )
        return cls(words=words, data=(data,))


NO_WORDS = PublicWords()


def _refused(path: Path, found: str) -> InputError:
    return InputError(
        f"The list of words '{printable(path)}' {found}. Expected a word of letters in each line, "
        f"1 to {MOST:,} in all.",
        code="BAD_WORDS",
    )
