"""The plan of a refresh: what it would build, the reasons, and the cost."""
