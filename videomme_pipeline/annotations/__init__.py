"""Annotations: the questions of a benchmark, from where they are published.

Downloads, schema traps and integrity belong here; videos and frames do not.
"""
