"""Fixtures of a small real project whose model is behind an endpoint."""

from tests.support.alert_sink import sink
from tests.support.projects import copy, instance, root, write_project, write_served

__all__ = ["copy", "instance", "root", "sink", "write_project", "write_served"]
