"""Fixtures of a small real project."""

from tests.support.projects import (
    built_once,
    copy,
    home,
    instance,
    postgres_url,
    project,
    root,
    write_project,
)

__all__ = [
    "built_once",
    "copy",
    "home",
    "instance",
    "postgres_url",
    "project",
    "root",
    "write_project",
]
