"""Cluster: Dask, SSH and Slurm workers, and locks of several machines in PostgreSQL."""
