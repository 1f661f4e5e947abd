"""Tables of hashed features: fitting, filling, private fitting and the cost of a term."""
