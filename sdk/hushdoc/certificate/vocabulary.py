"""Words of the certificate: units, adversaries, kinds of guarantees, accountants."""

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
"""How strong a statement a guarantee is."""


ACCOUNTANTS = ("pld", "prv", "rdp", "zcdp", "analytic-gaussian", "gdp-clt", "none")
"""How epsilon was computed. gdp-clt underestimates and never certifies."""


ASSURANCES = ("self-attested", "reproduced", "third-party", "enclave-attested")
"""Who vouches that training ran as stated; each is stronger than the one before."""


SAMPLINGS = ("poisson", "full-batch", "shuffled", "fixed-size", "unknown")
"""How batches were drawn in the code that ran."""


TUNINGS = ("none", "public-data", "accounted", "unaccounted")
"""On what hyperparameters were chosen; `none` means one run with values fixed beforehand."""


RNGS = ("csprng", "seeded", "unknown")
"""Where the noise came from: secret and unpredictable, reproducible from a seed, or unknown."""
