"""Federated training: parties train one model together without showing their documents."""
