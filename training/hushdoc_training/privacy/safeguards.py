"""Safeguards: what private training checks before, around and after its steps, behind one name.

    ownership       the optimizer holds the trained parameters, and nobody else moves them
    process_group   all processes train one model, on the same records, by the same plan
    same_records    the records are those that another process has, or that a resumed run began with
    trial           the self-test: clipped gradients are those of single records, and what losses
                    reach does not depend on the example
    example_losses  the model takes nothing but examples, and the losses lead back to it
    dropout_seeds   what the losses draw at random is drawn from secret seeds
    released_state  nothing but a private step writes to what is released
    sharding        shards are held by the processes that train

What they assume, and which data they read, is in the claim.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, Protocol, TypeVar

import torch
from torch import nn

from hushdoc_training.privacy import claims, clipping, ownership, same_records, sharding, trial
from hushdoc_training.privacy.example_losses import ExampleLosses, checked, watched
from hushdoc_training.privacy.physical import Length, require_examples
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.privacy.released_state import Released
from hushdoc_training.private_view import COUNTS, PrivateView
from hushdoc_training.randomness import dropout_seeds

Example = TypeVar("Example")


class SumPlan(Protocol):
    """What the sums of one holder of records keep to; a `PrivacyPlan` is one."""

    @property
    def privacy_unit(self) -> str:
        """What one record is."""

    @property
    def sampling_rate(self) -> float:
        """Probability of each record to join a step."""

    @property
    def clipping_norm(self) -> float:
        """Largest L2 norm of one record's gradient."""

    @property
    def steps(self) -> int:
        """Number of the last step."""

    @property
    def expected_records(self) -> int:
        """About how many records a step has, a public constant."""


