"""The mechanisms of a transcript in plain words."""

from __future__ import annotations

from hushdoc.accounting import mechanism
from hushdoc.accounting.mechanism import Mechanism


def mechanism_words(event: Mechanism) -> str:
    """Returns what a mechanism does, in plain words."""
    match event:
        case mechanism.Gaussian():
            return f"Gaussian noise of {event.noise_multiplier:g} times the clipping norm"
        case mechanism.PoissonSampled():
            how = f"each unit drawn with probability {event.sampling_rate:.6g}"
        case mechanism.WithoutReplacement():
            how = f"a batch of {event.sample_size:,} out of {event.population:,} units"
        case mechanism.ClusterSampled():
            how = f"each client taking part with probability {event.sampling_rate:.6g}, publicly"
        case mechanism.Grouped():
            how = f"for a unit of up to {event.size:,} records"
        case mechanism.Composed():
            return f"{event.count:,} times: {mechanism_words(event.event)}"
        case mechanism.RepeatAndSelect():
            how = (
                f"about {event.expected_runs:g} runs ({event.distribution}), the best of which is "
                "released"
            )
        case mechanism.HashFill():
            return (
                f"missing rows of a table of {event.rows:,} x {event.columns} filled with random "
                "weights"
            )
        case mechanism.Sequence() | mechanism.Parallel():
            joint = "; then " if isinstance(event, mechanism.Sequence) else "; on other units "
            shown = joint.join(mechanism_words(part) for part in event.events[:8])
            return shown + (f"; and {len(event.events) - 8} more" if len(event.events) > 8 else "")
    return f"{how}, then {mechanism_words(event.event)}"
