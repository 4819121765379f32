"""Fixtures of journals."""

from tests.support.projects import postgres_url

__all__ = ["postgres_url"]
