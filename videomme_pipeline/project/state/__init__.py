"""The state of a benchmark: partitions, data versions, failures and stored data."""
