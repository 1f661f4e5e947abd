"""HashedCRFModel: clauses and entities from text, by a table of hashed features and Viterbi."""
