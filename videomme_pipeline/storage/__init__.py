"""Storage: the data folder, the files and objects in it, and how tables are written and read."""
