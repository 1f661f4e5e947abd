"""Attacks that put a claim to the test."""
