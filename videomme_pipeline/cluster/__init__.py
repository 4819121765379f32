"""Cluster: workers that find tasks in a shared folder, Slurm jobs, and locks in PostgreSQL."""
