"""Feature hashing that training and runtime share: MurmurHash3 of tokens, mixed into pairs."""
