"""The ledger: the privacy budget of one data set across all its training runs."""
