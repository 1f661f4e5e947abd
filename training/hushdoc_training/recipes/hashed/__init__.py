"""hashed."""
