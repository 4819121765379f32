"""Estimates, breakdowns, groups and comparisons of scored questions."""
