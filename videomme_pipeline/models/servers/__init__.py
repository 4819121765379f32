"""Servers that this project starts, and what any server reports about itself."""
