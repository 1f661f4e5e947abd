"""Providers: who issued documents, apart by provider for private training and for its attacks.

A guarantee at the unit "provider" is about all documents of one provider, so one provider must have
one name. `name_of` makes spellings equal that differ in case, blanks or punctuation; other doubtful
names are reported by `doubts` and stay apart, because to join names by their likeness would let one
provider's documents decide what is one record of others.

`split` parts documents into those to train on and those to measure with. Which side a provider is
on, and which of its documents are trained on, depends on that provider alone: one provider more or
less changes no other one's part.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hushdoc.arguments import counted, printable, short_repr
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument
from hushdoc_training import duplicates

SALT = "hushdoc providers 1"
"""Public and never changed: another one would be another split of every data set."""

TOLD = (
    "which provider a document is of, it says itself, whatever other documents there are; names "
    "are compared by their letters, the marks on these, and digits alone, without case, and a "
    "provider under several others is several"
)
"""How documents are put together by `name_of`, for a certificate's definition of its unit."""

LEGAL_FORMS = frozenset(
    ("ag", "bhd", "bv", "co", "company", "corp", "corporation", "gmbh", "inc", "incorporated", "kg",
     "limited", "llc", "llp", "ltd", "nv", "plc", "pty", "sa", "sarl", "sas", "sdn", "srl")
)  # fmt: skip
"""Words of names that are often left out, or written otherwise."""

UNKNOWN = frozenset(
    ("misc", "na", "nan", "nil", "none", "noprovider", "notavailable", "notknown", "null", "other",
     "others", "providerunknown", "tbd", "undefined", "unidentified", "unknown", "unknownprovider",
     "unknownsupplier", "unknownvendor", "unnamed", "unspecified", "various",
     "bilinmiyor", "desconhecido", "desconocido", "inconnu", "ismeretlen", "neznámý", "nieznany",
     "okänd", "onbekend", "sconosciuto", "tuntematon", "ukendt", "ukjent", "unbekannt", "άγνωστο",
     "неизвестно", "невідомо", "不明", "未知", "알수없음", "ไม่ทราบ", "غيرمعروف", "अज्ञात")
)  # fmt: skip
"""Names, as `folded` makes them, that say that a provider is not known: documents under one of them
are not of one."""

MIN_LIKE = 6
"""Names of fewer letters and digits are compared as `folded` alone has them."""

SHOWN = 5
"""How many doubtful names are told of each kind."""


@dataclass(frozen=True, kw_only=True)
class ProviderSplit:
    """Documents apart by provider; no document is in two parts, no provider on both sides.

    Attributes:
        train: Of members, to train on.
        valid: Of members, to choose settings with; never trained on.
        members: Of members, to ask about and to attack with; never trained on.
        non_members: All documents of the other providers, of which none is trained on.
    """

    train: tuple[LabelledDocument, ...]
    valid: tuple[LabelledDocument, ...]
    members: tuple[LabelledDocument, ...]
    non_members: tuple[LabelledDocument, ...]

    def lines(self) -> list[str]:
        """Returns what the split is, for people: exact numbers about the documents."""
        parts = (
            ("to train on", self.train),
            ("to validate with", self.valid),
            ("of members, not trained on", self.members),
            ("of non-members", self.non_members),
        )
        return [
            f"{counted(len(part), 'document')} {what}, "
            f"{counted(len({name_of(item) for item in part}), 'provider')}"
            for what, part in parts
        ]


def name_of(labelled: LabelledDocument) -> str:
    """Returns a document's provider as records are grouped by it.

    Raises:
        AnnotationError: It has no provider, or one without a letter or digit, or one of UNKNOWN.

    Example:
        >>> from hushdoc.document.document import Document
        >>> document = Document.from_words(["Total"], [(0, 0, 9, 9)], width=9, height=9)
        >>> name_of(LabelledDocument(document=document, spans=(), provider="ACME  S.A."))
        'acmesa'
    """
    name = folded(labelled.provider or "")
    if not name or name in UNKNOWN:
        found = (
            f"the provider {short_repr(labelled.provider)}" if labelled.provider else "no provider"
        )
        raise AnnotationError(
            f"The document {short_repr(labelled.document.id)} has {found}; expected a name of "
            "letters or digits that is of one provider alone, as all of one name are protected "
            'together. Give every document its "provider", or protect documents instead '
            "(--privacy-unit document)."
        )
    return name


def folded(name: str) -> str:
    """Returns a name as names are compared: letters, marks on these and digits, in lower case."""
    return "".join(duplicates.words_of([name]))


def spaced(name: str) -> str:
    """Returns a name's words in lower case without punctuation, with single blanks between.

    What splits and ledgers know a provider by; two of these may be one provider's.
    """
    return " ".join(duplicates.words_of([name]))


def grouped(documents: Iterable[LabelledDocument]) -> dict[str, list[LabelledDocument]]:
    """Returns the documents of each provider, sorted by its name, each in the given order.

    Raises:
        AnnotationError: As `name_of` raises.
    """
    found: dict[str, list[LabelledDocument]] = {}
    for item in documents:
        found.setdefault(name_of(item), []).append(item)
    return dict(sorted(found.items()))


