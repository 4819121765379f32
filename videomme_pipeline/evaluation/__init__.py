"""Evaluations: the YAML files of the configuration folder, read and written."""
