"""Recipes: from documents to a checkpoint with its claim; the rooms that know all others."""
