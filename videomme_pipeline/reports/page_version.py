"""The version of the results page. A plan needs it, and must not load what writes the page."""

PAGE_VERSION = 7
"""Increase it when the page shows the same data in another way."""
