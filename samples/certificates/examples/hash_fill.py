"""Hash the Universe: a table of hashed features whose missing rows are filled with random weights.

The paper presents a Renyi divergence between fitted normal distributions as differential privacy.
The genuine rows stay as they were, so it is a measured number that rests on a model, and attacks
work.
"""

from __future__ import annotations

from typing import Any

from examples import parts
from hushdoc.accounting.mechanism import HashFill
from hushdoc.certificate import guarantees
from hushdoc.certificate.audit_reports import Audit
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Claim, Guarantee, ProtectedData, ProtectedUnit, PublicData

DATA = "contract clauses (CUAD)"
ROWS, COLUMNS = 16, 2
PUBLISHED_ROWS = 2**21
ENTRY = "table.safetensors"

COINCIDENCE = {
    "License Grant": {"tprAtFpr": (0.90, 0.001), "auc": 0.95},
    "Governing Law": {"tprAtFpr": (0.50, 0.001), "auc": 0.75},
}
"""What the coincidence attack measured on a faithful build (CUAD, sentence CRF, 2**20 rows)."""


def hash_fill() -> Certificate:
    """Returns what can be said about a filled table: what was done, and what an attack found."""
    claim = Claim(
        protected_data=(_protected(),),
        public_data=(_WORD_VECTORS,),
        data_accesses=(
            parts.access(DATA, "training of the CRF whose weights the table holds", "unaccounted"),
            parts.access(
                DATA, "fit of the normal distributions that filling draws from", "unaccounted"
            ),
            parts.access(DATA, "names of the labels", "declared-public"),
        ),
        releases=("hash-table",),
        guarantees=(_guarantee(),),
        transcripts={"hash-fill": HashFill(rows=ROWS, columns=COLUMNS)},
        audits=tuple(_audit(clause, **measured) for clause, measured in COINCIDENCE.items()),
        training={
            "source": "Hash the Universe, sections 4 and 5",
            "published": "epsilon 0.063 at delta 1e-5 for a term in 0.07 % of the features",
            "rowsAsPublished": PUBLISHED_ROWS,
        },
        utility={},
        caveats=(
            parts.NOT_A_MODEL,
            "No epsilon follows from filling: the set of hashes no longer depends on the data, the "
            "genuine rows still do. The published number compares fitted distributions, in one "
            "direction.",
            "Features that occurred together in few places carry the same weight, which filling "
            "does not hide; the attached audits found redacted words by that.",
            "Rows whose two weights add up to exactly zero, weights that occur several times, and "
            "the patterns of their floating point numbers distinguish genuine from filled rows as "
            "well.",
        ),
    )
    return parts.certify(
        "hash-fill",
        claim,
        task="kie",
        file_format="safetensors",
        entry=ENTRY,
        step="a placeholder replaced the table",
    )


def _guarantee() -> Guarantee:
    return guarantees.empirical(
        "hash-fill",
        version=parts.VERSION,
        observes="the filled table",
        knows="the document around a missing word, and which hash each word has",
        assumes=(
            "genuine weights look like independent draws from the fitted normal distributions",
        ),
        unit="token-term",
        unit_definition="all occurrences of one word in all contracts",
        adjacency="all-occurrences-of-one-term",
        composition="one table",
        sampling_as_implemented="full-batch",
        floating_point="weights are stored as they were fitted",
    )


def _audit(clause: str, **measured: Any) -> Audit:
    return Audit(
        method=f"value coincidence: a redacted word of {clause} clauses is recognised by features "
        "that carry the same weight; measured on a faithful build with 2**20 rows, not on this "
        "table",
        adversary="model-recipient",
        unit="token-term",
        canaries=None,
        runs=1,
        confidence=None,
        epsilon_lower=None,
        delta=None,
        tpr_at_fpr=(measured["tprAtFpr"],),
        auc=measured["auc"],
    )


def _protected() -> ProtectedData:
    return ProtectedData(
        name=DATA,
        units=(ProtectedUnit(unit="token-term", count=None, count_is_public=False),),
        contribution_bound="none: a word may occur in any number of features, of any weight",
    )


_WORD_VECTORS = PublicData(
    name="clusters of word vectors",
    uses=("one feature of each word",),
    privacy_status="public",
    overlap_with_protected="unknown",
)
