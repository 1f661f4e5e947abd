"""Recipes of tables of hashed features: filled, noisy or private, with their attacks."""
