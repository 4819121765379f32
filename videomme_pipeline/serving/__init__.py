"""Serving: engines that a run starts, watches and stops."""
