"""Reports: pages and files for people, made from the warehouse."""
