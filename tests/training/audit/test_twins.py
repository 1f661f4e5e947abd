from __future__ import annotations

import hushdoc_builders as build
import numpy as np
import pytest

from hushdoc_training import audited_claims
from hushdoc_training.audit import twins


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("there", [True, False])
def test_coins_that_all_say_the_same_are_audited_without_rates(count: int, there: bool) -> None:
    """The run is over and its budget spent when coins are guessed, so nothing may refuse them."""
    included, claim = np.full(count, there), build.claim()
    run = twins.audited(np.arange(count) * 1.0, included, claim, method="toy", details={})
    assert (run.audit.tpr_at_fpr, run.audit.auc) == ((), None)
    assert run.audit.epsilon_lower == 0.0
    made = audited_claims.with_audits(claim, [run])
    audited_claims.require_unrefuted(made)
    assert type(made).from_json(made.to_json()).audits == (run.audit,)
