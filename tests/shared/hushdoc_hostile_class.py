"""A class of hostile inputs: how its inputs are made, who reads them, and who judges them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hushdoc_damage import Random, damaged, edited

MOST_REPEATED = 2**18
REPEATED = (
    b'"', b"\\", b"[", b"{", b'{"a":', b'["', b"<", b"<a b='", b"&", b"&#9", b"&#x1", b"9", b" ",
    b"\n", b"\t", b"\0", b"\xff", b"a", b"-", b".", b"(", b"\xcc\x81\xcc\xa3", b"\xe2\x80\xae",
    b"/", b"../", b",", b":", b"'", b"=", b"\x08\x00", b"\x12\x80",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class HostileClass:
    """One kind of input.

    Attributes:
        name: What it is called in the report.
        share: How often it is drawn, compared with others.
        sound: The honest input, which is read without an error.
        make: Returns an input by its dice.
        read: Returns what is read of it, or raises.
        judge: Raises where what was accepted is wrong.
    """

    name: str
    share: int
    sound: bytes
    make: Callable[[Random], bytes]
    read: Callable[[bytes], object]
    judge: Callable[[bytes, object], None]

    def input(self, seed: int, number: int) -> bytes:
        """Returns the input of a number; none is the sound one."""
        dice = random.Random(f"{seed}/{self.name}/{number}")
        while (content := self.make(dice)) == self.sound:
            pass
        return content


def repeated(content: bytes, dice: Random) -> bytes:
    """Returns an input with something in it very often, within the limits of most readers."""
    piece = dice.choice(REPEATED)
    size = min(MOST_REPEATED, 2 ** dice.randrange(6, 19))
    place = dice.randrange(len(content) + 1)
    return content[:place] + piece * (size // len(piece)) + content[place:]


def spoiled(sound: Sequence[bytes], dice: Random, *, is_json: bool = False) -> bytes:
    """Returns one of the sound inputs, damaged with or without knowledge of JSON."""
    content = dice.choice(sound)
    if dice.random() < 0.04:
        return repeated(content, dice)
    if is_json and dice.random() < 0.6:
        return edited(content, dice)
    return damaged(content, dice, dice.choice(sound))
