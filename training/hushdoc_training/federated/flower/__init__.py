"""The network of federated runs: Flower carries frames between parties in processes of its own."""
