"""Nightly runs: what `nightly.yaml` tracks, and the alerts about it."""
