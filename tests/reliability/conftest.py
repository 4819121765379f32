"""Fixtures of a small project with real videos."""

from tests.support.alert_sink import sink
from tests.support.projects import (
    built_once,
    copy,
    instance,
    project,
    root,
    write_project,
    write_served,
)

__all__ = [
    "built_once",
    "copy",
    "instance",
    "project",
    "root",
    "sink",
    "write_project",
    "write_served",
]
