"""Processes: children with limits, programs that end with their parent, and process identity."""
