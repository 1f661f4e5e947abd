"""viewing."""