def require_shares(members: float, asked: float, valid: float) -> None:
    """Raises ValueError unless `split` can divide documents by these shares."""
    if not (0 < members < 1 and 0 < asked < 1 and 0 <= valid < 1 and asked + valid < 1):
        raise ValueError(
            f"members, asked and valid are {(members, asked, valid)}; expected shares between 0 "
            "and 1, the last two with a sum below 1."
        )


def split(
    documents: Sequence[LabelledDocument],
    *,
    members: float = 0.5,
    asked: float = 0.25,
    valid: float = 0.1,
    seed: int = 0,
) -> ProviderSplit:
    """Returns documents apart by provider, each part in the order of the documents.

    A member with one document alone is trained on and never asked about.

    Args:
        documents: Each with a provider and an id of its own.
        members: About the share of providers that are trained on, above 0 and below 1.
        asked: Share of a member's documents, but at least one of two, that it is asked about with.
        valid: Share of a member's documents that are for choosing settings, rounded down.
        seed: Of the split; it is no secret.

    Raises:
        ValueError: A share is none.
        AnnotationError: A provider is missing, or a side has no provider.
    """
    require_shares(members, asked, valid)
    part_of: dict[int, str] = {}
    for items in grouped(documents).values():
        name = min(spaced(item.provider or "") for item in items)
        if _digest(seed, "provider", name) >= members * 2**64:
            part_of |= {id(item): "non_members" for item in items}
            continue
        ranked = sorted(items, key=lambda item: _digest(seed, "document", name, item.document.id))
        num_asked = min(len(items) - 1, max(1, round(asked * len(items))))
        num_valid = min(len(items) - 1 - num_asked, int(valid * len(items)))
        for place, item in enumerate(ranked):
            in_part = "members" if place < num_asked else "valid"
            part_of[id(item)] = in_part if place < num_asked + num_valid else "train"
    parts = {
        part: tuple(item for item in documents if part_of[id(item)] == part)
        for part in ("train", "valid", "members", "non_members")
    }
    for part, what in (("train", "to train on"), ("non_members", "to leave out")):
        if not parts[part]:
            raise AnnotationError(
                f"Of {counted(len(grouped(documents)), 'provider')} the split with members="
                f"{members} and seed={seed} leaves none {what}. Give documents of more providers, "
                "or another seed."
            )
    return ProviderSplit(**parts)


def doubts(names: Iterable[str | None]) -> list[str]:
    """Returns lines about the providers of documents, for whoever may see exact numbers of them.

    They tell documents without a provider, spellings that count as one, names that may be one and
    count as two, and a provider with half of all documents or more.
    """
    spellings: dict[str, set[str]] = {}
    sizes: Counter[str] = Counter()
    missing = 0
    for given in names:
        name = folded(given or "")
        missing += not name or name in UNKNOWN
        if name and name not in UNKNOWN and given is not None:
            spellings.setdefault(name, set()).add(given)
            sizes[name] += 1
    lines = [f"{counted(missing, 'document')} without a provider"] if missing else []
    joined = [sorted(names) for names in spellings.values() if len(names) > 1]
    apart = sorted(min(map(spaced, names)) for names in spellings.values())
    lines += _told("provider in several spellings, which count as one", joined)
    lines += _told(
        "providers whose names differ little and count as two; if they are one, name it in one way",
        [list(pair) for pair in _alike(apart)],
    )
    for name, count in sizes.most_common(2):
        if 2 * count >= sizes.total() and len(sizes) > 1:
            lines.append(
                f"the provider {printable(min(spellings[name]), 60)} has {count} of "
                f"{counted(sizes.total(), 'document')}: one record of many, hidden like any other"
            )
    return lines


def _told(what: str, cases: Sequence[Sequence[str]]) -> list[str]:
    if not cases:
        return []
    shown = "; ".join(" = ".join(printable(name, 60) for name in case) for case in cases[:SHOWN])
    return [f"{len(cases)} x {what}: {shown}{'; ...' if len(cases) > SHOWN else ''}"]


def _alike(names: Sequence[str]) -> list[tuple[str, str]]:
    """Returns pairs of names with the same digits, and letters but for legal forms and one or two.

    Names that become equal by leaving out at most one character of each are found by all their
    shortened forms (as in the symmetric delete algorithm), in time linear in the names.
    """
    first: dict[str, str] = {}
    pairs: dict[tuple[str, str], None] = {}
    for name in names:
        core = "".join(word for word in name.split() if word not in LEGAL_FORMS)
        if len(core) < MIN_LIKE:
            continue
        forms = [core, *(core[:place] + core[place + 1 :] for place in range(len(core)))]
        for form in forms:
            other = first.setdefault(form, name)
            if other != name and _digits(other) == _digits(name):
                pairs[other, name] = None
    return list(pairs)


def _digits(name: str) -> str:
    return "".join(filter(str.isdigit, name))


def _digest(seed: int, what: str, *names: str) -> int:
    """Returns 64 bits that a public hash makes of names."""
    data = json.dumps([SALT, seed, what, *names]).encode()
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")
