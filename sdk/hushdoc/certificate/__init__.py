"""The privacy certificate: claim, guarantees, audits, and recomputing their numbers."""
