"""An HTTP server of verified artifacts: what `hushdoc serve` runs. Needs the extra [server]."""
