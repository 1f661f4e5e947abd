"""Verified models: loading artifacts, asking them about documents, and their answers."""
