"""Conditional random fields over hashed features: fitted, filled, and fitted privately."""
