"""The subcommands of the SDK, one to a module, and what they share."""
