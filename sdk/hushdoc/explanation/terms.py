"""The closed vocabulary of a claim in plain English."""

from __future__ import annotations

ADVERSARY_WORDS = {
    "model-recipient": "anyone who receives the model file",
    "api-user": "anyone who only queries the model",
    "synthetic-data-recipient": "anyone who receives the synthetic data",
    "server": "the server that coordinates training",
    "co-client": "another client of the same training",
    "network-observer": "anyone who listens on the network",
}

UNIT_WORDS = {
    "token-term": "term",
    "word-box": "word",
    "sequence": "text window",
    "page": "page",
    "document": "document",
    "client": "client",
    "provider": "provider",
    "user": "person",
}

UNIT_LIMITS = {
    "token-term": "The rest of a document, and several terms together, are not protected.",
    "word-box": "Several words of one document together are not protected, nor what they say.",
    "sequence": "A document that is cut into several windows is not protected as a whole: with k "
    "windows the guarantee for all of it has up to k times the epsilon, and a delta that grows "
    "faster still.",
    "page": "A document of several pages is not protected as a whole: with k pages the guarantee "
    "for all of it has up to k times the epsilon, and a delta that grows faster still.",
    "document": "A person, author or issuer of several documents is not protected as such: what "
    "their documents have in common may show.",
    "client": "Single records inside one client are protected only as part of it, and several "
    "clients together are not.",
    "provider": "Several providers together are not protected.",
    "user": "What several persons have in common is not protected.",
}

ASSURANCE_WORDS = {
    "self-attested": "only the issuer attests that training ran as declared.",
    "reproduced": "it says that somebody repeated the training and obtained the same model.",
    "third-party": "it says that a third party attests that training ran as declared.",
    "enclave-attested": "it says that a hardware enclave attests that training ran as declared.",
}

ADJACENCY_WORDS = {
    "add-remove": "whether it was used or left out",
    "replace-one": "whether it was used or another one in its place",
    "zero-out": "whether it was used or an empty one in its place",
    "all-occurrences-of-one-term": "whether all its places were used or none",
}

ADJACENCY_PITFALLS = {
    "add-remove": "Neighbours differ by one unit more or less, so the number of units is protected "
    "too.",
    "replace-one": "Neighbours differ by one unit replaced with another. How many units there are "
    "is public, and epsilon can't be compared with one for adding or removing a unit: replacing "
    "counts as both at once.",
    "zero-out": "Neighbours differ by one unit made empty. How many units there are is public.",
    "all-occurrences-of-one-term": "Neighbours differ in all places of one term. Everything else "
    "in its documents is treated as known.",
}

AGGREGATION_WORDS = {
    "central": "nothing but what was released: the data were in one place",
    "secure-sum": "only sums over all clients of a round; this falls with the secure summation",
    "individual-updates": "the update of every single client, which carries only the noise that "
    "this client added",
}

CLUSTER_SAMPLING_WORDS = {
    "none": "none was left out",
    "each-round": "drawn anew in every round, whatever the data are; which ones is public",
    "schedule": "by a schedule that was fixed beforehand and is public",
    "unknown": "in a way that is not declared",
}
"""How clusters of records, such as clients, were drawn."""

ACCOUNTANT_WORDS = {
    "pld": "privacy loss distributions, an upper bound",
    "prv": "privacy random variables, an upper bound",
    "rdp": "Renyi accounting, an upper bound",
    "zcdp": "zero-concentrated accounting, an upper bound",
    "analytic-gaussian": "the exact formula of the Gaussian mechanism, an upper bound",
    "gdp-clt": "the central limit theorem, which underestimates: the true epsilon is larger",
    "none": "no accountant",
}

RELEASE_WORDS = {
    "final-weights": "the trained weights",
    "hash-table": "the table of hashed features",
    "checkpoints": "weights from before the end of training",
    "round-updates": "the update of each training round",
    "synthetic-records": "synthetic records",
    "logs": "logs of the training",
    "metrics": "scores measured during or after training",
}

WEIGHTS = ("final-weights", "hash-table")
"""Releases that are the model itself."""
