"""Checkpoints to sealed artifacts."""
