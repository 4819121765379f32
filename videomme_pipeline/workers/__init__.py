"""Where heavy work runs: child processes on this machine, or the workers of a Dask cluster."""
