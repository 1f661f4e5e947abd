"""The certificate's closed vocabulary: units, adversaries, kinds of guarantees, accountants.

A word may be added, but never gets another meaning: a reader that does not know it refuses.
"""

from __future__ import annotations

PRIVACY_UNITS = (
    "token-term",
    "word-box",
    "sequence",
    "page",
    "document",
    "client",
    "provider",
    "user",
)
"""What one record is. There is no order among them: a policy names the units it accepts."""

ADVERSARIES = (
    "model-recipient",
    "api-user",
    "synthetic-data-recipient",
    "server",
    "co-client",
    "network-observer",
)
"""Against whom a guarantee holds."""

KINDS = ("dp", "dp-conditional", "empirical", "none")
"""How strong a guarantee is: proven, proven on a condition, measured, or none."""

ACCOUNTANTS = ("pld", "prv", "rdp", "zcdp", "analytic-gaussian", "gdp-clt", "none")
"""How epsilon was computed. gdp-clt underestimates and never certifies."""

ASSURANCES = ("self-attested", "reproduced", "third-party", "enclave-attested")
"""Who attests that training ran as declared; each is stronger than the one before."""

SAMPLINGS = ("poisson", "full-batch", "shuffled", "fixed-size", "unknown")
"""How batches were drawn in the code that ran."""

CLUSTER_SAMPLINGS = ("none", "each-round", "schedule", "unknown")
"""How clusters of records, such as clients, were drawn in the code that ran. `none`: no cluster was
left out. `each-round`: anew in every round, whatever the data and earlier draws. `schedule`: by a
schedule fixed beforehand. Which ones were drawn is public in each case."""

TUNINGS = ("none", "public-data", "accounted", "unaccounted")
"""On which data hyperparameters were chosen; `none` is one run with values fixed beforehand."""

RNGS = ("csprng", "seeded", "unknown")
"""Where the noise came from: secret and unpredictable, reproducible from a seed, or unknown."""
