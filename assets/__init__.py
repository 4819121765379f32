"""The Dagster graph of a project, a thin layer over the library.

The only package that imports Dagster. A module that does not import it belongs in another package.
"""

import warnings

import dagster

# Multi-partition mappings and backfill policies are marked beta in the pinned minor version, and
# checks with partitions are marked preview.
warnings.filterwarnings("ignore", category=dagster.BetaWarning)
warnings.filterwarnings("ignore", category=dagster.PreviewWarning)
