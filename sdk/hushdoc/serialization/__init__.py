"""Strict JSON, and dataclasses whose fields declare how they are stored in it."""
