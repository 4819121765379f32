"""Scoring: letters read from responses, outcomes, groups, and what the numbers mean."""
