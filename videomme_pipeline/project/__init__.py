"""The project: a configuration folder, a data folder, and the operations on both.

Imports point upward in this list:

    runs       parts of every run: settings, locks, progress and spending
    servers    the servers of models: those that were seen, and those that a run starts
    state      a benchmark's partitions, data versions, failures and stored data
    project    both folders, opened together: `open_project`
    answers    inputs and requests of an evaluation, its scores, and what they cost
    doctor     checks of everything that a run needs
    nightly    the evaluations that are asked every night, and the alerts about them
    schemas    JSON Schemas of the configuration files

Nothing here imports Dagster: `assets` builds a graph from these parts, and the command line
uses them directly.
"""
