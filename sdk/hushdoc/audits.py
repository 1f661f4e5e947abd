"""Audits: what attacks measured, and what outside auditors are invited to measure."""
