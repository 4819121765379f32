"""The plan of a refresh: the partitions to build, the reasons, and the cost."""
