"""Findings about our own runs and about results files of others."""
