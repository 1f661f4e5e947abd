"""Sealed folders: opened and checked here; nothing in them is run or constructed."""
