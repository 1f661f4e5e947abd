"""Text into sentences and tokens, by rules alone, the same in training and runtime."""