class Safeguards(Generic[Example]):
    """Refuses whatever would break the guarantee of one training.

    `untrained` are the trainable parameters that no loss reaches, by name: they stay as they are.
    """

    def __init__(
        self,
        plan: SumPlan,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None,
        group: Group,
        *,
        records: Sequence[Sequence[Example]],
        losses: ExampleLosses[Example],
        fingerprint: Callable[[Example], object] | None,
        has_secret_streams: bool,
    ) -> None:
        """Checks what needs no computation, and takes the parameters until `end`.

        Without an optimizer none may step them here.
        """
        require_examples(records)
        self._plan, self._model, self._optimizer, self._group = plan, model, optimizer, group
        self._records, self._losses = records, checked(losses)
        self._fingerprint, self._digest = fingerprint, ""
        self._has_secret_streams = has_secret_streams
        self._trainable = self.parameters = ownership.trainable(model)
        self.untrained: dict[str, nn.Parameter] = {}
        self.is_sharded = sharding.is_sharded(model)
        self._require_own_optimizer()
        ownership.require_untouched(model, self._trainable)
        self._require_one_training()
        self._owner = ownership.Ownership(optimizer, self._trainable)
        weakref.finalize(self, self._owner.release)
        self._released = Released(model, self._trainable)

    def self_test(
        self,
        make_clipper: Callable[[], clipping.Clipper],
        *,
        trial_records: Sequence[Sequence[Example]] | None,
        trial_losses: ExampleLosses[Example] | None,
        tolerance: float,
        length: Callable[[Example], Length] | None,
        max_examples: int,
    ) -> clipping.Clipper:
        """Returns the clipper, tested on this model and these losses before the first step."""
        model, self._tested_on_records = self._model, trial_records is None
        tested = self._records if trial_records is None else trial_records
        most = trial.TRIAL_RECORDS if trial_records is None else trial.GIVEN_RECORDS
        require_examples(tested)
        sharding.require_spanning(self.parameters, self._group)
        with (
            self._released.unwritten(),
            sharding.by_module(model),
            clipping.uncompiled(),
            watched(model, self._losses) as losses,
            watched(model, checked(trial_losses) if trial_losses else self._losses) as calm_losses,
            self._without_unreached(losses, tested, most),
        ):
            clipper = make_clipper()
            self._tested_as_trained = trial.require_exact(
                clipper,
                tested,
                calm_losses,
                tolerance=tolerance,
                length=length,
                drawing=losses if trial_losses else None,
                most=most,
            )
            same_records.require_same_losses(
                model,
                calm_losses,
                self._records,
                self._group,
                max_examples=max_examples,
                tolerance=tolerance,
            )
        self._released.begin(self.parameters)
        return clipper

    def resumed(self) -> None:
        """Takes the model as it is now, after a state was restored, as the start."""
        self._released.begin()

    def before_step(self) -> None:
        """Refuses a step of parameters that others have touched."""
        ownership.require_untouched(self._model, self._trainable)
        self._require_own_optimizer()

    @contextmanager
    def around_passes(self) -> Iterator[ExampleLosses[Example]]:
        """Yields the losses for the forward and backward passes of one step."""
        losses = trial.closed(self._losses, self.untrained)
        with (
            torch.enable_grad(),
            dropout_seeds.secret(self.parameters.values()),
            self._released.unwritten(),
            sharding.by_module(self._model),
            watched(self._model, losses) as watched_losses,
        ):
            yield watched_losses

    def around_update(self) -> AbstractContextManager[None]:
        """Lets the optimizer move the parameters inside the block."""
        return self._owner.stepping()

    def after_last_step(self) -> None:
        """Looks at what is released for the last time."""
        self._released.end()
        self._released.require_kept()

    def end(self) -> None:
        """Gives model and optimizer back; a second time does nothing."""
        self._owner.release()
        self._released.end()

    def require_kept(self) -> None:
        """Raises PrivacyError if anything that is released moved other than by private steps."""
        self._released.require_kept()

    def claim_details(self, name: str) -> claims.ClaimDetails:
        """Returns what a claim says of these checks: what they read, and what they assume."""
        return claims.ClaimDetails(
            settings=trial.settings(self.untrained),
            accesses=claims.accesses_of_checks(
                name,
                tested=self._tested_on_records,
                compared=self._group.size > 1,
                untrained=bool(self.untrained),
            ),
            assumes=(
                *same_records.assumed(self._records, self._fingerprint, self._group),
                *trial.assumed_of_losses(self._tested_as_trained),
            ),
        )

    def fingerprint(self) -> str:
        """Returns a digest of what the records hold."""
        self._digest = self._digest or same_records.of_records(self._records, self._fingerprint)
        return self._digest

    @property
    def trainable(self) -> Mapping[str, nn.Parameter]:
        """What training may change, by name, what no loss reaches included."""
        return self._trainable

    def _require_own_optimizer(self) -> None:
        if self._optimizer is not None:
            ownership.require_same(self._optimizer, self._trainable)

    def _require_one_training(self) -> None:
        """Makes sure that all processes train the same thing, from the same weights."""
        named = (*self._model.named_parameters(), *self._model.named_buffers())
        self._group.require_agreement(
            {
                "the plan": self._plan,
                "the model": [(n, v.shape, v.dtype, v.requires_grad) for n, v in named],
                "whether draws and noise are secret": self._has_secret_streams,
            }
        )
        same_records.require_same_content(self.fingerprint, self._group)
        if not self.is_sharded:
            values = [*self._model.parameters(), *self._model.buffers()]
            self._group.copy_from_first(value.detach() for value in values)

    def _without_unreached(
        self, losses: ExampleLosses[Example], records: Sequence[Sequence[Example]], most: int
    ) -> AbstractContextManager[None]:
        """Leaves out what no loss reaches, and freezes it inside the block."""
        if not self.is_sharded:
            self.untrained = trial.unreached(
                self._model, self._trainable, losses, records, most=most
            )
        self._group.require_agreement({"what no loss reaches": sorted(self.untrained)})
        self.parameters = {n: p for n, p in self._trainable.items() if n not in self.untrained}
        return trial.frozen(self.untrained.values())


def warn_of_few(num_records: int, expected_records: int, view: PrivateView) -> None:
    """Warns of data that never give a batch of the expected size, where numbers are shown.

    An error would tell of one record: whether training starts is seen by whoever waits for a model.
    So too few records are trained on all the same, with much noise.
    """
    if view.shown and num_records < expected_records:
        view.note(COUNTS)
        warnings.warn(
            f"The data hold {num_records} records, and the plan divides by an expected "
            f"{expected_records} in each step, more than there are: noise will drown them. Plan "
            "with fewer expected records (--expected-records), or bring more data.",
            stacklevel=2,
        )
