"""The version of the results page. A plan needs the version and must not load page modules."""

PAGE_VERSION = 11
"""Increase this when the page shows the same data in another way."""
