"""PrivateView: the un-noised numbers of a private run, behind one object that notes who looks.

A private step leaves numbers that no noise protects: how many records were drawn, their losses, how
many gradients were not finite; later come logs and plots of them, and scores on private documents.
None of them is released. But what somebody decides by them is: to stop now, to take another rate in
the next run, to release this model and not that one. Stopping early on a private loss told in 40 of
40 runs whether one record was there, at epsilon 2.34 and more where 1.0 was accounted for. So a
number that is read is noted first, in the run's log and ledger where there are such, and what is
claimed then says that its settings are of `unaccounted` tuning; unless the owner declares that
nothing was or will be decided by it, which the claim lists among its assumptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Self

from hushdoc import arguments
from hushdoc.errors import PrivacyError

MODES = ("hidden", "shown-unused", "shown")
"""How training treats un-noised numbers: it shows none; it shows them to somebody who declares to
decide nothing by them; it shows them, and what is claimed is of `unaccounted` tuning."""

LOSSES = "losses"
DRAWN = "numbers of drawn records"
NONFINITE = "numbers of gradients that were not finite"
HELD_OUT = "a score on held-out documents"
COUNTS = "numbers of documents, of their labels and of what is odd in them"
TESTED = "a score on private documents of a test file"
EARLY_END = "an end before the last planned step"
"""What a view notes, in the words of log, ledger and claim."""


class Read(NamedTuple):
    """Something that was read, and the owner's declaration that nothing is decided by it or ""."""

    what: str
    declared_unused: str


Keep = Callable[[Read], None]
"""Writes a read down for good, before the number is handed out."""


class PrivateView:
    """Who looked at the un-noised numbers of one run.

    Attributes:
        shown: Whether training shows and logs them of its own accord.
        declared_unused: Why nothing was or will be decided by them, in the owner's words, or "".
    """

    def __init__(self, *, shown: bool = False, declared_unused: str = "") -> None:
        """Begins with nothing read.

        Args:
            shown: Whether training shows and logs losses; each step of it is a read.
            declared_unused: The owner's declaration that neither a setting, nor an end, nor a later
                run, nor the release of a model was or will be decided by these numbers, and why
                they are read; claims list it among what their guarantee assumes.
        """
        self.shown = shown
        self.declared_unused = arguments.printable(declared_unused.strip())
        self._reads: dict[Read, None] = {}
        self._keep: list[Keep] = []
        self._is_locked = False

    @classmethod
    def of(cls, mode: str) -> Self:
        """Returns a view of one of MODES; where numbers are shown, those of documents are too."""
        arguments.choice(mode, MODES, what="private_numbers")
        view = cls(
            shown=mode != "hidden",
            declared_unused="to watch training" if mode == "shown-unused" else "",
        )
        if view.shown:
            view.note(COUNTS)
        return view

    def note(self, what: str) -> None:
        """Notes that somebody reads a number; call it before the number is shown.

        Raises:
            PrivacyError: This process can't note it, see `lock`.
        """
        read = Read(what, self.declared_unused)
        if read in self._reads:
            return
        self.require_known()
        for keep in self._keep:
            keep(read)
        self._reads[read] = None

    def kept_by(self, keep: Keep, *, earlier: Iterable[Read] = ()) -> None:
        """Writes what was read and will be read also there, and takes over what was read before."""
        known = list(earlier)
        for read in self._reads:
            if read not in known:
                keep(read)
        self._reads = dict.fromkeys([*known, *self._reads])
        self._keep.append(keep)

    def lock(self) -> None:
        """Leaves reads that nothing declares, and claims, to another process."""
        self._is_locked = True

    def require_known(self) -> None:
        """Raises PrivacyError where another process alone knows what was read."""
        if self._is_locked and not self.declared_unused:
            raise PrivacyError(
                "Un-noised numbers are read, and claims made, in the first process, which notes "
                "who reads them; this is another one. Do it there; or declare in all processes "
                "that nothing is decided by such numbers: PrivateView(declared_unused=...)."
            )

    @property
    def unaccounted(self) -> tuple[str, ...]:
        """What was read without a declaration; a claim with any of it is of unaccounted tuning."""
        return tuple(dict.fromkeys(read.what for read in self._reads if not read.declared_unused))

    @property
    def assumes(self) -> tuple[str, ...]:
        """What a guarantee assumes where numbers were read and declared unused."""
        declared: dict[str, list[str]] = {}
        for read in self._reads:
            if read.declared_unused:
                declared.setdefault(read.declared_unused, []).append(read.what)
        return tuple(
            f"nothing was decided by un-noised numbers that somebody saw ({', '.join(what)}): no "
            "setting, no end of training, no later run and no release; who trained declares why "
            f"they were read: {why}"
            for why, what in declared.items()
        )
