"""The servers of models: those that were seen, and those that a run starts."""
