"""Tables of hashed features: clauses, entities and classes of text in numpy alone."""
