"""Secret randomness: sampling, noise, and the seeds of what models draw inside a step."""
