"""Keys, trust stores, DSSE envelopes and revocation lists."""
