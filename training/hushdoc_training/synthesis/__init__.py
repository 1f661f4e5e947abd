"""Invented documents that are steered by private votes: embedding, ballots and proposals."""
