"""Published numbers with their settings, and their comparison with answers."""
