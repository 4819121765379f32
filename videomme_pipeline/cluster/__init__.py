"""Cluster: Dask, SSH and Slurm workers, and turns of several machines in PostgreSQL."""
