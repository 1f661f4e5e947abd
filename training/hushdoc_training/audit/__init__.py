"""Attacks on released tables, which put the claims about them to the test."""
