"""RevocationList: which keys and certificates are no longer believed, signed and numbered."""
