"""What every recipe does around its private steps: refuse, open the run, train, claim, save."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from hushdoc.certificate.claim import Claim, DataAccess
from hushdoc_training.models import adapters
from hushdoc_training.privacy import earlier_steps, trial
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.private_steps import PrivateSteps
from hushdoc_training.runs import loop, state
from hushdoc_training.runs.account import Terms
from hushdoc_training.runs.loop import Outcome
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.run_folder import CHECKPOINT, SETTINGS


@dataclass(frozen=True, kw_only=True)
class RecipeRun:
    """A recipe's private run, before it has taken its folder.

    Attributes:
        out: The run's folder.
        plan: What it follows.
        terms: What it declares, and its ledger.
        settings: What else a resumed run must share.
        resume: Whether to go on with the run in the folder.
        quiet: Shows no progress.
    """

    out: Path
    plan: PrivacyPlan
    terms: Terms
    settings: Mapping[str, Any]
    resume: bool
    quiet: bool

    def open(self) -> PrivateRun:
        """Takes the folder and reserves the steps, or returns to both."""
        return PrivateRun.open(
            self.out, self.plan, settings=self.settings, terms=self.terms, resume=self.resume
        )

    def announce(self) -> None:
        """Refuses what has no room in the ledger or no certificate, and says what room there is."""
        announcement = self.terms.check(self.plan, resume=self.resume)
        if announcement and not self.quiet:
            print(announcement, file=sys.stderr)

    def _require_no_earlier_steps(self, model: nn.Module) -> None:
        """Refuses what `PrivateRun.train` would, which has taken the folder by then."""
        ledger = self.terms.ledger
        if self.resume or self.terms.declared.started_from is not None:
            return
        counted = None if ledger is None else ledger.statement()
        if found := earlier_steps.uncounted(earlier_steps.begun_with(model), counted):
            raise earlier_steps.refused(found)

    def ended(self) -> Outcome | None:
        """Returns the outcome of a run that was killed between its checkpoint and its end."""
        if not (self.resume and (self.out / CHECKPOINT).is_dir()):
            return None
        self.open().close()
        return Outcome(charged=self.plan.steps, interrupted=False)

    def take(
        self,
        make: Callable[[Callable[[int], None]], AbstractContextManager[PrivateSteps]],
        *,
        model: nn.Module,
        title: str,
        unused: Collection[str],  # parameters that no example reaches
        begun: Callable[[], None],  # once the folder is taken
        before: Callable[[PrivateSteps, int], None],  # every step
        accesses: tuple[DataAccess, ...] = (),
        change: Callable[[Claim], Claim] = lambda claim: claim,
        save: Callable[[Path, Claim], None],  # the model as it then is
    ) -> Outcome:
        """Takes all steps; what refuses to train does so before the folder is taken."""
        plan, declared = self.plan, self.terms.declared
        charges = earlier_steps.Charges(lambda step: run.charge(step))
        with (
            ExitStack() as last,
            adapters.merging(model),
            make(charges) as training,
        ):
            # As they were prepared, which no private document had a part in. Adapters are merged
            # when it ends, also where something fails on the way.
            moved = earlier_steps.Moved(dict(model.named_parameters()))
            held = earlier_steps.charged_in(earlier_steps.begun_with(model))
            last.callback(
                lambda: moved.end(
                    dict(model.named_parameters()), charged=held.union(charges.charged)
                )
            )
            self._require_no_earlier_steps(model)
            run = self.open()
            begun()
            report = run.report(
                title=f"{title}: epsilon {plan.epsilon:g}, delta {plan.delta:g}, "
                f"unit {plan.privacy_unit}",
                quiet=self.quiet,
            )
            finished = run.train(
                training,
                save_every=loop.SAVE_EVERY_SECONDS,
                before=lambda number: before(training, number),
                seen=report.show_step,
            )
            report.close()
        if finished:
            details = training.claim_details(declared.name)
            omitted = {*unused, *training.untrained_parameters}
            # Whoever resumes meanwhile would remove the checkpoint as it is being written.
            with state.locked(run.folder / SETTINGS):
                # Made at the end, so that runs that the ledger has admitted since are in it.
                claim = change(
                    run.claim(
                        training.receipt,
                        training={**declared.training, **trial.settings(omitted)},
                        accesses=(*declared.accesses, *details.accesses, *accesses),
                        assumes=(*declared.assumes, *details.assumes),
                    )
                )
                run.finish(lambda folder: save(folder, claim))
        return Outcome(charged=training.charged, interrupted=not finished)
