"""Cluster: workers of Dask, Slurm's words about their jobs, and locks in PostgreSQL."""
