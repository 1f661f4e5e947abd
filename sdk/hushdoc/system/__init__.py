"""The operating system: atomic files, locks, usable cores, and telemetry that stays off."""
