"""Warehouse: DuckDB views over the stored tables; disposable, rebuilt in seconds."""
