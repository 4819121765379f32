"""Upkeep of a project: checks of the installation, stored files, disk budget and copies."""
