"""Public images beside protected ones: none may be a protected one, and what a claim says of that.

What public pages show is released as it is. So a run is refused where the file of a public page is
that of a protected one; that it was not refused is an answer without noise, which a claim lists as
evolution lists its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hushdoc.arguments import short_repr
from hushdoc.errors import PrivacyError
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.data.image_sets import file_digest
from hushdoc_training.recipes.synthesis.simulators import NONE_TAKEN_OUT

TREATMENTS = {
    "comparison with the files of public pages: a run is refused unless no page of a document is "
    "of one of them": "declared-public",
}
ASSUMES = (
    "no page of the documents in question is of the same file as one of the public pages: a run "
    "with such a document is refused, which is no noised output",
    NONE_TAKEN_OUT,
)
NOT_AMONG_THEM = (
    "A run is refused whose public pages hold the file of a protected page. That this one was not "
    "refused says of the file of each public page, without noise, that it is none of them; the "
    "guarantee covers no document that has one. Another scan or another file of the same page is "
    "not noticed: whether public pages hold any is declared by the trainer."
)


def files_of(documents: Iterable[ImageDocument]) -> dict[str, str]:
    """Returns the digest of each file of documents' images, with the id of a document."""
    found: dict[str, str] = {}
    for one in documents:
        for page in {page.image: page for page in one.pages}.values():
            found.setdefault(file_digest(page).hex(), one.id)
    return found


def require_apart(public: Mapping[str, str], documents: Sequence[ImageDocument]) -> None:
    """Raises a PrivacyError where the file of a public page is that of a protected one."""
    private = files_of(documents)
    same = [name for digest, name in public.items() if digest in private]
    if same:
        raise PrivacyError(
            f"The public document {short_repr(same[0])} has an image that is the same file as one "
            f"of the protected documents; of {len(public)} public files {len(same)} are. What is "
            "released would show it, without any noise. If others know it as public, take it out "
            "of the protected documents: its absence from the public pages would tell that it is "
            "protected. If nobody does, take it out of the public pages.",
            code="PRIVATE_PAGE_IS_PUBLIC",
        )
