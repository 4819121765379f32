"""Scoring: answer readers, outcomes, group scores, statistics and nightly checks."""
