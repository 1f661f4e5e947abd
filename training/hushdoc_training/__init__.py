"""Documents to checkpoints: private training of document models."""
