"""Benchmarks that a YAML file declares: a user's own, and published ones (`benchmarks/published`).

`declaration` is the file, `rows` reads annotation files, `questions` turns their rows into
questions, `source` finds or fetches the files, and `inspection` writes a declaration for a folder.
"""
