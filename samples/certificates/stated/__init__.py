"""What the six example certificates state, one module for each paper."""
