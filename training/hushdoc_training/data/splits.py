"""A fixed split of documents: some to train on, some held out to score on.

**The side of a document is a function of that document alone**: of the digest, under a public salt,
of its provider where it has one, else of its words, and of its id where it has none of either.
Nobody draws it, so nobody can draw again until a score is pleasant; it is the same whatever the
order of the documents and whichever others there are. All documents of a provider are on one side,
and so are all with the same words and no provider. Where windows of tokens are protected, words
decide nothing: of a document with a window less all other windows could change sides.

**Look-alikes** are documents with the same words (`duplicates.key_of`), or nearly the same by
MinHash (`duplicates.look_alikes`). Where one of two is trained on and the other would be held out,
the latter is left out of the score. It is never moved to the other side. So are documents of a
provider that is trained on in another spelling: the side is that of a name's words, and names of
other blanks and punctuation are one provider's.

**What that means for privacy.** One document more or less changes the part that is trained on by
that document and nothing else, so what private training guarantees about its documents it
guarantees about all. To put look-alikes on one side instead would not do: a document that resembles
two others would take both along, and the sum would move by as many clipping norms. The held-out
part does depend on all documents together (look-alikes are left out of it). Nothing is learned from
it, and a score on it is an exact number about private documents, which no guarantee covers: see
`private_view`. The counts of a split stay with the trainer for the same reason.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from hushdoc.arguments import counted
from hushdoc.labels import LabelledDocument
from hushdoc_training import duplicates
from hushdoc_training.data import providers

Item = TypeVar("Item")

SALT = "hushdoc split 1"
"""Public and never changed: another one would be another split of every data set."""


class Traits(NamedTuple):
    """What a split reads of a document."""

    id: str
    texts: Sequence[str]
    provider: str | None = None


class Copy(NamedTuple):
    """A document and one that it is a copy of, or has the provider of, by their ids."""

    id: str
    of: str
    how: str  # "the same words", "nearly the same words", "the same provider"


@dataclass(frozen=True, kw_only=True)
class Split(Generic[Item]):
    """Documents on two sides, in the order in which they came.

    Attributes:
        train: Those to train on.
        held_out: Those to score on.
        left_out: Those on neither side, which look like one to train on.
        groups: How many different providers, or words, each side has: (train, held out).
        joined: How many documents share a group with others, by what joins them.
    """

    train: tuple[Item, ...]
    held_out: tuple[Item, ...]
    left_out: tuple[Copy, ...]
    groups: tuple[int, int]
    joined: dict[str, int]

    def lines(self) -> list[str]:
        """Returns what the split is, for people.

        Where the documents are private these are exact numbers about them: for the trainer alone.
        """
        joined = ", ".join(f"{count} by {what}" for what, count in self.joined.items())
        counts = Counter(copy.how for copy in self.left_out)
        left_out = ", ".join(f"{count} with {how}" for how, count in sorted(counts.items()))
        return [
            f"{counted(len(self.train), 'document')} of {counted(self.groups[0], 'group')} to "
            f"train on, {len(self.held_out)} of {self.groups[1]} held out",
            *([f"joined to groups: {joined}"] if joined else []),
            *(
                [f"left out of the score, beside documents to train on: {left_out}"]
                if left_out
                else []
            ),
        ]


def inner(number: int = 0, *, of: str = SALT) -> str:
    """Returns the salt of a split inside the part to train on; each number gives another split.

    Example:
        >>> inner(1)
        'hushdoc split 1 / inner 1'
    """
    return f"{of} / inner {number}"


def traits_of(labelled: LabelledDocument) -> Traits:
    """Returns what a split reads of a labelled document: words and provider, no label, no box."""
    document = labelled.document
    texts = [word.text for page in document.pages for word in page.words]
    if document.text is not None:
        texts.append(document.text)
    return Traits(id=document.id, texts=texts, provider=labelled.provider)


def split(
    documents: Sequence[Item],
    *,
    held_out: float,
    traits: Callable[[Item], Traits],
    salt: str = SALT,
    whole: bool = True,
) -> Split[Item]:
    """Returns documents on two sides, of which `held_out` is about the share that is scored.

    The share counts groups: with few providers it can be far from the share of documents. A side
    may be empty.

    Args:
        documents: In any order, with different ids.
        held_out: From 0 to below 1.
        traits: What is read of each, such as `traits_of`.
        salt: A public text; `inner` makes others, for splits of the part to train on.
        whole: Whether a record is no less than a document. Of windows, of which one less leaves
            others behind, the side follows from the document's provider or id, not from its words.

    Raises:
        ValueError: The share is none.
    """
    if not 0 <= held_out < 1:
        raise ValueError(f"held_out is {held_out}; expected a share from 0 to below 1.")
    read = [traits(item) for item in documents]
    words = [duplicates.words_of(found.texts) for found in read]
    groups = [_group(found, said if whole else ()) for found, said in zip(read, words, strict=True)]
    scored = [is_held_out(group, held_out, salt=salt) for group in groups]
    train = [place for place, out in enumerate(scored) if not out]
    test = [place for place, out in enumerate(scored) if out]
    copies = _copies(
        [(read[place].id, words[place]) for place in test],
        [(read[place].id, words[place]) for place in train],
    )
    known = _known_providers(read[place] for place in train)
    for at, place in enumerate(test):  # in a spelling of other blanks its side is its own
        of = known.get(providers.folded(read[place].provider or ""))
        if copies[at] is None and of is not None:
            copies[at] = Copy(read[place].id, of.id, "the same provider")
    kept = [place for place, copy in zip(test, copies, strict=True) if copy is None]
    return Split(
        train=tuple(documents[place] for place in train),
        held_out=tuple(documents[place] for place in kept),
        left_out=tuple(copy for copy in copies if copy is not None),
        groups=(len({groups[place] for place in train}), len({groups[place] for place in kept})),
        joined=_joined(groups),
    )


def is_held_out(group: tuple[str, bytes], share: float, *, salt: str = SALT) -> bool:
    """Returns whether a group is held out: whether its digest is below the share of all digests."""
    what, key = group
    digest = hashlib.sha256(json.dumps([salt, what]).encode() + key).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def shared(
    documents: Iterable[Item], train: Iterable[Item], *, traits: Callable[[Item], Traits]
) -> list[Copy | None]:
    """Returns for each document which one of `train` it is a copy of, or nearly one; else None."""

    def listed(items: Iterable[Item]) -> list[tuple[str, list[str]]]:
        found = map(traits, items)
        return [(item.id, duplicates.words_of(item.texts)) for item in found]

    return _copies(listed(documents), listed(train))


def providers_shared(
    documents: Iterable[Item], train: Iterable[Item], *, traits: Callable[[Item], Traits]
) -> list[str | None]:
    """Returns the provider of each document, where one of `train` has the same; else None."""
    known = _known_providers(map(traits, train))
    found = [providers.folded(traits(item).provider or "") for item in documents]
    return [_provider(known[name]) if name in known else None for name in found]


def _known_providers(train: Iterable[Traits]) -> dict[str, Traits]:
    """Returns a document of each provider, by its name as records are grouped by it."""
    found = {providers.folded(item.provider or ""): item for item in train}
    return {name: item for name, item in found.items() if name}


def _provider(found: Traits) -> str:
    """Returns a provider as it is compared; empty where none is known."""
    return " ".join(duplicates.words_of([found.provider or ""]))


def _group(found: Traits, words: Sequence[str]) -> tuple[str, bytes]:
    """Returns what decides a document's side, and which kind of thing that is."""
    provider = _provider(found)
    if provider:
        return "provider", provider.encode("utf-8", "surrogatepass")
    if words:
        return "the same words", duplicates.key_of(words)
    return "id", found.id.encode("utf-8", "surrogatepass")


def _joined(groups: Iterable[tuple[str, bytes]]) -> dict[str, int]:
    """Returns how many documents share their group with others, by what joins them."""
    joined: Counter[str] = Counter()
    for (what, _), count in Counter(groups).items():
        joined[what] += count if count > 1 else 0
    return {what: count for what, count in sorted(joined.items()) if count}


def _copies(
    asked: Sequence[tuple[str, list[str]]], among: Sequence[tuple[str, list[str]]]
) -> list[Copy | None]:
    keys: dict[Any, str] = {}
    for name, words in among:
        if words:
            keys.setdefault(duplicates.key_of(words), name)
    same = [keys.get(duplicates.key_of(words)) if words else None for _, words in asked]
    rest = [place for place, name in enumerate(same) if name is None]
    near = duplicates.look_alikes(
        [asked[place][1] for place in rest], [words for _, words in among]
    )
    copies = [
        None if of is None else Copy(name, of, "the same words")
        for (name, _), of in zip(asked, same, strict=True)
    ]
    for place, of in zip(rest, near, strict=True):
        if of is not None:
            copies[place] = Copy(asked[place][0], among[of][0], "nearly the same words")
    return copies
