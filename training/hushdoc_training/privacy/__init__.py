"""Private training of any torch model: the plan, the engine, its safeguards, and the claim."""
