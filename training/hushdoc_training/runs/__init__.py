"""Private runs: folder, log, states, loop and account of any training that spends a budget."""
