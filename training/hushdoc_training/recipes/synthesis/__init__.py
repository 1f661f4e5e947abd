"""Private synthetic documents: evolution."""
