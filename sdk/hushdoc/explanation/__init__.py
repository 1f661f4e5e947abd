"""Certificates, guarantees and audits in plain English for a privacy officer, limits first."""

from hushdoc.explanation.narrative import explain, explain_claim

__all__ = ["explain", "explain_claim"]
